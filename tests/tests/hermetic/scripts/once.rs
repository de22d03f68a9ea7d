//! The scripts of a job under random interleavings: claims that are sent again, late copies, lost
//! replies, outcomes, resets, expiry. After every script its reply and what a look shows are what
//! the model says.

use std::time::Duration;

use redlatch_embedded::engine::Model;
use redlatch_lua::ONCE;

use super::{
    bed::{self, Bed, Call},
    costs::counted,
    driver::{self, Kind, Request, World, assert_noticed, worlds},
    once_model::{Claim, Job, OPEN, stored},
};

#[test]
fn job_follows_the_model_under_lost_replies_and_late_copies() {
    worlds(|model, seed| world(model, seed).probing(2).run());
}

/// Faults that are planted in the scripts, which let late copies of a claim act.
#[test]
fn late_copies_that_act_are_noticed() {
    let marks = "if void ~= '' and void >= now then";
    for fault in [
        (&ONCE.claim, "return {now, 'void'}", ""),
        (&ONCE.claim, "if now > ARGV[1] or", "if"),
        (&ONCE.release, marks, "if false then"),
    ] {
        assert_noticed(fault, |seed| world(Model::default(), seed), World::run);
    }
}

/// A job whose slots fail one after the other remembers 64 of them, and closes the older ones.
#[test]
fn failed_slots_beyond_sixty_four_are_closed() {
    let mut world = world(Model::default(), 1);
    for slot in 1..=200 {
        world.fail(&slot.to_string(), 1);
        assert!(world.kind.job.open.len() <= OPEN);
    }
    assert_eq!(world.kind.job.floor, Some(200 - OPEN as u64));
    let claim = world.draw_claim("100", 9);
    assert_eq!(world.ask_claim(&claim, FOREVER)[1], "moved");
}

/// A job remembers a thousand keyed slots, refuses the next, and forgets them when their time is
/// up.
#[test]
fn keyed_slots_are_remembered_up_to_a_thousand() {
    let mut world = world(Model::default(), 1);
    for n in 0..1_000 {
        world.fail(&format!("={n}"), 1);
    }
    world.fail("=7", 2);
    let claim = world.draw_claim("=new", 1);
    assert_eq!(world.inspect(&claim_call(&claim, FOREVER))[1], "full");
    world.pass_exactly(Duration::from_millis(KEEP));
    for n in 1..=200 {
        world.fail(&format!("=new{n}"), 1);
        // Each slot has one field, beside those of the job.
        let fields = world.bed.hash(KEY).len();
        assert!(fields < n + 20, "{n}: {fields}");
    }
}

/// However long one keyed slot is remembered, the others take no more room than they need.
#[test]
fn slot_that_is_remembered_holds_up_no_others() {
    let mut world = world(Model::default(), 1);
    world.fail("=a", 1);
    for _ in 0..500 {
        world.fail("=b", 1_000);
    }
    let fields = world.bed.hash(KEY).len();
    assert!(fields < 20, "{fields}");
}

/// Slots that are forgotten make room, also behind one that is not.
#[test]
fn slots_are_forgotten_behind_one_that_is_remembered_for_longer() {
    let mut world = world(Model::default(), 1);
    for n in 0..40 {
        let mut claim = world.draw_claim(&format!("=long{n}"), 1);
        (claim.lease, claim.keep) = (50, 2 * KEEP);
        assert_eq!(world.ask_claim(&claim, FOREVER)[1], "granted");
        world.pass_exactly(Duration::from_millis(50));
    }
    for n in 0..960 {
        world.fail(&format!("={n}"), 1);
    }
    let claim = world.draw_claim("=new", 1);
    assert_eq!(world.bed.ask(&claim_call(&claim, FOREVER))[1], "full");
    world.pass_exactly(Duration::from_millis(KEEP));
    world.fail("=new", 1);
    let claim = world.draw_claim("=long0", 1);
    assert_eq!(world.ask_claim(&claim, FOREVER)[1], "moved");
    let fields = world.bed.hash(KEY).len();
    assert!(fields < 41 + 20, "{fields}");
}

