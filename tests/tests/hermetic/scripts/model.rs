//! What one plain lock is, written down once more, with a memory of everything that ever happened
//! to it.

use std::collections::{BTreeMap, BTreeSet};

use super::{bed::optional, driver::REACH, spent::Spent};

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

/// One name.
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
    /// Who waits, until when.
    pub(crate) waiters: BTreeMap<String, u64>,
    /// Attempt and token of every hold's share that was given back in time.
    pub(crate) in_time: BTreeSet<(String, u64)>,
    /// Every token that was ever forced.
    pub(crate) ever_forced: BTreeSet<u64>,
}

/// The longest lease of a hold that nobody has confirmed, in ms.
const UNCONFIRMED: u64 = 5_000;

/// An end that every clock has passed.
const OVER: u64 = 0;

/// What a try to acquire would find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Void,
    Busy { remaining: u64, holder: String },
    Free,
}

impl Lock {
    pub(crate) fn live(&self, now: u64) -> Option<&Hold> {
        self.hold.as_ref().filter(|hold| hold.until > now)
    }

    /// Tells whether an attempt has a share in the living hold.
    pub(crate) fn holds(&self, now: u64, owner: &str, attempt: &str) -> bool {
        let own = self.live(now).filter(|hold| hold.owner == owner);
        own.is_some_and(|hold| hold.attempts.contains(attempt))
    }

    pub(crate) fn find(&self, now: u64, owner: &str, attempt: &str) -> Found {
        if self.spent.refuses(attempt, now) && !self.holds(now, owner, attempt) {
            return Found::Void;
        }
        match self.live(now) {
            Some(hold) if hold.owner != owner => Found::Busy {
                remaining: hold.until - now,
                holder: hold.owner.clone(),
            },
            _ => Found::Free,
        }
    }

    /// Grants. Copies may come until `limit`.
    pub(crate) fn grant(
        &mut self,
        now: u64,
        micros: u64,
        owner: &str,
        attempt: &str,
        (limit, lease): (u64, u64),
    ) -> Granted {
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
    pub(crate) fn give(&mut self, now: u64, micros: u64, member: &str) -> Option<(String, String)> {
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
        let granted = self.grant(now, micros, &owner, &attempt, (now + REACH, span));
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

    /// Who is woken when the name is not held; out of the list from then on.
    pub(crate) fn wake(&mut self, now: u64) -> Option<String> {
        self.waiters.retain(|_, until| *until > now);
        let (first, _) = self
            .waiters
            .iter()
            .min_by_key(|(who, until)| (**until, *who))?;
        let first = first.clone();
        self.waiters.remove(&first);
        Some(first)
    }

    /// The key is gone: only what cannot be forgotten stays.
    pub(crate) fn forget(&mut self) {
        *self = Self {
            in_time: std::mem::take(&mut self.in_time),
            ever_forced: std::mem::take(&mut self.ever_forced),
            ..Self::default()
        };
    }
}
