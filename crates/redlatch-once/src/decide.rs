//! Decides the next step for a job from the server's records. Pure: all times are arguments, in ms
//! of the server's clock.

use std::{
    iter,
    ops::ControlFlow::{self, Break, Continue},
    time::Duration,
};

use redlatch_core::Token;

use self::Standing::{Ahead, Done, Exhausted, NotYet, Pause, UnderWay};
use crate::{JobHolder, JobOutcome, JobRecord, Slot, schedule::Schedule, slot::instant};

/// How far ahead of the server's time a slot may be that a caller names.
pub(crate) const AHEAD: u64 = 60 * 60 * 1000;

/// A job as the server knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) now: u64,
    /// The token of the last claim.
    pub(crate) token: Option<Token>,
    /// The id of the last reset.
    pub(crate) reset: String,
    /// The last run that has ended.
    pub(crate) last: Option<JobRecord>,
    /// The last success in a slot of time.
    pub(crate) success: Option<JobRecord>,
    /// The slots of time after it that were attempted, with the number of attempts.
    pub(crate) open: Vec<(u64, u32)>,
    /// Slots of time up to this one are closed.
    pub(crate) floor: Option<u64>,
    /// The claim, which may be over.
    pub(crate) claim: Option<Claim>,
    /// The last run of the keyed slot.
    pub(crate) keyed: Option<JobRecord>,
}

/// A claim as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) ends: u64,
    /// Its holder, whose remaining time is that of [`View::holder`].
    pub(crate) holder: JobHolder,
}

/// The options of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The attempts that a slot may have.
    pub(crate) limit: u64,
    /// The ms after a failed attempt at a slot before the next; zero for a caller that does not
    /// wait.
    pub(crate) pause: u64,
    /// The number of missed slots to catch up on.
    pub(crate) catch_up: u32,
    /// The instant whose slot is meant, if it is not the present.
    pub(crate) at: Option<u64>,
}

/// A claim to make, or why there is none.
pub(crate) type Decision = ControlFlow<Standing, Intent>;

/// Why there is nothing to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The slot, or a later one, is done. The next begins at this time.
    Done(JobRecord, Option<u64>),
    /// The slot has had its attempts. The next begins at this time.
    Exhausted(JobRecord, Option<u64>),
    /// Another run is under way.
    UnderWay(JobHolder),
    /// The slot may be attempted again at this time.
    Pause(u64),
    /// No slot has begun yet. The first begins at this time.
    NotYet(Option<u64>),
    /// The slot is too far ahead of the server's time, which is this.
    Ahead(u64),
}

/// A claim to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    pub(crate) slot: Slot,
    /// The state on which this was decided.
    pub(crate) seen: String,
    /// The slot has not begun before this time.
    pub(crate) from: Option<u64>,
    /// Another slot is the present one from this time on.
    pub(crate) before: Option<u64>,
}

/// Decides.
pub(crate) fn decide(schedule: &Schedule, rules: &Rules, view: &View) -> Decision {
    match schedule {
        Schedule::Key(key) => keyed(key, rules, view),
        Schedule::Gap(gap) => after_gap(*gap, rules, view),
        _ => in_time(schedule, rules, view),
    }
}

fn keyed(key: &str, rules: &Rules, view: &View) -> Decision {
    let slot = Slot::Key(key.to_owned());
    let known = view.keyed.as_ref();
    if let Some(record) = known.filter(|known| known.outcome == JobOutcome::Done) {
        return Break(Done(record.clone(), None));
    }
    view.free()?;
    match known {
        Some(record) if u64::from(record.attempt) >= rules.limit => {
            let record = view.last_of(&slot).unwrap_or_else(|| record.clone());
            Break(Exhausted(record, None))
        }
        _ => Continue(view.intent(slot)),
    }
}

fn after_gap(gap: u64, rules: &Rules, view: &View) -> Decision {
    let success = view.success.as_ref();
    let done = view.last_done().unwrap_or(0);
    // Slots of time may be on record, too, some of them ahead of the server's time.
    let closed = done.max(view.floor.unwrap_or(0));
    let fresh = |due: u64| Continue(view.intent(Slot::at(due.max(closed + 1))));
    let open = view.open.iter().max_by_key(|(slot, _)| *slot);
    let Some(&(open, attempts)) = open.filter(|(slot, _)| *slot > done) else {
        let due = success.map_or(0, |record| record.ended_millis().saturating_add(gap));
        return match (success, view.holder()) {
            (Some(record), _) if view.now < due => Break(Done(record.clone(), Some(due))),
            (_, Some(holder)) => Break(UnderWay(holder)),
            (None, None) => fresh(view.now),
            (Some(_), None) => fresh(due),
        };
    };
    view.free()?;
    let slot = Slot::at(open);
    let last = view.last_of(&slot);
    if view.may_run(open, attempts, rules) {
        return match view.paused(last.as_ref(), rules) {
            Some(due) => Break(Pause(due)),
            None => Continue(view.intent(slot)),
        };
    }
    let last = last.unwrap_or_else(|| unknown(&slot, attempts));
    let due = last.ended_millis().saturating_add(gap);
    if view.now < due {
        Break(Exhausted(last, Some(due)))
    } else {
        fresh(due.max(open + 1))
    }
}

