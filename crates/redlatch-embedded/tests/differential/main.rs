//! The engine against real servers: random commands and scripts, every reply and all data compared.
//!
//! `cargo test -p redlatch-embedded --features servers --release --test differential --
//! --nocapture`
//!
//! * `REDLATCH_TEST_SERVERS`: paths of server binaries, separated by commas. Without it,
//!   `redis-server` and `valkey-server` on the `PATH`. There must be one at least.
//! * `REDLATCH_CASES`: random commands per server, 20,000 by default. The family's scripts get a
//!   third as many calls.
//! * `REDLATCH_SEED`: the seed, drawn and printed otherwise.
//!
//! Known differences, none of them generated here:
//!
//! * Commands and options that locks do not use are absent.
//! * A script that touches a key it has not declared: always an error here, on servers only in a
//!   cluster.
//! * Scores and limits in hexadecimal: servers take them, the engine refuses them.
//! * Large hashes and `KEYS`: servers answer in an order of their own, the engine in order of
//!   insertion and of bytes. The servers are told to keep small encodings, and `KEYS` and `SCAN`
//!   are compared sorted.
//! * `SCAN` and `HSCAN` answer everything at once, whatever the cursor.
//! * Valkey's digits of a fraction read back as the same number but are not always the shortest;
//!   the engine's are.
//! * Error tables caught in scripts: newer servers add the field `ignore_error_stats_update`, and
//!   `source` and `line` to those caught by a handler.
//! * Libraries are proxies: `pairs(string)` finds nothing. `load`, `setmetatable`, `rawset`,
//!   `coroutine`, `cjson` and other things that lock scripts do not use are absent: reading them is
//!   the error for a nonexistent global.
//! * `error({})` and `error(nil)` crash Redis 7.0.15; the engine answers as Valkey does.
//! * `math.random` starts anew in each script, as on 6.2; newer servers go on where the last script
//!   stopped.
//! * A connection subscribes or sends commands, never both (the rule of redlatch's transport, not
//!   of servers).
//! * In a script of 6.2, `redis.call` handed to another C function than `pcall` may name another
//!   place in its error.
#![cfg(unix)]
#![expect(
    clippy::disallowed_methods,
    reason = "real servers run by the real clock"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod client;
mod commands;
mod compare;
mod fair;
mod family;
mod latch;
mod limit;
mod lua;
mod once;
mod pair;
mod pool;
mod prelude;
mod reentrant;
mod server;

use std::time::{Duration, Instant};

use fastrand::Rng;
use redlatch_core::runtime::Command;
use redlatch_tests::server::ServerBinary;

use crate::{family::Share, pair::Pair};

/// The folders of scripts, each with its share of the calls.
const FAMILY: &[Share] = &[
    (20, reentrant::random_call),
    (12, fair::random_call),
    (20, pool::random_call),
    (12, latch::random_call),
    (8, limit::random_call),
    (12, once::random_call),
];

/// Random commands, scripts and expressions against every server of the list whose version a model
/// follows. Other versions write numbers in another way, for example.
#[test]
fn random_commands_and_scripts_are_answered_as_by_real_servers() {
    let cases = cases();
    let seed = env_number("REDLATCH_SEED").unwrap_or_else(|| fastrand::u64(..));
    for binary in ServerBinary::all() {
        if let (_, false) = server::model(&binary) {
            println!("\n{binary}: no model, compared by the scripts of the family only");
            continue;
        }
        let server = server::start(&binary);
        let mut rng = Rng::with_seed(seed);
        let start = Instant::now();
        let mut pair = Pair::new(&server);
        let done = fuzz(&mut pair, &mut rng, cases);
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "\n{binary}: {done} cases in {seconds:.1} s, seed {seed}, {} differences",
            pair.differences.len()
        );
        pair.report(seed);
    }
}

/// The scripts of the family, each call on a clock of its own, over states that these calls make.
#[test]
fn scripts_of_the_family_are_answered_as_by_real_servers() {
    let cases = cases() / 3;
    let seed = env_number("REDLATCH_SEED").unwrap_or_else(|| fastrand::u64(..));
    for binary in ServerBinary::all() {
        let server = server::start(&binary);
        let mut rng = Rng::with_seed(seed);
        let mut pair = Pair::new(&server);
        for _ in 0..cases / FEW {
            let call = |_| family::random_call(FAMILY, &mut pair, &mut rng);
            let round: Vec<_> = (0..FEW).map(call).collect();
            let trouble = TROUBLES.get(rng.usize(..TROUBLES.len() * 10));
            pair.run_under(trouble.copied(), round);
            pair.compare_data();
            if pair.differences.len() >= 10 {
                break;
            }
        }
        let differences = pair.differences.len();
        println!("\n{binary}: {cases} calls of the family, seed {seed}, {differences} differences");
        pair.report(seed);
    }
}

/// Runs rounds of random commands; each ends with a comparison of all data and, now and then, a
/// wait in which keys expire.
fn fuzz(pair: &mut Pair, rng: &mut Rng, cases: u64) -> u64 {
    let mut done = 0;
    while done < cases && pair.differences.len() < 10 {
        let mut round: Vec<_> = (0..ROUND).map(|_| random_command(pair, rng)).collect();
        let pause = rng.u8(..16) == 0;
        if pause {
            round.extend(commands::short_lives(rng));
        }
        done += round.len() as u64;
        let trouble = TROUBLES.get(rng.usize(..TROUBLES.len() * 5));
        pair.run_under(trouble.copied(), round);
        if pause {
            std::thread::sleep(Duration::from_millis(12));
        }
        pair.compare_data();
    }
    done
}

fn random_command(pair: &Pair, rng: &mut Rng) -> Command {
    match rng.u8(..10) {
        0..6 => commands::random(pair.model, rng),
        6..9 => lua::random_call(pair.model, rng),
        _ => lua::random_expression(rng),
    }
}

/// Returns the number of random commands per server.
fn cases() -> u64 {
    env_number("REDLATCH_CASES").unwrap_or(20_000)
}

fn env_number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Parameters that make a server refuse commands: a full one, and one without replicas.
const TROUBLES: [&str; 2] = ["maxmemory", "min-replicas-to-write"];

/// Commands between two comparisons of all data.
const ROUND: usize = 400;

/// The same for calls that look at what the calls before have left.
const FEW: u64 = 10;
