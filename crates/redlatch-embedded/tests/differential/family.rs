//! The scripts of the redlatch family: random states of locks, random calls, on a clock that is
//! part of the script.

use fastrand::Rng;
use redlatch_core::runtime::{Command, Value};
use redlatch_lua::{FAIR, REENTRANT, Source};

use crate::{commands, latch, lua, pair::Pair, pool};

/// One random call of one of the scripts, or now and then a command that puts something else under
/// their keys.
pub(crate) fn random_call(pair: &mut Pair, rng: &mut Rng) -> Command {
    if rng.u8(..60) == 0 {
        return disturbance(pair, rng);
    }
    let time = Time::random(rng);
    let ((source, keys, args), time) = match rng.u8(..64) {
        0..8 => (acquire(rng, time), time),
        8..11 => (renew(pair, rng, time), time),
        11..17 => (release(pair, rng, time), time),
        17..19 => (force(pair, rng), time),
        19 => {
            let keys = lock_keys(&[some_lock(rng)]);
            ((&REENTRANT.inspect, keys, Vec::new()), time)
        }
        20..32 => (fair(pair, rng, time), time),
        32..52 => pool::random_call(rng),
        _ => latch::random_call(pair, rng),
    };
    let bytes = |texts: Vec<String>| {
        texts
            .into_iter()
            .map(String::into_bytes)
            .collect::<Vec<_>>()
    };
    lua::eval(&at(source, time), &bytes(keys), &bytes(args))
}

/// A script, its keys, its arguments.
pub(crate) type Parts = (&'static Source, Vec<String>, Vec<String>);

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

/// One of the scripts of the fair lock, on one name and its two sets. Waiters die by not coming
/// when they are called.
fn fair(pair: &mut Pair, rng: &mut Rng, time: Time) -> Parts {
    let keys = || ["key2", "key5", "key6"].map(str::to_owned).to_vec();
    let scripts = &FAIR.exclusive;
    let (owner, attempt) = attempt(rng);
    let waiter = pick(
        rng,
        &[
            "PUBLISH w:a 1 1",
            "PUBLISH w:a 2 1",
            "PUBLISH w:b 3 2",
            "NONE w:b 4 2",
        ],
    );
    let lease = [50, 3_000, 8_000][rng.usize(..3)];
    match rng.u8(..12) {
        0..6 => {
            let (register, waiter) = match rng.u8(..6) {
                0 => (String::new(), String::new()),
                _ => (pick(rng, &["60000", "90000"]), waiter),
            };
            let (lease, ttl) = (lease.to_string(), (lease + RETENTION).to_string());
            let args = vec![by(rng, time), owner, attempt, lease, ttl, register, waiter];
            (&scripts.acquire, keys(), args)
        }
        6..10 => {
            let token = token(pair, rng, 2);
            let void = [String::new(), by(rng, time)][rng.usize(..2)].clone();
            let args = vec![owner, attempt, void, RETENTION.to_string(), waiter, token];
            (&scripts.release, keys(), args)
        }
        10 => {
            let args = vec![
                pick(rng, &["", "1700000003000000"]),
                pick(rng, &["1", "128"]),
            ];
            (&FAIR.waiters, keys(), args)
        }
        _ => (&FAIR.position, keys(), vec![waiter]),
    }
}

/// Something else under a key, or nothing.
fn disturbance(pair: &Pair, rng: &mut Rng) -> Command {
    let key = format!("key{}", rng.u8(..6));
    match rng.u8(..6) {
        0 => Command::new("SET").arg(key).arg("mine"),
        1 => Command::new("HSET").arg(key).arg("k").arg("fair:1"),
        2 => commands::random(pair.model, rng),
        _ => Command::new("DEL").arg(key),
    }
}

/// A time of the small world in which these scripts run.
#[derive(Clone, Copy)]
pub(crate) struct Time {
    seconds: u64,
    micros: u64,
}

impl Time {
    /// As `random`; now and then much later, when what was to last long is over.
    pub(crate) fn random_of_long_life(rng: &mut Rng) -> Self {
        let time = Self::random(rng);
        let later = u64::from(rng.u8(..10) == 0) * 700;
        Self {
            seconds: time.seconds + later,
            ..time
        }
    }

    fn random(rng: &mut Rng) -> Self {
        let all = [0, 1, 999, 1_000, 500_000, 999_999];
        Self {
            seconds: EPOCH + rng.u64(..10),
            micros: all[rng.usize(..all.len())],
        }
    }

    fn millis(self) -> u64 {
        self.seconds * 1_000 + self.micros / 1_000
    }
}

/// The script's text with the time in place of the server's.
fn at(source: &Source, time: Time) -> String {
    let reply = format!("{{'{}', '{}'}}", time.seconds, time.micros);
    let text = source.text.replace("redis.call('TIME')", &reply);
    let text = text.replace("call('TIME')", &reply);
    assert!(
        !text.contains("'TIME'"),
        "{} asks for the time",
        source.name
    );
    text
}

pub(crate) fn by(rng: &mut Rng, time: Time) -> String {
    (time.millis() + 5_000 - rng.u64(..5_500)).to_string()
}

fn attempt(rng: &mut Rng) -> (String, String) {
    let client = pick(rng, &["a", "b"]);
    (format!("{client}:1"), format!("{client}:{}", rng.u8(2..6)))
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

/// The token that the engine has for this lock, or one near it.
fn token(pair: &mut Pair, rng: &mut Rng, lock: usize) -> String {
    let stored = Command::new("HGET").arg(format!("key{lock}")).arg("t");
    let stored = pair.ours(&stored).ok();
    let stored = stored.as_ref().and_then(Value::as_int).unwrap_or_default();
    match rng.u8(..8) {
        0 => "1".to_owned(),
        1 => (stored + 1).to_string(),
        2 => (stored - 1).max(0).to_string(),
        _ => stored.to_string(),
    }
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

pub(crate) fn pick(rng: &mut Rng, items: &[&str]) -> String {
    items[rng.usize(..items.len())].to_owned()
}

/// Seconds at which the small world begins.
const EPOCH: u64 = 1_700_000_000;

/// Long enough that nothing expires while a test runs, by the real clock that keys end by.
const RETENTION: u64 = 600_000;