/// The time for which a keyed slot is remembered begins at the end of its run, however long the run
/// was and however it ended.
#[test]
fn keyed_slot_of_a_long_run_is_remembered_from_its_end() {
    let mut world = world(Model::default(), 1);
    let mut claim = world.draw_claim("=a", 1);
    claim.lease = 9_000;
    let answer = world.ask_claim(&claim, FOREVER);
    let mut attempt = world.attempt(claim.attempt.clone(), claim);
    attempt.held = Some(answer[3].parse().unwrap());
    for _ in 0..10 {
        world.pass_exactly(Duration::from_millis(8_000));
        world.act_renew(&attempt, FOREVER, 9_000);
        world.check();
    }
    // Its process has died.
    world.pass_exactly(Duration::from_millis(9_000 + KEEP - 1));
    let claim = world.draw_claim("=a", 1);
    assert_eq!(world.ask_claim(&claim, FOREVER)[1], "moved");
    world.pass_exactly(Duration::from_millis(1));
    assert_eq!(world.ask_claim(&claim, FOREVER)[1], "granted");
}

#[test]
fn run_costs_a_bounded_number_of_commands_however_much_is_remembered() {
    let mut world = world(Model::default(), 1);
    for slot in 1..=100 {
        world.fail(&slot.to_string(), 1);
    }
    for n in 0..999 {
        world.fail(&format!("={n}"), 1);
    }
    world.bed.pass(Duration::from_millis(KEEP + 1));
    for (slot, most) in [("300", 9), ("=x", 12)] {
        let mut claim = world.draw_claim(slot, 1);
        claim.seen = look_seen(&world.bed.ask(&look("")));
        let (verdict, commands) = counted(&mut world.bed, &claim_call(&claim, FOREVER));
        assert_eq!(verdict, "granted");
        assert!(commands <= most, "{slot}: {commands}");
        let (verdict, commands) = counted(&mut world.bed, &look(slot));
        assert!(verdict == "job" && commands <= 3, "{commands}");
        let token = world.bed.hash(KEY)["t"].parse().unwrap();
        let call = release_call(&claim.owner, &claim.attempt, None, Some(token), "done", "");
        let (verdict, commands) = counted(&mut world.bed, &call);
        assert!(verdict == "released" && commands <= 10, "{commands}");
    }
}

const KEY: &str = "p:{t}x";

/// How long a key without a record lives, and one with a record, in ms.
const RETENTION: u64 = 10_000;
const TTL: u64 = 100_000;

/// How long a keyed slot is remembered, in ms.
const KEEP: u64 = 30_000;

const FOREVER: u64 = 9_999_999_999_999;

/// A claim as its client knows it.
type Attempt = driver::Attempt<Claim>;

/// An operation, what it saw, the reset before, and until when it may act.
type Reset = (String, String, String, u64);

/// One job.
#[derive(Default)]
struct Once {
    job: Job,
    /// The greatest token there ever was.
    greatest: u64,
}

fn world(model: Model, seed: u64) -> World<Once> {
    World::new(Bed::new(model), seed, Once::default())
}

impl Kind for Once {
    type What = Claim;
    type Other = Reset;

    fn act(world: &mut World<Self>, request: Request<Claim, Reset>) {
        match request {
            Request::Ask(attempt, by) => world.act_claim(&attempt.what, by),
            Request::Renew(attempt, by, lease) => world.act_renew(&attempt, by, lease),
            Request::Release(attempt, void) => {
                let outcome = match attempt.held {
                    // An attempt that its client does not know to hold never began.
                    None => "",
                    Some(token) => ["done", "failed", "lost"][token as usize % 3],
                };
                world.act_release(&attempt, void, outcome);
            }
            Request::Other((op, seen, z, by)) => world.act_reset(&op, &seen, &z, by),
        }
        world.check();
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        let job = &world.kind.job;
        let hold = job.hold.iter().map(|hold| hold.until);
        let keyed = job.keyed.values().map(|(_, ends)| *ends);
        hold.chain(job.spent.until()).chain(keyed).collect()
    }

    fn passed(world: &mut World<Self>) {
        let now = world.bed.millis();
        world.kind.job.pass(now);
        if world.bed.ttl(KEY).is_none() {
            world.kind.job.forget();
        }
        world.check();
    }

    fn wants_memory(call: &Call, answer: &[String]) -> bool {
        call.script.name == "once/claim" && answer[1] == "granted"
    }
}

impl World<Once> {
    fn run(mut self) {
        for _ in 0..120 {
            match self.rng.u8(..20) {
                0..5 => self.begin_one(),
                5..7 => self.send_again(),
                7..10 => self.deliver(),
                10 => self.renew(),
                11..15 => self.end_one(),
                15 => self.begin_reset(),
                16 if self.rng.u8(..4) == 0 => self.pass(150_000),
                16..18 => self.pass(3_000),
                _ => self.pass(200),
            }
        }
        self.wind_up();
        self.bed.pass(Duration::from_millis(2 * TTL));
        self.assert_unchanged(&[], "something is left");
    }

