//! The scripts of the fence under random interleavings: operations that are sent again, late
//! copies, lost replies, resets. After every script its reply and all data are what the model says,
//! and the mark never falls without a reset.

use std::{collections::BTreeMap, convert::Infallible};

use redlatch::runtime::Command;
use redlatch_embedded::engine::Model;
use redlatch_lua::{FENCE, Source};

use super::{
    bed::{Bed, Call, optional, text},
    driver::{self, Kind, Request, World, assert_noticed, worlds},
};

#[test]
fn fence_follows_the_model_under_lost_replies_and_late_copies() {
    worlds(|model, seed| world(model, seed).probing(2).run());
}

#[test]
fn faulty_scripts_are_noticed() {
    let later = "mark[2] + 0 > token + 0";
    for fault in [
        (&FENCE.set, later, "mark[2] > token"),
        (&FENCE.set, later, "mark[2] + 0 >= token + 0"),
        (&FENCE.set, "call('ZSCORE', ops, op) then", "false then"),
        (&FENCE.set, "op .. '!') then", "'') then"),
        (&FENCE.raise, "'t', token)", "'t', mark[2] or token)"),
        (&FENCE.reset, "redis.call('DEL', mark_key)", ""),
    ] {
        assert_noticed(fault, |seed| world(Model::default(), seed), World::run);
    }
}

/// A server may stop a write at the data, for example without the right to the command. Then the
/// mark has advanced, and nothing says that the operation has written.
#[test]
fn write_that_fails_at_the_data_fails_in_each_copy() {
    for (script, own) in [
        (&FENCE.set, &["v", ""][..]),
        (&FENCE.hset, &["field", "v"][..]),
        (&FENCE.delete, &[][..]),
    ] {
        let mut bed = Bed::new(Model::default());
        let commands = ["SET", "HSET", "DEL"].into_iter();
        let refused = commands.fold(script.text.to_owned(), |script, command| {
            script.replace(&format!("'{command}', KEYS[1]"), "'REFUSED', KEYS[1]")
        });
        assert_ne!(refused, script.text);
        bed.replace(script.name, &refused);
        let by = (bed.millis() + 1_000).to_string();
        let args = [&[&*by, "a:1", "5", "30000", ""][..], own].concat();
        let write = Call::new(script, text(&[DATA, MARK, OPERATIONS]), &args);
        for _ in 0..2 {
            bed.call(&write).unwrap_err();
            assert_eq!(bed.hash(MARK)["t"], "5", "{write}");
        }
        bed.replace(script.name, script.text);
        assert_eq!(bed.ask(&write)[1], "written", "{write}");
        assert_eq!(bed.ask(&write)[1], "already", "{write}");
    }
}

/// An operation and its token.
type What = (Verb, u64);

/// An operation as its client knows it.
type Operation = driver::Attempt<What>;

#[derive(Clone, Debug)]
enum Verb {
    Set(String, Option<u64>),
    Delete,
    Raise,
    Read,
    Reset,
}

/// What an operation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    Written,
    Refused,
}

/// One fence, with a memory of every operation that ever ran.
#[derive(Default)]
struct Fence {
    mark: Option<u64>,
    /// The data, and when they expire in ms.
    data: Option<(String, Option<u64>)>,
    operations: BTreeMap<String, Ran>,
}

fn world(model: Model, seed: u64) -> World<Fence> {
    World::new(Bed::new(model), seed, Fence::default())
}

impl Kind for Fence {
    type What = What;
    type Other = Infallible;

    fn act(world: &mut World<Self>, request: Request<What>) {
        let (operation, by) = request.change();
        world.operate(&operation, by);
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        let data = world.kind.data.as_ref();
        data.and_then(|(_, ends)| *ends).into_iter().collect()
    }

    fn passed(world: &mut World<Self>) {
        // Where time moves during a script, the data may expire a millisecond later.
        let there = Command::new("GET").arg(DATA);
        let gone = world.bed.execute(&there).unwrap().as_str().is_none();
        let now = world.bed.millis();
        let ends = world.kind.data.as_ref().and_then(|(_, ends)| *ends);
        if let Some(ends) = ends {
            assert!(!gone || now + 1 >= ends, "{}", world.story());
            assert!(gone || now <= ends + 1, "{}", world.story());
            if gone {
                world.kind.data = None;
            }
        }
    }

    fn wants_memory(call: &Call, answer: &[String]) -> bool {
        call.script.name != "fence/reset" && answer[1] == "written"
    }
}

impl World<Fence> {
    fn run(mut self) {
        for _ in 0..150 {
            match self.rng.u8(..20) {
                0..8 => self.begin_one(),
                8..12 => self.insist(),
                12..15 => self.deliver(),
                15 => self.look(),
                16 if self.rng.u8(..4) == 0 => self.pass(40_000),
                16..18 => self.pass(3_000),
                _ => self.pass(100),
            }
            self.check_data();
        }
    }

