//! Permits of processes that are killed, and suspended for longer than their lease.

use std::collections::BTreeMap;

use redlatch_tests::{
    fixture::SECOND,
    server::{Server, ServerBinary, ServerOptions},
    wait::by_night,
};

use super::{
    crew::Crew,
    line::Line,
    process::{LEASE, LIMIT},
};

redlatch_tests::on_servers_with!(
    "clocks of their own for processes", ServerBinary::has_settable_clock;
    held_permits_never_exceed_the_limit_when_holders_are_killed_and_stopped,
    held_ids_never_exceed_the_limit_when_holders_are_killed_and_stopped,
);

// L31
async fn held_permits_never_exceed_the_limit_when_holders_are_killed_and_stopped(
    binary: ServerBinary,
) {
    never_too_many(&binary, "permits").await;
}

// L31
async fn held_ids_never_exceed_the_limit_when_holders_are_killed_and_stopped(binary: ServerBinary) {
    never_too_many(&binary, "ids").await;
}

async fn never_too_many(binary: &ServerBinary, role: &'static str) {
    let server = Server::start(binary, ServerOptions::new());
    let mut crew = Crew::start(&server.url(), &[(role, 0); 4]);
    let faults = by_night(4, 40);
    for fault in 0..faults {
        // Holders are at work for a while before something happens to one of them.
        for _ in 0..200 {
            crew.next().await;
        }
        let by = crew.next().await.by;
        if fault % 2 == 0 {
            crew.kill(by);
        } else {
            crew.suspend(by, LEASE + SECOND).await;
        }
    }
    for _ in 0..200 {
        crew.next().await;
    }
    let history = crew.end();
    let peak = check(&history).unwrap_or_else(|broken| panic!("{binary}: {broken}"));
    println!(
        "{binary}, {role}: {} steps, {faults} faults, at most {peak} at work",
        history.len()
    );
    assert!(peak > u64::from(LIMIT) / 2, "{peak} of {LIMIT}");
}

/// Checks that no more permits than there are were in use at a time. Returns the most.
fn check(history: &[Line]) -> Result<u64, String> {
    // The first and the last moment of each hold, by its number.
    let mut holds = BTreeMap::<u64, (&Line, &Line)>::new();
    for line in history.iter().filter(|line| line.is_prompt()) {
        let hold = holds.entry(line.token).or_insert((line, line));
        if line.at < hold.0.at {
            hold.0 = line;
        }
        if line.at > hold.1.at {
            hold.1 = line;
        }
    }
    let mut peak = 0;
    for (begin, _) in holds.values() {
        let beside = |(from, to): &&(&Line, &Line)| (from.at..=to.at).contains(&begin.at);
        let at_work: Vec<_> = holds.values().filter(beside).collect();
        let used = at_work.iter().map(|(line, _)| line.slot).sum::<u64>();
        if used > u64::from(LIMIT) {
            return Err(format!("{used} permits are in use: {at_work:?}"));
        }
        peak = peak.max(used);
    }
    Ok(peak)
}

#[test]
fn permits_beyond_the_limit_are_noticed() {
    let line = |at, permits, token| Line {
        at,
        poll: 0,
        ..Line::now("works", permits, 0, token)
    };
    let good = [line(1, 5, 7), line(2, 3, 8), line(3, 5, 7), line(4, 4, 9)];
    assert_eq!(check(&good), Ok(8));
    let late = [&good[..], &[line(5, 5, 7)]].concat();
    assert!(check(&late).unwrap_err().contains("9 permits"));
}
