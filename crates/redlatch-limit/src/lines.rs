//! The lines of a client's calls, one for each key. One request of a line is under way at a time,
//! since its scripts remember the last attempt of each client only.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use redlatch_core::{
    Error, Moment,
    family::{Internals, Key, Rule},
};
use tokio::sync::oneshot;

use crate::{
    ask::Answer,
    limiter::Limiter,
    rate::Rate,
    scripts::{MOST_PASSES, Mark},
};

/// The lines that have calls.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    lines: BTreeMap<Key, Line>,
    /// The waiters that have come so far, of all lines: a line may end while a waiter that was
    /// served still has its place.
    arrivals: u64,
}

/// The calls for one key.
#[derive(Debug, Default)]
struct Line {
    /// Those that ask as soon as possible.
    at_once: VecDeque<Call>,
    /// Those that wait for their turn, by arrival.
    waiting: BTreeMap<u64, Call>,
    /// Whether the waiters go next, although others ask as soon as possible.
    waiters_next: bool,
    /// Whether a waiter asks, or has a pass that counts later. The next one does not ask before.
    taken: bool,
    /// Whether a task asks for the calls.
    asks: bool,
}

/// A call and the caller that expects its answer.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) request: Request,
    /// When it came.
    pub(crate) since: Moment,
    /// `None` if no caller expects one.
    pub(crate) caller: Option<oneshot::Sender<Result<Answer, Error>>>,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Take { rate: Rate, cost: u64, until: Until },
    Settle(Settlement),
}

/// A change of the cost of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settlement {
    pub(crate) rate: Rate,
    /// What was taken.
    pub(crate) cost: u64,
    /// What is added, or below 0 given back.
    pub(crate) tokens: i64,
    pub(crate) mark: Option<Mark>,
}

/// When a pass has to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Now,
    At(Moment),
    Whenever,
}

/// The calls of one request, all of them equal but for the time, and the turn if they have waited.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) calls: VecDeque<(u64, Call)>,
    pub(crate) turn: Option<Turn>,
}

/// The turn of the waiters in front. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct Turn(Arc<Limiter>);

/// The place of a waiter. Dropping it removes the waiter.
#[derive(Debug)]
pub(crate) struct Place {
    limiter: Arc<Limiter>,
    arrival: u64,
}

/// The task that asks for the calls of a line. Dropping it fails all calls that are left.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) limiter: Arc<Limiter>,
    /// Whether it has found no call, so that the next call starts another task.
    ended: bool,
}

impl Lines {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limiter {
    /// Adds a call that asks as soon as possible.
    pub(crate) fn ask_at_once(self: &Arc<Self>, call: Call) {
        self.change_line(|line, _| line.at_once.push_back(call));
    }

    /// Adds a call that asks when its turn has come.
    pub(crate) fn ask_in_turn(self: &Arc<Self>, call: Call) -> Place {
        let arrival = self.change_line(|line, arrivals| {
            *arrivals += 1;
            line.waiting.insert(*arrivals, call);
            *arrivals
        });
        Place {
            limiter: Arc::clone(self),
            arrival,
        }
    }

    /// Changes the line of this key, and asks for its calls.
    fn change_line<R>(self: &Arc<Self>, change: impl FnOnce(&mut Line, &mut u64) -> R) -> R {
        let mut table = self.lines.table();
        let Table { lines, arrivals } = &mut *table;
        let line = lines.entry(self.key.clone()).or_default();
        let result = change(line, arrivals);
        let starts = !line.asks && line.has_next();
        line.asks |= starts;
        if line.is_over() {
            lines.remove(&self.key);
        }
        drop(table);
        if starts {
            self.start(Asking {
                limiter: Arc::clone(self),
                ended: false,
            });
        }
        result
    }
}

impl Line {
    fn has_next(&self) -> bool {
        !self.at_once.is_empty() || !self.taken && !self.waiting.is_empty()
    }

    fn is_over(&self) -> bool {
        self.at_once.is_empty() && self.waiting.is_empty() && !self.taken && !self.asks
    }

    /// Removes the calls that go next in one request. Waiters and others take turns. A settlement
    /// goes first: it may free what the next waiter takes.
    fn next(&mut self) -> VecDeque<(u64, Call)> {
        let first = self.at_once.front().map(|call| call.request);
        let settles = matches!(first, Some(Request::Settle(_)));
        let mut batch = VecDeque::new();
        if self.waiters_next && !settles {
            batch = self.next_waiters();
        }
        if batch.is_empty() {
            batch = self.next_at_once();
        }
        if batch.is_empty() {
            batch = self.next_waiters();
        }
        let waited = batch.front().is_some_and(|(arrival, _)| *arrival > 0);
        self.taken |= waited;
        self.waiters_next = !waited;
        batch
    }

