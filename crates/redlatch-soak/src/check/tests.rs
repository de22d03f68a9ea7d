use std::ops::Range;

use super::*;

fn hold(token: u64, from: u64, until: u64) -> Hold {
    Hold {
        id: token,
        owner: token,
        kind: "lock".to_owned(),
        name: "a".to_owned(),
        units: 1,
        limit: 1,
        token,
        asked: from - 1,
        from,
        until,
        deadline: until,
        gone: until + 1,
        ..Hold::default()
    }
}

impl Hold {
    fn asked(self, asked: u64) -> Self {
        Self { asked, ..self }
    }

    fn kind(self, kind: &str) -> Self {
        let kind = kind.to_owned();
        Self { kind, ..self }
    }

    fn name(self, name: &str) -> Self {
        let name = name.to_owned();
        Self { name, ..self }
    }

    /// Makes a hold of permits, which has no token.
    fn permits(self, units: u32, limit: u32) -> Self {
        Self {
            units,
            limit,
            token: 0,
            ..self
        }
    }
}

fn fault(kind: &str, names: &[&str], from: u64, until: u64) -> Fault {
    Fault {
        kind: kind.to_owned(),
        from,
        until,
        names: names.iter().map(|&name| name.to_owned()).collect(),
        takeover: None,
    }
}

/// Returns a fault that lasts from 0.1 s before another server may be active until long after the
/// old one is no longer active.
fn gap(began: u64, ended: u64) -> Record {
    gap_of("a", began, ended, 0..0)
}

/// Returns a gap of one name, in which the old server was dead for a while.
fn gap_of(name: &str, began: u64, ended: u64, dead: Range<u64>) -> Record {
    let (from, until) = (began.saturating_sub(100_000), ended + 9_000_000);
    let takeover = Some(Takeover {
        began,
        died: dead.start,
        back: dead.end,
        ended,
    });
    Record::Fault(Fault {
        takeover,
        ..fault("crash", &[name], from, until)
    })
}

/// A call that waits for 20 s.
fn wait(kind: &str, names: &[&str]) -> Record {
    Record::Attempt(Attempt {
        process: 0,
        kind: kind.to_owned(),
        names: names.iter().map(|&name| name.to_owned()).collect(),
        from: 1_000_000,
        until: 21_000_000,
        outcome: Outcome::Late,
    })
}

/// Returns the numbers of violations and of expected ones.
fn counts(records: Vec<Record>) -> (usize, usize) {
    let verdict = check(&records);
    (verdict.violations.len(), verdict.expected.len())
}

fn holds(holds: impl IntoIterator<Item = Hold>) -> Vec<Record> {
    holds.into_iter().map(Record::Hold).collect()
}

/// Returns the numbers for holds with a gap.
fn with_gap<const N: usize>(of: [Hold; N], gap: Record) -> (usize, usize) {
    counts([holds(of), vec![gap]].concat())
}

#[test]
fn two_holders_at_a_time_are_found_and_one_after_the_other_accepted() {
    for (from, violations) in [(20, 0), (19, 1)] {
        let two = holds([hold(1, 10, 20), hold(2, from, 30)]);
        assert_eq!(counts(two), (violations, 0), "the second from {from}");
    }
}

#[test]
fn two_servers_explain_two_holders_and_one_does_not() {
    let with = |fault| with_gap([hold(1, 10, 20), hold(2, 15, 30)], fault);
    assert_eq!(with(gap(12, 14)), (0, 1));
    assert_eq!(with(gap(5, 10)), (0, 1));
    assert_eq!(
        with(gap(5, 9)),
        (1, 0),
        "the old one answered before the first asked"
    );
    assert_eq!(
        with(gap(15, 40)),
        (1, 0),
        "both had it before another was in charge"
    );
    assert_eq!(with(gap_of("b", 12, 14, 0..0)), (1, 0));
    let remembering = fault("crash", &["a"], 0, 9_000_014);
    assert_eq!(with(Record::Fault(remembering)), (1, 0));
}

