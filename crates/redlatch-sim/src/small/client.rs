//! A client that follows the protocol page, with one caller at a time.

use super::{
    Broken, Grant, LEASE, REACH, World,
    server::{Line, Verb, What},
};

/// A tick that no world reaches.
const NEVER: u8 = 100;

/// A client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// The step of the present call.
    pub phase: Phase,
    /// Whether a message asks it to ask.
    pub rung: bool,
    /// The calls that are still to come: whether each waits. The last one is next.
    calls: Vec<bool>,
    /// The last number that it drew.
    drawn: u8,
    owner: u8,
    attempt: u8,
    waits: bool,
    /// The largest limit of a copy, in ticks of the server.
    by: u8,
    /// The requests of the attempt without an answer.
    copies: u8,
    /// Whether the server may list it as a waiter.
    listed: bool,
    /// How far the server's clock is ahead, by its last reply.
    ahead: u8,
    /// The last busy answer on this connection.
    anchor: Option<Anchor>,
}

/// The last busy answer, by which a client judges a message about a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Anchor {
    sent: u8,
    at: u8,
    token: u64,
}

/// The steps of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No call.
    #[default]
    Idle,
    /// A request has no answer yet.
    Asking,
    /// The answer was busy.
    Waiting {
        /// The tick of the answer.
        heard: u8,
    },
    /// The caller has a guard.
    Holding {
        /// The token of the hold.
        token: u64,
        /// The tick at which the client stops trusting the hold.
        until: u8,
    },
    /// The client sends this request until an answer comes.
    Leaving(What),
    /// The process has died.
    Dead,
}

/// When a request was sent, and its reply heard.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// When the request was sent.
    pub sent: u8,
    /// The present tick.
    pub now: u8,
    /// The server's tick in the reply.
    pub at: u8,
    /// Whether a replica has confirmed what the request did.
    pub confirmed: bool,
}

/// What follows from a reply or message.
#[derive(Debug)]
pub enum Next {
    /// Nothing.
    Rest,
    /// A grant with this token became a guard. Tells whether the caller hears of a death.
    Take(u64, bool),
    /// The next request.
    Send(What),
}

impl Client {
    pub(crate) fn new(calls: &[bool]) -> Self {
        Self {
            calls: calls.iter().rev().copied().collect(),
            ..Self::default()
        }
    }

    pub(crate) const fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Returns the token that the client trusts at `now`.
    pub(crate) fn trusts(&self, now: u8) -> Option<(u64, u8)> {
        match self.phase {
            Phase::Holding { token, until } if now < until => Some((token, self.owner)),
            _ => None,
        }
    }

    /// Returns the token of a hold that ends at `now`.
    pub(crate) fn lost(&self, now: u8) -> Option<u64> {
        match self.phase {
            Phase::Holding { token, until } if now == until => Some(token),
            _ => None,
        }
    }

    /// Tells whether the server has it as a waiter at its tick `now`, as far as it knows.
    pub(crate) fn is_registered(&self, now: u8) -> bool {
        let anchor = self.anchor.as_ref();
        anchor.is_some_and(|anchor| now < anchor.at + REACH)
    }

    /// Begins the next call.
    pub(crate) fn begin(&mut self) {
        self.waits = self.calls.pop().unwrap_or_default();
        self.drawn += 1;
        self.owner = self.drawn;
        self.fresh();
        self.phase = Phase::Asking;
    }

    fn fresh(&mut self) {
        self.drawn += 1;
        self.attempt = self.drawn;
        (self.by, self.copies, self.listed) = (0, 0, false);
        (self.rung, self.anchor) = (false, None);
    }

    /// Returns the request that the phase demands.
    pub(crate) fn ask(&mut self, world: &World, now: u8) -> Option<What> {
        match &self.phase {
            Phase::Leaving(what) => return Some(what.clone()),
            Phase::Asking | Phase::Waiting { .. } => {}
            _ => return None,
        }
        if self.copies > 0 && !world.keeps(Broken::ResendSameId) {
            self.fresh();
        }
        self.phase = Phase::Asking;
        self.rung = false;
        let limit = now + self.ahead + REACH;
        self.by = self.by.max(limit);
        self.copies += 1;
        self.listed |= self.waits;
        let by = match world.keeps(Broken::ActBefore) {
            true => limit,
            false => NEVER,
        };
        Some(self.what(Verb::Acquire, Some(by), self.waits, None))
    }

    fn what(&self, verb: Verb, by: Option<u8>, listed: bool, token: Option<u64>) -> What {
        What {
            verb,
            owner: self.owner,
            attempt: self.attempt,
            by,
            listed,
            token,
        }
    }

    /// The caller gives up.
    pub(crate) fn leave(&mut self, world: &World) {
        if !world.keeps(Broken::Undo) {
            self.phase = Phase::Idle;
            return;
        }
        let void = world.keeps(Broken::MarkCopies).then_some(self.by);
        let listed = self.listed && world.keeps(Broken::StrikeOut);
        self.phase = Phase::Leaving(self.what(Verb::Release, void, listed, None));
    }

