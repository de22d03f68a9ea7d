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

    fn name(self, name: &str) -> Self {
        let name = name.to_owned();
        Self { name, ..self }
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

fn violations(records: Vec<Record>) -> usize {
    forgotten(&records).len()
}

#[test]
fn handoffs_are_measured_for_who_was_waiting() {
    let records = |asked| {
        let fault = Record::Fault(fault("stop", &["a"], 0, 30));
        let holds = [hold(1, 10, 20), hold(2, 50, 60).asked(asked)].map(Record::Hold);
        [fault].into_iter().chain(holds).collect::<Vec<_>>()
    };
    let handoff = Handoff {
        took: Duration::from_micros(50 - 21),
        name: "a".to_owned(),
        during: vec!["stop".to_owned()],
    };
    assert_eq!(handoffs(&records(12)), [handoff]);
    assert_eq!(handoffs(&records(49)), []);
}

#[test]
fn whoever_waits_without_trouble_was_forgotten() {
    let wait = wait("multi", &["a", "c"]);
    let trouble = |name: &str, from, until| Record::Fault(fault("stop", &[name], from, until));
    // A holder has the name nearly all the time. That alone is no excuse.
    let held = Record::Hold(hold(1, 4_000_000, 20_000_000));
    let waits = vec![wait, held];
    let with = |faults: Vec<Record>| violations([waits.clone(), faults].concat());
    assert_eq!(with(vec![]), 1);
    assert_eq!(with(vec![trouble("b", 0, 9_000_000)]), 1);
    assert_eq!(with(vec![trouble("a", 0, 1_900_000)]), 1);
    let both = vec![
        trouble("a", 0, 1_500_000),
        trouble("a", 2_000_000, 2_500_000),
    ];
    assert_eq!(with(both), 0);
    assert_eq!(with(vec![trouble("c", 2_000_000, 4_000_000)]), 0);
}

#[test]
fn whoever_waits_for_what_nobody_has_was_forgotten_in_spite_of_trouble() {
    let trouble = |from, until| Record::Fault(fault("stop", &["a"], from, until));
    let with = |others: Vec<Record>| violations([vec![wait("lock", &["a"])], others].concat());
    assert_eq!(with(vec![trouble(0, 8_000_000)]), 1, "13 s of nothing");
    assert_eq!(with(vec![trouble(0, 9_500_000)]), 0);
    assert_eq!(with(vec![trouble(14_000_000, 22_000_000)]), 1);
    let between = [trouble(0, 3_000_000), trouble(12_000_000, 13_000_000)];
    assert_eq!(with(between.to_vec()), 0);
    let held = Record::Hold(hold(1, 9_000_000, 9_500_000));
    let found = with(vec![trouble(0, 8_000_000), held]);
    assert_eq!(found, 0, "somebody had it");
    let elsewhere = Record::Hold(hold(1, 9_000_000, 9_500_000).name("b"));
    assert_eq!(with(vec![trouble(0, 8_000_000), elsewhere]), 1);
}

#[test]
fn whoever_has_one_lock_may_wait_for_another() {
    let waits = |kind: &str, name: &str| {
        let fault = Record::Fault(fault("stop", &["lock-1"], 2_000_000, 4_000_000));
        let held = Record::Hold(hold(1, 4_000_000, 20_000_000).name("lock-1"));
        violations(vec![wait(kind, &[name]), fault, held])
    };
    assert_eq!(waits("multi", "lock-0"), 0);
    assert_eq!(waits("lock", "lock-0"), 0);
    assert_eq!(waits("fair", "fair-0"), 1);
}
