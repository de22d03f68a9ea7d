//! What one plain or fair lock is, written down once more, with a memory of everything that ever
//! happened to it.

use std::collections::BTreeSet;

use super::{
    driver::REACH,
    prelude::*,
    queue::{GRACE, number},
    spent::Spent,
};

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) owner: String,
    pub(crate) token: u64,
    pub(crate) attempts: BTreeSet<String>,
    pub(crate) until: u64,
    /// Whether the hold before it was never given back.
    pub(crate) follows_dead: bool,
    /// Whether a release has granted it and nobody has confirmed it.
    pub(crate) unconfirmed: bool,
}

/// What an acquisition is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) count: usize,
    pub(crate) token: u64,
    pub(crate) abandoned: bool,
    /// What is left of the hold, if that is less than was asked for.
    pub(crate) lasts: Option<u64>,
    /// Token of a writer, serial of a reader.
    pub(crate) id: u64,
}

impl Granted {
    /// Returns the words of a reply.
    pub(crate) fn words(&self) -> [String; 4] {
        [
            self.count.to_string(),
            self.token.to_string(),
            u8::from(self.abandoned).to_string(),
            optional(self.lasts),
        ]
    }
}

/// What is held of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lock {
    /// The last hold, unless it ended cleanly.
    pub(crate) hold: Option<Hold>,
    pub(crate) last_token: Option<u64>,
    /// The token of the last hold that ended cleanly and was followed by another.
    released: Option<u64>,
    pub(crate) forced: Option<u64>,
    /// Attempts that must not act any more.
    pub(crate) spent: Spent,
    /// The greatest token there ever was.
    pub(crate) greatest: u64,
    /// Attempt and token of every hold's share that was given back in time.
    pub(crate) in_time: BTreeSet<(String, u64)>,
    /// Every token that was ever forced.
    pub(crate) ever_forced: BTreeSet<u64>,
}

/// The longest lease of a hold that nobody has confirmed, in ms.
const UNCONFIRMED: u64 = 5_000;

/// An end that every clock has passed.
const OVER: u64 = 0;

impl Lock {
    pub(crate) fn live(&self, now: u64) -> Option<&Hold> {
        self.hold.as_ref().filter(|hold| hold.until > now)
    }

    /// Tells whether an attempt has a share in the living hold.
    pub(crate) fn holds(&self, now: u64, owner: &str, attempt: &str) -> bool {
        let own = self.live(now).filter(|hold| hold.owner == owner);
        own.is_some_and(|hold| hold.attempts.contains(attempt))
    }

