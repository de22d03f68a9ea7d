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

fn record(outcome: JobOutcome, slot: Slot, ended: u64) -> JobRecord {
    JobRecord {
        outcome,
        attempt: 1,
        ended: instant(ended),
        ..unknown(&slot, 1)
    }
}

fn done(slot: u64, ended: u64) -> Option<JobRecord> {
    Some(record(JobOutcome::Done, Slot::at(slot), ended))
}

fn claim(slot: u64, ends: u64) -> Option<Claim> {
    Some(Claim {
        ends,
        owner: "a:1".to_owned(),
        attempt: 1,
        token: Token::from_u64(7),
        began: slot,
        host: "h".to_owned(),
        pid: 1,
        slot: Slot::at(slot),
    })
}

/// Describes a decision in one line.
fn told(decision: &Decision) -> String {
    let maybe = |time: &Option<u64>| time.map_or_else(|| "-".to_owned(), |time| time.to_string());
    let slot = |slot: &Slot| match slot {
        Slot::Time(instant) => millis(*instant).to_string(),
        Slot::Key(key) => key.clone(),
    };
    match decision {
        Decision::Claim(intent) => format!(
            "claim {} in {}..{}",
            slot(&intent.slot),
            maybe(&intent.from),
            maybe(&intent.before)
        ),
        Decision::Done(record, next) => format!("done {} next {}", slot(&record.slot), maybe(next)),
        Decision::Exhausted(record, next) => format!(
            "exhausted {} {} next {}",
            slot(&record.slot),
            record.outcome,
            maybe(next)
        ),
        Decision::UnderWay(holder) => format!("under way {}", slot(&holder.slot)),
        Decision::Pause(due) => format!("pause {due}"),
        Decision::NotYet(first) => format!("not yet {}", maybe(first)),
        Decision::Ahead(now) => format!("ahead of {now}"),
    }
}

#[track_caller]
fn check(schedule: &Schedule, rules: &Rules, view: &View, expected: &str) {
    assert_eq!(told(&decide(schedule, rules, view)), expected, "{view:?}");
}

fn at(now: u64) -> View {
    View {
        now,
        ..View::default()
    }
}

#[test]
fn open_slot_of_time_is_claimed_while_it_is_the_present_one() {
    check(&EVERY, &rules(0), &at(5400), "claim 5000 in 5000..6000");
    let success = done(4000, 4100);
    let view = View {
        success,
        ..at(5000)
    };
    check(&EVERY, &rules(0), &view, "claim 5000 in 5000..6000");
}

#[test]
fn slot_up_to_the_last_success_is_done() {
    let success = done(5000, 5100);
    let view = View {
        success,
        ..at(5400)
    };
    check(&EVERY, &rules(0), &view, "done 5000 next 6000");
    let asked = |at| Rules {
        at: Some(at),
        ..rules(0)
    };
    check(&EVERY, &asked(3500), &view, "done 5000 next 6000");
    check(&EVERY, &asked(6001), &view, "claim 6000 in -..-");
    let ahead = AHEAD + 6000;
    check(&EVERY, &asked(ahead), &view, "ahead of 5400");
    let success = done(8000, 5100);
    let view = View {
        success,
        ..at(5400)
    };
    check(&EVERY, &rules(0), &view, "done 8000 next 9000");
}

#[test]
fn change_of_the_period_neither_blocks_nor_repeats() {
    let day = Schedule::Every {
        period: 24_000,
        offset: 0,
    };
    let success = done(13_000, 13_100);
    let view = View {
        success,
        ..at(13_500)
    };
    check(&day, &rules(0), &view, "done 13000 next 24000");
    check(
        &day,
        &rules(0),
        &View {
            now: 24_000,
            ..view
        },
        "claim 24000 in 24000..48000",
    );
    let success = done(24_000, 24_100);
    let view = View {
        success,
        ..at(25_200)
    };
    check(&EVERY, &rules(0), &view, "claim 25000 in 25000..26000");
}

#[test]
fn another_run_is_under_way_until_its_lease_ends() {
    let view = View {
        claim: claim(4000, 5500),
        open: vec![(4000, 1)],
        ..at(5400)
    };
    check(&EVERY, &rules(0), &view, "under way 4000");
    let view = View { now: 5500, ..view };
    check(&EVERY, &rules(0), &view, "claim 5000 in 5000..6000");
    let success = done(5000, 5300);
    let view = View {
        success,
        claim: claim(6000, 9000),
        ..at(5400)
    };
    check(&EVERY, &rules(0), &view, "done 5000 next 6000");
}