#[test]
fn two_holders_of_the_new_server_are_found() {
    let late = |token, from| hold(token, from, 9_000).asked(200);
    let two = [late(1, 210), late(2, 220)];
    assert_eq!(with_gap(two, gap(100, 150)), (1, 0));
    // It was requested while the old server was active, and answered long after that server's last
    // reply.
    let waited = |kind| hold(1, 5_000_000, 9_000_000).asked(120).kind(kind);
    for (kind, expected) in [("lock", (1, 0)), ("multi", (0, 1))] {
        let two = [waited(kind), hold(2, 6_000_000, 9_000_000)];
        assert_eq!(with_gap(two, gap(100, 150)), expected, "{kind}");
    }
}

#[test]
fn grants_while_a_server_was_dead_are_not_explained() {
    for (asked, from, expected, why) in [
        (9, 2_000_000, (0, 1), "granted before it died"),
        (
            10,
            4_000_000,
            (1, 0),
            "asked for and granted while it was dead",
        ),
        (9, 4_500_000, (1, 0), "granted long after it died"),
        (10, 5_000_001, (0, 1), "granted after it was back"),
        (8_000_000, 8_000_001, (1, 0), "asked for when it knew"),
    ] {
        let one = hold(1, from, 9_000_000).asked(asked).permits(1, 1);
        let other = hold(2, 4_000_000, 9_000_000).asked(3_000_000).permits(1, 1);
        let gap = gap_of("a", 5, 8_000_000, 10..5_000_000);
        assert_eq!(with_gap([one, other], gap), expected, "{why}");
    }
}

#[test]
fn two_servers_explain_no_three_holders() {
    let early = hold(1, 10, 20).asked(5);
    let three = [early, hold(2, 15, 30), hold(3, 16, 30)];
    // The first two, one from each server, are expected. The third exceeds the limit of either.
    assert_eq!(with_gap(three, gap(12, 14)), (1, 1));
    let [one, two, three] = [(1, 10), (2, 15), (3, 16)].map(|(id, from)| {
        let hold = hold(id, from, 30);
        hold.permits(2, 3)
    });
    let both = [one.clone(), two.clone()];
    assert_eq!(with_gap(both, gap(12, 14)), (0, 1));
    assert_eq!(with_gap([one, two, three], gap(12, 14)), (1, 1));
}

#[test]
fn two_holders_confirmed_by_all_replicas_are_found() {
    let durable = |hold: Hold| Hold {
        durable: true,
        ..hold
    };
    let two = [hold(1, 10, 20), hold(2, 15, 30)].map(durable);
    assert_eq!(with_gap(two, gap(12, 14)), (1, 0));
}

#[test]
fn a_takeover_explains_tokens_that_go_back_and_no_other_does() {
    let back = |gap| with_gap([hold(2, 10, 20), hold(1, 30, 40)], gap);
    assert_eq!(back(gap(25, 28)), (0, 1));
    assert_eq!(back(gap(5, 9)), (1, 0), "both are of the new one");
    assert_eq!(back(gap(31, 50)), (1, 0), "both are of the old one");
    // All replicas knew the token long before.
    assert_eq!(back(gap(3_000_000, 3_000_001)), (1, 0));
    let late = |token, from| hold(token, from, from + 1);
    for (from, expected) in [(10, (1, 0)), (2_000_000, (0, 1))] {
        let two = [late(2, from), late(1, 4_000_000)];
        let found = with_gap(two, gap(3_000_000, 3_000_001));
        assert_eq!(found, expected, "the greater from {from}");
    }
}

#[test]
fn tokens_that_go_back_are_found() {
    assert_eq!(counts(holds([hold(2, 10, 20), hold(1, 30, 40)])), (1, 0));
    // It was requested before the other was known.
    let early = hold(1, 30, 40).asked(9);
    assert_eq!(counts(holds([hold(2, 10, 20), early])), (0, 0));
}

#[test]
fn readers_share_and_writers_do_not() {
    let reader = |from, until| hold(1, from, until).permits(1, 1000);
    let writer = |token, from, until| Hold {
        units: 1000,
        limit: 1000,
        ..hold(token, from, until)
    };
    assert_eq!(counts(holds([reader(10, 20), reader(15, 25)])), (0, 0));
    assert_eq!(counts(holds([reader(10, 20), writer(1, 20, 30)])), (0, 0));
    assert_eq!(counts(holds([reader(10, 20), writer(1, 19, 30)])), (1, 0));
    assert_eq!(counts(holds([writer(1, 10, 20), reader(19, 30)])), (1, 0));
}

