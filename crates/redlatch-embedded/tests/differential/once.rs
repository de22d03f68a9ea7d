//! The scripts of jobs: random states, random calls. A job is the first key.

use redlatch_lua::ONCE;

use crate::prelude::*;

/// One random call, and the time at which it runs.
pub(crate) fn random_call(pair: &mut Pair, rng: &mut Rng) -> (Parts, Time) {
    let time = Time::random_of_long_life(rng);
    let (owner, id) = attempt(rng);
    let long = RETENTION.to_string();
    let parts = match rng.u8(..16) {
        0..6 => {
            let slot = slot(rng);
            let bound = |rng: &mut Rng| pick(rng, "||1700000005000");
            let args = vec![
                by(rng, time),
                owner,
                id,
                pick(rng, "50|3000"),
                long,
                slot,
                seen(pair, rng),
                bound(rng),
                bound(rng),
                pick(rng, "1|3"),
                "host:7".to_owned(),
                pick(rng, "700|600000"),
            ];
            call(&ONCE.claim, args)
        }
        6..8 => {
            let args = vec![
                by(rng, time),
                owner,
                "3000".to_owned(),
                long,
                token(pair, rng, 0),
                pick(rng, "700|600000"),
            ];
            call(&ONCE.renew, args)
        }
        8..12 => {
            let token = token(pair, rng, 0);
            let args = vec![
                owner,
                id,
                pick(rng, "||1700000009000"),
                long.clone(),
                long,
                pick(rng, &format!("|{token}")),
                pick(rng, "|done|done|failed|lost"),
                pick(rng, "|no luck"),
                pick(rng, "700|600000"),
            ];
            call(&ONCE.release, args)
        }
        12 => {
            let args = vec![by(rng, time), id, seen(pair, rng), pick(rng, "|a:2")];
            call(&ONCE.reset, args)
        }
        _ => call(&ONCE.look, vec![pick(rng, "|=a|=b c")]),
    };
    (parts, time)
}

fn call(script: &'static Source, args: Vec<String>) -> Parts {
    (script, vec!["key0".to_owned()], args)
}

fn slot(rng: &mut Rng) -> String {
    pick(rng, "1700000001000|1700000002000|1700000003000|=a|=b c")
}

/// The state as the engine has it, or another one.
fn seen(pair: &mut Pair, rng: &mut Rng) -> String {
    if rng.u8(..6) == 0 {
        return " 0".to_owned();
    }
    let token = pair.field("key0", "t").unwrap_or_default();
    let is_held = pair.field("key0", "o").is_some();
    format!("{token} {}", u8::from(is_held))
}
