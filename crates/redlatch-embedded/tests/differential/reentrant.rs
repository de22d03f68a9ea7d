//! The scripts of the plain lock: random states, random calls on one to three of its locks. Its
//! keys are the first six.

use fastrand::Rng;
use redlatch_lua::REENTRANT;

use crate::{
    family::{Parts, RETENTION, Time, attempt, by, pick, token},
    pair::Pair,
};

/// One random call, and the time at which it runs.
pub(crate) fn random_call(pair: &mut Pair, rng: &mut Rng) -> (Parts, Time) {
    let time = Time::random(rng);
    let parts = match rng.u8(..20) {
        0..8 => acquire(rng, time),
        8..11 => renew(pair, rng, time),
        11..17 => release(pair, rng, time),
        17..19 => force(pair, rng),
        _ => {
            let keys = lock_keys(&[some_lock(rng)]);
            (&REENTRANT.inspect, keys, Vec::new())
        }
    };
    (parts, time)
}

fn acquire(rng: &mut Rng, time: Time) -> Parts {
    let (owner, attempt) = attempt(rng);
    let lease = [50, 3_000, 8_000][rng.usize(..3)];
    let args = vec![
        by(rng, time),
        owner,
        attempt,
        lease.to_string(),
        (lease + RETENTION).to_string(),
        pick(rng, &["", "60000", "90000"]),
        address(rng),
    ];
    (&REENTRANT.acquire, lock_keys(&some_locks(rng)), args)
}

fn renew(pair: &mut Pair, rng: &mut Rng, time: Time) -> Parts {
    let (owner, _) = attempt(rng);
    let locks = some_locks(rng);
    let lease = [50, 3_000, 8_000][rng.usize(..3)];
    let mut args = vec![
        by(rng, time),
        owner,
        lease.to_string(),
        (lease + RETENTION).to_string(),
    ];
    args.extend(locks.iter().map(|&lock| token(pair, rng, lock)));
    let keys = locks.iter().map(|lock| format!("key{lock}")).collect();
    (&REENTRANT.renew, keys, args)
}

fn release(pair: &mut Pair, rng: &mut Rng, time: Time) -> Parts {
    let (owner, attempt) = attempt(rng);
    let locks = some_locks(rng);
    let void = if rng.bool() {
        by(rng, time)
    } else {
        String::new()
    };
    let mut args = vec![owner, attempt, void, RETENTION.to_string(), address(rng)];
    args.extend(locks.iter().map(|&lock| match rng.u8(..4) {
        0 => String::new(),
        _ => token(pair, rng, lock),
    }));
    let mut keys = lock_keys(&locks);
    if rng.u8(..8) == 0 {
        keys.truncate(locks.len());
    }
    (&REENTRANT.release, keys, args)
}

fn force(pair: &mut Pair, rng: &mut Rng) -> Parts {
    let lock = some_lock(rng);
    let args = vec![
        token(pair, rng, lock),
        pick(rng, &["now", "after"]),
        RETENTION.to_string(),
    ];
    (&REENTRANT.force, lock_keys(&[lock]), args)
}

fn address(rng: &mut Rng) -> String {
    pick(
        rng,
        &[
            "",
            "PUBLISH w:a 1",
            "PUBLISH w:b 2",
            "PUBLISH w:b 3",
            "NOPE w:b 4",
        ],
    )
}

fn some_lock(rng: &mut Rng) -> usize {
    rng.usize(..3)
}

fn some_locks(rng: &mut Rng) -> Vec<usize> {
    let mut locks = vec![0, 1, 2];
    rng.shuffle(&mut locks);
    locks.truncate([1, 1, 1, 2, 3][rng.usize(..5)]);
    locks
}

/// The keys that decide, then the queues.
fn lock_keys(locks: &[usize]) -> Vec<String> {
    let keys = locks.iter().map(|lock| format!("key{lock}"));
    keys.chain(locks.iter().map(|lock| format!("key{}", lock + 3)))
        .collect()
}
