//! Random commands.

use fastrand::Rng;
use redlatch_core::runtime::Command;
use redlatch_embedded::engine::Model;

/// One argument of a random command.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    Key(Vec<u8>),
    Text(Vec<u8>),
}

/// A random command of a client.
pub(crate) fn random(model: Model, rng: &mut Rng) -> Command {
    if rng.u8(..40) == 0 {
        return oddity(rng);
    }
    let (name, mut args) = data_command(model, rng);
    if rng.u8(..25) == 0 {
        spoil(name, &mut args, rng);
    }
    let name = if rng.u8(..10) == 0 {
        name.to_lowercase()
    } else {
        name.to_owned()
    };
    args.into_iter()
        .fold(Command::new(&name), |command, arg| match arg {
            Arg::Key(bytes) | Arg::Text(bytes) => command.arg(bytes),
        })
}

/// A random command on data: its name and its arguments. In its place the keys are what a script
/// would declare.
pub(crate) fn data_command(model: Model, rng: &mut Rng) -> (&'static str, Vec<Arg>) {
    let (name, shape) = SHAPES[rng.usize(..SHAPES.len())];
    let mut args = Vec::new();
    for kind in shape.split_whitespace() {
        add(kind, model, rng, &mut args);
    }
    (name, args)
}

/// Changes arguments so that they are probably wrong. Keys stay, and none is added.
pub(crate) fn spoil(name: &str, args: &mut Vec<Arg>, rng: &mut Rng) {
    let keys = args.iter().filter(|arg| matches!(arg, Arg::Key(_)));
    let takes_more = keys.count() == 1 && !WITHOUT_OPTIONS.contains(&name);
    match rng.u8(..4) {
        0 => drop(args.pop()),
        1 if takes_more => args.push(Arg::Text(word(rng))),
        _ => {
            let texts = args.iter_mut().filter(|arg| matches!(arg, Arg::Text(_)));
            let mut texts: Vec<_> = texts.collect();
            if !texts.is_empty() {
                let at = rng.usize(..texts.len());
                *texts[at] = Arg::Text(word(rng));
            }
        }
    }
}

/// Commands that give each key a life too short to see its end in this round.
pub(crate) fn short_lives(rng: &mut Rng) -> Vec<Command> {
    let mut keys: Vec<_> = keys().collect();
    rng.shuffle(&mut keys);
    let life = |key: &Vec<u8>| Command::new("PEXPIRE").arg(key).arg("5");
    keys[..keys.len() / 2].iter().map(life).collect()
}

/// Commands that show all data.
pub(crate) fn looks() -> Vec<Command> {
    let mut looks = vec![Command::new("KEYS").arg("*")];
    for key in keys() {
        for look in ["TYPE", "PTTL", "GET", "HGETALL"] {
            looks.push(Command::new(look).arg(&key));
        }
        let range = Command::new("ZRANGE").arg(&key).arg("0").arg("-1");
        looks.push(range.arg("WITHSCORES"));
    }
    looks
}

pub(crate) fn is_key(arg: &[u8]) -> bool {
    keys().any(|key| key == arg)
}

pub(crate) fn key(rng: &mut Rng) -> Vec<u8> {
    let all: Vec<_> = keys().collect();
    all[rng.usize(..all.len())].clone()
}

fn keys() -> impl Iterator<Item = Vec<u8>> {
    let odd = [&b"k\x00\xff"[..], b"k with space", b"{k}:x"].map(<[u8]>::to_vec);
    (0..7).map(|n| format!("key{n}").into_bytes()).chain(odd)
}

/// Adds arguments of one kind. A kind in brackets is left out at times, one with a plus repeats.
fn add(kind: &str, model: Model, rng: &mut Rng, args: &mut Vec<Arg>) {
    let optional = kind.strip_prefix('[');
    let optional = optional.and_then(|kind| kind.strip_suffix(']'));
    let repeated = match (kind.strip_suffix('+'), optional) {
        (Some(inner), _) => Some((inner, rng.usize(1..4))),
        (_, Some(inner)) => Some((inner, usize::from(rng.bool()))),
        _ => None,
    };
    if let Some((inner, times)) = repeated {
        for kind in std::iter::repeat_n(inner.split('/'), times).flatten() {
            add(kind, model, rng, args);
        }
        return;
    }
    if kind == "key" {
        return args.push(Arg::Key(key(rng)));
    }
    let options = match kind {
        "set-options" => some_of(&["NX", "XX", "PX #ttl", "EX #sttl"], rng),
        "zadd-options" => some_of(&["NX", "XX"], rng),
        "range-options" => some_of(&["WITHSCORES", "LIMIT #int #int", "REV", "BYSCORE"], rng),
        "by-score-options" => some_of(&["WITHSCORES", "LIMIT #int #int"], rng),
        _ => return args.push(Arg::Text(value(kind, model, rng))),
    };
    for option in options {
        for part in option.split(' ') {
            args.push(Arg::Text(match part.strip_prefix('#') {
                Some(kind) => value(kind, model, rng),
                None => cased(part, rng),
            }));
        }
    }
}