    fn begin_one(&mut self) {
        let number = self.number();
        let verb = match self.rng.u8(..12) {
            0..6 => {
                let ttl = (self.rng.u8(..3) == 0).then(|| self.rng.u64(1_000..20_000));
                Verb::Set(format!("v{number}"), ttl)
            }
            6..8 => Verb::Delete,
            8 => Verb::Raise,
            9..11 => Verb::Read,
            _ => Verb::Reset,
        };
        // Some have fewer digits than others, and some are as long as tokens are.
        let base = [0, 98, 1_700_000_000_000_000][self.rng.usize(..3)];
        let id = format!("c{}:{number}", self.rng.u8(..2));
        let token = base + self.rng.u64(1..5);
        self.begin(id, (verb, token));
    }

    fn operate(&mut self, operation: &Operation, by: u64) {
        let before = (self.bed.dump(), self.kind.mark);
        let answer = self.ask(&call(operation, by));
        let now = self.bed.millis();
        let known = self.kind.operations.get(&operation.id).copied();
        let verdict = match known {
            _ if now > by => text(&["late"]),
            Some(Ran::Written) => text(&["already"]),
            Some(Ran::Refused) => {
                let mark = self.kind.mark.unwrap_or(operation.what.1);
                text(&["fenced", &mark.to_string()])
            }
            None => self.kind.run(operation, now),
        };
        self.assert_answer(&answer, &verdict);
        let reset = matches!(operation.what.0, Verb::Reset);
        if !reset {
            assert!(self.kind.mark >= before.1, "it fell, {}", self.story());
        }
        if known.is_some() || now > by {
            self.assert_unchanged(&before.0, "a copy writes");
        }
    }

    fn look(&mut self) {
        let answer = self.inspect(&Call::new(&FENCE.look, text(&[MARK]), &[]));
        let right = match self.kind.mark {
            Some(mark) => text(&["mark", &mark.to_string()]),
            None => text(&["unset"]),
        };
        self.assert_answer(&answer, &right);
    }

    fn check_data(&mut self) {
        let mark = self.bed.hash(MARK).remove("t");
        let mark = mark.map(|mark| mark.parse().unwrap());
        self.assert_eq(&mark, &self.kind.mark);
        let data = self.bed.execute(&Command::new("GET").arg(DATA)).unwrap();
        let expected = self.kind.data.as_ref().map(|(value, _)| value.as_str());
        self.assert_eq(&data.as_str(), &expected);
        let ttl = self.bed.engine.ttl(MARK.as_bytes(), self.bed.now);
        assert_eq!(ttl, self.kind.mark.map(|_| None), "the mark stays");
        if !self.bed.sorted(OPERATIONS).is_empty() {
            let ttl = self.bed.ttl(OPERATIONS).unwrap();
            assert!(ttl <= KEEP + 1, "{}", self.story());
        }
    }
}

impl Fence {
    /// Runs an operation for the first time.
    fn run(&mut self, operation: &Operation, now: u64) -> Vec<String> {
        let id = operation.id.clone();
        if let Verb::Reset = operation.what.0 {
            self.operations.insert(id, Ran::Written);
            return text(&["reset", &optional(self.mark.take())]);
        }
        if let Some(mark) = self.mark.filter(|&mark| mark > operation.what.1) {
            self.operations.insert(id, Ran::Refused);
            return text(&["fenced", &mark.to_string()]);
        }
        self.operations.insert(id, Ran::Written);
        self.mark = Some(operation.what.1);
        match &operation.what.0 {
            Verb::Set(value, ttl) => {
                self.data = Some((value.clone(), ttl.map(|ttl| now + ttl)));
            }
            Verb::Delete => self.data = None,
            Verb::Read => {
                let data = self.data.as_ref();
                return text(&["written", data.map_or("", |(data, _)| data)]);
            }
            Verb::Raise | Verb::Reset => {}
        }
        text(&["written"])
    }
}

fn call(operation: &Operation, by: u64) -> Call {
    let (script, own): (&'static Source, Vec<String>) = match &operation.what.0 {
        Verb::Set(value, ttl) => (&FENCE.set, vec![value.clone(), optional(*ttl)]),
        Verb::Delete => (&FENCE.delete, vec![]),
        Verb::Raise => (&FENCE.raise, vec![]),
        Verb::Read => (&FENCE.eval, vec![]),
        Verb::Reset => (&FENCE.reset, vec![]),
    };
    let (by, keep) = (by.to_string(), KEEP.to_string());
    let token = operation.what.1.to_string();
    let args = match operation.what.0 {
        Verb::Reset => vec![&*by, &operation.id, &keep],
        _ => vec![&*by, &operation.id, &token, &keep, ""],
    };
    let mut call = Call::new(script, text(&[DATA, MARK, OPERATIONS]), &args);
    call.args.extend(own);
    call
}

const DATA: &str = "{t}x";
const MARK: &str = "p:{t}x:f";
const OPERATIONS: &str = "p:{t}x:fo";

/// How long operations are remembered, in ms.
const KEEP: u64 = 30_000;