    /// Grants. Copies may come until `limit`.
    pub(crate) fn grant(
        &mut self,
        time: ServerTime,
        owner: &str,
        attempt: &str,
        (limit, lease): (u64, u64),
    ) -> Granted {
        let (now, micros) = (time.millis(), time.micros());
        self.spent.record(attempt, limit, now);
        let forced = self.forced;
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.until > now) {
            hold.unconfirmed = false;
            hold.attempts.insert(attempt.to_owned());
            if forced != Some(hold.token) {
                hold.until = hold.until.max(now + lease);
            }
            return Granted {
                count: hold.attempts.len(),
                token: hold.token,
                abandoned: hold.follows_dead,
                lasts: (hold.until < now + lease).then_some(hold.until - now),
                id: hold.token,
            };
        }
        let token = self.last_token.map_or(micros, |last| micros.max(last + 1));
        let abandoned = self
            .hold
            .as_ref()
            .is_some_and(|hold| !hold.attempts.is_empty());
        if self.hold.is_none() {
            self.released = self.last_token.or(self.released);
        }
        assert!(token > self.greatest, "tokens rise");
        self.greatest = token;
        self.last_token = Some(token);
        self.hold = Some(Hold {
            owner: owner.to_owned(),
            token,
            attempts: BTreeSet::from([attempt.to_owned()]),
            until: now + lease,
            follows_dead: abandoned,
            unconfirmed: false,
        });
        Granted {
            count: 1,
            token,
            abandoned,
            lasts: None,
            id: token,
        }
    }

    pub(crate) fn renew(&mut self, now: u64, owner: &str, lease: u64, token: u64) -> &'static str {
        if self.forced == Some(token) {
            return "revoked";
        }
        if self.last_token > Some(token) {
            return "taken";
        }
        match &mut self.hold {
            Some(hold) if hold.token == token && hold.owner == owner => {
                if hold.until <= now {
                    return "expired";
                }
                hold.until = hold.until.max(now + lease);
                hold.unconfirmed = false;
                "renewed"
            }
            _ => "gone",
        }
    }

    /// Ends an attempt; returns verdict and how many hold on.
    pub(crate) fn release(
        &mut self,
        now: u64,
        owner: &str,
        attempt: &str,
        void: Option<u64>,
        token: u64,
    ) -> (&'static str, usize) {
        self.end_attempt(attempt, void, now);
        let live = self.live(now).is_some();
        let verdict = match &mut self.hold {
            Some(hold) if hold.owner == owner && hold.attempts.contains(attempt) => {
                hold.attempts.remove(attempt);
                let held = hold.token;
                let verdict = if live {
                    self.in_time.insert((attempt.to_owned(), held));
                    "released"
                } else if self.forced == Some(held) {
                    "revoked"
                } else {
                    "expired"
                };
                if hold.attempts.is_empty() && token == 0 && hold.follows_dead {
                    // Nobody has had it, so the next one follows the same dead holder.
                    let mark = if live || hold.unconfirmed { "-" } else { "=" };
                    hold.attempts.insert(mark.to_owned());
                    hold.until = OVER;
                } else if hold.attempts.is_empty() && live {
                    self.hold = None;
                } else if hold.attempts.is_empty() {
                    hold.until = OVER;
                }
                if token != 0 && token < held {
                    "taken"
                } else {
                    verdict
                }
            }
            _ => self.verdict_of_a_copy(live, token),
        };
        let left = match self.live(now) {
            Some(hold) if hold.owner == owner => hold.attempts.len(),
            _ => 0,
        };
        (verdict, left)
    }

    /// Copies of an attempt that ends may come until `void`.
    pub(crate) fn end_attempt(&mut self, attempt: &str, void: Option<u64>, now: u64) {
        if let Some(void) = void.filter(|&void| void >= now) {
            self.spent.record(attempt, void, now);
        }
    }

    /// Gives the lock to the waiter `member`, whose turn it has to be. Returns its attempt and the
    /// grant that the reply and the message have; `None` if the waiter has ordered none.
    pub(crate) fn give(&mut self, time: ServerTime, member: &str) -> Option<(String, String)> {
        let now = time.millis();
        let words: Vec<_> = member.split(' ').collect();
        let [verb, channel, n, owner, order] = words[..] else {
            return None;
        };
        let mut order = order.strip_prefix('g')?.split('.');
        let lease: u64 = order.next()?.parse().unwrap();
        let nonce = order.nth(1).filter(|_| verb != "NONE")?;
        let client = channel.rsplit(':').next().unwrap();
        let (owner, attempt) = (format!("{client}:{owner}"), format!("{client}:{n}"));
        let span = lease.min(UNCONFIRMED);
        let granted = self.grant(time, &owner, &attempt, (now + REACH, span));
        self.hold.as_mut().unwrap().unconfirmed = true;
        let (token, ends) = (granted.token, now + span);
        let abandoned = u8::from(granted.abandoned);
        Some((attempt, format!("g{nonce}.{token}.{ends}.{abandoned}")))
    }

    /// Returns the attempt that holds, and may not know it.
    pub(crate) fn unheard(&self, now: u64) -> Option<&String> {
        let hold = self.live(now).filter(|hold| hold.unconfirmed);
        hold.and_then(|hold| hold.attempts.first())
    }

    /// What is said of an attempt that holds nothing.
    fn verdict_of_a_copy(&self, live: bool, token: u64) -> &'static str {
        let Some(last) = self.last_token.filter(|_| token != 0) else {
            return "gone";
        };
        if last == token && (live || self.hold.is_none()) || self.released == Some(token) {
            "already"
        } else if self.forced == Some(token) {
            "revoked"
        } else if last == token {
            let withdrawn = self.hold.as_ref();
            if withdrawn.is_some_and(|hold| hold.attempts.contains("-")) {
                "already"
            } else {
                "expired"
            }
        } else if token < last {
            "taken"
        } else {
            "gone"
        }
    }

    pub(crate) fn force(&mut self, now: u64, token: u64, how: &str) -> &'static str {
        let forced = self.forced;
        match &mut self.hold {
            Some(hold) if hold.until > now && hold.token == token => {
                if how == "now" {
                    hold.until = OVER;
                }
                self.forced = Some(token);
                self.ever_forced.insert(token);
                "done"
            }
            _ if forced == Some(token) => "already",
            _ => "gone",
        }
    }

    /// The key is gone: only what cannot be forgotten stays.
    pub(crate) fn forget(&mut self) {
        *self = Self {
            greatest: self.greatest,
            in_time: std::mem::take(&mut self.in_time),
            ever_forced: std::mem::take(&mut self.ever_forced),
            ..Self::default()
        };
    }

    /// Returns fields of a name that is stored.
    pub(crate) fn fields(&self) -> [(&'static str, Option<String>); 5] {
        let hold = self.hold.as_ref();
        let attempts = hold.map(|hold| Vec::from_iter(hold.attempts.clone()).join(" "));
        let spent = self.spent.until().map(|_| self.spent.to_string());
        [
            ("t", self.last_token.map(|token| token.to_string())),
            ("o", hold.map(|hold| hold.owner.clone())),
            ("u", hold.map(|hold| format!("{:013}", hold.until))),
            ("h", attempts),
            ("v", spent),
        ]
    }
}