/// None, one or two options.
fn some_of<'a>(options: &[&'a str], rng: &mut Rng) -> Vec<&'a str> {
    let count = [0, 0, 1, 1, 2, 3][rng.usize(..6)];
    (0..count)
        .map(|_| options[rng.usize(..options.len())])
        .collect()
}

/// A random value of a kind.
fn value(kind: &str, model: Model, rng: &mut Rng) -> Vec<u8> {
    match kind {
        "zero" => b"0".to_vec(),
        "match" => b"MATCH".to_vec(),
        "byscore" => b"BYSCORE".to_vec(),
        "field" => format!("f{}", rng.u8(..6)).into_bytes(),
        "value" => some_value(rng),
        "int" if rng.u8(..8) > 0 => rng.i32(-3..6).to_string().into_bytes(),
        "int" => {
            let wide = "100 -100 9223372036854775807 -9223372036854775808 9223372036854775808";
            one_of(wide.split(' ').chain(["x", "1.5", "-0", "01"]), rng)
        }
        "score" => score(model, rng),
        "min" | "max" => match rng.u8(..4) {
            0 => [b"(", &score(model, rng)[..]].concat(),
            1 => one_of("-inf +inf inf (inf (-inf".split(' '), rng),
            _ => score(model, rng),
        },
        "ttl" => lifetime(rng, 1_000_000),
        "sttl" => lifetime(rng, 1000),
        "pattern" => {
            let all = "* key? key[1-3] key[^1] k* f* ?[0-9] \\* nothing f[ *1";
            one_of(all.split(' '), rng)
        }
        _ => panic!("no such kind of argument: {kind}"),
    }
}

/// A lifetime: long enough never to end here, distinct enough that two do not meet, or wrong.
fn lifetime(rng: &mut Rng, unit: u64) -> Vec<u8> {
    match rng.u8(..12) {
        0 => b"0".to_vec(),
        1 => b"-1".to_vec(),
        2 => one_of(
            "x 9223372036854775807 -9223372036854775808 ".split(' '),
            rng,
        ),
        // Too long in seconds, and near the end of time in milliseconds.
        3 => (9_223_372_036_854_775 - rng.u64(1..1_000_000) * 1_000_000)
            .to_string()
            .into_bytes(),
        _ => (rng.u64(1..1_000_000) * unit).to_string().into_bytes(),
    }
}

fn score(model: Model, rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..8) {
        0..4 => rng.i32(-5..6).to_string().into_bytes(),
        5 if has_exact_digits(model) => {
            format!("{}", (rng.f64() - 0.5) * 10f64.powi(rng.i32(-20..21))).into_bytes()
        }
        4 | 5 => format!("{}", f64::from(rng.i32(-100..100)) / 8.0).into_bytes(),
        6 => one_of(WIDE_SCORES.split(' '), rng),
        _ => one_of("nan,x,, 1,1 ,1e,--1,1x".split(','), rng),
    }
}

/// Tells whether this server writes a fraction with the digits that the engine finds. Valkey's
/// digits read back as the same number, and now and then are not the shortest.
pub(crate) fn has_exact_digits(model: Model) -> bool {
    model != Model::Valkey9_1
}

fn some_value(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..6) {
        0 => rng.i32(-20..20).to_string().into_bytes(),
        1 => b"9223372036854775800".to_vec(),
        2 => (0..rng.usize(..12)).map(|_| rng.u8(..)).collect(),
        3 => format!("{}.5", rng.i8(..)).into_bytes(),
        _ => word(rng),
    }
}

