//! The scripts of a pool of permits: random states, random calls. Its keys are the first six.

use std::iter::repeat_n;

use redlatch_lua::POOL;

use crate::{family::number, prelude::*};

/// One random call, and the time at which it runs.
pub(crate) fn random_call(_: &mut Pair, rng: &mut Rng) -> (Parts, Time) {
    let time = Time::random_of_long_life(rng);
    let parts = match rng.u8(..24) {
        0..9 => acquire(rng, time),
        9..11 => renew(rng, time),
        11..17 => release(rng, time),
        17..20 => change(rng, time),
        20 | 21 => {
            let size = pick(rng, "|5");
            (&POOL.inspect, keys(4), vec![kind(rng), size])
        }
        22 => {
            let (from, count) = (pick(rng, "0|2"), pick(rng, "1|256"));
            (&POOL.holds, keys(2), vec![kind(rng), from, count])
        }
        _ => {
            let mut args = vec![kind(rng)];
            args.extend(holds(rng));
            (&POOL.look, keys(1), args)
        }
    };
    (parts, time)
}

fn acquire(rng: &mut Rng, time: Time) -> Parts {
    let client = pick(rng, "a|b");
    let lease = pick(rng, "50|3000|8000|600000");
    let mut args = vec![by(rng, time), client.clone(), kind(rng), lease];
    let entries = [1, 1, 1, 3][rng.usize(..4)];
    for _ in 0..entries {
        let n = number(rng);
        let need = pick(rng, "1|1|2|5");
        let (alive, address) = if rng.u8(..3) > 0 {
            // One of them sends no messages.
            let verb = if n % 8 == 5 { "NONE" } else { "PUBLISH" };
            let alive = pick(rng, "60000|90000");
            (alive, format!("{verb} w:{client} {n} {need}"))
        } else {
            (String::new(), String::new())
        };
        let (size, each) = (pick(rng, "|3|5"), pick(rng, "||1"));
        args.extend([format!(":{n}"), need, size, alive, address, each]);
    }
    let keys = repeat_n(keys(4), entries).flatten().collect();
    (&POOL.acquire, keys, args)
}

fn renew(rng: &mut Rng, time: Time) -> Parts {
    let lease = pick(rng, "50|3000|8000");
    let mut args = vec![by(rng, time), String::new(), kind(rng), lease];
    args.extend(holds(rng));
    let entries = args.len() - 4;
    let keys = repeat_n(keys(1), entries).flatten().collect();
    (&POOL.renew, keys, args)
}

fn release(rng: &mut Rng, time: Time) -> Parts {
    let client = pick(rng, "a|b");
    let mut args = vec![client.clone(), kind(rng), LONG.to_owned()];
    let entries = [1, 1, 1, 3][rng.usize(..4)];
    for _ in 0..entries {
        let attempt = format!(":{}", number(rng));
        let attempt = pick(rng, &format!("{attempt}|"));
        let void = match rng.bool() {
            true if !attempt.is_empty() => by(rng, time),
            _ => String::new(),
        };
        let waiter = if rng.bool() {
            let need = pick(rng, "1|2|5");
            format!("PUBLISH w:{client} {} {need}", number(rng))
        } else {
            String::new()
        };
        let (left, forgotten) = (pick(rng, "0|0|1"), pick(rng, "0|0|1"));
        let holds = holds(rng).join(" ");
        args.extend([attempt, void, waiter, left, forgotten, holds]);
    }
    let some = if rng.u8(..8) == 0 { 1 } else { 4 };
    let keys = repeat_n(keys(some), entries).flatten().collect();
    (&POOL.release, keys, args)
}

fn change(rng: &mut Rng, time: Time) -> Parts {
    let verb = pick(rng, "set|set|try|add|add|drain|delete");
    let number = match verb.as_str() {
        "add" => pick(rng, "-3|-1|1|4|4294967295"),
        "drain" | "delete" => "0".to_owned(),
        _ => pick(rng, "0|2|5|4294967295"),
    };
    let args = vec![
        by(rng, time),
        kind(rng),
        format!("o:{}", rng.u8(..12)),
        LONG.to_owned(),
        verb,
        number,
        pick(rng, &format!("||0|{LONG}")),
    ];
    (&POOL.change, keys(6), args)
}

fn kind(rng: &mut Rng) -> String {
    let rare = rng.u8(..40) == 0;
    if rare { "permits:1" } else { "semaphore:1" }.to_owned()
}

fn attempt(rng: &mut Rng) -> String {
    format!("{}:{}", pick(rng, "a|b"), number(rng))
}

/// Holds as acquisitions name them; now and then the same one twice.
fn holds(rng: &mut Rng) -> Vec<String> {
    let one = |rng: &mut Rng| {
        let attempt = attempt(rng);
        match rng.u8(..3) {
            0 => format!("{attempt}:{}", rng.u8(..3)),
            _ => attempt,
        }
    };
    (0..[1, 1, 1, 3][rng.usize(..4)])
        .map(|_| one(rng))
        .collect()
}

fn keys(some: usize) -> Vec<String> {
    (0..some).map(|at| format!("key{at}")).collect()
}