    fn draw_claim(&mut self, slot: &str, limit: u32) -> Claim {
        let number = self.number();
        let client = ["a", "b"][number as usize % 2];
        Claim {
            owner: format!("{client}:o{number}"),
            attempt: format!("{client}:{number}"),
            lease: [50, 400, 2_000, 9_000][self.rng.usize(..4)],
            slot: slot.to_owned(),
            seen: self.kind.job.seen(),
            from: None,
            before: None,
            limit,
            who: format!("{client}-host:{number}"),
            keep: KEEP,
        }
    }

    fn begin_one(&mut self) {
        let now = self.bed.millis();
        let slot = match self.rng.u8(..5) {
            0 => "=a".to_owned(),
            1 => "=b c".to_owned(),
            // Slots of time that follow the clock, and earlier ones.
            _ => ((now / 1_000 - self.rng.u64(..3)) * 1_000).to_string(),
        };
        let mut claim = self.draw_claim(&slot, 1);
        claim.limit = self.rng.u32(1..4);
        if self.rng.u8(..3) == 0 {
            claim.from = Some(now / 1_000 * 1_000 + self.rng.u64(..2) * 500);
            claim.before = Some(now / 1_000 * 1_000 + 500 + self.rng.u64(..2) * 500);
        }
        self.begin(claim.attempt.clone(), claim);
    }

    fn begin_reset(&mut self) {
        let number = self.number();
        let (seen, z) = (self.kind.job.seen(), self.kind.job.reset.clone());
        let by = self.bed.millis() + self.rng.u64(..5_000);
        let op = format!("a:{number}");
        self.dispatch_repeatedly(Request::Other((op, seen, z, by)));
    }

    fn ask_claim(&mut self, claim: &Claim, by: u64) -> Vec<String> {
        let before = self.bed.dump();
        let answer = self.ask(&claim_call(claim, by));
        let (now, micros) = (self.bed.millis(), self.bed.now.micros());
        let copy = self.kind.job.hold.as_ref();
        let copy = copy.is_some_and(|hold| hold.attempt == claim.attempt && hold.until > now);
        let right = self.kind.job.claim(now, micros, by, claim);
        self.assert_answer(&answer, &right);
        if answer[1] != "granted" || copy {
            self.assert_unchanged(&before, "nothing is written");
        } else {
            let token = answer[3].parse().unwrap();
            assert!(token > self.kind.greatest, "tokens rise, {}", self.story());
            self.kind.greatest = token;
        }
        answer
    }

    fn act_claim(&mut self, claim: &Claim, by: u64) {
        let answer = self.ask_claim(claim, by);
        let granted = answer[1] == "granted";
        let token = granted.then(|| answer[3].parse().unwrap());
        self.told(&claim.attempt, token);
    }

    /// Claims a slot that may be run so often, and fails.
    fn fail(&mut self, slot: &str, limit: u32) {
        let claim = self.draw_claim(slot, limit);
        let answer = self.ask_claim(&claim, FOREVER);
        assert_eq!(answer[1], "granted", "{slot}");
        let mut attempt = self.attempt(claim.attempt.clone(), claim);
        attempt.held = Some(answer[3].parse().unwrap());
        self.act_release(&attempt, None, "failed");
    }

    fn act_renew(&mut self, attempt: &Attempt, by: u64, lease: u64) {
        let token = attempt.held.unwrap();
        let words = [by, lease, TTL, token, KEEP].map(|number| number.to_string());
        let [sent, lasts, ttl, number, keep] = words.each_ref().map(String::as_str);
        let owner = &*attempt.what.owner;
        let call = call(&ONCE.renew, &[sent, owner, lasts, ttl, number, keep]);
        let before = self.bed.dump();
        let answer = self.ask(&call);
        let now = self.bed.millis();
        let verdict = if now > by {
            "late"
        } else {
            let owner = &attempt.what.owner;
            self.kind.job.renew(now, owner, lease, token, KEEP)
        };
        self.assert_answer(&answer, &[verdict]);
        if verdict != "renewed" {
            self.assert_unchanged(&before, "it never creates");
        }
    }

    fn act_release(&mut self, attempt: &Attempt, void: Option<u64>, outcome: &'static str) {
        let Claim {
            owner, attempt: id, ..
        } = &attempt.what;
        let why = if outcome == "failed" { "no luck" } else { "" };
        let call = release_call(owner, id, void, attempt.held, outcome, why);
        let answer = self.ask(&call);
        let now = self.bed.millis();
        let verdict = self
            .kind
            .job
            .release(now, owner, id, void, attempt.held, outcome, why, KEEP);
        self.assert_answer(&answer, &[verdict]);
    }

