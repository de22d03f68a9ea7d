//! What a job is, without a server: it forgets nothing but what it is told to.

use std::collections::BTreeMap;

use super::{bed::text, spent::Spent};

/// The most slots of time that a job remembers as attempted.
pub(super) const OPEN: usize = 64;

/// A run, as a record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) outcome: &'static str,
    pub(super) attempts: u32,
    pub(super) token: u64,
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) who: String,
    pub(super) slot: String,
}

/// The claim.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) owner: String,
    pub(super) attempt: String,
    pub(super) until: u64,
    pub(super) run: Run,
}

/// A request for a claim.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) owner: String,
    pub(super) attempt: String,
    pub(super) lease: u64,
    pub(super) slot: String,
    pub(super) seen: String,
    pub(super) from: Option<u64>,
    pub(super) before: Option<u64>,
    pub(super) limit: u32,
    pub(super) who: String,
    pub(super) keep: u64,
}

/// One job.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    pub(super) token: Option<u64>,
    pub(super) hold: Option<Hold>,
    pub(super) last: Option<Run>,
    pub(super) why: String,
    pub(super) success: Option<Run>,
    pub(super) open: BTreeMap<u64, u32>,
    pub(super) floor: Option<u64>,
    /// The token of the last claim whose end is on record, and its outcome.
    pub(super) recorded: Option<(u64, &'static str)>,
    pub(super) reset: String,
    /// The last run of each keyed slot, and until when it is remembered.
    pub(super) keyed: BTreeMap<String, (Run, u64)>,
    pub(super) spent: Spent,
    /// Every recorded success since the slots were last forgotten.
    successes: BTreeMap<String, u64>,
}

