//! The scripts in `redisson` do to a name what Redisson does. The record of that was made from the
//! library itself; `cargo xtask check peers` makes it again and compares.

// Tests say what they expect.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use redlatch_vectors::{Bed, Content};

const RECORD: &str = include_str!("../../peers/libraries/java/behaviour.txt");

const KEYS: &str = "=n =redlatch:redisson?{n}{}";
const FORCE: &str = "=n =redlatch:redisson?{n}{} =redlatch:redissonforce?{n}{}";
const CHANNEL: &str = "redisson_lock__channel:{n}";
const OWNER: &str = "11111111-2222-4333-8444-555555555555:1";
const OTHER: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee:33";

#[test]
fn scripts_do_to_a_name_what_redisson_does() {
    let lines = RECORD.lines().filter(|line| !line.starts_with('#'));
    let mut seen = 0;
    for line in lines {
        let columns: Vec<_> = line.split(" | ").collect();
        let [call, before, answer, after, messages] = columns[..] else {
            panic!("{line}");
        };
        let mut bed = Bed::new();
        let serial = prepare(&mut bed, before);
        let (script, keys, args) = match call {
            "lock" => ("redisson/acquire", KEYS, acquire("a1:9")),
            "unlock" => (
                "redisson/release",
                KEYS,
                format!("{OWNER} a1:1 - 30000 {CHANNEL} -"),
            ),
            "force" => {
                let (holder, serial) = match before.split(' ').next() {
                    Some("other") => (OTHER, "-"),
                    Some("self") => (OWNER, serial.as_str()),
                    _ => (OWNER, "-"),
                };
                let args = format!("by b2:1 {holder} {serial} 30000 {CHANNEL}");
                ("redisson/force", FORCE, args)
            }
            other => panic!("{other}"),
        };
        let reply = bed.call(line, script, keys, &args);
        let ours = match reply[1].as_str() {
            "granted" => "held",
            "busy" => "busy",
            "released" => "freed",
            "taken" | "gone" if call == "unlock" => "error",
            "done" => "true",
            "gone" => "false",
            other => other,
        };
        assert_eq!(ours, answer, "{line}");
        assert_eq!(state(&bed), after, "{line}");
        let said = bed.finish().pop().unwrap().messages;
        let said: Vec<_> = said
            .iter()
            .map(|(channel, text)| {
                assert_eq!(channel, CHANNEL, "{line}");
                text.as_str()
            })
            .collect();
        let said = if said.is_empty() {
            "-".to_owned()
        } else {
            said.join(" ")
        };
        assert_eq!(said, messages, "{line}");
        seen += 1;
    }
    assert!(seen >= 10, "only {seen} calls are recorded");
}

fn acquire(attempt: &str) -> String {
    format!("by {OWNER} {attempt} 30000 60000")
}

/// Makes the state before a call. The attempt `a1:1` has held the name before. Returns the serial
/// of its hold.
fn prepare(bed: &mut Bed, state: &str) -> String {
    let (owner, count) = state.split_once(' ').unwrap_or((state, "1"));
    let own = if owner == "self" { count } else { "1" };
    let mut serial = String::new();
    for attempt in 1..=own.parse::<u32>().unwrap() {
        let reply = bed.call(
            "",
            "redisson/acquire",
            KEYS,
            &acquire(&format!("a1:{attempt}")),
        );
        serial.clone_from(&reply[3]);
    }
    if owner != "self" {
        bed.put("DEL n");
    }
    if owner == "other" {
        bed.put(&format!("HSET n {OTHER} {count}"));
        bed.put("PEXPIRE n 30000");
    }
    serial
}

fn state(bed: &Bed) -> String {
    let state = bed.state();
    let Some(key) = state.get("n") else {
        return "free".to_owned();
    };
    let Content::Hash(fields) = &key.content else {
        panic!("{key:?}");
    };
    let (owner, count) = fields.iter().next().unwrap();
    let owner = if owner == OTHER { "other" } else { "self" };
    let left = key.ttl.unwrap().div_ceil(1000);
    format!("{owner} {count} {left}")
}