/// One name, and who waits for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Name {
    pub(super) name: &'static str,
    pub(super) fair: bool,
    pub(super) lock: Lock,
    /// Who waits for a plain lock, until when.
    pub(super) waiters: BTreeMap<String, u64>,
    /// Who waits for a fair one.
    pub(super) queue: Queue,
    /// What is published.
    pub(super) messages: Vec<(String, String)>,
}

impl Name {
    /// Returns the answer to an attempt that may not have this name, number `i` of its names.
    pub(super) fn look(&mut self, time: ServerTime, i: usize, ask: &Ask) -> Option<Vec<String>> {
        let now = time.millis();
        let holds = self.lock.holds(now, &ask.owner, &ask.attempt);
        let known = holds || self.queue.has(&ask.address);
        if self.lock.spent.refuses(&ask.attempt, now) && !known {
            return Some(text(&["void"]));
        }
        let busy = match self.lock.live(now).cloned() {
            Some(hold) if hold.owner != ask.owner => self.wait_for(time, ask, &hold),
            None if self.queue.flag > Some(now) => self.wait_behind(time, ask)?,
            _ => return None,
        };
        if ask.address.is_empty() {
            self.lock.spent.record(&ask.attempt, ask.by, now);
        }
        Some([text(&["busy", &i.to_string()]), busy].concat())
    }

    /// Grants what `look` has found free. Tells whether the attempt had a place.
    pub(super) fn take(&mut self, time: ServerTime, ask: &Ask) -> (Granted, bool) {
        let now = time.millis();
        let placed = match self.lock.live(now) {
            Some(hold) => hold.unconfirmed,
            None => self.queue.flag > Some(now) && self.queue.head(now).is_some(),
        };
        if placed && self.lock.live(now).is_some() {
            self.queue.touch(now, ask);
        }
        self.leave(&ask.address);
        let limits = (ask.by, ask.lease);
        let granted = self.lock.grant(time, &ask.owner, &ask.attempt, limits);
        (granted, placed)
    }

    /// Ends what an attempt has. Returns what the answer says of this name.
    pub(super) fn release(
        &mut self,
        time: ServerTime,
        ask: &Ask,
        void: Option<u64>,
        address: &str,
        token: u64,
    ) -> Vec<String> {
        let now = time.millis();
        let lock = &mut self.lock;
        let (verdict, left) = lock.release(now, &ask.owner, &ask.attempt, void, token);
        let share = (ask.attempt.clone(), token);
        match verdict {
            "already" => assert!(lock.in_time.contains(&share), "it was not in time"),
            "revoked" if token != 0 => assert!(lock.ever_forced.contains(&token)),
            _ => {}
        }
        let live = lock.live(now).is_some();
        match address.strip_prefix('+') {
            None => self.leave(address),
            Some(next) if verdict == "released" && !live => self.leave(next),
            Some(_) => {}
        }
        let mut items = text(&[verdict, &left.to_string()]);
        if !live {
            items.extend(self.wake(time, Some(&ask.owner)));
        } else if verdict != "released"
            && let Some(attempt) = self.unheard(now, &ask.owner)
        {
            items.extend(["holds".to_owned(), attempt.clone()]);
        }
        items
    }

    pub(super) fn force(&mut self, time: ServerTime, token: u64, how: &str) -> Vec<String> {
        let verdict = self.lock.force(time.millis(), token, how);
        let mut items = text(&[verdict]);
        if (verdict, how) == ("done", "now") {
            items.extend(self.wake(time, None));
        }
        items
    }

    /// The key is gone.
    pub(super) fn forget(&mut self) {
        self.lock.forget();
        self.waiters.clear();
        (self.queue.flag, self.queue.called) = (None, None);
    }

