//! The lines of a client's calls, one for each key. One request of a line is under way at a time,
//! since its scripts remember the last attempt of each client only.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use redlatch_core::{
    Error, ErrorKind, Moment,
    family::{Internals, Key, Rule},
};
use tokio::sync::oneshot;

use crate::{
    ask::Answer,
    limiter::Limiter,
    rate::Terms,
    scripts::{MOST_PASSES, Mark},
};

/// The lines that have calls.
#[derive(Default)]
pub(crate) struct Lines {
    table: Mutex<BTreeMap<Key, Line>>,
    /// The waiters that have come so far, of all lines: a line may end while a waiter that was
    /// served still has its place.
    arrivals: AtomicU64,
}

/// Calls with their arrivals; 0 for those that ask as soon as possible.
pub(crate) type Calls = VecDeque<(u64, Call)>;

/// The calls for one key.
#[derive(Default)]
struct Line {
    /// Those that ask as soon as possible.
    at_once: Calls,
    /// Those that wait for their turn, by arrival.
    waiting: Calls,
    /// Whether the waiters go next, although others ask as soon as possible.
    waiters_next: bool,
    /// Whether a waiter asks, or has a pass that counts later. The next one does not ask before.
    taken: bool,
    /// Whether a task asks for the calls.
    asks: bool,
}

/// A call and the caller that expects its answer.
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
    Take { terms: Terms, until: Until },
    Settle(Settlement),
}

/// A change of the cost of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settlement {
    /// What was taken.
    pub(crate) terms: Terms,
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
pub(crate) struct Batch {
    pub(crate) calls: Calls,
    pub(crate) turn: Option<Turn>,
}

/// The turn of the waiters in front. Dropping it passes the turn on.
pub(crate) struct Turn(Arc<Limiter>);

/// The place of a waiter. Dropping it removes the waiter.
pub(crate) struct Place {
    limiter: Arc<Limiter>,
    arrival: u64,
}

/// The task that asks for the calls of a line. Dropping it fails all calls that are left.
pub(crate) struct Asking {
    pub(crate) limiter: Arc<Limiter>,
    /// Whether it has found no call, so that the next call starts another task.
    ended: bool,
}

impl Lines {
    fn table(&self) -> MutexGuard<'_, BTreeMap<Key, Line>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limiter {
    /// Adds a call that asks as soon as possible.
    pub(crate) fn ask_at_once(self: &Arc<Self>, call: Call) {
        self.change_line(|line| line.at_once.push_back((0, call)));
    }

    /// Adds a call that asks when its turn has come.
    pub(crate) fn ask_in_turn(self: &Arc<Self>, call: Call) -> Place {
        let arrival = self.change_line(|line| {
            let arrival = 1 + self.lines.arrivals.fetch_add(1, Ordering::Relaxed);
            line.waiting.push_back((arrival, call));
            arrival
        });
        Place {
            limiter: Arc::clone(self),
            arrival,
        }
    }

