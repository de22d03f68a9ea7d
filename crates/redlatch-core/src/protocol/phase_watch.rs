//! Which watcher of this process asks the server about one object, and what each watcher has
//! learnt.

use std::{collections::BTreeMap, time::Duration};

use super::time::Moment;

/// The outcome of one phase of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseState {
    /// The phase lasts.
    UnderWay,
    /// The phase has ended normally.
    Over,
    /// The object was removed during the phase.
    Gone,
}

/// The state of an object as one look shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The phases in the question, and their states.
    pub states: Vec<(u64, PhaseState)>,
    /// The present or last phase, or `None` without an object.
    pub present: Option<(u64, PhaseState)>,
    /// The remaining lifetime of the object, `Duration::MAX` if it does not expire.
    pub remaining: Duration,
}

/// The result for one watcher: the state of its phase, `None` without an object, or the permanent
/// reason why the look failed.
pub(crate) type WatchResult<E> = Result<Option<PhaseState>, E>;

/// The last answered look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The number of the look. Numbers increase.
    pub number: u64,
    /// When the look was sent.
    pub at: Moment,
    /// The result of the look.
    pub snapshot: Snapshot,
}

/// The watchers of one object in one process. One look at a time answers all of them.
///
/// A watcher that needs the state of the object calls [`want`](Self::want). Until
/// [`take_result`](Self::take_result) returns a result, it calls [`begin`](Self::begin). If `begin`
/// returns a number, the watcher sends the look itself, and then calls [`saw`](Self::saw),
/// [`failed`](Self::failed) or [`gave_up`](Self::gave_up). Otherwise the look of another watcher is
/// under way, and the watcher waits for a wake-up. Those three methods return the watchers to wake.
///
/// An answer counts for a new watcher only if its look began after the watcher joined. An older
/// look may show a phase that was already over. In the same way [`hear`](Self::hear) asks for a
/// look that begins after a message. A message is a hint, and only an answer of the server ends a
/// wait.
#[derive(Debug)]
pub(crate) struct PhaseWatch<E> {
    watchers: BTreeMap<u64, Watcher<E>>,
    next_id: u64,
    begun: u64,
    /// When the last look that has begun counts as abandoned, if that look is under way.
    looking: Option<Moment>,
    last: Option<Seen>,
    /// The number of the last message, and the last look that had begun before that message.
    heard: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Watcher<E> {
    /// The phase whose end the watcher waits for, once the phase is known.
    phase: Option<u64>,
    /// The watcher waits for a look with a number greater than this.
    wants: Option<u64>,
    result: Option<WatchResult<E>>,
}

impl<E> Default for PhaseWatch<E> {
    fn default() -> Self {
        Self {
            watchers: BTreeMap::new(),
            next_id: 0,
            begun: 0,
            looking: None,
            last: None,
            heard: None,
        }
    }
}

impl<E: Clone> PhaseWatch<E> {
    /// Adds a watcher of `phase`, or of the phase that its first look shows.
    pub(crate) fn join(&mut self, phase: Option<u64>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let watcher = Watcher {
            phase,
            wants: None,
            result: None,
        };
        self.watchers.insert(id, watcher);
        id
    }

    /// Removes a watcher. Returns the watcher to wake, if any.
    pub(crate) fn leave(&mut self, id: u64) -> Option<u64> {
        let watcher = self.watchers.remove(&id)?;
        watcher.wants.and_then(|_| self.next())
    }

    /// Returns whether there are no watchers.
    pub(crate) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Returns the phase that `id` waits for, once the phase is known.
    pub(crate) fn phase(&self, id: u64) -> Option<u64> {
        self.watchers.get(&id)?.phase
    }

    /// Returns the number of the last look that has begun.
    pub(crate) const fn begun(&self) -> u64 {
        self.begun
    }

    /// Returns the last answered look.
    pub(crate) const fn last(&self) -> Option<&Seen> {
        self.last.as_ref()
    }

    /// Records that `id` needs a look with a number greater than `after`.
    pub(crate) fn want(&mut self, id: u64, after: u64) {
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.wants = Some(after);
            if let Some(last) = &self.last {
                watcher.tell(last.number, &last.snapshot);
            }
        }
    }

    /// Records that `id` needs a look that began after message `number`. Other watchers hear the
    /// same message, and one look answers all of them.
    pub(crate) fn hear(&mut self, id: u64, number: u64) {
        let after = match self.heard {
            Some((last, after)) if number <= last => after,
            _ => {
                self.heard = Some((number, self.begun));
                self.begun
            }
        };
        self.want(id, after);
    }

    /// Returns the result for `id` since the last call, if any.
    pub(crate) fn take_result(&mut self, id: u64) -> Option<WatchResult<E>> {
        self.watchers.get_mut(&id)?.result.take()
    }

