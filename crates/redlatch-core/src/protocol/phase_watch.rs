//! Who of this process asks the server how one object stands, and what each of those who wait has
//! learnt.

use std::{collections::BTreeMap, time::Duration};

use super::time::Moment;

/// What became of one phase of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseState {
    /// It lasts.
    UnderWay,
    /// It has ended as it should.
    Over,
    /// The object was removed while it lasted.
    Gone,
}

/// What a look at an object shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The phases that were asked for, and what became of them.
    pub states: Vec<(u64, PhaseState)>,
    /// The present or last phase; `None` if there is no object.
    pub present: Option<(u64, PhaseState)>,
    /// How long the object lives on; `Duration::MAX` if it has no end.
    pub remaining: Duration,
}

/// What one watcher is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchResult<E> {
    /// Its phase lasts.
    UnderWay,
    /// Its phase is over.
    Over,
    /// The object was removed while its phase lasted.
    Gone,
    /// There is no object to wait for.
    Absent,
    /// Looking will never succeed.
    Failed(E),
}

/// The last look that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its number; they rise.
    pub number: u64,
    /// When it was sent.
    pub at: Moment,
    /// What it showed.
    pub snapshot: Snapshot,
}

/// The watchers of one object in one process. One look at a time answers all of them.
///
/// A watcher that has to know how things stand calls [`want`](Self::want) and then, until [`told`](Self::told) has
/// something, [`begin`](Self::begin): if that gives a number it sends the look itself and reports [`saw`](Self::saw),
/// [`failed`](Self::failed) or [`gave_up`](Self::gave_up); else another is at it, and it waits to be told. What those three
/// return is whom to wake.
///
/// An answer counts for a newcomer only if its look began after the newcomer came: an older one may
/// show a phase that was over before. In the same way [`hear`](Self::hear) asks for a look that began after a
/// message came: a message is a hint, and only an answer of the server ends a wait.
#[derive(Debug)]
pub(crate) struct PhaseWatch<E> {
    watchers: BTreeMap<u64, Watcher<E>>,
    next_id: u64,
    begun: u64,
    looking: Option<Looking>,
    last: Option<Seen>,
    /// The last message that anybody took in, and the last look that had begun before.
    heard: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Watcher<E> {
    /// The phase it waits for the end of, once it is known.
    phase: Option<u64>,
    /// It waits for a look with a greater number than this.
    wants: Option<u64>,
    told: Option<WatchResult<E>>,
}

#[derive(Clone, Copy, Debug)]
struct Looking {
    number: u64,
    /// From then on it counts as forgotten.
    until: Moment,
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
    /// Adds a watcher of `phase`, or of the one it finds.
    pub(crate) fn join(&mut self, phase: Option<u64>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let watcher = Watcher {
            phase,
            wants: None,
            told: None,
        };
        self.watchers.insert(id, watcher);
        id
    }

    /// Takes a watcher out; returns whom to wake.
    pub(crate) fn leave(&mut self, id: u64) -> Option<u64> {
        let watcher = self.watchers.remove(&id)?;
        watcher.wants.and_then(|_| self.next())
    }

    /// Tells whether nobody watches.
    pub(crate) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Returns the phase that `id` waits for, once it is known.
    pub(crate) fn phase(&self, id: u64) -> Option<u64> {
        self.watchers.get(&id)?.phase
    }

    /// Returns the number of the last look that has begun.
    pub(crate) const fn begun(&self) -> u64 {
        self.begun
    }

    /// Returns the last look that was answered.
    pub(crate) const fn last(&self) -> Option<&Seen> {
        self.last.as_ref()
    }

    /// `id` has to know how things stand by a look with a greater number than `after`.
    pub(crate) fn want(&mut self, id: u64, after: u64) {
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.wants = Some(after);
            if let Some(last) = &self.last {
                watcher.tell(last.number, &last.snapshot);
            }
        }
    }

    /// `id` has to know how things stand since message `number`, which other watchers hear as well:
    /// one look answers all of them.
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

    /// Returns what `id` was told since it last asked.
    pub(crate) fn told(&mut self, id: u64) -> Option<WatchResult<E>> {
        self.watchers.get_mut(&id)?.told.take()
    }

