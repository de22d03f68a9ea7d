//! What a pool promises those who wait: whoever is granted leaves enough for all who are alive and
//! came before.

use super::scripts::number;
use crate::scripts::Ran;

/// The waiters of one name as the answers of the server make them, in order of arrival. Whoever the
/// server may have struck out has no claim until it is heard of again, so that what is found wrong
/// here is wrong.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiters: Vec<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    /// `<verb> <channel> <n> <need>`, as the server has it.
    member: String,
    /// Until when its client counts as alive, in ms of the server.
    alive: u64,
    /// When it last asked, in ms of the server.
    asked: u64,
    /// The server surely has it in its queue.
    claims: bool,
}

impl Waiter {
    fn client(&self) -> &str {
        client(&self.member)
    }

    fn need(&self) -> u64 {
        let need = self.member.rsplit(' ').next();
        need.and_then(|need| need.parse().ok()).unwrap_or(0)
    }
}

impl Queue {
    /// Takes note of an acquire that waits.
    pub(super) fn waits(&mut self, now: u64, ran: &Ran<'_>) {
        self.forget(now);
        let (Some(member), Ok(span)) = (member(ran), ran.arg(7).parse::<u64>()) else {
            return;
        };
        for waiter in &mut self.waiters {
            if waiter.client() == client(&member) {
                waiter.alive = now + span;
            }
            if waiter.member == member {
                waiter.asked = now;
                waiter.claims = true;
            }
        }
        if number(ran, 5) == Some(1) {
            self.waiters.retain(|waiter| waiter.member != member);
            self.waiters.push(Waiter {
                member,
                alive: now + span,
                asked: now,
                claims: true,
            });
        }
    }

    /// Takes note of an acquire that was granted what others could not have had before; `room` is
    /// what is left. Returns who was passed over, if that is not enough for all before it.
    pub(super) fn granted(&mut self, now: u64, ran: &Ran<'_>, room: u64) -> Option<String> {
        self.forget(now);
        let member = member(ran);
        let own = |waiter: &Waiter| Some(&waiter.member) == member.as_ref();
        let place = self.waiters.iter().position(own);
        let before = &self.waiters[..place.unwrap_or(self.waiters.len())];
        let mut left = Some(room);
        let passed = before.iter().filter(|waiter| waiter.claims).find(|waiter| {
            left = left.and_then(|left| left.checked_sub(waiter.need()));
            left.is_none()
        });
        let passed = passed.map(|waiter| waiter.member.clone());
        if let Some(place) = place {
            self.waiters.remove(place);
        }
        passed
    }

    /// Takes note of a waiter that leaves.
    pub(super) fn leaves(&mut self, now: u64, ran: &Ran<'_>) {
        self.forget(now);
        self.waiters.retain(|waiter| waiter.member != ran.arg(5));
    }

    /// Takes note of waiters that their client has withdrawn.
    pub(super) fn withdrawn(&mut self, now: u64, ran: &Ran<'_>) {
        self.forget(now);
        let Some((channel, numbers)) = ran.withdrawn(4) else {
            return;
        };
        self.waiters.retain(|waiter| {
            let number = waiter.member.split(' ').nth(2).unwrap_or_default();
            waiter.client() != channel || !numbers.contains(&number)
        });
    }

    /// Whoever looks may take out the dead, and who was called and did not come; they come again,
    /// at the end.
    fn forget(&mut self, now: u64) {
        for waiter in &mut self.waiters {
            waiter.claims &= waiter.alive > now && waiter.asked + GRACE > now;
        }
    }
}

/// Returns the queue's member for an acquire that may wait.
fn member(ran: &Ran<'_>) -> Option<String> {
    let address = ran.arg(8);
    (!address.is_empty()).then(|| format!("{address} {}", ran.arg(4)))
}

fn client(member: &str) -> &str {
    member.split(' ').nth(1).unwrap_or_default()
}

/// How long somebody who was called may take to come, in ms. Nobody is called before it last asked.
const GRACE: u64 = 5_000;
