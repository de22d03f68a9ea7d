//! Scenarios of threads that share a connection.

use std::sync::Arc;

use tokio::io::duplex;

use super::{
    Connection,
    tests::{answer, command, said},
};
use crate::{
    runtime::{Outcome, Purpose},
    threads::{begin, explore},
};

/// Begins calls of two commands each on three threads, and one with `last`, on a socket that takes
/// a few bytes at a time. Returns the outcomes of the calls.
fn calls(last: &'static str) -> [Vec<Outcome>; 4] {
    let (ours, theirs) = duplex(40);
    let (conn, _, task) = Connection::new(Box::new(ours), Purpose::Command);
    let (conn, task, server) = (Arc::new(conn), begin(task), begin(answer(theirs)));
    let calls = [0, 2, 4, 6].map(|first| {
        let conn = Arc::clone(&conn);
        begin(async move {
            let verb = if first == 6 { last } else { "SAY" };
            let commands = [command("SAY", first), command(verb, first + 1)];
            conn.exchange(&commands).await
        })
    });
    let outcomes = calls.map(|call| call.join().unwrap());
    drop(conn);
    task.join().unwrap();
    server.join().unwrap();
    outcomes
}

#[test]
fn each_call_gets_its_answers() {
    explore(|| {
        for (call, outcomes) in calls("SAY").into_iter().enumerate() {
            assert_eq!(outcomes, [said(2 * call), said(2 * call + 1)]);
        }
    });
}

#[test]
fn each_call_ends_when_the_server_ends_the_connection() {
    explore(|| {
        for (call, outcomes) in calls("END").into_iter().enumerate() {
            assert_eq!(outcomes.len(), 2);
            for (at, outcome) in outcomes.into_iter().enumerate() {
                let replied = matches!(outcome, Outcome::Replied(_));
                assert!(!replied || outcome == said(2 * call + at), "{outcome:?}");
            }
        }
    });
}