    /// Begins a look that is to be answered by `until`, unless another is at it: its number, and
    /// the phases to ask for.
    pub(crate) fn begin(&mut self, now: Moment, until: Moment) -> Option<(u64, Vec<u64>)> {
        if self.looking.is_some_and(|looking| now < looking.until) {
            return None;
        }
        self.begun += 1;
        self.looking = Some(Looking {
            number: self.begun,
            until,
        });
        let mut phases: Vec<_> = self.watchers.values().filter_map(|it| it.phase).collect();
        phases.sort_unstable();
        phases.dedup();
        Some((self.begun, phases))
    }

    /// Look `number`, sent at `at`, shows this.
    pub(crate) fn saw(&mut self, number: u64, at: Moment, snapshot: Snapshot) -> Vec<u64> {
        let mut wake: Vec<_> = self
            .watchers
            .iter_mut()
            .filter_map(|(&id, watcher)| watcher.tell(number, &snapshot).then_some(id))
            .collect();
        if self.last.as_ref().is_none_or(|last| last.number < number) {
            self.last = Some(Seen {
                number,
                at,
                snapshot,
            });
        }
        wake.extend(self.gave_up(number));
        wake
    }

    /// Look `number` was refused in a way that will not change.
    pub(crate) fn failed(&mut self, number: u64, why: &E) -> Vec<u64> {
        let mut wake = Vec::new();
        for (&id, watcher) in &mut self.watchers {
            if watcher.wants.is_some_and(|after| after < number) {
                watcher.wants = None;
                watcher.told = Some(WatchResult::Failed(why.clone()));
                wake.push(id);
            }
        }
        wake.extend(self.gave_up(number));
        wake
    }

    /// Look `number` will have no answer: the next may try.
    pub(crate) fn gave_up(&mut self, number: u64) -> Option<u64> {
        self.looking = self.looking.filter(|looking| looking.number != number);
        self.next()
    }

