//! The scripts of the fence under random interleavings: operations that are sent again, late
//! copies, lost replies, resets. After every script its reply and all data are what the model says,
//! and the mark never falls without a reset.

use redlatch_lua::FENCE;

use super::{changes::Fence, exact::args, prelude::*};

#[test]
fn fence_follows_the_model_under_lost_replies_and_late_copies() {
    worlds(|model, seed| world::<Fence>(model, seed).probing(2).run());
}

#[test]
fn faulty_scripts_are_noticed() {
    let later = "mark[2] + 0 > token + 0";
    let world = |seed| world::<Fence>(Model::default(), seed);
    for fault in [
        (&FENCE.set, later, "mark[2] > token"),
        (&FENCE.set, later, "mark[2] + 0 >= token + 0"),
        (&FENCE.set, "call('ZSCORE', ops, op) then", "false then"),
        (&FENCE.set, "op .. '!') then", "'') then"),
        (&FENCE.raise, "'t', token)", "'t', mark[2] or token)"),
        (&FENCE.reset, "redis.call('DEL', mark_key)", ""),
    ] {
        assert_noticed(fault, world, World::run);
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

impl Kind for Fence {
    type What = Call;
    type Other = Infallible;

    fn act(world: &mut World<Self>, request: Request<Call>) {
        let ((change, by), before) = (request.change(), world.kind.mark);
        let reset = world.arrive(&change, by).words[0] == "reset";
        world.assert(reset || world.kind.mark >= before, "it fell");
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
        let in_time = ends.is_none_or(|ends| now <= ends + 1);
        world.assert(gone || in_time, "the data outlive their end");
        if gone && ends.is_some_and(|ends| now + 1 >= ends) {
            world.kind.data = None;
        }
    }

    fn wants_memory(call: &Call, answer: &[String]) -> bool {
        call.script.name != "fence/reset" && answer[1] == "written"
    }
}

impl Exact for Fence {
    fn answer(&mut self, call: &Call, micros: u64) -> Answer {
        self.reply(call.script.name, args(call), micros)
    }
}

impl World<Fence> {
    fn run(mut self) {
        for _ in 0..150 {
            match self.rng.u8(..20) {
                0..8 => self.begin_one(),
                8..12 => self.insist(),
                12..15 => self.deliver(),
                15 => drop(self.follow(&Call::new(&FENCE.look, text(&[MARK]), &[]))),
                16 if self.rng.u8(..4) == 0 => self.pass(40_000),
                16..18 => self.pass(3_000),
                _ => self.pass(100),
            }
            self.check_data();
        }
    }

    fn begin_one(&mut self) {
        let number = self.number();
        let id = format!("c{}:{number}", self.rng.u8(..2));
        // Some have fewer digits than others, and some are as long as tokens are.
        let base = [0, 98, 1_700_000_000_000_000][self.rng.usize(..3)];
        let token = (base + self.rng.u64(1..5)).to_string();
        let ttl = (self.rng.u8(..3) == 0).then(|| self.rng.u64(1_000..20_000));
        let (value, ttl, keep) = (format!("v{number}"), optional(ttl), KEEP.to_string());
        let write: [&str; 7] = ["0", &id, &token, &keep, "", &value, &ttl];
        let reset: [&str; 3] = ["0", &id, &keep];
        let (script, args) = match self.rng.u8(..12) {
            0..6 => (&FENCE.set, &write[..]),
            6..8 => (&FENCE.delete, &write[..5]),
            8 => (&FENCE.raise, &write[..5]),
            9..11 => (&FENCE.eval, &write[..5]),
            _ => (&FENCE.reset, &reset[..]),
        };
        let call = Call::new(script, text(&[DATA, MARK, OPERATIONS]), args);
        self.begin(id, call);
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

const DATA: &str = "{t}x";
const MARK: &str = "p:{t}x:f";
const OPERATIONS: &str = "p:{t}x:fo";