    fn leave(&mut self, address: &str) {
        self.waiters.remove(address);
        self.queue.leave(address);
    }

    /// Registers a waiter for what another holds. Returns what follows `busy <i>`.
    fn wait_for(&mut self, time: ServerTime, ask: &Ask, hold: &Hold) -> Vec<String> {
        let now = time.millis();
        if !self.fair {
            if let Some(span) = ask.register {
                self.waiters.insert(ask.address.clone(), now + span);
            }
            return text(&[&(hold.until - now).to_string(), &hold.owner]);
        }
        self.queue.touch(now, ask);
        let entered = self.queue.enter(time.micros(), ask);
        let own = client(&ask.address);
        let look = match self.queue.head(now) {
            Some((head, alive)) if !own.is_empty() && client(&head) != own => {
                let before = self.queue.before(now, own, alive);
                before.map(|before| before.max(hold.until) - now)
            }
            _ => Some(hold.until - now),
        };
        // A waiter that has just come hears nothing of it.
        let unheard = self.unheard(now, &ask.owner).filter(|_| entered == "0");
        let unheard = unheard.map_or("", |attempt| attempt.split_once(':').unwrap().1);
        let last = optional(self.lock.last_token);
        text(&[&optional(look), &hold.owner, unheard, entered, &last])
    }

    /// As `wait_for`, of a free name. Returns nothing if it is nobody else's turn.
    fn wait_behind(&mut self, time: ServerTime, ask: &Ask) -> Option<Vec<String>> {
        let now = time.millis();
        self.queue.touch(now, ask);
        let (head, mut alive) = self.queue.head(now)?;
        if head == ask.address {
            return None;
        }
        let entered = self.queue.enter(time.micros(), ask);
        if !self.queue.is_called(&head) {
            alive = alive.min(now + GRACE);
            self.call(now, &head);
        }
        let (own, mut ring) = (client(&ask.address), "");
        let mut look = Some(alive);
        if client(&head) == own {
            ring = number(&head);
        } else if !own.is_empty() {
            look = self.queue.before(now, own, alive);
        }
        let look = optional(look.map(|look| look - now));
        let last = optional(self.lock.last_token);
        Some(text(&[&look, "", ring, entered, &last]))
    }

    /// Goes on when nobody holds the name: wakes somebody who waits for a plain lock. The first in
    /// order who is alive has a fair one if it has ordered that, and else is called. The client of
    /// `asker` hears of a grant from the reply. Returns what the reply says of it.
    fn wake(&mut self, time: ServerTime, asker: Option<&str>) -> Vec<String> {
        let now = time.millis();
        if !self.fair {
            return self.wake_any(now);
        }
        if self.queue.flag.is_none() {
            return Vec::new();
        }
        let Some((head, _)) = self.queue.head(now) else {
            self.queue = Queue::default();
            return Vec::new();
        };
        if self.queue.is_called(&head) {
            return Vec::new();
        }
        let Some((attempt, grant)) = self.lock.give(time, &head) else {
            self.call(now, &head);
            return Vec::new();
        };
        self.queue.called = None;
        self.leave(&head);
        let (of, n) = attempt.split_once(':').unwrap();
        if asker.map(client_of) != Some(of) {
            let message = format!("{} {n} {grant}", key(self.name));
            self.messages.push((client(&head).to_owned(), message));
        }
        vec!["granted".to_owned(), attempt, grant]
    }

    fn wake_any(&mut self, now: u64) -> Vec<String> {
        self.waiters.retain(|_, until| *until > now);
        let waiters = self.waiters.iter();
        let Some((first, _)) = waiters.min_by_key(|(who, until)| (**until, *who)) else {
            return Vec::new();
        };
        let (first, channel) = (first.clone(), client(first).to_owned());
        self.waiters.remove(&first);
        self.messages.push((channel.clone(), key(self.name)));
        vec![channel, self.waiters.len().to_string()]
    }

    fn call(&mut self, now: u64, head: &str) {
        self.queue.called = Some((now + GRACE, head.to_owned()));
        if !head.starts_with("NONE") {
            let message = format!("{} {}", key(self.name), number(head));
            self.messages.push((client(head).to_owned(), message));
        }
    }

    /// Returns the attempt that holds without knowing, if it is of `asker`'s client.
    fn unheard(&self, now: u64, asker: &str) -> Option<&String> {
        let attempt = self.lock.unheard(now);
        attempt.filter(|attempt| client_of(attempt) == client_of(asker))
    }
}
