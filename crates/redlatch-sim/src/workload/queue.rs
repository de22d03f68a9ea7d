//! The waiters of a name, and the promise to them: a grant leaves enough for all earlier waiters
//! that are alive.

use crate::scripts::Ran;

/// The waiters of one name in order of arrival, as the replies of the server imply them.
///
/// A waiter that the server may have removed has no claim until its next request. Every violation
/// that is found here is thus a real one.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiters: Vec<Waiter>,
    /// Until when no waiter could be notified, since all was taken; in ms of the server.
    pub(super) taken_until: u64,
}

#[derive(Debug)]
struct Waiter {
    /// The member `<verb> <channel> <n>…`, as the server stores it.
    member: String,
    /// How much it needs.
    need: u64,
    /// Until when its client counts as alive, in ms of the server.
    alive: u64,
    /// The time of its last request, in ms of the server.
    asked: u64,
    /// Whether it is certain that the server still has it in its queue.
    claims: bool,
}

impl Waiter {
    fn client(&self) -> &str {
        client(&self.member)
    }
}

impl Queue {
    /// Handles an acquire that waits for `need` of it, and tells whether it has `entered` just now.
    pub(super) fn waits(&mut self, now: u64, ran: &Ran<'_>, need: u64, entered: bool) {
        self.forget(now);
        // A call that registers no waiter has no span.
        let (member, Ok(span)) = (ran.arg(9), ran.arg(8).parse::<u64>()) else {
            return;
        };
        // The server need not record a client that it has just recorded.
        let span = span - FRESH;
        for waiter in &mut self.waiters {
            if waiter.client() == client(member) {
                waiter.alive = now + span;
            }
            if waiter.member == member {
                waiter.asked = now;
                waiter.claims = true;
            }
        }
        if entered {
            self.waiters.retain(|waiter| waiter.member != member);
            self.waiters.push(Waiter {
                member: member.to_owned(),
                need,
                alive: now + span,
                asked: now,
                claims: true,
            });
        }
    }

    /// Handles a grant to an attempt that no other waiter could have had before, by the attempt's
    /// request or on its behalf; `room` is what is left. Returns a waiter that was passed over, if
    /// that is not enough for all waiters before it.
    pub(super) fn granted(&mut self, now: u64, attempt: &str, room: u64) -> Option<String> {
        self.forget(now);
        let place = self.place(attempt);
        let before = &self.waiters[..place.unwrap_or(self.waiters.len())];
        let mut left = Some(room);
        let passed = before.iter().filter(|waiter| waiter.claims).find(|waiter| {
            left = left.and_then(|left| left.checked_sub(waiter.need));
            left.is_none()
        });
        let passed = passed.map(|waiter| waiter.member.clone());
        if let Some(place) = place {
            self.waiters.remove(place);
        }
        passed
    }

    /// Returns how much the waiter of `attempt` needs.
    pub(super) fn need(&self, attempt: &str) -> Option<u64> {
        self.place(attempt).map(|place| self.waiters[place].need)
    }

    fn place(&self, attempt: &str) -> Option<usize> {
        let (client, n) = attempt.split_once(':')?;
        self.waiters.iter().position(|waiter| {
            waiter.member.split(' ').nth(2) == Some(n) && waiter.client().contains(client)
        })
    }

    /// Handles a waiter that leaves.
    pub(super) fn leaves(&mut self, now: u64, ran: &Ran<'_>) {
        self.forget(now);
        let gone = |waiter: &Waiter| waiter.member == ran.arg(6) && !ran.is_bare();
        self.waiters.retain(|waiter| !gone(waiter));
    }

    /// Handles waiters that their client has withdrawn, by the arguments from `first` on.
    pub(super) fn withdrawn(&mut self, now: u64, ran: &Ran<'_>, first: usize) {
        self.forget(now);
        for attempt in ran.withdrawn(first) {
            while let Some(place) = self.place(&attempt) {
                self.waiters.remove(place);
            }
        }
    }

    /// Drops the claims of dead waiters, and of notified waiters that did not respond. Every script
    /// that inspects the queue may remove them. They register again at the end.
    fn forget(&mut self, now: u64) {
        for waiter in &mut self.waiters {
            let since = waiter.asked.max(self.taken_until);
            waiter.claims &= waiter.alive > now && since + GRACE > now;
        }
    }
}

/// Returns the channel of a waiter's client, without the shard that may follow.
fn client(member: &str) -> &str {
    let channel = member.split(' ').nth(1).unwrap_or_default();
    channel.split('{').next().unwrap_or_default()
}

/// The time in ms within which a notified waiter must respond. No waiter is notified before its
/// last request, or before something is free.
const GRACE: u64 = 5_000;

/// The time in ms for which the server does not record again that a client is alive.
const FRESH: u64 = 100;
