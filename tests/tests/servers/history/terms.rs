//! Leaders that are killed, and suspended for longer than their lease.

use std::{collections::BTreeMap, time::Duration};

use redlatch_tests::{
    fixture::MS,
    server::{Server, ServerBinary, ServerOptions},
};

use super::{by_length, crew::Crew, line::Line, process::LEASE};

redlatch_tests::on_servers_with!(
    "clocks of their own for processes", ServerBinary::has_settable_clock;
    killed_and_suspended_leaders_never_make_two_terms,
);

async fn killed_and_suspended_leaders_never_make_two_terms(binary: ServerBinary) {
    let server = Server::start(&binary, ServerOptions::new());
    let candidates = [("candidate", 600), ("candidate", 0), ("candidate", -600)];
    let mut crew = Crew::start(&server.url(), &candidates[..by_length(2, 3)]);
    let (kills, every) = by_length((3, 2), (100, 5));
    let (mut killed, mut suspended, mut latest) = (0, 0, 0);
    while killed < kills {
        let line = crew.next().await;
        // A leader is at work for a while before something happens to it.
        let fresh = line.what == "works" && line.token > latest;
        if !fresh {
            continue;
        }
        latest = line.token;
        if (killed + suspended) % every == every - 1 {
            suspended += 1;
            // It goes on when another leads, and finds its lease over.
            crew.suspend(line.by, LEASE + 700 * MS).await;
        } else {
            killed += 1;
            crew.kill(line.by);
        }
    }
    // The last successor, and what a suspended leader may still do.
    while crew.next().await.token <= latest {}
    let history = crew.end();
    let terms = check(&history).unwrap_or_else(|broken| panic!("{binary}: {broken}"));
    let within = history.iter().filter(|line| !line.is_prompt()).count();
    println!(
        "{binary}: {terms} terms, {killed} kills, {suspended} suspensions, {within} of them within \
         a poll, no two at work"
    );
    assert!(terms > kills && suspended > 0);
}

/// Checks that no poll of a term's work comes after the begin of the next. Returns the number of
/// terms.
fn check(history: &[Line]) -> Result<usize, String> {
    // The first and the last moment, by token.
    let mut terms = BTreeMap::<u64, (&Line, &Line)>::new();
    for line in history.iter().filter(|line| line.is_prompt()) {
        let term = terms.entry(line.token).or_insert((line, line));
        if line.at < term.0.at {
            term.0 = line;
        }
        if line.at > term.1.at {
            term.1 = line;
        }
    }
    let all: Vec<_> = terms.values().collect();
    for two in all.windows(2) {
        let (last, first) = (two[0].1, two[1].0);
        if last.at >= first.at {
            let late = Duration::from_micros(last.at - first.at);
            return Err(format!("{last:?} is {late:?} after {first:?}"));
        }
    }
    Ok(terms.len())
}

#[test]
fn late_work_of_a_term_is_noticed() {
    let line = |at, token| Line {
        at,
        poll: 0,
        ..Line::now("works", 0, 0, token)
    };
    let good = [line(1, 7), line(2, 7), line(3, 8)];
    assert_eq!(check(&good), Ok(2));
    let late = check(&[good[0].clone(), good[2].clone(), line(4, 7)]);
    assert!(late.unwrap_err().contains("after"));
}
