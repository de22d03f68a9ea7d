//! Which waiter of this process may ask the server about one name.

use std::{collections::BTreeSet, time::Duration};

use super::{small_map::SmallMap, time::Moment};

/// The waiters of one process for one name. The first one asks the server, and the others wait for
/// their turn.
///
/// A waiter whose owner already holds the name is reentrant and need not queue. A first waiter that
/// is long overdue (its future is not polled) blocks the queue. The second waiter then moves it to
/// the end.
#[derive(Debug, Default)]
pub(crate) struct TurnQueue {
    waiters: SmallMap<u64, Waiter>,
    places: SmallMap<u64, u64>,
    /// The owners of all waiters with the waiters' ids. A grant looks up the waiters of its owner
    /// here.
    owners: SmallMap<(u64, u64), ()>,
    reentrant: BTreeSet<u64>,
    next_place: u64,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    owner: u64,
    /// When the waiter will check again at the latest. `None` until the waiter announces a time
    /// after it became the first.
    back_at: Option<Moment>,
}

impl TurnQueue {
    /// Adds waiter `id` of `owner` at the end.
    pub(crate) fn join(&mut self, id: u64, owner: u64) {
        let place = self.next_place;
        self.next_place += 1;
        let waiter = Waiter {
            id,
            owner,
            back_at: None,
        };
        self.waiters.insert(place, waiter);
        self.places.insert(id, place);
        self.owners.insert((owner, id), ());
    }

    /// Returns whether `id` may ask the server.
    pub(crate) fn may_speak(&self, id: u64) -> bool {
        self.front() == Some(id) || self.reentrant.contains(&id)
    }

    /// Records that `id` will check again at `back_at` at the latest.
    pub(crate) fn expect(&mut self, id: u64, back_at: Moment) {
        let place = self.places.get(&id);
        if let Some(waiter) = place.and_then(|place| self.waiters.get_mut(place)) {
            waiter.back_at = Some(back_at);
        }
    }

    /// Removes `id`. Returns the waiter whose turn begins thereby, if any.
    pub(crate) fn leave(&mut self, id: u64) -> Option<u64> {
        self.reentrant.remove(&id);
        let was_front = self.front() == Some(id);
        let place = self.places.remove(&id)?;
        if let Some(waiter) = self.waiters.remove(&place) {
            self.owners.remove(&(waiter.owner, id));
        }
        was_front.then(|| self.pass_on()).flatten()
    }

    /// Records that `owner` holds the name, so that its waiters need not queue. Returns the waiters
    /// to notify.
    pub(crate) fn owner_holds(&mut self, owner: u64) -> Vec<u64> {
        let of_owner = self.owners.range((owner, 0)..=(owner, u64::MAX));
        let ids: Vec<_> = of_owner.map(|&(_, id)| id).collect();
        self.reentrant.extend(&ids);
        ids
    }

    /// Records that `owner` does not hold the name any more, so that its waiters queue like all
    /// others.
    pub(crate) fn owner_released(&mut self, owner: u64) {
        let owners = &self.owners;
        self.reentrant
            .retain(|&id| owners.get(&(owner, id)).is_none());
    }

    /// Moves the first waiter to the end if it is overdue by more than `patience`. Returns the
    /// waiter whose turn begins thereby.
    pub(crate) fn challenge(&mut self, now: Moment, patience: Duration) -> Option<u64> {
        let several = self.waiters.len() > 1;
        let (&place, _) = self.waiters.first()?;
        let first = self.waiters.get_mut(&place)?;
        // A waiter that has just become the first gets its time from now on.
        let back_at = *first.back_at.get_or_insert(now);
        if !several || now <= back_at + patience {
            return None;
        }
        let first = self.waiters.remove(&place)?;
        self.join(first.id, first.owner);
        self.pass_on()
    }

    /// Returns when the first waiter will check again at the latest, if it has announced that.
    pub(crate) fn front_back_at(&self) -> Option<Moment> {
        let (_, first) = self.waiters.first()?;
        first.back_at
    }

    /// Returns whether the queue has no waiters.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Returns the new first waiter. Discards its announced time, which it gave before it was the
    /// first.
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
    use crate::protocol::time::at;

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
        // The waiter asked once behind the first, and waits for a notification.
        queue.expect(2, at(100));
        assert_eq!(queue.leave(1), Some(2));
        assert_eq!(queue.front_back_at(), None);
        assert_eq!(queue.challenge(at(60_000), patience), None);
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