    /// Changes the line of this key, and asks for its calls.
    fn change_line<R>(self: &Arc<Self>, change: impl FnOnce(&mut Line) -> R) -> R {
        let mut lines = self.lines.table();
        let line = lines.entry(self.key.clone()).or_default();
        let result = change(line);
        let starts = !line.asks && line.has_next();
        line.asks |= starts;
        if line.is_over() {
            lines.remove(&self.key);
        }
        drop(lines);
        if starts {
            let limiter = Arc::clone(self);
            let mut asking = Asking {
                limiter,
                ended: false,
            };
            // The calls of the line are asked for in the background, until none is left.
            let task = async move {
                while let Some(batch) = asking.next() {
                    asking.ask(batch).await;
                }
            };
            self.client.spawn("limit", Box::pin(task));
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

    /// Removes the calls that go next in one request, and returns them and whether they have
    /// waited. Waiters and others take turns. A settlement goes first: it may free what the next
    /// waiter takes.
    fn next(&mut self) -> (Calls, bool) {
        let first = self.at_once.front().map(|(_, call)| call.request);
        let waiters_first = self.waiters_next && !matches!(first, Some(Request::Settle(_)));
        for waiters in [waiters_first, !waiters_first] {
            let calls = match waiters {
                true if self.taken => continue,
                true => next_of(&mut self.waiting),
                false => next_of(&mut self.at_once),
            };
            if !calls.is_empty() {
                self.taken |= waiters;
                self.waiters_next = !waiters;
                return (calls, waiters);
            }
        }
        (Calls::new(), false)
    }
}

/// Removes the first calls that are expected and go in one request.
fn next_of(calls: &mut Calls) -> Calls {
    let mut batch = Calls::new();
    while let Some((arrival, call)) = calls.pop_front() {
        if !call.is_expected() {
            continue;
        }
        if !joins(&batch, &call) {
            calls.push_front((arrival, call));
            break;
        }
        batch.push_back((arrival, call));
    }
    batch
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
    fn group(&self) -> Option<(Terms, bool)> {
        match *self {
            Self::Take { terms, until } => Some((terms, until == Until::Now)),
            Self::Settle(_) => None,
        }
    }
}

/// Tells whether `call` goes in one request with those of `batch`.
fn joins(batch: &Calls, call: &Call) -> bool {
    let Some((arrival, first)) = batch.front() else {
        return true;
    };
    let Some(group @ (_, counts_now)) = first.request.group() else {
        return false;
    };
    // A request takes one pass ahead at most, and a reservation does not ask again.
    let reserves = *arrival == 0 && !counts_now;
    !reserves && call.request.group() == Some(group) && batch.len() < MOST_PASSES
}

impl Asking {
    /// Returns the calls that go next. `None` if there are none, which ends the task.
    fn next(&mut self) -> Option<Batch> {
        let limiter = &self.limiter;
        let mut lines = limiter.lines.table();
        let line = lines.get_mut(&limiter.key)?;
        let (calls, waited) = line.next();
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
    pub(crate) fn put_back(&self, calls: Calls) -> Calls {
        self.limiter.change_line(|line| {
            // The clock is read under the lock. A waiter that has tried to leave before is late.
            let now = self.limiter.client.now();
            let (late, stay): (Calls, Calls) =
                calls.into_iter().partition(|(_, call)| call.is_late(now));
            // Nothing was taken from the line meanwhile, so they stood before all others.
            for entry in stay.into_iter().rev() {
                line.waiting.push_front(entry);
            }
            late
        })
    }

    /// Fails the calls that have not asked for as long as the client's patience, behind a request
    /// without an answer.
    pub(crate) fn fail_rest(&self, error: &Error) {
        let (ErrorKind::Unavailable | ErrorKind::OutcomeUnknown) = error.kind() else {
            return;
        };
        let client = &self.limiter.client;
        let since = client.now().before(client.patience());
        let error = Error::new(ErrorKind::Unavailable, error.to_string());
        let failed = self.limiter.change_line(|line| {
            let mut failed = Calls::new();
            for calls in [&mut line.at_once, &mut line.waiting] {
                let (old, stay): (Calls, Calls) =
                    calls.drain(..).partition(|(_, call)| call.since <= since);
                *calls = stay;
                failed.extend(old);
            }
            failed
        });
        for (_, call) in failed {
            call.answer(Err(error.clone()));
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.ended {
            // The runtime of the client has ended. The calls are dropped outside of the lock.
            let left = self.limiter.lines.table().remove(&self.limiter.key);
            drop(left);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.0.client.keeps(Rule::PassTurn) {
            self.0.change_line(|line| line.taken = false);
        }
    }
}

impl Place {
    /// Removes the waiter. Returns `false` if it has asked already.
    pub(crate) fn leave(&self) -> bool {
        let remove = |line: &mut Line| {
            let by_arrival = |(arrival, _): &(u64, Call)| *arrival;
            let at = line.waiting.binary_search_by_key(&self.arrival, by_arrival);
            line.waiting.remove(at.ok()?)
        };
        // The call is dropped outside of the lock.
        self.limiter.change_line(remove).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}
