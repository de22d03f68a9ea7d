use super::*;
use crate::slot::millis;

const EVERY: Schedule = Schedule::Every {
    period: 1000,
    offset: 0,
};

fn rules(retries: u64) -> Rules {
    Rules {
        limit: retries + 1,
        pause: 0,
        catch_up: 0,
        at: None,
    }
}

fn record(outcome: JobOutcome, slot: Slot, ended: u64) -> Option<JobRecord> {
    Some(JobRecord {
        outcome,
        attempt: 1,
        ended: instant(ended),
        ..unknown(&slot, 1)
    })
}

fn at(now: u64) -> View {
    View {
        now,
        ..View::default()
    }
}

impl View {
    fn now(self, now: u64) -> Self {
        Self { now, ..self }
    }

    fn done(self, slot: u64, ended: u64) -> Self {
        let success = record(JobOutcome::Done, Slot::at(slot), ended);
        Self { success, ..self }
    }

    fn last(self, outcome: JobOutcome, slot: u64, ended: u64) -> Self {
        let last = record(outcome, Slot::at(slot), ended);
        Self { last, ..self }
    }

    /// Each of the slots was attempted once.
    fn open<const N: usize>(self, slots: [u64; N]) -> Self {
        let open = slots.map(|slot| (slot, 1)).to_vec();
        Self { open, ..self }
    }

    fn claimed(self, slot: u64, ends: u64) -> Self {
        let claim = Some(Claim {
            ends,
            holder: JobHolder {
                slot: Slot::at(slot),
                attempt: 1,
                token: Token::from_u64(7),
                began: instant(slot),
                remaining: Duration::ZERO,
                host: "h".to_owned(),
                pid: 1,
                owner: "a:1".to_owned(),
            },
        });
        Self { claim, ..self }
    }
}

/// Describes a decision in one line.
fn told(decision: &Decision) -> String {
    let maybe = |time: &Option<u64>| time.map_or_else(|| "-".to_owned(), |time| time.to_string());
    let slot = |slot: &Slot| match slot {
        Slot::Time(instant) => millis(*instant).to_string(),
        Slot::Key(key) => key.clone(),
    };
    match decision {
        Continue(intent) => format!(
            "claim {} in {}..{}",
            slot(&intent.slot),
            maybe(&intent.from),
            maybe(&intent.before)
        ),
        Break(Done(record, next)) => {
            format!("done {} next {}", slot(&record.slot), maybe(next))
        }
        Break(Exhausted(record, next)) => format!(
            "exhausted {} {} next {}",
            slot(&record.slot),
            record.outcome,
            maybe(next)
        ),
        Break(UnderWay(holder)) => format!("under way {}", slot(&holder.slot)),
        Break(Pause(due)) => format!("pause {due}"),
        Break(NotYet(first)) => format!("not yet {}", maybe(first)),
        Break(Ahead(now)) => format!("ahead of {now}"),
    }
}

#[track_caller]
fn check(schedule: &Schedule, rules: &Rules, view: &View, expected: &str) {
    assert_eq!(told(&decide(schedule, rules, view)), expected, "{view:?}");
}

#[test]
fn open_slot_of_time_is_claimed_while_it_is_the_present_one() {
    check(&EVERY, &rules(0), &at(5400), "claim 5000 in 5000..6000");
    let view = at(5000).done(4000, 4100);
    check(&EVERY, &rules(0), &view, "claim 5000 in 5000..6000");
}

#[test]
fn slot_up_to_the_last_success_is_done() {
    let view = at(5400).done(5000, 5100);
    let asked = |at| Rules {
        at: Some(at),
        ..rules(0)
    };
    check(&EVERY, &rules(0), &view, "done 5000 next 6000");
    check(&EVERY, &asked(3500), &view, "done 5000 next 6000");
    check(&EVERY, &asked(6001), &view, "claim 6000 in -..-");
    check(&EVERY, &asked(AHEAD + 6000), &view, "ahead of 5400");
    let view = at(5400).done(8000, 5100);
    check(&EVERY, &rules(0), &view, "done 8000 next 9000");
}

#[test]
fn change_of_the_period_neither_blocks_nor_repeats() {
    let day = Schedule::Every {
        period: 24_000,
        offset: 0,
    };
    let view = at(13_500).done(13_000, 13_100);
    check(&day, &rules(0), &view, "done 13000 next 24000");
    let view = view.now(24_000);
    check(&day, &rules(0), &view, "claim 24000 in 24000..48000");
    let view = at(25_200).done(24_000, 24_100);
    check(&EVERY, &rules(0), &view, "claim 25000 in 25000..26000");
}

