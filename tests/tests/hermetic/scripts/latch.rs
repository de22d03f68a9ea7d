//! The scripts of the latch under random interleavings: operations that are sent again, late
//! copies, lost replies, expiry. After every script its reply, its messages and all data are what
//! the model says.

use redlatch_lua::LATCH;

use super::{
    bed,
    changes::{Latch, RECORD},
    exact::args,
    prelude::*,
};

// L37
#[test]
fn latch_follows_the_model_under_lost_replies_and_late_copies() {
    worlds(|model, seed| world::<Latch>(model, seed).probing(2).run());
}

#[test]
fn a_count_down_costs_a_bounded_number_of_commands_however_many_are_remembered() {
    let mut bed = Bed::new(Model::default());
    bed.ask(&set("a:0", 1_000_000, None));
    let count = |bed: &mut Bed, n: u32| {
        // TIME, HMGET, ZSCORE twice, PEXPIRE, ZADD, HSET, ZRANGEBYSCORE, and ZREM of 32 at most.
        at_most(bed, &count_down(&format!("a:{n}"), 1), ("counted", 9));
        bed.sorted(OPERATIONS).len()
    };
    for n in 1..=500 {
        bed.pass(Duration::from_millis(50));
        assert_eq!(count(&mut bed, n), 1 + n as usize);
    }
    // All but the last two are old now.
    bed.pass(Duration::from_millis(KEEP - 100));
    assert_eq!(count(&mut bed, 501), 502 - 32, "32 old ones go");
    costs(&mut bed, &look(&[5]), ("set", 2));
    at_most(&mut bed, &delete("a:x"), ("deleted", 12));
}

impl Kind for Latch {
    type What = Call;
    type Other = Infallible;

    fn act(world: &mut World<Self>, request: Request<Call>) {
        let (change, by) = request.change();
        world.arrive(&change, by);
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        world.kind.ends.into_iter().collect()
    }

    fn passed(world: &mut World<Self>) {
        let now = world.bed.now;
        let over = world.kind.ends.is_some_and(|ends| now.millis() > ends);
        // Where time moves during a script, the key may end a millisecond later.
        if over && world.bed.ttl(KEY).is_none() {
            world.kind.lose(now.micros());
        }
    }

    fn wants_memory(call: &Call, answer: &[String]) -> bool {
        call.script.name == "latch/set" && answer[1] == "set"
    }
}

impl Exact for Latch {
    fn answer(&mut self, call: &Call, micros: u64) -> Answer {
        self.reply(call.script.name, args(call), (micros, micros))
    }
}

impl World<Latch> {
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
        let id = format!("c{}:{number}", self.rng.u8(..2));
        let call = match self.rng.u8(..10) {
            0..4 => {
                let ttl = (self.rng.u8(..3) == 0).then(|| self.rng.u64(1_000..20_000));
                set(&id, self.rng.u32(..4), ttl)
            }
            4..9 => count_down(&id, self.rng.u32(1..3)),
            _ => delete(&id),
        };
        self.begin(id, call);
    }

    fn look(&mut self) {
        let numbers = self.kind.generations.iter().map(|it| it.number);
        let mut asked: Vec<_> = numbers.rev().take(12).collect();
        self.rng.shuffle(&mut asked);
        asked.truncate(self.rng.usize(..4));
        asked.push(self.rng.u64(1..) % 9_000_000_000_000_000 + 1_000_000_000_000_000);
        asked.truncate(self.rng.usize(..=4));
        self.follow(&look(&asked));
    }

    /// The server loses the latch, and not the memory of the operations.
    fn lose(&mut self) {
        self.note(Event::LostKey);
        // Generations are told apart by the clock.
        self.bed.pass(Duration::from_millis(1));
        self.bed.execute(&Command::new("DEL").arg(KEY)).unwrap();
        self.kind.lose(self.bed.now.micros());
    }

    /// Compares what is stored, and when it ends, with what the model says (L36).
    fn check_data(&mut self) {
        let now = self.bed.millis();
        let hash = self.bed.hash(KEY);
        let field = |name: &str| hash.get(name).cloned();
        let latch = &self.kind;
        let left = latch.present().map(|present| present.left.to_string());
        self.assert_eq(&field("c"), &left);
        let last = latch.generations.last().filter(|last| !last.forgotten);
        let expected = last.map(|_| latch.ends);
        let number = last.map(|last| last.number.to_string());
        self.assert_eq(&field("g"), &number);
        assert!(field("r").is_none_or(|opened| opened.len() <= 1 + RECORD * 34));
        let ends = self.bed.engine.ttl(KEY.as_bytes(), self.bed.now);
        let ends = ends.map(|ttl| ttl.map(|ttl| now + u64::try_from(ttl.as_millis()).unwrap()));
        match (ends, expected) {
            // Where time moves during a script, PEXPIRE counts from a later millisecond.
            (Some(Some(ends)), Some(Some(expected))) => {
                assert!(ends == expected || ends == expected + 1, "{}", self.story());
            }
            _ => self.assert_eq(&ends, &expected),
        }
        let remembered = self.bed.sorted(OPERATIONS);
        if !remembered.is_empty() {
            let ttl = self.bed.ttl(OPERATIONS).unwrap();
            let last = remembered.values().max().unwrap() / 1_000;
            // Where time moves during a script, the two are read a millisecond apart.
            assert!(ttl <= KEEP + 1 && now + ttl + 1 >= last, "{}", self.story());
        }
    }
}

fn set(op: &str, count: u32, ttl: Option<u64>) -> Call {
    call(&LATCH.set, op, &[&count, &optional(ttl), &KEEP])
}

fn count_down(op: &str, n: u32) -> Call {
    call(&LATCH.count_down, op, &[&n, &KEEP, &"PUBLISH", &CHANNEL])
}

fn delete(op: &str) -> Call {
    call(&LATCH.delete, op, &[&KEEP, &TRACE, &"PUBLISH", &CHANNEL])
}

fn look(generations: &[u64]) -> Call {
    let args = generations.iter().map(u64::to_string).collect();
    let (script, keys) = (&LATCH.look, text(&[KEY]));
    Call { script, keys, args }
}

/// Makes a call that changes the latch.
fn call(script: &'static Source, op: &str, own: &[&dyn Display]) -> Call {
    let args = [texts(&[&FOREVER, &op]), texts(own)].concat();
    let keys = text(&[KEY, OPERATIONS]);
    Call { script, keys, args }
}

const OPERATIONS: &str = "p:{t}x:o";
const CHANNEL: &str = bed::CHANNELS[0];

/// How long it is remembered that there was a latch, in ms.
const TRACE: u64 = 15_000;
