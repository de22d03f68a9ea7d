//! Signals to this process.

use std::{fs, future::poll_fn, io, task::Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::app::exit::Failure;

/// The signals that are forwarded to a command, and that end a wait.
const FORWARDED: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

/// The signals that this process has received.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Event, unix::Signal)>,
    /// The first signal that asked this program to end.
    asked_to_end: Option<Signal>,
}

/// A signal, by what it means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A signal to forward.
    Forward(Signal),
    /// A child may have changed its state.
    Child,
    /// A key press asks for a stop.
    Stop,
}

impl Signals {
    /// Begins to listen. Signals that are ignored, as `nohup` does, stay ignored, here and in
    /// commands.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let ignored = ignored();
        let mut signals = Self {
            streams: Vec::new(),
            asked_to_end: None,
        };
        for signal in FORWARDED {
            if ignored & bit(signal) == 0 {
                signals.add(Event::Forward(signal), signal)?;
            }
        }
        signals.add(Event::Child, Signal::CHILD)?;
        Ok(signals)
    }

    /// Also listens to the key press that stops a job, which then no longer stops this process.
    pub(super) fn listen_to_stop(&mut self) -> Result<(), Failure> {
        let known = self.streams.iter().any(|(event, _)| *event == Event::Stop);
        if known || ignored() & bit(Signal::TSTP) != 0 {
            return Ok(());
        }
        self.add(Event::Stop, Signal::TSTP)
    }

    fn add(&mut self, event: Event, signal: Signal) -> Result<(), Failure> {
        let stream = unix::signal(SignalKind::from_raw(signal.as_raw()))
            .map_err(|error: io::Error| Failure::own(format!("no signals: {error}")))?;
        self.streams.push((event, stream));
        Ok(())
    }

    /// Returns the next event. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Event {
        poll_fn(|context| {
            for (event, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    if let Event::Forward(signal @ (Signal::TERM | Signal::INT)) = *event {
                        self.asked_to_end.get_or_insert(signal);
                    }
                    return Poll::Ready(*event);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the first TERM or INT so far. After that no command is started any more.
    pub(crate) const fn asked_to_end(&self) -> Option<Signal> {
        self.asked_to_end
    }

    /// Resolves with a signal that ends a wait. Nothing is lost if the future is dropped.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            match self.next().await {
                Event::Forward(signal) => return signal,
                Event::Stop => super::running::stop_this_process(),
                Event::Child => {}
            }
        }
    }
}

/// Returns the exit code of a program that `signal` has ended.
pub(crate) fn code_of(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}

/// Returns the signals that were ignored when this process started, one bit each. Zero where the
/// system does not tell.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}

fn bit(signal: Signal) -> u64 {
    u32::try_from(signal.as_raw() - 1).map_or(0, |shift| 1_u64.checked_shl(shift).unwrap_or(0))
}