#[test]
fn another_run_is_under_way_until_its_lease_ends() {
    let view = at(5400).claimed(4000, 5500).open([4000]);
    check(&EVERY, &rules(0), &view, "under way 4000");
    check(
        &EVERY,
        &rules(0),
        &view.now(5500),
        "claim 5000 in 5000..6000",
    );
    let view = at(5400).done(5000, 5300).claimed(6000, 9000);
    check(&EVERY, &rules(0), &view, "done 5000 next 6000");
}

#[test]
fn failed_slot_is_open_while_retries_remain() {
    let view = at(5400).last(JobOutcome::Failed, 5000, 5200).open([5000]);
    check(&EVERY, &rules(1), &view, "claim 5000 in 5000..6000");
    check(&EVERY, &rules(0), &view, "exhausted 5000 failed next 6000");
    let pausing = |pause| Rules { pause, ..rules(1) };
    check(&EVERY, &pausing(500), &view, "pause 5700");
    check(&EVERY, &pausing(5000), &view, "pause 6000");
    // The server's clock was set back since.
    let earlier = view.now(5100);
    check(&EVERY, &rules(1), &earlier, "claim 5000 in 5000..6000");
    let crashed = at(5400).claimed(5000, 5300).open([5000]);
    check(&EVERY, &rules(0), &crashed, "exhausted 5000 lost next 6000");
    let floor = Some(5000);
    let closed = View { floor, ..at(5400) };
    check(&EVERY, &rules(9), &closed, "exhausted 5000 lost next 6000");
}

#[test]
fn missed_slots_are_skipped_unless_caught_up_on() {
    let view = at(7400).done(2000, 2100);
    let catching = |catch_up| Rules {
        catch_up,
        ..rules(0)
    };
    check(&EVERY, &catching(0), &view, "claim 7000 in 7000..8000");
    check(&EVERY, &catching(2), &view, "claim 5000 in 5000..8000");
    check(&EVERY, &catching(64), &view, "claim 3000 in 3000..8000");
    let view = view.open([3000, 4000]);
    check(&EVERY, &catching(64), &view, "claim 5000 in 5000..8000");
    check(&EVERY, &catching(64), &at(7400), "claim 7000 in 7000..8000");
}

#[test]
fn no_slot_has_begun_before_the_offset() {
    let late = Schedule::Every {
        period: 1000,
        offset: 900,
    };
    check(&late, &rules(0), &at(500), "not yet 900");
}

#[test]
fn gap_counts_from_the_end_of_a_slot() {
    let gap = Schedule::Gap(1000);
    check(&gap, &rules(0), &at(5400), "claim 5400 in -..-");
    // A slot of time that was ahead of the server's time.
    let view = at(6300).done(9000, 5300);
    check(&gap, &rules(0), &view, "claim 9001 in -..-");
    let view = at(6299).done(5000, 5300);
    check(&gap, &rules(0), &view, "done 5000 next 6300");
    let view = view.now(6300);
    check(&gap, &rules(0), &view, "claim 6300 in -..-");
    let view = view.now(9999).claimed(6300, 12_000);
    check(&gap, &rules(0), &view, "under way 6300");
    let failed = at(8100).done(5000, 5300).open([6300]);
    let failed = failed.last(JobOutcome::Overran, 6300, 8000);
    check(&gap, &rules(1), &failed, "claim 6300 in -..-");
    check(&gap, &rules(0), &failed, "exhausted 6300 overran next 9000");
    check(&gap, &rules(0), &failed.now(9000), "claim 9000 in -..-");
}

#[test]
fn keyed_slot_is_open_until_it_is_done() {
    let keyed = Schedule::Key("v42".to_owned());
    check(&keyed, &rules(0), &at(5400), "claim v42 in -..-");
    for (outcome, retries, free, busy) in [
        (JobOutcome::Done, 5, "done v42 next -", "done v42 next -"),
        (
            JobOutcome::Failed,
            0,
            "exhausted v42 failed next -",
            "under way 1",
        ),
        (JobOutcome::Failed, 1, "claim v42 in -..-", "under way 1"),
    ] {
        let view = View {
            keyed: record(outcome, Slot::Key("v42".to_owned()), 5000),
            ..at(5400)
        };
        check(&keyed, &rules(retries), &view, free);
        check(&keyed, &rules(retries), &view.claimed(1, 9000), busy);
    }
}

#[test]
fn state_that_was_seen_names_token_and_claim() {
    assert_eq!(at(1).seen(), " 0");
    let token = Some(Token::from_u64(7));
    let view = View { token, ..at(1) };
    assert_eq!(view.claimed(1, 0).seen(), "7 1");
}