    /// Begins a look that is to be answered by `until`, unless another look is under way. Returns
    /// the number of the look and the phases to ask for.
    pub(crate) fn begin(&mut self, now: Moment, until: Moment) -> Option<(u64, Vec<u64>)> {
        if self.looking.is_some_and(|until| now < until) {
            return None;
        }
        self.begun += 1;
        self.looking = Some(until);
        let mut phases: Vec<_> = self.watchers.values().filter_map(|it| it.phase).collect();
        phases.sort_unstable();
        phases.dedup();
        Some((self.begun, phases))
    }

    /// Records that look `number`, sent at `at`, shows `snapshot`. Returns the watchers to wake.
    pub(crate) fn saw(&mut self, number: u64, at: Moment, snapshot: Snapshot) -> Vec<u64> {
        let wake = self.settle(number, |watcher| watcher.tell(number, &snapshot));
        if self.last.as_ref().is_none_or(|last| last.number < number) {
            self.last = Some(Seen {
                number,
                at,
                snapshot,
            });
        }
        wake
    }

    /// Records that look `number` failed for a permanent reason. Returns the watchers to wake.
    pub(crate) fn failed(&mut self, number: u64, why: &E) -> Vec<u64> {
        self.settle(number, |watcher| {
            let wanted = watcher.wants.take_if(|after| *after < number).is_some();
            if wanted {
                watcher.result = Some(Err(why.clone()));
            }
            wanted
        })
    }

    /// Ends look `number`. Returns the watchers to wake: those with news, and the one that may send
    /// the next look.
    fn settle(&mut self, number: u64, tell: impl Fn(&mut Watcher<E>) -> bool) -> Vec<u64> {
        let watchers = self.watchers.iter_mut();
        let news = watchers.filter_map(|(&id, watcher)| tell(watcher).then_some(id));
        let mut wake: Vec<_> = news.collect();
        wake.extend(self.gave_up(number));
        wake
    }

    /// Records that look `number` will have no answer. Returns the watcher that may send the next
    /// look.
    pub(crate) fn gave_up(&mut self, number: u64) -> Option<u64> {
        self.looking = self.looking.filter(|_| number != self.begun);
        self.next()
    }

    /// Returns the first watcher that needs a look, unless a look is under way.
    fn next(&self) -> Option<u64> {
        if self.looking.is_some() {
            return None;
        }
        let mut watchers = self.watchers.iter();
        watchers
            .find(|(_, watcher)| watcher.wants.is_some())
            .map(|(&id, _)| id)
    }
}

impl<E> Watcher<E> {
    /// Applies a look to the watcher. Returns whether the watcher has a new result.
    fn tell(&mut self, number: u64, snapshot: &Snapshot) -> bool {
        let wanted = self.wants.is_some_and(|after| after < number);
        let state = match self.phase {
            Some(phase) => {
                let mut states = snapshot.states.iter().chain(&snapshot.present);
                let Some(&(_, state)) = states.find(|(of, _)| *of == phase) else {
                    return false;
                };
                Some(state)
            }
            None if !wanted => return false,
            None => {
                self.phase = snapshot.present.map(|(phase, _)| phase);
                snapshot.present.map(|(_, state)| state)
            }
        };
        // A look that the watcher did not ask for is news only if the phase has ended.
        if !wanted && state == Some(PhaseState::UnderWay) {
            return false;
        }
        self.wants = None;
        self.result = Some(Ok(state));
        true
    }
}

#[cfg(test)]
mod tests {
    use PhaseState::{Over, UnderWay};

    use super::*;
    use crate::protocol::time::at;

    fn snapshot(states: &[(u64, PhaseState)], present: Option<(u64, PhaseState)>) -> Snapshot {
        Snapshot {
            states: states.to_vec(),
            present,
            remaining: Duration::MAX,
        }
    }

    #[test]
    fn one_request_answers_all_that_hear_one_message() {
        let mut it = PhaseWatch::<&str>::default();
        let [a, b] = [(); 2].map(|()| it.join(None));
        it.want(a, 0);
        it.want(b, 0);
        let (number, _) = it.begin(at(0), at(9)).unwrap();
        it.saw(number, at(0), snapshot(&[], Some((7, UnderWay))));
        let both = |it: &mut PhaseWatch<_>| [a, b].map(|id| it.take_result(id));
        let under_way = || Some(Ok::<_, &str>(Some(UnderWay)));
        assert_eq!(both(&mut it), [under_way(), under_way()]);
        it.hear(a, 1);
        let (number, _) = it.begin(at(1), at(9)).unwrap();
        it.hear(b, 1);
        let still = snapshot(&[(7, UnderWay)], Some((7, UnderWay)));
        assert_eq!(it.saw(number, at(1), still.clone()), [a, b]);
        assert_eq!(both(&mut it), [under_way(), under_way()]);
        // A message during a look may be about a later event than the look shows.
        it.hear(a, 2);
        let (number, _) = it.begin(at(2), at(9)).unwrap();
        it.hear(b, 3);
        it.saw(number, at(2), still);
        assert_eq!(both(&mut it), [under_way(), None]);
        let (number, _) = it.begin(at(3), at(9)).unwrap();
        let over = snapshot(&[(7, Over)], Some((7, Over)));
        assert_eq!(it.saw(number, at(3), over), [a, b]);
    }
}