    fn next_at_once(&mut self) -> VecDeque<(u64, Call)> {
        let mut batch = VecDeque::new();
        while let Some(call) = self.at_once.front() {
            if !call.is_expected() {
                self.at_once.pop_front();
            } else if joins(&batch, call) {
                batch.extend(self.at_once.pop_front().map(|call| (0, call)));
            } else {
                break;
            }
        }
        batch
    }

    fn next_waiters(&mut self) -> VecDeque<(u64, Call)> {
        let mut batch = VecDeque::new();
        while !self.taken
            && let Some(entry) = self.waiting.first_entry()
        {
            if !entry.get().is_expected() {
                entry.remove();
            } else if joins(&batch, entry.get()) {
                batch.push_back(entry.remove_entry());
            } else {
                break;
            }
        }
        batch
    }
}

impl Call {
    /// Tells whether the answer matters.
    fn is_expected(&self) -> bool {
        self.caller
            .as_ref()
            .is_none_or(|caller| !caller.is_closed())
    }

    /// Tells whether its time is over.
    fn is_late(&self, now: Moment) -> bool {
        matches!(self.request, Request::Take { until: Until::At(at), .. } if at <= now)
    }

    /// Answers.
    pub(crate) fn answer(self, answer: Result<Answer, Error>) {
        if let Some(caller) = self.caller {
            // An answer that finds no caller is dropped, which undoes what was taken.
            let _ = caller.send(answer);
        }
    }
}

impl Request {
    /// Returns what passes of one attempt have in common: rate, cost, and whether they count now.
    fn group(&self) -> Option<(Rate, u64, bool)> {
        match *self {
            Self::Take { rate, cost, until } => Some((rate, cost, until == Until::Now)),
            Self::Settle(_) => None,
        }
    }
}

/// Tells whether `call` goes in one request with those of `batch`.
fn joins(batch: &VecDeque<(u64, Call)>, call: &Call) -> bool {
    let Some((arrival, first)) = batch.front() else {
        return true;
    };
    let Some(group @ (.., counts_now)) = first.request.group() else {
        return false;
    };
    // A request takes one pass ahead at most, and a reservation does not ask again.
    let reserves = *arrival == 0 && !counts_now;
    !reserves && call.request.group() == Some(group) && batch.len() < MOST_PASSES
}

impl Asking {
    /// Returns the calls that go next. `None` if there are none, which ends the task.
    pub(crate) fn next(&mut self) -> Option<Batch> {
        let limiter = &self.limiter;
        let lines = &mut limiter.lines.table().lines;
        let line = lines.get_mut(&limiter.key)?;
        let calls = line.next();
        let waited = calls.front().is_some_and(|(arrival, _)| *arrival > 0);
        if calls.is_empty() {
            line.asks = false;
            self.ended = true;
            if line.is_over() {
                lines.remove(&limiter.key);
            }
            return None;
        }
        Some(Batch {
            turn: waited.then(|| Turn(Arc::clone(limiter))),
            calls,
        })
    }

    /// Puts waiters back to their places. Returns those whose time is over: they have tried to
    /// leave meanwhile.
    pub(crate) fn put_back(&self, calls: VecDeque<(u64, Call)>) -> VecDeque<(u64, Call)> {
        self.limiter.change_line(|line, _| {
            let now = self.limiter.client.now();
            let (late, stay): (VecDeque<_>, VecDeque<_>) =
                calls.into_iter().partition(|(_, call)| call.is_late(now));
            line.waiting.extend(stay);
            late
        })
    }

    /// Fails the calls that are no younger than `since` and have not asked.
    pub(crate) fn fail_older(&self, since: Moment, error: &Error) {
        let calls = self.limiter.change_line(|line, _| {
            let old = |call: &Call| call.since <= since;
            let waiting = std::mem::take(&mut line.waiting).into_iter();
            let (gone, stay): (BTreeMap<_, _>, _) = waiting.partition(|(_, call)| old(call));
            line.waiting = stay;
            let (mut calls, stay): (VecDeque<_>, _) = line.at_once.drain(..).partition(old);
            line.at_once = stay;
            calls.extend(gone.into_values());
            calls
        });
        for call in calls {
            call.answer(Err(error.clone()));
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.ended {
            // The runtime of the client has ended. The calls are dropped outside of the lock.
            let left = self.limiter.lines.table().lines.remove(&self.limiter.key);
            drop(left);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.0.client.keeps(Rule::PassTurn) {
            self.0.change_line(|line, _| line.taken = false);
        }
    }
}

impl Place {
    /// Removes the waiter. Returns `false` if it has asked already.
    pub(crate) fn leave(&self) -> bool {
        let remove = |line: &mut Line, _: &mut u64| line.waiting.remove(&self.arrival);
        // The call is dropped outside of the lock.
        self.limiter.change_line(remove).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}