#[test]
fn permits_are_counted() {
    for (second, violations) in [(1, 0), (2, 1)] {
        let permits = [
            hold(1, 10, 20).permits(2, 3),
            hold(1, 11, 20).permits(second, 3),
        ];
        assert_eq!(counts(holds(permits)), (violations, 0), "{second}");
    }
}

#[test]
fn handoffs_are_measured_for_who_was_waiting() {
    let waiting = hold(2, 50, 60).asked(12);
    let verdict = check(&holds([hold(1, 10, 20), waiting]));
    assert_eq!(verdict.handoffs.len(), 1);
    assert_eq!(verdict.handoffs[0].took, Duration::from_micros(50 - 21));
    let verdict = check(&holds([hold(1, 10, 20), hold(2, 50, 60)]));
    assert_eq!(verdict.handoffs, []);
}

fn write(token: u64, at: u64) -> Write {
    Write {
        name: "a".to_owned(),
        token,
        asked: at - 6,
        read: at - 5,
        at,
        accepted: true,
        valid: true,
        lost: 0,
    }
}

#[test]
fn a_set_that_compares_tokens_loses_nothing_and_takes_none_that_is_lower() {
    let writes = |second: Write| {
        counts(vec![
            Record::Write(write(5, 10)),
            Record::Write(second),
            gap(1, 99),
        ])
    };
    assert_eq!(writes(write(6, 20)), (0, 0));
    assert_eq!(writes(write(4, 20)), (1, 0));
    let losing = Write {
        lost: 2,
        read: 9,
        ..write(6, 20)
    };
    assert_eq!(writes(losing), (1, 0));
}

#[test]
fn a_valid_holder_is_refused_if_another_server_gave_a_greater_token() {
    let refused = |valid, gap: Vec<Record>| {
        let refused = Write {
            accepted: false,
            valid,
            asked: 8,
            ..write(4, 20)
        };
        let writes = vec![Record::Write(write(5, 18)), Record::Write(refused)];
        counts([writes, gap].concat())
    };
    assert_eq!(refused(false, vec![]), (0, 0), "too late, and told");
    assert_eq!(refused(true, vec![]), (1, 0));
    assert_eq!(refused(true, vec![gap(12, 14)]), (0, 1));
    assert_eq!(refused(true, vec![gap(2, 5), gap(12, 14)]), (0, 1));
    assert_eq!(refused(true, vec![gap(2, 5)]), (1, 0));
    assert_eq!(refused(true, vec![gap(16, 30)]), (1, 0));
}

#[test]
fn a_set_without_tokens_loses_to_another_server_only() {
    let lost = |first: Write, gap: Vec<Record>| {
        let losing = Write {
            lost: 1,
            ..write(0, 20)
        };
        let writes = vec![Record::Write(first), Record::Write(losing)];
        counts([writes, gap].concat())
    };
    let other = || write(0, 17);
    assert_eq!(lost(other(), vec![]), (1, 0));
    assert_eq!(lost(other(), vec![gap(13, 14)]), (0, 1));
    assert_eq!(lost(other(), vec![gap(2, 5), gap(13, 14)]), (0, 1));
    assert_eq!(lost(other(), vec![gap(2, 5)]), (1, 0));
    assert_eq!(lost(other(), vec![gap(16, 30)]), (1, 0));
    let before = || write(0, 12);
    assert_eq!(lost(before(), vec![gap(13, 14)]), (1, 0), "it was read");
    let refused = Write {
        accepted: false,
        ..other()
    };
    assert_eq!(lost(refused, vec![gap(13, 14)]), (1, 0));
}

/// A latch of 3 that waiters passed when `begun` count-downs had begun, of which `counted` were
/// answered, and before which `stuck` others waited to the end.
fn round(begun: usize, counted: usize, stuck: usize) -> Round {
    let step = |from, until, outcome| Step {
        from,
        until,
        outcome,
    };
    let downs = (0..3).map(|at| {
        let from = if at < begun { 20 } else { 31 };
        let answered = if at < counted {
            Outcome::Ok
        } else {
            Outcome::Info
        };
        step(from, 40, answered)
    });
    let passed = vec![step(20, 30, Outcome::Ok); 2];
    Round {
        name: "a".to_owned(),
        from: 10,
        set: 20,
        until: 60,
        count: 3,
        downs: downs.collect(),
        waits: [passed, vec![step(20, 60, Outcome::Fail); stuck]].concat(),
    }
}