impl Job {
    /// The server has lost everything, as it may once the key's time is up.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(super) fn seen(&self) -> String {
        let token = self.token.map(|token| token.to_string());
        let claim = u8::from(self.hold.is_some());
        format!("{} {claim}", token.unwrap_or_default())
    }

    fn attempts(&self, now: u64, slot: &str) -> Option<u32> {
        if slot.starts_with('=') {
            return match self.keyed.get(slot).filter(|(_, ends)| *ends > now) {
                Some((run, _)) if run.outcome == "done" => None,
                Some((run, _)) => Some(run.attempts),
                None => Some(0),
            };
        }
        let number: u64 = slot.parse().unwrap();
        let done = self.success.as_ref().map(|run| run.slot.parse().unwrap());
        if done.is_some_and(|done: u64| done >= number)
            || self.floor.is_some_and(|floor| floor >= number)
        {
            return None;
        }
        Some(self.open.get(&number).copied().unwrap_or(0))
    }

    fn after_loss(&self) -> String {
        let lost = self.last.as_ref().is_some_and(|run| run.outcome == "lost");
        u8::from(lost).to_string()
    }

    /// Returns the reply to a claim, without the time.
    pub(super) fn claim(&mut self, now: u64, micros: u64, by: u64, claim: &Claim) -> Vec<String> {
        if now > by {
            return text(&["late"]);
        }
        if let Some(hold) = self.hold.as_ref().filter(|hold| hold.until > now) {
            if hold.attempt != claim.attempt {
                let rest = (hold.until - now).to_string();
                return text(&["busy", &rest, &hold.owner]);
            }
            let (n, token) = (hold.run.attempts.to_string(), hold.run.token.to_string());
            return text(&["granted", &n, &token, &self.after_loss()]);
        }
        if self.spent.refuses(&claim.attempt, now) {
            return text(&["void"]);
        }
        let in_time = claim.from.is_none_or(|from| from <= now)
            && claim.before.is_none_or(|before| now < before);
        let Some(attempts) = self.attempts(now, &claim.slot) else {
            return text(&["moved"]);
        };
        if claim.seen != self.seen() || !in_time || attempts >= claim.limit {
            return text(&["moved"]);
        }
        if let Some(hold) = self.hold.take() {
            self.last = Some(Run {
                outcome: "lost",
                ended: hold.until,
                ..hold.run
            });
            self.why.clear();
        }
        let token = self.token.map_or(micros, |last| micros.max(last + 1));
        self.token = Some(token);
        let run = Run {
            outcome: "run",
            attempts: attempts + 1,
            token,
            began: now,
            ended: 0,
            who: claim.who.clone(),
            slot: claim.slot.clone(),
        };
        self.count(&run, now + claim.lease + claim.keep);
        self.hold = Some(Hold {
            owner: claim.owner.clone(),
            attempt: claim.attempt.clone(),
            until: now + claim.lease,
            run,
        });
        let (n, token) = ((attempts + 1).to_string(), token.to_string());
        text(&["granted", &n, &token, &self.after_loss()])
    }

    fn count(&mut self, run: &Run, ends: u64) {
        if run.slot.starts_with('=') {
            self.keyed.insert(run.slot.clone(), (run.clone(), ends));
            return;
        }
        self.open.insert(run.slot.parse().unwrap(), run.attempts);
        if self.open.len() > OPEN {
            self.floor = self.open.pop_first().map(|(slot, _)| slot);
        }
    }

    /// Returns the verdict on a renewal. A keyed slot is remembered from the end of its run.
    pub(super) fn renew(
        &mut self,
        now: u64,
        owner: &str,
        lease: u64,
        token: u64,
        keep: u64,
    ) -> &'static str {
        if self.token.is_some_and(|last| last > token) {
            return "taken";
        }
        match &mut self.hold {
            Some(hold) if hold.owner == owner && hold.run.token == token => {
                if hold.until <= now {
                    return "expired";
                }
                hold.until = hold.until.max(now + lease);
                if let Some((_, ends)) = self.keyed.get_mut(&hold.run.slot) {
                    *ends = hold.until + keep;
                }
                "renewed"
            }
            _ => "gone",
        }
    }

    /// Returns the verdict on the end of an attempt. `outcome` is empty for a run that never began.
    #[expect(clippy::too_many_arguments, reason = "as many as the script has")]
    pub(super) fn release(
        &mut self,
        now: u64,
        owner: &str,
        attempt: &str,
        void: Option<u64>,
        token: Option<u64>,
        outcome: &'static str,
        why: &str,
        keep: u64,
    ) -> &'static str {
        let is_it = |hold: &mut Hold| hold.owner == owner && hold.attempt == attempt;
        let verdict = if let Some(hold) = self.hold.take_if(is_it) {
            self.end(now, &hold, outcome, why, keep);
            if hold.until > now {
                "released"
            } else {
                "expired"
            }
        } else if token.is_some_and(|token| self.recorded == Some((token, outcome))) {
            "already"
        } else if token.is_some() && token < self.token {
            "taken"
        } else {
            "gone"
        };
        if let Some(void) = void.filter(|&void| void >= now) {
            self.spent.record(attempt, void, now);
        }
        verdict
    }

    fn end(&mut self, now: u64, hold: &Hold, outcome: &'static str, why: &str, keep: u64) {
        let keyed = hold.run.slot.starts_with('=');
        let run = Run {
            outcome,
            ended: now,
            ..hold.run.clone()
        };
        if outcome.is_empty() {
            let attempts = run.attempts - 1;
            match (keyed, attempts) {
                (true, 0) => drop(self.keyed.remove(&run.slot)),
                (true, _) => {
                    let run = Run {
                        outcome: "lost",
                        attempts,
                        ..run
                    };
                    self.keyed.insert(run.slot.clone(), (run, now + keep));
                }
                (false, 0) => drop(self.open.remove(&run.slot.parse().unwrap())),
                (false, _) => drop(self.open.insert(run.slot.parse().unwrap(), attempts)),
            }
            return;
        }
        if outcome == "done" {
            let before = self.successes.insert(run.slot.clone(), run.token);
            assert_eq!(before, None, "two successes of {}", run.slot);
        }
        self.last = Some(run.clone());
        self.why = why.to_owned();
        self.recorded = Some((run.token, outcome));
        if keyed {
            self.keyed.insert(run.slot.clone(), (run, now + keep));
        } else if outcome == "done" {
            let slot: u64 = run.slot.parse().unwrap();
            self.open.retain(|&open, _| open > slot);
            self.success = Some(run);
        }
    }

    /// Forgets keyed slots whose time is up.
    pub(super) fn pass(&mut self, now: u64) {
        let over = |(_, ends): &(Run, u64)| *ends <= now;
        let gone = self.keyed.iter().filter(|(_, known)| over(known));
        for slot in gone.map(|(slot, _)| slot.clone()).collect::<Vec<_>>() {
            self.keyed.remove(&slot);
            self.successes.remove(&slot);
        }
    }

    /// Returns the reply to a reset, without the time.
    pub(super) fn reset(
        &mut self,
        now: u64,
        by: u64,
        op: &str,
        seen: &str,
        z: &str,
    ) -> &'static str {
        if now > by {
            "late"
        } else if self.token.is_none() {
            "unset"
        } else if self.reset != z {
            "reset"
        } else if self.seen() != seen {
            "moved"
        } else {
            self.last = None;
            self.why.clear();
            self.success = None;
            self.open.clear();
            self.floor = None;
            self.keyed.clear();
            self.successes.clear();
            op.clone_into(&mut self.reset);
            "reset"
        }
    }
}

/// Returns a record as the server stores it.
pub(super) fn stored(run: &Run) -> String {
    let Run {
        outcome,
        attempts,
        token,
        began,
        ended,
        who,
        slot,
    } = run;
    format!("{outcome} {attempts} {token} {began} {ended} {who} {slot}")
}
