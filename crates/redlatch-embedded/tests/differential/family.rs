//! The scripts of the redlatch family: random states of locks, random calls, on a clock that is
//! part of the script.

use std::cell::Cell;

use fastrand::Rng;
use redlatch_core::runtime::Command;
use redlatch_lua::Source;

use crate::{commands, lua, pair::Pair};

/// One random call of one of the scripts, or now and then a command that puts something else under
/// their keys.
pub(crate) fn random_call(family: &[Share], pair: &mut Pair, rng: &mut Rng) -> Command {
    if rng.u8(..60) == 0 {
        return disturbance(pair, rng);
    }
    let random_call = choose(family, rng);
    let ((source, keys, args), time) = random_call(pair, rng);
    let [keys, args] = [keys, args].map(|texts| {
        let bytes = texts.into_iter().map(String::into_bytes);
        bytes.collect::<Vec<_>>()
    });
    lua::eval(&at(source, time), &keys, &args)
}

/// A folder of scripts: its weight among the others, and what draws its calls.
pub(crate) type Share = (u32, RandomCall);

/// Draws one call of one of the scripts of a folder, and the time at which it runs.
type RandomCall = fn(&mut Pair, &mut Rng) -> (Parts, Time);

fn choose(family: &[Share], rng: &mut Rng) -> RandomCall {
    let all: u32 = family.iter().map(|(weight, _)| weight).sum();
    let mut at = rng.u32(..all);
    let found = family.iter().find(|&&(weight, _)| {
        let found = at < weight;
        at = at.saturating_sub(weight);
        found
    });
    found.unwrap().1
}

/// A script, its keys, its arguments.
pub(crate) type Parts = (&'static Source, Vec<String>, Vec<String>);

/// Something else under a key, or nothing.
fn disturbance(pair: &Pair, rng: &mut Rng) -> Command {
    let key = format!("key{}", rng.u8(..6));
    match rng.u8(..6) {
        0 => Command::new("SET").arg(key).arg("mine"),
        1 => Command::new("HSET").arg(key).arg("k").arg("fair:1"),
        // A server that is newer than its model may read numbers in another way.
        2 if pair.exact_texts => commands::random(pair.model, rng),
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

    pub(crate) fn random(rng: &mut Rng) -> Self {
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
    let text = with_long_lives(source, &text);
    let name = &source.name;
    assert!(!text.contains("'TIME'"), "{name} asks for the time");
    text
}

/// Makes a pool that ends with its marks outlast the test. Otherwise it ends within ms, by the real
/// clock, and maybe on the server only.
fn with_long_lives(source: &Source, text: &str) -> String {
    let lasting = text.replace("void - now + 1)", &format!("void - now + {RETENTION})"));
    let is_changed = lasting != text;
    assert_eq!(is_changed, source.name == "pool/release", "{}", source.name);
    lasting
}

/// A random time by which a request is to be executed.
pub(crate) fn by(rng: &mut Rng, time: Time) -> String {
    (time.millis() + 5_000 - rng.u64(..5_500)).to_string()
}

pub(crate) fn attempt(rng: &mut Rng) -> (String, String) {
    let client = pick(rng, "a|b");
    (format!("{client}:1"), format!("{client}:{}", number(rng)))
}

/// The number of an attempt. Numbers rise, since an attempt with a lower one is refused, and each
/// comes again a few times.
pub(crate) fn number(rng: &mut Rng) -> u32 {
    thread_local!(static DRAWN: Cell<u32> = const { Cell::new(48) });
    let drawn = DRAWN.get() + 1;
    DRAWN.set(drawn);
    drawn / 8 - rng.u32(..4)
}

/// The token that the engine has for this lock, or one near it.
pub(crate) fn token(pair: &mut Pair, rng: &mut Rng, lock: usize) -> String {
    let stored = pair.field(&format!("key{lock}"), "t");
    let stored = stored
        .and_then(|token| token.parse::<i64>().ok())
        .unwrap_or_default();
    match rng.u8(..8) {
        0 => "1".to_owned(),
        1 => (stored + 1).to_string(),
        2 => (stored - 1).max(0).to_string(),
        _ => stored.to_string(),
    }
}

/// Picks one of the texts between bars.
pub(crate) fn pick(rng: &mut Rng, texts: &str) -> String {
    let texts: Vec<_> = texts.split('|').collect();
    texts[rng.usize(..texts.len())].to_owned()
}

/// Seconds at which the small world begins.
const EPOCH: u64 = 1_700_000_000;

/// Milliseconds so long that nothing ends while a test runs, by the real clock that keys end by.
pub(crate) const RETENTION: u64 = 600_000;
pub(crate) const LONG: &str = "600000";
