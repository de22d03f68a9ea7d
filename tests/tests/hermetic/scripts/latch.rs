//! The scripts of the latch under random interleavings: operations that are sent again, late
//! copies, lost replies, expiry. After every script its reply, its messages and all data are what
//! the model says.

use std::{convert::Infallible, time::Duration};

use redlatch::runtime::Command;
use redlatch_embedded::engine::Model;
use redlatch_lua::LATCH;

use super::{
    bed::{self, Bed, Call, optional, text},
    costs::counted,
    driver::{Attempt, Event, Kind, Request, World, worlds},
    latch_model::{Latch, RECORD, Ran},
};

// L37
#[test]
fn latch_follows_the_model_under_lost_replies_and_late_copies() {
    worlds(|model, seed| world(model, seed).probing(2).run());
}

#[test]
fn a_count_down_costs_a_bounded_number_of_commands_however_many_are_remembered() {
    let mut bed = Bed::new(Model::default());
    let by = 9_999_999_999_999;
    bed.ask(&set(by, "a:0", 1_000_000, None));
    let count = |bed: &mut Bed, n: u32| {
        let (verdict, commands) = counted(bed, &count_down(by, &format!("a:{n}"), 1));
        assert_eq!(verdict, "counted");
        // TIME, HMGET, ZSCORE twice, PEXPIRE, ZADD, HSET, ZRANGEBYSCORE, and ZREM of 32 at most.
        assert!(commands <= 9, "{commands}");
        bed.sorted(OPERATIONS).len()
    };
    for n in 1..=500 {
        bed.pass(Duration::from_millis(50));
        assert_eq!(count(&mut bed, n), 1 + n as usize);
    }
    // All but the last two are old now.
    bed.pass(Duration::from_millis(KEEP - 100));
    assert_eq!(count(&mut bed, 501), 502 - 32, "32 old ones go");
    let (verdict, commands) = counted(&mut bed, &look(&[5]));
    assert_eq!((verdict.as_str(), commands), ("set", 2));
    let (verdict, commands) = counted(&mut bed, &delete(by, "a:x"));
    assert_eq!(verdict, "deleted");
    assert!(commands <= 12, "{commands}");
}

#[derive(Clone, Copy, Debug)]
enum What {
    Set(u32, Option<u64>),
    Count(u32),
    Delete,
}

/// One latch.
#[derive(Default)]
struct CountDown {
    latch: Latch,
    /// When the key ends, as the server has it.
    gone_at: Option<u64>,
}

fn world(model: Model, seed: u64) -> World<CountDown> {
    World::new(Bed::new(model), seed, CountDown::default())
}

impl Kind for CountDown {
    type What = What;
    type Other = Infallible;

    fn act(world: &mut World<Self>, request: Request<What>) {
        let (change, by) = request.change();
        world.operate(&change, by);
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        world.kind.latch.ends.into_iter().collect()
    }

    fn passed(world: &mut World<Self>) {
        let now = world.bed.millis();
        if world.kind.gone_at.is_some_and(|at| now > at) {
            world.kind.latch.forget();
        }
    }

    fn wants_memory(call: &Call, answer: &[String]) -> bool {
        call.script.name == "latch/set" && answer[1] == "set"
    }
}

impl World<CountDown> {
    fn run(mut self) {
        for _ in 0..150 {
            match self.rng.u8(..20) {
                0..7 => self.begin_one(),
                7..10 => self.insist(),
                10..13 => self.deliver(),
                13..16 => self.look(),
                16 if self.rng.u8(..4) == 0 => self.pass(40_000),
                16..18 => self.pass(3_000),
                18 if self.rng.u8(..12) == 0 => self.lose(),
                _ => self.pass(100),
            }
            self.check_data();
        }
    }

    fn begin_one(&mut self) {
        let number = self.number();
        let what = match self.rng.u8(..10) {
            0..4 => {
                let ttl = (self.rng.u8(..3) == 0).then(|| self.rng.u64(1_000..20_000));
                What::Set(self.rng.u32(..4), ttl)
            }
            4..9 => What::Count(self.rng.u32(1..3)),
            _ => What::Delete,
        };
        let id = format!("c{}:{number}", self.rng.u8(..2));
        self.begin(id, what);
    }

    fn operate(&mut self, operation: &Attempt<What>, by: u64) {
        let id = &operation.id;
        let call = match operation.what {
            What::Set(count, ttl) => set(by, id, count, ttl),
            What::Count(n) => count_down(by, id, n),
            What::Delete => delete(by, id),
        };
        let before = self.bed.dump();
        let answer = self.ask(&call);
        let published = self.bed.published();
        let (now, micros) = (self.bed.millis(), self.bed.now.micros());
        let latch = &mut self.kind.latch;
        let known = latch.operations.get(id).copied();
        let (verdict, message) = match (operation.what, known) {
            _ if now > by => (text(&["late"]), None),
            (What::Set(..), Some(Ran::Set)) => (text(&["set", ""]), None),
            (What::Set(..), Some(_)) => (text(&["refused", ""]), None),
            (What::Set(count, ttl), None) => (latch.set(id, micros, count, ttl), None),
            (What::Count(_), Some(Ran::Counted(number))) => (latch.counted_again(number), None),
            (What::Count(_), Some(_)) => (text(&["unset"]), None),
            (What::Count(n), None) => latch.count_down(id, micros, n),
            (What::Delete, Some(Ran::Deleted)) => (text(&["deleted"]), None),
            (What::Delete, Some(_)) => (text(&["unset"]), None),
            (What::Delete, None) => latch.delete(id, micros, TRACE),
        };
        self.assert_answer(&answer, &verdict);
        let message = message.map(|message| (CHANNEL.to_owned(), message));
        self.assert_eq(&published, &Vec::from_iter(message));
        if known.is_some() || now > by {
            self.assert_unchanged(&before, "a copy writes nothing");
        }
    }