fn word(rng: &mut Rng) -> Vec<u8> {
    if rng.u8(..16) == 0 {
        return lifetime(rng, 1_000_000);
    }
    one_of(WORDS.split(','), rng)
}

/// Picks one.
fn one_of<'a>(items: impl Iterator<Item = &'a str>, rng: &mut Rng) -> Vec<u8> {
    rng.choice(items.collect::<Vec<_>>()).unwrap().into()
}

fn cased(word: &str, rng: &mut Rng) -> Vec<u8> {
    if rng.u8(..8) == 0 {
        word.to_lowercase().into_bytes()
    } else {
        word.as_bytes().to_vec()
    }
}

/// A command that is not about data, or none at all.
fn oddity(rng: &mut Rng) -> Command {
    let line = rng.choice(ODDITIES.split(',').collect::<Vec<_>>());
    let words = line.unwrap().split(' ');
    words.fold(Command::with_capacity(4, 32), Command::arg)
}

const WIDE_SCORES: &str = "inf -inf 1e3 -0 +1 .5 5. 1e400 1e-400 1700000000000";

const WORDS: &str = ",a,hello,NX,LIMIT,WITHSCORES,0,-3,FOO,1 , 2,+5,007,é";

/// To these commands a word may be an option, which the engine does not have.
const WITHOUT_OPTIONS: [&str; 2] = ["PEXPIRE", "ZRANK"];

/// The commands on data and the kinds of their arguments.
const SHAPES: &[(&str, &str)] = &[
    ("GET", "key"),
    ("SET", "key value set-options"),
    ("SET", "key value"),
    ("SET", "key int set-options"),
    ("DEL", "key+"),
    ("EXISTS", "key+"),
    ("TYPE", "key"),
    ("PEXPIRE", "key ttl"),
    ("PTTL", "key"),
    ("PERSIST", "key"),
    ("HGET", "key field"),
    ("HSET", "key field/value+"),
    ("HSET", "key field int"),
    ("HSET", "key field/value+"),
    ("HMGET", "key field+"),
    ("HDEL", "key field+"),
    ("HGETALL", "key"),
    ("HINCRBY", "key field int"),
    ("HSCAN", "key zero [match/pattern]"),
    ("ZADD", "key zadd-options score/field+"),
    ("ZADD", "key score/field+"),
    ("ZADD", "key score field"),
    ("ZREM", "key field+"),
    ("ZSCORE", "key field"),
    ("ZRANK", "key field"),
    ("ZCARD", "key"),
    ("ZCOUNT", "key min max"),
    ("ZRANGE", "key int int range-options"),
    ("ZRANGE", "key min max byscore range-options"),
    ("ZRANGE", "key int int"),
    ("ZRANGEBYSCORE", "key min max by-score-options"),
    ("ZPOPMIN", "key [int]"),
    ("ZREMRANGEBYSCORE", "key min max"),
    ("INCR", "key"),
    ("INCRBY", "key int"),
    ("DECR", "key"),
    ("DECRBY", "key int"),
    ("GET", "key"),
    ("HGET", "key field"),
    ("ZSCORE", "key field"),
    ("PTTL", "key"),
    ("DEL", "key"),
];

const ODDITIES: &str = "\
    PING,PING hello,PING a b,SELECT 0,SELECT 99,SELECT x,KEYS *,KEYS key[1-4],SCAN 0 COUNT 1000,\
    SCAN 0 MATCH key* COUNT 1000,SCAN x,SCAN 0 COUNT 0,SCAN 0 COUNT x,SCAN 0 MATCH,SCAN 0 FOO 1,\
    CLIENT SETNAME me,CLIENT GETNAME,CLIENT SETNAME,CLIENT FOO,CLIENT,WAIT 0 0,WAIT x 0,\
    WAIT 0 x,WAIT 0 -1,WAIT 0,PUBLISH c m,PUBLISH c,SPUBLISH c m,NOPE,NOPE a b c,FLUSHALL FOO,\
    CONFIG GET maxmemory,CONFIG GET nothing,CONFIG SET nothing 1,CONFIG SET maxmemory x,CONFIG,\
    CONFIG FOO,SCRIPT EXISTS abc,SCRIPT FOO,SCRIPT LOAD,SCRIPT FLUSH FOO,EVALSHA abc 0,\
    EVALSHA abc x,EVAL x,SCRIPT FLUSH,TIME x,ROLE x";
