//! The scripts of the latch: random states, random calls. Its keys are the first and the fourth.

use redlatch_lua::LATCH;

use crate::prelude::*;

/// One random call, and the time at which it runs.
pub(crate) fn random_call(pair: &mut Pair, rng: &mut Rng) -> (Parts, Time) {
    let time = Time::random_of_long_life(rng);
    let channel = || ["PUBLISH".to_owned(), "w:a".to_owned()];
    let keep = LONG.to_owned();
    let parts = match rng.u8(..16) {
        0..4 => {
            let count = pick(rng, "0|1|3|4294967295");
            let ttl = pick(rng, &format!("||{LONG}"));
            dated(rng, time, &LATCH.set, vec![count, ttl, keep])
        }
        4..10 => {
            let mut args = vec![pick(rng, "1|2|4294967295"), keep];
            args.extend(channel());
            dated(rng, time, &LATCH.count_down, args)
        }
        10..12 => {
            let mut args = vec![keep, LONG.to_owned()];
            args.extend(channel());
            dated(rng, time, &LATCH.delete, args)
        }
        _ => {
            let some = (0..rng.usize(..4)).map(|_| generation(pair, rng));
            (&LATCH.look, vec!["key0".to_owned()], some.collect())
        }
    };
    (parts, time)
}

fn dated(rng: &mut Rng, time: Time, script: &'static Source, args: Vec<String>) -> Parts {
    let keys = ["key0", "key3"].map(str::to_owned).to_vec();
    let mut all = vec![by(rng, time), format!("a:{}", rng.u8(..40))];
    all.extend(args);
    (script, keys, all)
}

/// A generation that there is, or one near it, or one that was deleted.
fn generation(pair: &mut Pair, rng: &mut Rng) -> String {
    let present = pair.field("key0", "g");
    let present = present.unwrap_or_else(|| "1700000003000000".to_owned());
    match rng.u8(..4) {
        0 => "1700000003000000".to_owned(),
        1 => match present.parse::<u64>() {
            Ok(number) => (number + 1).to_string(),
            Err(_) => present,
        },
        2 => {
            let deleted = pair.field("key0", "d").unwrap_or_default();
            let all: Vec<_> = deleted.split_whitespace().collect();
            let some = rng.choice(all).and_then(|one| one.split('-').next());
            some.map_or(present, str::to_owned)
        }
        _ => present,
    }
}
