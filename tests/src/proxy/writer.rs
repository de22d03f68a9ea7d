//! One direction of one connection: forwards the data that arrives, as the test has ordered.

use std::{ops::ControlFlow, sync::Mutex};

use tokio::{
    io::AsyncWriteExt,
    net::tcp::WriteHalf,
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{
    Direction, Flow, Request, RequestCopy, Then,
    control::{Action, Shared, Signals, Ticket},
    exchange::Tap,
    relay::{Arrived, Expected, What},
};
use crate::resp::{Frame, is_push};

/// Forwards one direction of a connection.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    direction: Direction,
    target: WriteHalf<'a>,
    shared: &'a Shared,
    signals: watch::Receiver<Signals>,
    expected: &'a Mutex<Expected>,
    session: Vec<Request>,
    /// The number of bytes that may still pass before the connection is closed.
    budget: Option<usize>,
    /// Whether the rest of the data is discarded.
    mute: bool,
}

/// The reason why a connection, or one direction of it, is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The source has no more data, and the target knows.
    SourceEnded,
    /// The test has closed the connection.
    Close,
    /// The test has reset the connection.
    Reset,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        direction: Direction,
        target: WriteHalf<'a>,
        ticket: &'a Ticket,
        expected: &'a Mutex<Expected>,
    ) -> Self {
        Self {
            direction,
            target,
            shared: &ticket.shared,
            signals: ticket.signals.clone(),
            expected,
            session: Vec::new(),
            budget: None,
            mute: false,
        }
    }

    /// Forwards until the source ends or the test ends the connection.
    pub(super) async fn run(mut self, mut arrived: mpsc::UnboundedReceiver<Arrived>) -> Ending {
        loop {
            let Arrived { at, what } = arrived.recv().await.expect("an end comes last");
            match what {
                What::End => {
                    // A black hole hides the end of a stream, too.
                    while !self.let_through(at).await {
                        changed(&mut self.signals).await;
                    }
                    // An error means that the connection is closed already, which is harmless.
                    let _ = self.target.shutdown().await;
                    return Ending::SourceEnded;
                }
                What::Piece(frame) => {
                    if !self.let_through(at).await {
                        self.shared.state().counts.vanished += 1;
                        self.mute = true;
                    }
                    if let ControlFlow::Break(ending) = self.forward(frame).await {
                        return ending;
                    }
                }
            }
        }
    }

    /// Waits until data that arrived at `at` may pass; `false` if it is to vanish.
    async fn let_through(&mut self, at: Instant) -> bool {
        loop {
            let flow = self.signals.borrow_and_update().flow(self.direction);
            match flow {
                Flow::Pass => return true,
                Flow::BlackHole => return false,
                Flow::Stall => changed(&mut self.signals).await,
                Flow::Delay(delay) => {
                    let due = at + delay;
                    if Instant::now() >= due {
                        return true;
                    }
                    tokio::select! {
                        () = sleep_until(due) => return true,
                        () = changed(&mut self.signals) => {}
                    }
                }
            }
        }
    }

    async fn forward(&mut self, frame: Frame) -> ControlFlow<Ending> {
        match (frame, self.direction) {
            (Frame::Opaque(bytes), _) => self.write(&bytes).await,
            (Frame::Value(bytes), Direction::ToServer) => self.forward_request(bytes).await,
            (Frame::Value(bytes), Direction::ToClient) => self.forward_reply(&bytes).await,
        }
    }

    async fn forward_request(&mut self, bytes: Vec<u8>) -> ControlFlow<Ending> {
        if self.mute {
            return ControlFlow::Continue(());
        }
        let request = Request::new(bytes);
        let order = self.shared.action_for(&request).map(|action| {
            let tap = match action {
                Action::Tap(tap) => tap,
                Action::Always(reply) => Tap::instead(reply),
            };
            let copy = RequestCopy {
                request: request.clone(),
                session: self.session.clone(),
                upstream: self.shared.state().upstream,
            };
            (tap, copy)
        });
        self.shared.state().counts.requests += 1;
        let told = order.as_ref().and_then(|(tap, _)| tap.told.as_ref());
        let is_kept = told.is_some_and(|told| !told.executed);
        let bytes = if is_kept { PING } else { request.bytes() };
        if is_kept || request.has_reply() {
            self.expected.lock().unwrap().push_back(order);
        }
        let written = self.write(bytes).await;
        if request.is_session() {
            self.session.push(request);
        }
        written
    }

    async fn forward_reply(&mut self, bytes: &[u8]) -> ControlFlow<Ending> {
        let tapped = if is_push(bytes) {
            None
        } else {
            self.expected.lock().unwrap().pop_front().flatten()
        };
        if let Some((mut tap, copy)) = tapped {
            let (drop, told) = (tap.drop, tap.told.take());
            tap.answer(copy, bytes);
            match drop {
                Some(Then::Cut) => return ControlFlow::Break(Ending::Reset),
                Some(Then::Stall) => self.mute = true,
                None => {}
            }
            if let Some(told) = told {
                return self.write(&told.reply).await;
            }
        }
        self.write(bytes).await
    }

    async fn write(&mut self, bytes: &[u8]) -> ControlFlow<Ending> {
        if self.mute {
            return ControlFlow::Continue(());
        }
        let cut = || self.shared.state().cut(self.direction).take();
        self.budget = self.budget.or_else(cut);
        let allowed = self
            .budget
            .map_or(bytes.len(), |budget| budget.min(bytes.len()));
        // A closed target is noticed where its own data ends.
        self.mute = self.target.write_all(&bytes[..allowed]).await.is_err();
        match &mut self.budget {
            Some(budget) if *budget == allowed => return ControlFlow::Break(Ending::Close),
            Some(budget) => *budget -= allowed,
            None => {}
        }
        ControlFlow::Continue(())
    }
}

async fn changed(signals: &mut watch::Receiver<Signals>) {
    if signals.changed().await.is_err() {
        std::future::pending().await
    }
}

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
