//! Signals to this process.

use std::{fs, future::poll_fn, pin::pin, task::Poll};

use rustix::process::Signal;
use tokio::{
    select,
    signal::unix::{self, SignalKind},
};

use super::Ended;
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
        let mut signals = Self {
            streams: Vec::new(),
            asked_to_end: None,
        };
        for signal in FORWARDED {
            if !is_ignored(signal) {
                signals.add(Event::Forward(signal), signal)?;
            }
        }
        signals.add(Event::Child, Signal::CHILD)?;
        Ok(signals)
    }

    /// Also listens to the key press that stops a job, which then no longer stops this process.
    pub(super) fn listen_to_stop(&mut self) -> Result<(), Failure> {
        let known = self.streams.iter().any(|(event, _)| *event == Event::Stop);
        if known || is_ignored(Signal::TSTP) {
            return Ok(());
        }
        self.add(Event::Stop, Signal::TSTP)
    }

    fn add(&mut self, event: Event, signal: Signal) -> Result<(), Failure> {
        let stream = unix::signal(SignalKind::from_raw(signal.as_raw()));
        let stream = stream.map_err(|error| Failure::own(format!("no signals: {error}")))?;
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

    /// Waits for `work`. A signal that ends a wait ends the program. If you drop the future, no
    /// signal is lost.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let mut work = pin!(work);
        loop {
            select! {
                biased;
                event = self.next() => match event {
                    Event::Forward(signal) => return Err(ended_by(signal)),
                    Event::Stop => super::running::stop_this_process(),
                    Event::Child => {}
                },
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Fails if a TERM or INT has come so far. After that no command is started any more.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.asked_to_end {
            Some(signal) => Err(ended_by(signal)),
            None => Ok(()),
        }
    }
}

/// Returns the end of this program by `signal`, which has the code of a program that it has ended.
fn ended_by(signal: Signal) -> Failure {
    Failure::new(Ended::Signaled(signal.as_raw()).code(), "")
}

/// Tells whether this process ignores `signal`; `false` where the system does not tell.
pub(super) fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Numbers of signals begin with 1, and those here are small.
    (mask.unwrap_or_default() >> (signal.as_raw() - 1)) & 1 == 1
}
