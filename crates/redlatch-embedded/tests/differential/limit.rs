//! The scripts of the rate limiter: random states, random calls.

use redlatch_lua::LIMIT;

use crate::prelude::*;

/// One random call, and the time at which it runs.
pub(crate) fn random_call(pair: &mut Pair, rng: &mut Rng) -> (Parts, Time) {
    let time = Time::random_of_long_life(rng);
    let mut own = vec![format!(":{}", rng.u8(..60))];
    let rates = [
        ["3", "7000000"],
        ["1", "600000000"],
        ["1000000", "1"],
        ["999983", "86400"],
    ];
    let rate = rates[rng.usize(..4)];
    let parts = match rng.u8(..8) {
        0..5 => {
            let bounds = ["5|9|200", "1|2|5", "1|1|3|64", "0|0|5000000|31536000000000"];
            let bounds = bounds.map(|choice| pick(rng, choice)).join("/");
            own.push(format!("{}/{bounds}", rate.join("/")));
            dated(rng, time, &LIMIT.acquire, own)
        }
        5 | 6 => {
            own.extend(rate.map(str::to_owned));
            own.push(pick(rng, "1|4"));
            own.push(pick(rng, "-1|-4|2|100"));
            own.extend(mark(pair, rng));
            dated(rng, time, &LIMIT.settle, own)
        }
        _ => (&LIMIT.look, vec!["key0".to_owned()], Vec::new()),
    };
    (parts, time)
}

fn dated(rng: &mut Rng, time: Time, script: &'static Source, own: Vec<String>) -> Parts {
    let client = pick(rng, "a|b");
    let shared = [by(rng, time), client, LONG.to_owned()];
    let args = shared.into_iter().chain(own).collect();
    (script, vec!["key0".to_owned()], args)
}

/// The mark of the last pass, or one near it, when the rate was new, and a turn. Or none of these.
fn mark(pair: &mut Pair, rng: &mut Rng) -> [String; 5] {
    let state = pair.field("key0", "d").unwrap_or_default();
    let numbers = state.split(' ').filter_map(|number| number.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    let [t, debt, _, _, _, born, ..] = numbers[..] else {
        return Default::default();
    };
    let shift = numbers.get(10).copied().unwrap_or(0);
    let rest = [debt, debt / 2][rng.usize(..2)];
    let turn = if rng.bool() { t } else { 0 };
    let wait = [0, 1_000_000, 40_000_000][rng.usize(..3)];
    [t + shift, rest, born, turn, wait].map(|number| number.to_string())
}
