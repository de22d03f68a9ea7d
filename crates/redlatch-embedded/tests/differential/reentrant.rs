//! The scripts of the plain lock: random states, random calls on one to three of its locks. Its
//! keys are the first six.

use redlatch_lua::REENTRANT;

use crate::prelude::*;

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
    let locks = some_locks(rng);
    let all = locks.len() > 1 && rng.bool();
    let lease = [50, 3_000, 8_000][rng.usize(..3)];
    let mut args = vec![
        by(rng, time),
        // Owners and attempts are spelt out.
        String::new(),
        lease.to_string(),
        (lease + RETENTION).to_string(),
        if all { "all" } else { "" }.to_owned(),
    ];
    for _ in 0..if all { 1 } else { locks.len() } {
        let (owner, attempt) = attempt(rng);
        let waiter = pick(rng, "|60000|90000");
        args.extend([owner, attempt, waiter, address(rng)]);
    }
    (&REENTRANT.acquire, lock_keys(&locks), args)
}

fn renew(pair: &mut Pair, rng: &mut Rng, time: Time) -> Parts {
    let locks = some_locks(rng);
    let lease = [50, 3_000, 8_000][rng.usize(..3)];
    let mut args = vec![
        by(rng, time),
        String::new(),
        lease.to_string(),
        (lease + RETENTION).to_string(),
    ];
    for &lock in &locks {
        args.extend([attempt(rng).0, token(pair, rng, lock)]);
    }
    let keys = locks.iter().map(|lock| format!("key{lock}")).collect();
    (&REENTRANT.renew, keys, args)
}

fn release(pair: &mut Pair, rng: &mut Rng, time: Time) -> Parts {
    let locks = some_locks(rng);
    let mut args = vec![String::new(), RETENTION.to_string()];
    for &lock in &locks {
        let (owner, attempt) = attempt(rng);
        let void = if rng.bool() {
            by(rng, time)
        } else {
            String::new()
        };
        let token = match rng.u8(..4) {
            0 => String::new(),
            _ => token(pair, rng, lock),
        };
        args.extend([owner, attempt, void, address(rng), token]);
    }
    let keys = if rng.u8(..8) == 0 {
        locks.iter().map(|lock| format!("key{lock}")).collect()
    } else {
        lock_keys(&locks)
    };
    (&REENTRANT.release, keys, args)
}

fn force(pair: &mut Pair, rng: &mut Rng) -> Parts {
    let lock = some_lock(rng);
    let args = vec![
        token(pair, rng, lock),
        pick(rng, "now|after"),
        RETENTION.to_string(),
    ];
    (&REENTRANT.force, lock_keys(&[lock]), args)
}

fn address(rng: &mut Rng) -> String {
    pick(rng, "|PUBLISH w:a 1|PUBLISH w:b 2|PUBLISH w:b 3|NOPE w:b 4")
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

/// For each lock the key that decides, and its queue.
fn lock_keys(locks: &[usize]) -> Vec<String> {
    let keys = locks.iter().flat_map(|lock| [*lock, lock + 3]);
    keys.map(|at| format!("key{at}")).collect()
}