    fn act_reset(&mut self, op: &str, seen: &str, z: &str, by: u64) {
        let call = call(&ONCE.reset, &[&by.to_string(), op, seen, z]);
        let answer = self.ask(&call);
        let now = self.bed.millis();
        let verdict = self.kind.job.reset(now, by, op, seen, z);
        self.assert_answer(&answer, &[verdict]);
    }

    /// Compares what looks show, and the key's time to live, with the model.
    fn check(&mut self) {
        let now = self.bed.millis();
        let before = self.bed.dump();
        for slot in ["", "=a", "=b c"] {
            let mut answer = self.bed.ask(&look(slot));
            answer[7] = sorted(&answer[7]);
            self.assert_answer(&answer, &self.expected_look(now, slot));
        }
        assert_eq!(self.bed.dump(), before, "a look writes nothing");
        let job = &self.kind.job;
        let hold = job.hold.as_ref().map_or(0, |hold| hold.until);
        let copies = job.spent.until().filter(|&until| until >= now);
        let needed = hold.max(copies.unwrap_or(0));
        let ends = self.bed.ttl(KEY).map_or(0, |ttl| now + ttl);
        assert!(ends >= needed.min(now + RETENTION), "{}", self.story());
        if ends >= now {
            let spent = self.bed.hash(KEY).remove("v").unwrap_or_default();
            self.assert_eq(&spent, &job.spent.to_string());
        }
    }

    fn expected_look(&self, now: u64, slot: &str) -> Vec<String> {
        let job = &self.kind.job;
        let open = job.open.iter().map(|(slot, n)| format!("{slot}:{n}"));
        let mut look = vec![
            "job".to_owned(),
            bed::optional(job.token),
            job.reset.clone(),
            job.last.as_ref().map_or_else(String::new, stored),
            job.why.clone(),
            job.success.as_ref().map_or_else(String::new, stored),
            sorted(&Vec::from_iter(open).join(" ")),
            bed::optional(job.floor),
        ];
        match &job.hold {
            Some(hold) => look.extend([
                hold.until.to_string(),
                hold.owner.clone(),
                hold.run.attempts.to_string(),
                hold.run.began.to_string(),
                hold.run.who.clone(),
                hold.run.slot.clone(),
            ]),
            None => look.extend([const { String::new() }; 6]),
        }
        let known = job.keyed.get(slot).filter(|(_, ends)| *ends > now);
        look.push(known.map_or_else(String::new, |(run, _)| stored(run)));
        look
    }
}

/// Returns the words of a text in one order.
fn sorted(text: &str) -> String {
    let mut words: Vec<_> = text.split_whitespace().collect();
    words.sort_unstable();
    words.join(" ")
}

fn claim_call(claim: &Claim, by: u64) -> Call {
    let time = |time: Option<u64>| time.map_or_else(String::new, |time| format!("{time:013}"));
    let keyed = claim.slot.starts_with('=');
    let keep = bed::optional(keyed.then_some(claim.keep));
    let (by, lease, ttl) = (by.to_string(), claim.lease.to_string(), TTL.to_string());
    let (from, before) = (time(claim.from), time(claim.before));
    let limit = claim.limit.to_string();
    let (owner, attempt) = (&*claim.owner, &*claim.attempt);
    let (slot, seen, who) = (&*claim.slot, &*claim.seen, &*claim.who);
    let args = [
        &*by, owner, attempt, &lease, &ttl, slot, seen, &from, &before, &limit, who, &keep,
    ];
    call(&ONCE.claim, &args)
}

fn release_call(
    owner: &str,
    attempt: &str,
    void: Option<u64>,
    token: Option<u64>,
    outcome: &str,
    why: &str,
) -> Call {
    let (void, token) = (bed::optional(void), bed::optional(token));
    let [ttl, retention, keep] = [TTL, RETENTION, KEEP].map(|ms| ms.to_string());
    let args = [
        owner, attempt, &void, &ttl, &retention, &token, outcome, why, &keep,
    ];
    call(&ONCE.release, &args)
}

fn look(slot: &str) -> Call {
    let slot = if slot.starts_with('=') { slot } else { "" };
    call(&ONCE.look, &[slot])
}

fn call(script: &'static redlatch_lua::Source, args: &[&str]) -> Call {
    Call::new(script, vec![KEY.to_owned()], args)
}

/// Returns what a caller saw that got this answer to a look.
fn look_seen(answer: &[String]) -> String {
    format!("{} {}", answer[2], u8::from(!answer[10].is_empty()))
}