    fn look(&mut self) {
        let last = self.kind.latch.numbers.iter().rev().take(12);
        let mut asked: Vec<_> = last.copied().collect();
        self.rng.shuffle(&mut asked);
        asked.truncate(self.rng.usize(..4));
        asked.push(self.rng.u64(1..) % 9_000_000_000_000_000 + 1_000_000_000_000_000);
        asked.truncate(self.rng.usize(..=4));
        let answer = self.inspect(&look(&asked));
        let latch = &self.kind.latch;
        let fates = asked.iter().map(|&number| latch.fate(number).to_owned());
        let right = latch.look(self.bed.millis()).into_iter().chain(fates);
        self.assert_answer(&answer, &Vec::from_iter(right));
    }

    /// The server loses the latch, and not the memory of the operations.
    fn lose(&mut self) {
        self.note(Event::LostKey);
        // Generations are told apart by the clock.
        self.bed.pass(Duration::from_millis(1));
        self.bed.execute(&Command::new("DEL").arg(KEY)).unwrap();
        self.kind.latch.forget();
    }

    /// Compares what is stored, and when it ends, with what the model says (L36).
    fn check_data(&mut self) {
        let now = self.bed.millis();
        let hash = self.bed.hash(KEY);
        let field = |name: &str| hash.get(name).cloned();
        let latch = &self.kind.latch;
        let left = latch.present().map(|present| present.left.to_string());
        self.assert_eq(&field("c"), &left);
        let last = latch.generations.last();
        let number = last.map(|last| last.number.to_string());
        self.assert_eq(&field("g"), &number);
        assert!(field("r").is_none_or(|opened| opened.len() <= 1 + RECORD * 34));
        let ends = self.bed.engine.ttl(KEY.as_bytes(), self.bed.now);
        let ends = ends.map(|ttl| ttl.map(|ttl| now + u64::try_from(ttl.as_millis()).unwrap()));
        let expected = (!self.kind.latch.generations.is_empty()).then_some(self.kind.latch.ends);
        match (ends, expected) {
            // Where time moves during a script, PEXPIRE counts from a later millisecond.
            (Some(Some(ends)), Some(Some(expected))) => {
                assert!(ends == expected || ends == expected + 1, "{}", self.story());
            }
            _ => self.assert_eq(&ends, &expected),
        }
        self.kind.gone_at = ends.flatten();
        let remembered = self.bed.sorted(OPERATIONS);
        if !remembered.is_empty() {
            let ttl = self.bed.ttl(OPERATIONS).unwrap();
            let last = remembered.values().max().unwrap() / 1_000;
            // Where time moves during a script, the two are read a millisecond apart.
            assert!(ttl <= KEEP + 1 && now + ttl + 1 >= last, "{}", self.story());
        }
    }
}

fn set(by: u64, op: &str, count: u32, ttl: Option<u64>) -> Call {
    let (count, ttl, keep) = (count.to_string(), optional(ttl), KEEP.to_string());
    call(&LATCH.set, by, op, &[&count, &ttl, &keep])
}

fn count_down(by: u64, op: &str, n: u32) -> Call {
    let (n, keep) = (n.to_string(), KEEP.to_string());
    call(&LATCH.count_down, by, op, &[&n, &keep, "PUBLISH", CHANNEL])
}

fn delete(by: u64, op: &str) -> Call {
    let (keep, trace) = (KEEP.to_string(), TRACE.to_string());
    call(&LATCH.delete, by, op, &[&keep, &trace, "PUBLISH", CHANNEL])
}

fn look(generations: &[u64]) -> Call {
    let mut call = Call::new(&LATCH.look, text(&[KEY]), &[]);
    call.args = generations.iter().map(u64::to_string).collect();
    call
}

fn call(script: &'static redlatch_lua::Source, by: u64, op: &str, args: &[&str]) -> Call {
    let by = by.to_string();
    let args = [&[&*by, op][..], args].concat();
    Call::new(script, text(&[KEY, OPERATIONS]), &args)
}

const KEY: &str = "p:{t}x";
const OPERATIONS: &str = "p:{t}x:o";
const CHANNEL: &str = bed::CHANNELS[0];

/// How long operations are remembered, in ms.
const KEEP: u64 = 30_000;

/// How long it is remembered that there was a latch, in ms.
const TRACE: u64 = 15_000;
