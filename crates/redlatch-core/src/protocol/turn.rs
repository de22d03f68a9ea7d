//! Who of this process may speak to the server about one name.

use std::{collections::BTreeSet, time::Duration};

use super::{small_map::SmallMap, time::Moment};

/// The waiters of one process for one name: the first speaks, the others wait for their turn.
///
/// A waiter whose owner already holds the name is reentrant and need not queue. One that does not
/// come back long after it said it would (its future is not polled) is sent to the end by the
/// second, so that it stalls nobody.
#[derive(Debug, Default)]
pub(crate) struct TurnQueue {
    waiters: SmallMap<u64, Waiter>,
    places: SmallMap<u64, u64>,
    /// The owners of all waiters, with the waiters' ids: a grant looks for those of one owner.
    owners: SmallMap<(u64, u64), ()>,
    reentrant: BTreeSet<u64>,
    next_place: u64,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    owner: u64,
    /// When it will look again at the latest; not known of one that has not spoken since it became
    /// the first.
    back_at: Option<Moment>,
}

impl TurnQueue {
    /// Puts waiter `id` of `owner` at the end.
    pub(crate) fn join(&mut self, id: u64, owner: u64) {
        let place = self.next_place;
        self.next_place += 1;
        self.waiters.insert(
            place,
            Waiter {
                id,
                owner,
                back_at: None,
            },
        );
        self.places.insert(id, place);
        self.owners.insert((owner, id), ());
    }

    /// Tells whether `id` may speak.
    pub(crate) fn may_speak(&self, id: u64) -> bool {
        self.front() == Some(id) || self.reentrant.contains(&id)
    }

    /// Notes that `id` will be back at `back_at` at the latest.
    pub(crate) fn expect(&mut self, id: u64, back_at: Moment) {
        if let Some(waiter) = self
            .places
            .get(&id)
            .and_then(|place| self.waiters.get_mut(place))
        {
            waiter.back_at = Some(back_at);
        }
    }

    /// Takes `id` out; returns whom to tell that its turn has come.
    pub(crate) fn leave(&mut self, id: u64) -> Option<u64> {
        self.reentrant.remove(&id);
        let was_front = self.front() == Some(id);
        let place = self.places.remove(&id)?;
        if let Some(waiter) = self.waiters.remove(&place) {
            self.owners.remove(&(waiter.owner, id));
        }
        was_front.then(|| self.pass_on()).flatten()
    }

    /// `owner` holds the name: its waiters need not queue. Returns whom to tell.
    pub(crate) fn owner_holds(&mut self, owner: u64) -> Vec<u64> {
        let of_owner = self.owners.range((owner, 0)..=(owner, u64::MAX));
        let ids: Vec<_> = of_owner.map(|&(_, id)| id).collect();
        self.reentrant.extend(&ids);
        ids
    }

    /// `owner` holds the name no longer: its waiters queue like everybody.
    pub(crate) fn owner_released(&mut self, owner: u64) {
        let Self {
            waiters,
            places,
            reentrant,
            ..
        } = self;
        reentrant.retain(|id| {
            let waiter = places.get(id).and_then(|place| waiters.get(place));
            waiter.is_some_and(|waiter| waiter.owner != owner)
        });
    }

    /// If the first waiter is overdue by more than `patience`, sends it to the end; returns whom to
    /// tell.
    pub(crate) fn challenge(&mut self, now: Moment, patience: Duration) -> Option<u64> {
        let several = self.waiters.len() > 1;
        let (&place, _) = self.waiters.first()?;
        let first = self.waiters.get_mut(&place)?;
        // Who has just become the first is given its time from now on.
        let back_at = *first.back_at.get_or_insert(now);
        if !several || now <= back_at + patience {
            return None;
        }
        let first = self.waiters.remove(&place)?;
        self.join(first.id, first.owner);
        self.pass_on()
    }

    /// Returns when the first waiter will be back at the latest, as far as it has said.
    pub(crate) fn front_back_at(&self) -> Option<Moment> {
        let (_, first) = self.waiters.first()?;
        first.back_at
    }

    /// Tells whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Returns who is the first from now on. When it said it would be back was for what it did
    /// before.
    fn pass_on(&mut self) -> Option<u64> {
        let (&place, _) = self.waiters.first()?;
        let first = self.waiters.get_mut(&place)?;
        first.back_at = None;
        Some(first.id)
    }

    /// Returns the first waiter.
    pub(crate) fn front(&self) -> Option<u64> {
        self.waiters.first().map(|(_, waiter)| waiter.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    fn queue() -> TurnQueue {
        let mut queue = TurnQueue::default();
        for (id, owner) in [(1, 10), (2, 20), (3, 10)] {
            queue.join(id, owner);
        }
        queue
    }

    #[test]
    fn time_of_a_new_first_waiter_starts_anew() {
        let (mut queue, patience) = (queue(), Duration::from_millis(100));
        // It spoke once, behind the first, and waits to be called.
        queue.expect(2, at(100));
        assert_eq!(queue.leave(1), Some(2));
        assert_eq!(queue.front_back_at(), None);
        assert_eq!(queue.challenge(at(60_000), patience), None);
    }

    // L8
    #[test]
    fn first_waiter_speaks_first() {
        let mut queue = queue();
        assert!(queue.may_speak(1) && !queue.may_speak(2));
        assert_eq!(queue.leave(2), None, "its turn had not come");
        assert_eq!(queue.leave(1), Some(3));
        assert_eq!(queue.leave(3), None);
        assert!(queue.is_empty() && queue.places.is_empty());
    }

    #[test]
    fn waiters_of_a_holder_need_no_turn() {
        let mut queue = queue();
        assert_eq!(queue.owner_holds(10), [1, 3]);
        assert!(queue.may_speak(3) && !queue.may_speak(2));
        queue.owner_released(10);
        assert!(!queue.may_speak(3));
    }

    #[test]
    fn unpolled_first_waiter_loses_its_turn() {
        let mut queue = queue();
        let patience = Duration::from_millis(100);
        queue.expect(1, at(1000));
        assert_eq!(queue.challenge(at(1100), patience), None);
        assert_eq!(queue.challenge(at(1101), patience), Some(2));
        assert!(queue.may_speak(2) && !queue.may_speak(1));
        assert_eq!(queue.front_back_at(), None, "the next one has said nothing");
        assert_eq!(queue.challenge(at(1102), patience), None, "its time begins");
        assert_eq!(queue.front_back_at(), Some(at(1102)));
        assert_eq!(queue.leave(2), Some(3));
        assert_eq!(queue.leave(3), Some(1));
    }
}
