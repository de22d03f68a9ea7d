//! The state that the handle of a proxy and its connections share.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{Direction, Flow, Pick, Request, exchange::Tap};

/// The state of a proxy.
#[derive(Debug)]
pub(super) struct Shared {
    signals: watch::Sender<Signals>,
    state: Mutex<State>,
}

/// The settings to which live connections react at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Signals {
    flows: [Flow; 2],
    /// The number of times that all connections were reset.
    pub(super) resets: u64,
    /// The number of times that all connections were closed.
    pub(super) closes: u64,
}

/// Counters for tests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) accepted: u64,
    pub(super) requests: u64,
    pub(super) vanished: u64,
}

/// An order for one request.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) pick: Pick,
    pub(super) action: Action,
}

/// The action of a rule on the request that it picks.
#[derive(Debug)]
pub(super) enum Action {
    /// Forwards the request and acts on its reply.
    Tap(Tap),
    /// Answers the request with this reply, and stays.
    Always(Vec<u8>),
}

/// The view of the proxy that one connection has.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) shared: Arc<Shared>,
    /// The signals at the time of acceptance. The connection ignores resets and closes up to then.
    pub(super) at_accept: Signals,
    pub(super) signals: watch::Receiver<Signals>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) upstream: SocketAddr,
    pub(super) rules: Vec<Rule>,
    cuts: [Option<usize>; 2],
    pub(super) counts: Counts,
}

impl State {
    /// The number of bytes in this direction after which a connection is to be closed.
    pub(super) const fn cut(&mut self, direction: Direction) -> &mut Option<usize> {
        &mut self.cuts[direction as usize]
    }

    pub(super) fn withdraw_orders(&mut self) {
        self.rules.clear();
        self.cuts = [None; 2];
    }
}

impl Shared {
    pub(super) fn new(upstream: SocketAddr) -> Self {
        let state = State {
            upstream,
            rules: Vec::new(),
            cuts: [None; 2],
            counts: Counts::default(),
        };
        Self {
            signals: watch::Sender::new(Signals::default()),
            state: Mutex::new(state),
        }
    }

    pub(super) fn signal(&self, change: impl FnOnce(&mut Signals)) {
        self.signals.send_modify(change);
    }

    pub(super) fn open_connection(self: &Arc<Self>) -> Ticket {
        let mut state = self.state();
        state.counts.accepted += 1;
        let signals = self.signals.subscribe();
        let at_accept = *signals.borrow();
        Ticket {
            shared: Arc::clone(self),
            at_accept,
            signals,
        }
    }

    /// Returns the action of the first rule that picks `request`. Removes the rule unless it stays.
    pub(super) fn action_for(&self, request: &Request) -> Option<Action> {
        let mut state = self.state();
        let mut rules = state.rules.iter();
        let index = rules.position(|rule| rule.pick.picks(request))?;
        if let Action::Always(reply) = &state.rules[index].action {
            return Some(Action::Always(reply.clone()));
        }
        Some(state.rules.remove(index).action)
    }

    /// Locks the state. A predicate of a test may have panicked, but the state is still consistent.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Signals {
    pub(super) const fn flow(&self, direction: Direction) -> Flow {
        self.flows[direction as usize]
    }

    pub(super) const fn flow_mut(&mut self, direction: Direction) -> &mut Flow {
        &mut self.flows[direction as usize]
    }
}