#[test]
fn failed_slot_is_open_while_retries_remain() {
    let last = Some(record(JobOutcome::Failed, Slot::at(5000), 5200));
    let view = View {
        last,
        open: vec![(5000, 1)],
        ..at(5400)
    };
    check(&EVERY, &rules(1), &view, "claim 5000 in 5000..6000");
    check(&EVERY, &rules(0), &view, "exhausted 5000 failed next 6000");
    let waiting = Rules {
        pause: 500,
        ..rules(1)
    };
    check(&EVERY, &waiting, &view, "pause 5700");
    let waiting = Rules {
        pause: 5000,
        ..rules(1)
    };
    check(&EVERY, &waiting, &view, "pause 6000");
    let crashed = View {
        claim: claim(5000, 5300),
        open: vec![(5000, 1)],
        ..at(5400)
    };
    check(&EVERY, &rules(0), &crashed, "exhausted 5000 lost next 6000");
    let closed = View {
        floor: Some(5000),
        ..at(5400)
    };
    check(&EVERY, &rules(9), &closed, "exhausted 5000 lost next 6000");
}

#[test]
fn missed_slots_are_skipped_unless_caught_up_on() {
    let success = done(2000, 2100);
    let view = View {
        success,
        ..at(7400)
    };
    let catching = |catch_up| Rules {
        catch_up,
        ..rules(0)
    };
    check(&EVERY, &catching(0), &view, "claim 7000 in 7000..8000");
    check(&EVERY, &catching(2), &view, "claim 5000 in 5000..8000");
    check(&EVERY, &catching(64), &view, "claim 3000 in 3000..8000");
    let open = vec![(3000, 1), (4000, 1)];
    let view = View { open, ..view };
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
    let success = done(9000, 5300);
    let view = View {
        success,
        ..at(6300)
    };
    check(&gap, &rules(0), &view, "claim 9001 in -..-");
    let success = done(5000, 5300);
    let view = View {
        success,
        ..at(6299)
    };
    check(&gap, &rules(0), &view, "done 5000 next 6300");
    let view = View { now: 6300, ..view };
    check(&gap, &rules(0), &view, "claim 6300 in -..-");
    let view = View {
        now: 9999,
        claim: claim(6300, 12_000),
        ..view
    };
    check(&gap, &rules(0), &view, "under way 6300");
    let failed = View {
        last: Some(record(JobOutcome::Overran, Slot::at(6300), 8000)),
        success: done(5000, 5300),
        open: vec![(6300, 1)],
        ..at(8100)
    };
    check(&gap, &rules(1), &failed, "claim 6300 in -..-");
    check(&gap, &rules(0), &failed, "exhausted 6300 overran next 9000");
    check(
        &gap,
        &rules(0),
        &View {
            now: 9000,
            ..failed
        },
        "claim 9000 in -..-",
    );
}

#[test]
fn keyed_slot_is_open_until_it_is_done() {
    let keyed = Schedule::Key("v42".to_owned());
    let of = |outcome| Some(record(outcome, Slot::Key("v42".to_owned()), 5000));
    check(&keyed, &rules(0), &at(5400), "claim v42 in -..-");
    for (outcome, retries, expected) in [
        (JobOutcome::Done, 5, "done v42 next -"),
        (JobOutcome::Failed, 0, "exhausted v42 failed next -"),
        (JobOutcome::Failed, 1, "claim v42 in -..-"),
    ] {
        let view = View {
            keyed: of(outcome),
            ..at(5400)
        };
        check(&keyed, &rules(retries), &view, expected);
        let busy = View {
            claim: claim(1, 9000),
            ..view
        };
        let expected = if outcome == JobOutcome::Done {
            expected
        } else {
            "under way 1"
        };
        check(&keyed, &rules(retries), &busy, expected);
    }
}

#[test]
fn state_that_was_seen_names_token_and_claim() {
    assert_eq!(at(1).seen(), " 0");
    let view = View {
        token: Some(Token::from_u64(7)),
        claim: claim(1, 0),
        ..at(1)
    };
    assert_eq!(view.seen(), "7 1");
}
