//! The scripts of the fair lock: random states, random calls, on one name and its two sets. Waiters
//! die by not coming when they are called.

use redlatch_lua::FAIR;

use crate::prelude::*;

/// One random call, and the time at which it runs.
pub(crate) fn random_call(pair: &mut Pair, rng: &mut Rng) -> (Parts, Time) {
    let time = Time::random(rng);
    let keys = || ["key2", "key5", "key6"].map(str::to_owned).to_vec();
    let scripts = &FAIR.exclusive;
    let (owner, attempt) = attempt(rng);
    let waiter = pick(
        rng,
        "PUBLISH w:a 1 1|PUBLISH w:a 2 1|PUBLISH w:b 3 2|NONE w:b 4 2",
    );
    let lease = [50, 3_000, 8_000][rng.usize(..3)];
    let parts = match rng.u8(..12) {
        0..6 => {
            let (register, waiter) = match rng.u8(..6) {
                0 => (String::new(), String::new()),
                _ => (pick(rng, "60000|90000"), waiter),
            };
            let (lease, ttl) = (lease.to_string(), (lease + RETENTION).to_string());
            let (limit, client, all) = (by(rng, time), String::new(), String::new());
            let shared = [limit, client, lease, ttl, all];
            let args = [&shared[..], &[owner, attempt, register, waiter]].concat();
            (&scripts.acquire, keys(), args)
        }
        6..10 => {
            let token = token(pair, rng, 2);
            let void = [String::new(), by(rng, time)][rng.usize(..2)].clone();
            let shared = [String::new(), RETENTION.to_string()];
            let args = [&shared[..], &[owner, attempt, void, waiter, token]].concat();
            (&scripts.release, keys(), args)
        }
        10 => {
            let args = vec![pick(rng, "|1700000003000000"), pick(rng, "1|128")];
            (&FAIR.waiters, keys(), args)
        }
        _ => (&FAIR.position, keys(), vec![waiter]),
    };
    (parts, time)
}