#[test]
fn latches_are_judged() {
    let judged = |round: Round| counts(vec![Record::Round(round)]);
    assert_eq!(judged(round(3, 3, 0)), (0, 0));
    assert_eq!(judged(round(2, 3, 0)), (1, 0));
    assert_eq!(judged(round(3, 3, 1)), (1, 0));
    assert_eq!(judged(round(3, 2, 1)), (0, 0), "it may be shut");
}

#[test]
fn a_takeover_explains_latches_that_were_forgotten_and_no_other_does() {
    let judged = |round: &Round, gap: Record| counts(vec![Record::Round(round.clone()), gap]);
    let early = round(2, 3, 0);
    assert_eq!(judged(&early, gap(15, 20)), (0, 1));
    assert_eq!(judged(&early, gap(5, 10)), (1, 0), "set on the new one");
    assert_eq!(judged(&early, gap(30, 50)), (1, 0), "opened on the old one");
    let stuck = round(3, 3, 1);
    assert_eq!(judged(&stuck, gap(50, 55)), (0, 1));
    assert_eq!(judged(&stuck, gap(5, 20)), (1, 0), "counted on the new one");
    assert_eq!(judged(&stuck, gap(60, 70)), (1, 0), "waited on the old one");
    let known = Round {
        until: 9_000_000,
        ..stuck
    };
    assert_eq!(judged(&known, gap(4_000_000, 5_000_000)), (1, 0));
}

#[test]
fn whoever_waits_without_trouble_was_forgotten() {
    let wait = wait("multi", &["a", "c"]);
    let trouble = |name: &str, from, until| Record::Fault(fault("stop", &[name], from, until));
    // A holder has the name nearly all the time. That alone is no excuse.
    let held = Record::Hold(hold(1, 4_000_000, 20_000_000));
    let waits = vec![wait, held];
    let with = |faults: Vec<Record>| counts([waits.clone(), faults].concat());
    assert_eq!(with(vec![]), (1, 0));
    assert_eq!(with(vec![trouble("b", 0, 9_000_000)]), (1, 0));
    assert_eq!(with(vec![trouble("a", 0, 1_900_000)]), (1, 0));
    let both = vec![
        trouble("a", 0, 1_500_000),
        trouble("a", 2_000_000, 2_500_000),
    ];
    assert_eq!(with(both), (0, 0));
    assert_eq!(with(vec![trouble("c", 2_000_000, 4_000_000)]), (0, 0));
}

#[test]
fn whoever_waits_for_what_nobody_has_was_forgotten_in_spite_of_trouble() {
    let trouble = |from, until| Record::Fault(fault("stop", &["a"], from, until));
    let with = |others: Vec<Record>| counts([vec![wait("lock", &["a"])], others].concat());
    assert_eq!(with(vec![trouble(0, 8_000_000)]), (1, 0), "13 s of nothing");
    assert_eq!(with(vec![trouble(0, 9_500_000)]), (0, 0));
    assert_eq!(with(vec![trouble(14_000_000, 22_000_000)]), (1, 0));
    let between = [trouble(0, 3_000_000), trouble(12_000_000, 13_000_000)];
    assert_eq!(with(between.to_vec()), (0, 0));
    let held = Record::Hold(hold(1, 9_000_000, 9_500_000));
    assert_eq!(
        with(vec![trouble(0, 8_000_000), held]),
        (0, 0),
        "somebody had it"
    );
    let elsewhere = Record::Hold(hold(1, 9_000_000, 9_500_000).name("b"));
    assert_eq!(with(vec![trouble(0, 8_000_000), elsewhere]), (1, 0));
}

#[test]
fn whoever_has_one_lock_may_wait_for_another() {
    let waits = |kind: &str, name: &str| {
        let fault = Record::Fault(fault("stop", &["lock-1"], 2_000_000, 4_000_000));
        let held = Record::Hold(hold(1, 4_000_000, 20_000_000).name("lock-1"));
        counts(vec![wait(kind, &[name]), fault, held])
    };
    assert_eq!(waits("multi", "lock-0"), (0, 0));
    assert_eq!(waits("lock", "lock-0"), (0, 0));
    assert_eq!(waits("fair", "fair-0"), (1, 0));
}
