//! How many scripts a second the engine runs on one thread.
//!
//! `cargo run -p redlatch-embedded --release --example rate`
#![expect(
    clippy::disallowed_methods,
    reason = "a measurement needs the real clock"
)]

use std::time::Instant;

use redlatch_core::runtime::{Command, Value};
use redlatch_embedded::engine::{Engine, Model, ServerTime, SessionKind};

fn main() {
    let mut engine = Engine::new(Model::Redis7_0, ServerTime::default());
    let session = engine.open(SessionKind::Command);
    let calls = [
        ("empty script", eval("return 1", "k")),
        ("acquire, one HMGET and one HSET", eval(ACQUIRE, "k")),
        (
            "hash read, 1 call",
            eval("return redis.call('HGET', KEYS[1], 'o')", "k"),
        ),
        (
            "HSET without a script",
            Command::new("HSET").arg("k").arg("o").arg("me"),
        ),
    ];
    for (name, command) in calls {
        let start = Instant::now();
        for n in 0..ROUNDS {
            let reply = engine.execute(session, &command, ServerTime::from_millis(n));
            assert!(
                matches!(reply, Ok(Value::Int(_) | Value::Bulk(_))),
                "{reply:?}"
            );
        }
        let rate = ROUNDS as f64 / start.elapsed().as_secs_f64();
        println!("{name}: {rate:.0} a second");
    }
}

fn eval(source: &str, key: &str) -> Command {
    Command::new("EVAL")
        .arg(source)
        .arg("1")
        .arg(key)
        .arg("me")
        .arg("30000")
}

const ROUNDS: u64 = 200_000;

const ACQUIRE: &str = "local time = redis.call('TIME')
local held = redis.call('HMGET', KEYS[1], 'o', 't', 'u')
if held[1] and held[1] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'o', ARGV[1], 't', time[2], 'u', time[1])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])";
