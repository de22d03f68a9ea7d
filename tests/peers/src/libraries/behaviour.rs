//! Records what Redisson does to a name, and compares it with the stored record. A test of
//! `redlatch-vectors` compares the scripts of this family with the same record.

use std::time::Duration;

use redlatch_tests::server::{Connection, Reply};

use super::{Peer, Stage, ensure};
use crate::Outcome;

/// The stored record.
const STORED: &str = include_str!("../../libraries/java/behaviour.txt");

const OTHER: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee:33";

const CHANNEL: &str = "redisson_lock__channel:{v}";

/// Ends the messages of a call.
const END: &str = "end";

pub(super) async fn record(stage: &Stage<'_>) -> Outcome {
    let mut java = stage.peer();
    let mut messages = Connection::open(stage.server.address(), Duration::from_secs(20))?;
    messages.command(&["SUBSCRIBE", CHANNEL, END])?;
    messages.read_reply()?;
    let stored = || STORED.lines().filter(|line| !line.starts_with('#'));
    let mut recorded = String::new();
    for line in stored() {
        let columns: Vec<_> = line.split(" | ").collect();
        let [call, before, ..] = columns[..] else {
            return Err(format!("{line:?} is no line of the record").into());
        };
        prepare(stage, &mut java, before).await?;
        let request = match call {
            "lock" => "lock v 30000 0",
            "force" => "force v",
            other => other,
        };
        published(stage, &mut messages)?;
        let answer = java.ask(request).await?;
        // An error has the ids of the thread.
        let word = answer.split(' ').next().unwrap_or_default();
        let after = state(stage);
        let said = published(stage, &mut messages)?;
        recorded += &format!("{call} | {before} | {word} | {after} | {said}\n");
    }
    let otherwise = format!("it does otherwise than recorded:\n{recorded}");
    ensure(recorded.lines().eq(stored()), &otherwise)?;
    println!("  {} calls do what is recorded", stored().count());
    Ok(())
}

/// Makes the state before a call. The caller has held the name once, so that it can try to release.
async fn prepare(stage: &Stage<'_>, java: &mut Peer, state: &str) -> Outcome {
    let server = &stage.server;
    server.command(&["DEL", "v"]);
    let (owner, count) = state.split_once(' ').unwrap_or((state, "1"));
    let count: u32 = count
        .parse()
        .map_err(|_| format!("{state:?} has no count"))?;
    let own = if owner == "self" { count } else { 1 };
    for _ in 0..own {
        java.expect("lock v 30000 0", "held").await?;
    }
    if owner != "self" {
        server.command(&["DEL", "v"]);
    }
    if owner == "other" {
        server.command(&["HSET", "v", OTHER, &count.to_string()]);
        server.command(&["PEXPIRE", "v", "30000"]);
    }
    Ok(())
}

fn state(stage: &Stage<'_>) -> String {
    let fields = stage.server.command(&["HGETALL", "v"]).array();
    let fields: Vec<_> = fields.into_iter().map(Reply::text).collect();
    let [owner, count] = &fields[..] else {
        return if fields.is_empty() { "free" } else { "strange" }.to_owned();
    };
    let owner = if owner == OTHER { "other" } else { "self" };
    let left = stage.server.command(&["PTTL", "v"]).int();
    format!("{owner} {count} {}", (left + 999) / 1000)
}

/// Returns the messages since the last call, in order; `-` without any.
fn published(stage: &Stage<'_>, messages: &mut Connection) -> Outcome<String> {
    stage.server.command(&["PUBLISH", END, ""]);
    let mut found = Vec::new();
    loop {
        let push = messages.read_reply()?.array().into_iter();
        let mut push = push.skip(1).map(Reply::text);
        if push.next().is_none_or(|channel| channel == END) {
            break;
        }
        found.extend(push.next());
    }
    Ok(if found.is_empty() {
        "-".to_owned()
    } else {
        found.join(" ")
    })
}