fn in_time(schedule: &Schedule, rules: &Rules, view: &View) -> Decision {
    let Some(present) = schedule.floor(rules.at.unwrap_or(view.now)) else {
        return Break(NotYet(schedule.next(view.now)));
    };
    if present > view.now.saturating_add(AHEAD) {
        return Break(Ahead(view.now));
    }
    for slot in missed(schedule, rules, view, present) {
        let attempts = view.attempts(slot);
        if !view.is_done(slot) && view.may_run(slot, attempts, rules) {
            return attempt(schedule, rules, view, slot, present);
        }
    }
    if let Some(record) = view.success.as_ref().filter(|_| view.is_done(present)) {
        let done = record.slot.millis().unwrap_or(present);
        return Break(Done(record.clone(), schedule.next(done.max(view.now))));
    }
    let attempts = view.attempts(present);
    if view.holder().is_none() && !view.may_run(present, attempts, rules) {
        let slot = Slot::at(present);
        let record = view.last_of(&slot).or_else(|| view.last.clone());
        let record = record.unwrap_or_else(|| unknown(&slot, attempts));
        return Break(Exhausted(record, schedule.next(present.max(view.now))));
    }
    attempt(schedule, rules, view, present, present)
}

/// Returns the missed slots before `present` that the caller wants to catch up on, oldest first.
/// A job that has never run has missed none.
fn missed(schedule: &Schedule, rules: &Rules, view: &View, present: u64) -> Vec<u64> {
    let oldest = view.open.iter().map(|(slot, _)| *slot).min();
    let Some(since) = view.last_done().map(|done| done + 1).or(oldest) else {
        return Vec::new();
    };
    let most = rules.at.map_or(rules.catch_up, |_| 0) as usize;
    let earlier = |slot: &u64| schedule.floor(slot.checked_sub(1)?);
    let slots = iter::successors(Some(present), earlier).skip(1);
    let missed = slots.take(most).take_while(|&slot| slot >= since);
    let mut missed: Vec<_> = missed.collect();
    missed.reverse();
    missed
}

/// Claims a slot that may run, unless another run or a pause is in the way.
fn attempt(schedule: &Schedule, rules: &Rules, view: &View, millis: u64, present: u64) -> Decision {
    view.free()?;
    let slot = Slot::at(millis);
    if let Some(due) = view.paused(view.last_of(&slot).as_ref(), rules) {
        // The next slot takes the place of this one.
        return match schedule.next(present) {
            Some(next) if millis == present && next < due => Break(Pause(next)),
            _ => Break(Pause(due)),
        };
    }
    let mut intent = view.intent(slot);
    if rules.at.is_none() {
        intent.from = Some(millis);
        intent.before = schedule.next(present);
    }
    Continue(intent)
}

/// Returns the record of a slot of which the server knows the number of attempts only.
fn unknown(slot: &Slot, attempts: u32) -> JobRecord {
    let at = slot.instant().unwrap_or_else(|| instant(0));
    JobRecord {
        slot: slot.clone(),
        outcome: JobOutcome::Lost,
        attempt: attempts,
        token: Token::from_u64(0),
        began: at,
        ended: at,
        host: String::new(),
        pid: 0,
        error: None,
    }
}

impl View {
    /// Returns what the server compares with its state before it claims.
    pub(crate) fn seen(&self) -> String {
        let token = self.token.map(|token| token.to_string());
        let claim = u8::from(self.claim.is_some());
        format!("{} {claim}", token.unwrap_or_default())
    }

    /// Returns the run that is under way.
    pub(crate) fn holder(&self) -> Option<JobHolder> {
        let claim = self.claim.as_ref().filter(|claim| claim.ends > self.now)?;
        Some(JobHolder {
            remaining: Duration::from_millis(claim.ends - self.now),
            ..claim.holder.clone()
        })
    }

    /// Breaks if a run is under way.
    fn free(&self) -> ControlFlow<Standing> {
        let holder = self.holder().map(UnderWay);
        holder.map_or(Continue(()), Break)
    }

    /// Returns the last run that is not under way: a claim that has run out, or a run on record.
    pub(crate) fn last_run(&self) -> Option<JobRecord> {
        match self.claim.as_ref().filter(|claim| claim.ends <= self.now) {
            Some(Claim { ends, holder }) => Some(JobRecord {
                began: holder.began,
                ended: instant(*ends),
                token: holder.token,
                host: holder.host.clone(),
                pid: holder.pid,
                ..unknown(&holder.slot, holder.attempt)
            }),
            None => self.last.clone(),
        }
    }

    fn last_of(&self, slot: &Slot) -> Option<JobRecord> {
        self.last_run().filter(|record| record.slot == *slot)
    }

    fn intent(&self, slot: Slot) -> Intent {
        Intent {
            slot,
            seen: self.seen(),
            from: None,
            before: None,
        }
    }

    /// Returns the last slot of time with a success.
    fn last_done(&self) -> Option<u64> {
        self.success.as_ref()?.slot.millis()
    }

    fn is_done(&self, slot: u64) -> bool {
        self.last_done().is_some_and(|done| done >= slot)
    }

    fn attempts(&self, slot: u64) -> u32 {
        let entry = self.open.iter().find(|(open, _)| *open == slot);
        entry.map_or(0, |(_, attempts)| *attempts)
    }

    fn may_run(&self, slot: u64, attempts: u32, rules: &Rules) -> bool {
        u64::from(attempts) < rules.limit && self.floor.is_none_or(|floor| slot > floor)
    }

    /// Returns the time at which a slot may be attempted again after this run of it, if that is to
    /// come. A lost run has cost its lease already. Without a pause, a run that has ended ahead of
    /// the server's time, as after a step back, is no obstacle.
    fn paused(&self, last: Option<&JobRecord>, rules: &Rules) -> Option<u64> {
        let failed = last.filter(|last| rules.pause > 0 && last.outcome != JobOutcome::Lost)?;
        let due = failed.ended_millis().saturating_add(rules.pause);
        Some(due).filter(|&due| due > self.now)
    }
}

#[cfg(test)]
mod tests;
