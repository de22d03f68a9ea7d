use super::*;

fn hold(token: u64, from: u64, until: u64) -> Hold {
    Hold {
        id: token,
        kind: "lock".to_owned(),
        name: "a".to_owned(),
        units: 1,
        limit: 1,
        token,
        asked: from - 1,
        from,
        until,
        gone: until + 1,
        durable: false,
    }
}

fn gap(from: u64, until: u64) -> Record {
    Record::Fault(Fault {
        kind: "crash".to_owned(),
        from,
        until,
        names: vec!["a".to_owned()],
        forgets: true,
    })
}

fn counts(records: Vec<Record>) -> (usize, usize) {
    let verdict = check(&records);
    (verdict.violations.len(), verdict.expected.len())
}

fn holds(holds: impl IntoIterator<Item = Hold>) -> Vec<Record> {
    holds.into_iter().map(Record::Hold).collect()
}

#[test]
fn one_after_the_other_is_fine() {
    assert_eq!(counts(holds([hold(1, 10, 20), hold(2, 20, 30)])), (0, 0));
}

#[test]
fn two_at_a_time_are_seen() {
    assert_eq!(counts(holds([hold(1, 10, 20), hold(2, 19, 30)])), (1, 0));
}

#[test]
fn a_gap_between_both_explains_two_and_no_other_does() {
    let two = || holds([hold(1, 10, 20), hold(2, 15, 30)]);
    let with = |fault: Record| [two(), vec![fault]].concat();
    assert_eq!(counts(with(gap(12, 14))), (0, 1));
    assert_eq!(counts(with(gap(5, 10))), (0, 1));
    assert_eq!(counts(with(gap(5, 9))), (1, 0), "over before the first");
    assert_eq!(counts(with(gap(16, 40))), (1, 0), "after the second");
    let Record::Fault(fault) = gap(12, 14) else {
        unreachable!()
    };
    let elsewhere = Fault {
        names: vec!["b".to_owned()],
        ..fault.clone()
    };
    assert_eq!(counts(with(Record::Fault(elsewhere))), (1, 0));
    let remembering = Fault {
        forgets: false,
        ..fault
    };
    assert_eq!(counts(with(Record::Fault(remembering))), (1, 0));
}

#[test]
fn nothing_explains_two_that_all_replicas_confirmed() {
    let durable = |hold: Hold| Hold {
        durable: true,
        ..hold
    };
    let two = holds([durable(hold(1, 10, 20)), durable(hold(2, 15, 30))]);
    assert_eq!(counts([two, vec![gap(12, 14)]].concat()), (1, 0));
}

#[test]
fn tokens_that_go_back_are_seen() {
    assert_eq!(counts(holds([hold(2, 10, 20), hold(1, 30, 40)])), (1, 0));
    // It was asked for before the other was known.
    let early = Hold {
        asked: 9,
        ..hold(1, 30, 40)
    };
    assert_eq!(counts(holds([hold(2, 10, 20), early])), (0, 0));
}

#[test]
fn readers_share_and_writers_do_not() {
    let reader = |from, until| Hold {
        limit: 1000,
        token: 0,
        ..hold(1, from, until)
    };
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
    let permits = |units, from, until| Hold {
        units,
        limit: 3,
        token: 0,
        ..hold(1, from, until)
    };
    assert_eq!(
        counts(holds([permits(2, 10, 20), permits(1, 11, 20)])),
        (0, 0)
    );
    assert_eq!(
        counts(holds([permits(2, 10, 20), permits(2, 11, 20)])),
        (1, 0)
    );
}

#[test]
fn handoffs_are_measured_for_who_was_waiting() {
    let waiting = Hold {
        asked: 12,
        ..hold(2, 50, 60)
    };
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
        read: at - 5,
        at,
        accepted: true,
        valid: true,
        lost: 0,
    }
}

#[test]
fn a_fenced_set_is_never_excused() {
    let writes = |second: Write| {
        vec![
            Record::Write(write(5, 10)),
            Record::Write(second),
            gap(1, 99),
        ]
    };
    assert_eq!(counts(writes(write(6, 20))), (0, 0));
    assert_eq!(counts(writes(write(4, 20))), (1, 0));
    let losing = Write {
        lost: 2,
        ..write(6, 20)
    };
    assert_eq!(counts(writes(losing)), (1, 0));
    let refused = |valid| Write {
        accepted: false,
        valid,
        ..write(4, 20)
    };
    assert_eq!(counts(writes(refused(false))), (0, 0), "too late, and told");
    assert_eq!(counts(writes(refused(true))), (0, 1));
}

#[test]
fn a_set_without_tokens_loses_in_gaps_only() {
    let losing = Write {
        lost: 1,
        ..write(0, 20)
    };
    assert_eq!(counts(vec![Record::Write(losing.clone())]), (1, 0));
    assert_eq!(counts(vec![Record::Write(losing), gap(17, 18)]), (0, 1));
}

#[test]
fn latches_are_judged() {
    let round = |begun, counted, stuck| {
        vec![Record::Round(Round {
            name: "a".to_owned(),
            from: 10,
            until: 20,
            count: 3,
            begun,
            counted,
            passed: 2,
            stuck,
        })]
    };
    assert_eq!(counts(round(3, 3, 0)), (0, 0));
    assert_eq!(counts(round(2, 3, 0)), (1, 0));
    assert_eq!(counts(round(3, 3, 1)), (1, 0));
    assert_eq!(counts(round(3, 2, 1)), (0, 0), "it may be shut");
}