    /// Returns the first who wants a look, if nobody is at it.
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
    /// Takes a look in; returns whether there is news.
    fn tell(&mut self, number: u64, snapshot: &Snapshot) -> bool {
        let wanted = self.wants.is_some_and(|after| after < number);
        let state = match self.phase {
            Some(phase) => {
                let mut states = snapshot.states.iter().chain(&snapshot.present);
                match states.find(|(of, _)| *of == phase) {
                    Some((_, state)) => *state,
                    None => return false,
                }
            }
            None if !wanted => return false,
            None => match snapshot.present {
                Some((phase, state)) => {
                    self.phase = Some(phase);
                    state
                }
                None => {
                    self.wants = None;
                    self.told = Some(WatchResult::Absent);
                    return true;
                }
            },
        };
        if !wanted && state == PhaseState::UnderWay {
            return false;
        }
        self.wants = None;
        self.told = Some(match state {
            PhaseState::UnderWay => WatchResult::UnderWay,
            PhaseState::Over => WatchResult::Over,
            PhaseState::Gone => WatchResult::Gone,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    fn snapshot(states: &[(u64, PhaseState)], present: Option<(u64, PhaseState)>) -> Snapshot {
        Snapshot {
            states: states.to_vec(),
            present,
            remaining: Duration::MAX,
        }
    }

    fn phase_watch() -> (PhaseWatch<&'static str>, u64, u64) {
        let mut phase_watch = PhaseWatch::default();
        let (a, b) = (phase_watch.join(None), phase_watch.join(None));
        (phase_watch, a, b)
    }

    #[test]
    fn one_request_answers_all_waiters_that_came_before() {
        let (mut it, a, b) = phase_watch();
        it.want(a, it.begun());
        it.want(b, it.begun());
        let (number, phases) = it.begin(at(0), at(9)).unwrap();
        assert!(phases.is_empty());
        assert_eq!(it.begin(at(1), at(9)), None, "one at a time");
        let woken = it.saw(
            number,
            at(0),
            snapshot(&[], Some((7, PhaseState::UnderWay))),
        );
        assert_eq!(woken, [a, b]);
        assert_eq!(it.told(a), Some(WatchResult::UnderWay));
        assert_eq!(it.told(a), None);
        assert_eq!((it.phase(a), it.phase(b)), (Some(7), Some(7)));
        let (number, phases) = it.begin(at(2), at(9)).unwrap();
        assert_eq!(phases, [7]);
        let over = snapshot(&[(7, PhaseState::Over)], Some((8, PhaseState::UnderWay)));
        assert_eq!(it.saw(number, at(2), over), [a, b], "they need not ask");
        assert_eq!(it.told(b), Some(WatchResult::Over));
    }

    #[test]
    fn waiter_that_comes_during_a_request_needs_the_next() {
        let (mut it, a, b) = phase_watch();
        it.want(a, it.begun());
        let (number, _) = it.begin(at(0), at(9)).unwrap();
        it.want(b, it.begun());
        let woken = it.saw(
            number,
            at(0),
            snapshot(&[], Some((7, PhaseState::UnderWay))),
        );
        assert_eq!(woken, [a, b], "b is to look itself");
        assert_eq!((it.told(b), it.phase(b)), (None, None));
        let (number, _) = it.begin(at(1), at(9)).unwrap();
        it.saw(number, at(1), snapshot(&[(7, PhaseState::Gone)], None));
        assert_eq!(it.told(a), Some(WatchResult::Gone));
        assert_eq!(it.told(b), Some(WatchResult::Absent));
    }

    #[test]
    fn one_request_answers_all_that_hear_one_message() {
        let (mut it, a, b) = phase_watch();
        for id in [a, b] {
            it.want(id, 0);
        }
        let (number, _) = it.begin(at(0), at(9)).unwrap();
        it.saw(
            number,
            at(0),
            snapshot(&[], Some((7, PhaseState::UnderWay))),
        );
        for id in [a, b] {
            assert_eq!(it.told(id), Some(WatchResult::UnderWay));
        }
        it.hear(a, 1);
        let (number, _) = it.begin(at(1), at(9)).unwrap();
        it.hear(b, 1);
        let still = snapshot(
            &[(7, PhaseState::UnderWay)],
            Some((7, PhaseState::UnderWay)),
        );
        assert_eq!(it.saw(number, at(1), still.clone()), [a, b]);
        for id in [a, b] {
            assert_eq!(it.told(id), Some(WatchResult::UnderWay));
        }
        // A message that comes during a look may be about what happened after it.
        it.hear(a, 2);
        let (number, _) = it.begin(at(2), at(9)).unwrap();
        it.hear(b, 3);
        it.saw(number, at(2), still);
        assert_eq!(
            (it.told(a), it.told(b)),
            (Some(WatchResult::UnderWay), None)
        );
        let (number, _) = it.begin(at(3), at(9)).unwrap();
        let over = snapshot(&[(7, PhaseState::Over)], Some((7, PhaseState::Over)));
        assert_eq!(it.saw(number, at(3), over), [a, b]);
    }

    #[test]
    fn announced_phase_is_requested() {
        let (mut it, _, _) = phase_watch();
        let c = it.join(Some(5));
        it.want(c, it.begun());
        let (number, phases) = it.begin(at(0), at(9)).unwrap();
        assert_eq!(phases, [5]);
        it.saw(
            number,
            at(0),
            snapshot(&[(5, PhaseState::Over)], Some((6, PhaseState::UnderWay))),
        );
        assert_eq!(it.told(c), Some(WatchResult::Over));
    }

    #[test]
    fn waiter_that_asks_is_replaced_when_it_leaves_or_stalls() {
        let (mut it, a, b) = phase_watch();
        it.want(a, it.begun());
        it.want(b, it.begun());
        let (number, _) = it.begin(at(0), at(9)).unwrap();
        assert_eq!(it.leave(a), None, "its look is under way");
        assert_eq!(it.gave_up(number), Some(b));
        let (_, _) = it.begin(at(1), at(9)).unwrap();
        assert_eq!(it.begin(at(8), at(9)), None);
        let (late, _) = it.begin(at(9), at(20)).unwrap();
        assert_eq!(late, 3, "the second was forgotten");
        assert_eq!(it.gave_up(2), None, "and counts no more");
        assert_eq!(it.failed(late, &"no right"), [b]);
        assert_eq!(it.told(b), Some(WatchResult::Failed("no right")));
    }
}