    /// The guard is dropped.
    pub(crate) fn release(&mut self) {
        let Phase::Holding { token, .. } = self.phase else {
            return;
        };
        let copies = self.copies > 0;
        let void = copies.then_some(self.by);
        let what = self.what(Verb::Release, void, copies && self.listed, Some(token));
        self.phase = Phase::Leaving(what);
    }

    pub(crate) fn renewal(&self, now: u8) -> Option<What> {
        let Phase::Holding { token, .. } = self.phase else {
            return None;
        };
        let by = now + self.ahead + REACH;
        Some(self.what(Verb::Renew, Some(by), false, Some(token)))
    }

    pub(crate) fn die(&mut self) {
        *self = Self {
            phase: Phase::Dead,
            ..Self::default()
        };
    }

    /// The connection has ended.
    pub(crate) fn disconnected(&mut self) {
        self.anchor = None;
    }

    /// A reply came.
    pub(crate) fn answered(
        &mut self,
        world: &World,
        what: &What,
        line: &Line,
        heard: Heard,
    ) -> Next {
        self.ahead = heard.at.saturating_sub(heard.now);
        match what.verb {
            Verb::Acquire if what.attempt == self.attempt => {
                self.copies = self.copies.saturating_sub(1);
                if self.asks() {
                    return self.acquired(world, line, heard);
                }
            }
            Verb::Renew => self.renewed(world, what.token, line, heard),
            Verb::Release if self.phase == Phase::Leaving(what.clone()) => {
                self.phase = Phase::Idle;
            }
            _ => {}
        }
        Next::Rest
    }

    /// Tells whether a call has not got its answer, or waits.
    pub(crate) const fn asks(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Waiting { .. })
    }

    fn acquired(&mut self, world: &World, line: &Line, heard: Heard) -> Next {
        match *line {
            Line::Granted { token, abandoned } => {
                if !heard.confirmed {
                    return self.undone(world, heard.now);
                }
                let since = match world.keeps(Broken::CountFromSend) {
                    true => heard.sent,
                    false => heard.now,
                };
                self.hold(world, token, abandoned, since + LEASE, heard.now)
            }
            Line::Busy { rings, token } if self.waits => {
                self.phase = Phase::Waiting { heard: heard.now };
                self.rung |= rings == Some(self.attempt);
                let Heard { sent, at, .. } = heard;
                self.anchor = Some(Anchor { sent, at, token });
                Next::Rest
            }
            Line::Busy { .. } => {
                self.phase = Phase::Idle;
                Next::Rest
            }
            Line::Late | Line::More => self.again(world, heard.now),
            _ => self.undone(world, heard.now),
        }
    }

    fn undone(&mut self, world: &World, now: u8) -> Next {
        self.leave(world);
        self.again(world, now)
    }

    fn again(&mut self, world: &World, now: u8) -> Next {
        self.ask(world, now).map_or(Next::Rest, Next::Send)
    }

    fn hold(&mut self, world: &World, token: u64, abandoned: bool, until: u8, now: u8) -> Next {
        if now >= until && world.keeps(Broken::GrantExpired) {
            return self.undone(world, now);
        }
        let until = match world.broken {
            Some(Broken::Margin) => until + 1,
            Some(Broken::GrantExpired) => until.max(now + 1),
            _ => until,
        };
        self.phase = Phase::Holding { token, until };
        Next::Take(token, abandoned)
    }

    fn renewed(&mut self, world: &World, of: Option<u64>, line: &Line, heard: Heard) {
        let Phase::Holding { token, until } = &mut self.phase else {
            return;
        };
        let alive = heard.now < *until || !world.keeps(Broken::LossIsFinal);
        if Some(*token) != of || !heard.confirmed || !alive {
            return;
        }
        match line {
            Line::Renewed => *until = (heard.sent + LEASE).max(*until),
            Line::Late => {}
            // The loss is reported at once.
            _ => *until = heard.now,
        }
    }

    /// A message came.
    pub(crate) fn called(
        &mut self,
        world: &World,
        number: Option<u8>,
        grant: Option<Grant>,
        now: u8,
    ) -> Next {
        if !self.asks() || number.is_some_and(|number| number != self.attempt) {
            return Next::Rest;
        }
        let believed = grant.zip(self.anchor.clone()).and_then(|(grant, anchor)| {
            if grant.token <= anchor.token {
                return None;
            }
            let span = grant.ends.checked_sub(anchor.at)?.min(REACH);
            let since = match world.keeps(Broken::DateBySending) {
                true => anchor.sent,
                false => now,
            };
            (now < since + span).then_some((grant, since + span))
        });
        match (believed, &self.phase) {
            (Some((grant, until)), Phase::Waiting { .. }) if !world.durable => {
                self.hold(world, grant.token, grant.abandoned, until, now)
            }
            _ => {
                self.rung = true;
                Next::Rest
            }
        }
    }
}
