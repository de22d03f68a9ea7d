//! The scripts of a job under random interleavings: claims that are sent again, late copies, lost
//! replies, outcomes, resets, expiry. After every script its reply and what a look shows are what
//! the model says.

use std::fmt;

use redlatch_lua::ONCE;

use super::{driver, prelude::*, spent::Spent};

#[test]
fn job_follows_the_model_under_lost_replies_and_late_copies() {
    worlds(|model, seed| world::<Job>(model, seed).probing(2).run());
}

/// Faults that are planted in the scripts, which let late copies of a claim act.
#[test]
fn late_copies_that_act_are_noticed() {
    let marks = "if void ~= '' and void >= now then";
    let world = |seed| world::<Job>(Model::default(), seed);
    for fault in [
        (&ONCE.claim, "return {now, 'void'}", ""),
        (&ONCE.claim, "if now > ARGV[1] or", "if"),
        (&ONCE.release, marks, "if false then"),
    ] {
        assert_noticed(fault, world, World::run);
    }
}

/// A job whose slots fail one after the other remembers 64 of them, and closes the older ones.
#[test]
fn failed_slots_beyond_sixty_four_are_closed() {
    let mut world = world::<Job>(Model::default(), 1);
    for slot in 1..=200 {
        world.fail(&slot.to_string(), 1);
        assert!(world.kind.open.len() <= OPEN);
    }
    assert_eq!(world.kind.floor, Some(200 - OPEN as u64));
    let claim = world.draw_claim("100", 9);
    assert_eq!(world.follow(&claim).words[0], "moved");
}

/// A job remembers a thousand keyed slots, refuses the next, and forgets them when their time is
/// up.
#[test]
fn keyed_slots_are_remembered_up_to_a_thousand() {
    let mut world = world::<Job>(Model::default(), 1);
    for n in 0..1_000 {
        world.fail(&format!("={n}"), 1);
    }
    world.fail("=7", 2);
    let claim = world.draw_claim("=new", 1);
    assert_eq!(world.inspect(&claim)[1], "full");
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
    let mut world = world::<Job>(Model::default(), 1);
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
    let mut world = world::<Job>(Model::default(), 1);
    for n in 0..40 {
        let mut claim = world.draw_claim(&format!("=long{n}"), 1);
        (claim.args[LEASE], claim.args[MEMORY]) = ("50".to_owned(), (2 * KEEP).to_string());
        assert_eq!(world.follow(&claim).words[0], "granted");
        world.pass_exactly(Duration::from_millis(50));
    }
    for n in 0..960 {
        world.fail(&format!("={n}"), 1);
    }
    let claim = world.draw_claim("=new", 1);
    assert_eq!(world.bed.ask(&claim)[1], "full");
    world.pass_exactly(Duration::from_millis(KEEP));
    world.fail("=new", 1);
    let claim = world.draw_claim("=long0", 1);
    assert_eq!(world.follow(&claim).words[0], "moved");
    let fields = world.bed.hash(KEY).len();
    assert!(fields < 41 + 20, "{fields}");
}

/// The time for which a keyed slot is remembered begins at the end of its run, however long the run
/// was and however it ended.
#[test]
fn keyed_slot_of_a_long_run_is_remembered_from_its_end() {
    let mut world = world::<Job>(Model::default(), 1);
    let mut claim = world.draw_claim("=a", 1);
    claim.args[LEASE] = "9000".to_owned();
    let attempt = world.granted(claim);
    for _ in 0..10 {
        world.pass_exactly(Duration::from_millis(8_000));
        world.follow(&renew_call(&attempt, FOREVER, 9_000));
        world.check();
    }
    // Its process has died.
    world.pass_exactly(Duration::from_millis(9_000 + KEEP - 1));
    let claim = world.draw_claim("=a", 1);
    assert_eq!(world.follow(&claim).words[0], "moved");
    world.pass_exactly(Duration::from_millis(1));
    assert_eq!(world.follow(&claim).words[0], "granted");
}

#[test]
fn run_costs_a_bounded_number_of_commands_however_much_is_remembered() {
    let mut world = world::<Job>(Model::default(), 1);
    for slot in 1..=100 {
        world.fail(&slot.to_string(), 1);
    }
    for n in 0..999 {
        world.fail(&format!("={n}"), 1);
    }
    world.bed.pass(Duration::from_millis(KEEP + 1));
    for (slot, most) in [("300", 9), ("=x", 12)] {
        let mut claim = world.draw_claim(slot, 1);
        claim.args[SEEN] = look_seen(&world.bed.ask(&look("")));
        at_most(&mut world.bed, &claim, ("granted", most));
        at_most(&mut world.bed, &look(slot), ("job", 3));
        let mut attempt = world.attempt(claim.args[ATTEMPT].clone(), claim);
        attempt.held = Some(world.bed.hash(KEY)["t"].parse().unwrap());
        let release = release_call(&attempt, None, "done");
        at_most(&mut world.bed, &release, ("released", 10));
    }
}

/// How long a key without a record lives, and one with a record, in ms.
const RETENTION: u64 = 10_000;
const TTL: u64 = 100_000;

/// How long a keyed slot is remembered, in ms.
const KEEP: u64 = 30_000;

/// The places of arguments of a claim.
const OWNER: usize = 1;
const ATTEMPT: usize = 2;
const LEASE: usize = 3;
const SEEN: usize = 6;
const FROM: usize = 7;
const BEFORE: usize = 8;
const MEMORY: usize = 11;

/// A claim as its client knows it.
type Attempt = driver::Attempt<Call>;

impl Kind for Job {
    type What = Call;
    type Other = Call;

    fn act(world: &mut World<Self>, request: Request<Call, Call>) {
        match request {
            Request::Ask(attempt, by) => {
                let answer = world.arrive(&attempt, by);
                let granted = answer.words[0] == "granted";
                let token = granted.then(|| answer.words[2].parse().unwrap());
                world.told(&attempt.id, token);
            }
            Request::Renew(attempt, by, lease) => {
                world.follow(&renew_call(&attempt, by, lease));
            }
            Request::Release(attempt, void) => {
                let outcome = match attempt.held {
                    // An attempt that its client does not know to hold never began.
                    None => "",
                    Some(token) => ["done", "failed", "lost"][token as usize % 3],
                };
                world.follow(&release_call(&attempt, void, outcome));
            }
            Request::Other(reset) => drop(world.follow(&reset)),
        }
        world.check();
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        let job = &world.kind;
        let hold = job.hold.iter().map(|hold| hold.until);
        let keyed = job.keyed.values().map(|(_, ends)| *ends);
        hold.chain(job.spent.until()).chain(keyed).collect()
    }

    fn passed(world: &mut World<Self>) {
        let now = world.bed.millis();
        world.kind.pass(now);
        if world.bed.ttl(KEY).is_none() {
            let greatest = world.kind.greatest;
            world.kind = Self {
                greatest,
                ..Self::default()
            };
        }
        world.check();
    }

    fn wants_memory(call: &Call, answer: &[String]) -> bool {
        call.script.name == "once/claim" && answer[1] == "granted"
    }
}

impl Exact for Job {
    fn answer(&mut self, call: &Call, micros: u64) -> Answer {
        let (script, now) = (call.script.name, micros / 1_000);
        let args: Vec<_> = call.args.iter().map(String::as_str).collect();
        match (script, &*args) {
            ("once/look", [slot]) => self.look(now, slot),
            ("once/release", args) => self.release(now, args.try_into().unwrap()),
            (_, [by, ..]) if now > number(by) => Answer::of(&["late"]),
            ("once/claim", args) => self.claim(micros, args.try_into().unwrap()),
            ("once/renew", args) => self.renew(now, args.try_into().unwrap()),
            (_, args) => self.forget(args.try_into().unwrap()),
        }
    }
}

impl World<Job> {
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

    /// Makes a claim of a slot that may be run so often.
    fn draw_claim(&mut self, slot: &str, limit: u32) -> Call {
        let number = self.number();
        let client = ["a", "b"][number as usize % 2];
        let id = format!("{client}:{number}");
        let (owner, who) = (
            format!("{client}:o{number}"),
            format!("{client}-host:{number}"),
        );
        let lease = [50, 400, 2_000, 9_000][self.rng.usize(..4)];
        let seen = self.kind.seen();
        let memory = optional(slot.starts_with('=').then_some(KEEP));
        let args: [&dyn Display; 12] = [
            &FOREVER, &owner, &id, &lease, &TTL, &slot, &seen, &"", &"", &limit, &who, &memory,
        ];
        call(&ONCE.claim, &args)
    }

    fn begin_one(&mut self) {
        let now = self.bed.millis();
        let slot = match self.rng.u8(..5) {
            0 => "=a".to_owned(),
            1 => "=b c".to_owned(),
            // Slots of time that follow the clock, and earlier ones.
            _ => ((now / 1_000 - self.rng.u64(..3)) * 1_000).to_string(),
        };
        let limit = self.rng.u32(1..4);
        let mut claim = self.draw_claim(&slot, limit);
        if self.rng.u8(..3) == 0 {
            let second = now / 1_000 * 1_000;
            claim.args[FROM] = (second + self.rng.u64(..2) * 500).to_string();
            claim.args[BEFORE] = (second + 500 + self.rng.u64(..2) * 500).to_string();
        }
        self.begin(claim.args[ATTEMPT].clone(), claim);
    }

    fn begin_reset(&mut self) {
        let number = self.number();
        let (seen, z) = (self.kind.seen(), &self.kind.reset);
        let by = self.bed.millis() + self.rng.u64(..5_000);
        let reset = call(&ONCE.reset, &[&by, &format!("a:{number}"), &seen, z]);
        self.dispatch_repeatedly(Request::Other(reset));
    }

    /// Gets a claim.
    fn granted(&mut self, claim: Call) -> Attempt {
        let answer = self.follow(&claim).words;
        assert_eq!(answer[0], "granted", "{claim}");
        let mut attempt = self.attempt(claim.args[ATTEMPT].clone(), claim);
        attempt.held = Some(answer[2].parse().unwrap());
        attempt
    }

    /// Claims a slot that may be run so often, and fails.
    fn fail(&mut self, slot: &str, limit: u32) {
        let claim = self.draw_claim(slot, limit);
        let attempt = self.granted(claim);
        self.follow(&release_call(&attempt, None, "failed"));
    }

    /// Compares what looks show, and the key's time to live, with the model.
    fn check(&mut self) {
        let now = self.bed.millis();
        let before = self.bed.dump();
        for slot in ["", "=a", "=b c"] {
            let answer = self.bed.ask(&look(slot));
            self.assert_answer(&answer, &self.kind.look(now, slot).words);
        }
        assert_eq!(self.bed.dump(), before, "a look writes nothing");
        let job = &self.kind;
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
}

fn renew_call(attempt: &Attempt, by: u64, lease: u64) -> Call {
    let (owner, token) = (&attempt.what.args[OWNER], attempt.held.unwrap());
    call(&ONCE.renew, &[&by, owner, &lease, &TTL, &token, &KEEP])
}

fn release_call(attempt: &Attempt, void: Option<u64>, outcome: &str) -> Call {
    let (owner, id) = (&attempt.what.args[OWNER], &attempt.id);
    let (void, token) = (optional(void), optional(attempt.held));
    let why = if outcome == "failed" { "no luck" } else { "" };
    let args: [&dyn Display; 9] = [
        owner, id, &void, &TTL, &RETENTION, &token, &outcome, &why, &KEEP,
    ];
    call(&ONCE.release, &args)
}

fn look(slot: &str) -> Call {
    let slot = if slot.starts_with('=') { slot } else { "" };
    call(&ONCE.look, &[&slot])
}

fn call(script: &'static Source, args: &[&dyn Display]) -> Call {
    let (keys, args) = (vec![KEY.to_owned()], texts(args));
    Call { script, keys, args }
}

/// Returns what a caller saw that got this answer to a look.
fn look_seen(answer: &[String]) -> String {
    format!("{} {}", answer[2], u8::from(!answer[10].is_empty()))
}

/// The most slots of time that a job remembers as attempted.
const OPEN: usize = 64;

/// A run, as a record has it.
#[derive(Clone, Debug, Default)]
struct Run {
    outcome: String,
    attempts: u64,
    token: u64,
    began: u64,
    ended: u64,
    who: String,
    slot: String,
}

impl Run {
    fn ended(mut self, outcome: &str, at: u64) -> Self {
        (self.outcome, self.ended) = (outcome.to_owned(), at);
        self
    }
}

/// The claim.
#[derive(Debug)]
struct Hold {
    owner: String,
    attempt: String,
    until: u64,
    run: Run,
}

/// One job, which forgets nothing but what it is told to.
#[derive(Debug, Default)]
struct Job {
    token: Option<u64>,
    /// The greatest token there ever was.
    greatest: u64,
    hold: Option<Hold>,
    last: Option<Run>,
    why: String,
    success: Option<Run>,
    /// The attempts at each slot of time, in the order in which they were stored.
    open: Vec<(u64, u64)>,
    floor: Option<u64>,
    /// The token of the last claim whose end is on record, and its outcome.
    recorded: (u64, String),
    reset: String,
    /// The last run of each keyed slot, and until when it is remembered.
    keyed: BTreeMap<String, (Run, u64)>,
    spent: Spent,
    /// Every recorded success since the slots were last forgotten.
    successes: BTreeMap<String, u64>,
}

impl Job {
    fn seen(&self) -> String {
        format!("{} {}", optional(self.token), u8::from(self.hold.is_some()))
    }

    /// Returns the attempts at a slot; `None` if it is over.
    fn attempts(&self, now: u64, slot: &str) -> Option<u64> {
        if slot.starts_with('=') {
            let known = self.keyed.get(slot).filter(|(_, ends)| *ends > now);
            let known = known.map(|(run, _)| run);
            let done = known.is_some_and(|run| run.outcome == "done");
            return (!done).then(|| known.map_or(0, |run| run.attempts));
        }
        let slot = number(slot);
        let done = self.success.as_ref().map(|run| number(&run.slot));
        if done.max(self.floor) >= Some(slot) {
            return None;
        }
        let known = self.open.iter().find(|(other, _)| *other == slot);
        Some(known.map_or(0, |(_, attempts)| *attempts))
    }

    fn claim(&mut self, micros: u64, args: [&str; 12]) -> Answer {
        let [_, owner, attempt, lease, _, slot, seen, ..] = args;
        let [.., from, before, limit, who, keep] = args;
        let now = micros / 1_000;
        if let Some(hold) = self.hold.as_ref().filter(|hold| hold.until > now) {
            let rest = (hold.until - now).to_string();
            return match hold.attempt == attempt {
                true => self.granted(&hold.run),
                false => Answer::of(&["busy", &rest, &hold.owner]),
            };
        }
        if self.spent.refuses(attempt, now) {
            return Answer::of(&["void"]);
        }
        let early = from.parse().is_ok_and(|from: u64| from > now);
        let over = before.parse().is_ok_and(|before: u64| before <= now);
        let may = |n: &u64| !early && !over && seen == self.seen() && *n < number(limit);
        let Some(attempts) = self.attempts(now, slot).filter(may) else {
            return Answer::of(&["moved"]);
        };
        if let Some(hold) = self.hold.take() {
            self.last = Some(hold.run.ended("lost", hold.until));
            self.why.clear();
        }
        let token = self.token.map_or(micros, |last| micros.max(last + 1));
        assert!(token > self.greatest, "tokens rise");
        (self.token, self.greatest) = (Some(token), token);
        let run = Run {
            outcome: "run".to_owned(),
            attempts: attempts + 1,
            token,
            began: now,
            who: who.to_owned(),
            slot: slot.to_owned(),
            ..Run::default()
        };
        let until = now + number(lease);
        match slot.starts_with('=') {
            true => self.remember(run.clone(), until + number(keep)),
            false => self.count(number(slot), run.attempts),
        }
        let granted = self.granted(&run).writing();
        self.hold = Some(Hold {
            owner: owner.to_owned(),
            attempt: attempt.to_owned(),
            until,
            run,
        });
        granted
    }

    fn granted(&self, run: &Run) -> Answer {
        let (attempts, token) = (run.attempts.to_string(), run.token.to_string());
        let abandoned = self.last.as_ref().is_some_and(|run| run.outcome == "lost");
        let abandoned = u8::from(abandoned).to_string();
        Answer::of(&["granted", &attempts, &token, &abandoned])
    }

    /// Remembers the run of a keyed slot.
    fn remember(&mut self, run: Run, ends: u64) {
        self.keyed.insert(run.slot.clone(), (run, ends));
    }

    /// Stores the attempts at a slot of time.
    fn count(&mut self, slot: u64, attempts: u64) {
        self.open.retain(|(other, _)| *other != slot);
        self.open.extend((attempts > 0).then_some((slot, attempts)));
        if self.open.len() > OPEN {
            self.floor = self.open.iter().map(|(slot, _)| *slot).min();
            self.open.retain(|(slot, _)| Some(*slot) != self.floor);
        }
    }

    /// Moves the end of a claim. A keyed slot is remembered from the end of its run.
    fn renew(&mut self, now: u64, args: [&str; 6]) -> Answer {
        let [_, owner, lease, _, token, keep] = args;
        let token = Some(number(token));
        let verdict = match &mut self.hold {
            _ if self.token > token => "taken",
            Some(hold) if hold.owner != owner || Some(hold.run.token) != token => "gone",
            Some(hold) if hold.until <= now => "expired",
            Some(hold) => {
                hold.until = hold.until.max(now + number(lease));
                if let Some((_, ends)) = self.keyed.get_mut(&hold.run.slot) {
                    *ends = hold.until + number(keep);
                }
                return Answer::of(&["renewed"]).writing();
            }
            None => "gone",
        };
        Answer::of(&[verdict])
    }

    /// Ends an attempt. The outcome is empty for a run that never began.
    fn release(&mut self, now: u64, args: [&str; 9]) -> Answer {
        let [owner, attempt, void, _, _, token, outcome, why, keep] = args;
        let token = token.parse::<u64>().ok();
        let is_it = |hold: &mut Hold| hold.owner == owner && hold.attempt == attempt;
        let ended = self.hold.take_if(is_it);
        let void = void.parse::<u64>().ok().filter(|void| *void >= now);
        let writes = ended.is_some() || void.is_some();
        let verdict = match ended {
            Some(hold) => {
                let in_time = hold.until > now;
                self.end(now, hold.run, outcome, why, now + number(keep));
                if in_time { "released" } else { "expired" }
            }
            None if token == Some(self.recorded.0) && self.recorded.1 == outcome => "already",
            None if token.is_some() && token < self.token => "taken",
            None => "gone",
        };
        if let Some(void) = void {
            self.spent.record(attempt, void, now);
        }
        let answer = Answer::of(&[verdict]);
        if writes { answer.writing() } else { answer }
    }

    /// Records the end of a run. A keyed slot is remembered until `ends`.
    fn end(&mut self, now: u64, run: Run, outcome: &str, why: &str, ends: u64) {
        let keyed = run.slot.starts_with('=');
        if outcome.is_empty() {
            let mut run = run.ended("lost", now);
            run.attempts -= 1;
            match (keyed, run.attempts) {
                (true, 0) => drop(self.keyed.remove(&run.slot)),
                (true, _) => self.remember(run, ends),
                (false, attempts) => self.count(number(&run.slot), attempts),
            }
            return;
        }
        let run = run.ended(outcome, now);
        if outcome == "done" {
            let before = self.successes.insert(run.slot.clone(), run.token);
            assert_eq!(before, None, "two successes of {}", run.slot);
        }
        self.last = Some(run.clone());
        why.clone_into(&mut self.why);
        self.recorded = (run.token, outcome.to_owned());
        if keyed {
            self.remember(run, ends);
        } else if outcome == "done" {
            let slot = number(&run.slot);
            self.open.retain(|(open, _)| *open > slot);
            self.success = Some(run);
        }
    }

    /// Forgets keyed slots whose time is up.
    fn pass(&mut self, now: u64) {
        self.keyed.retain(|_, (_, ends)| *ends > now);
        let keyed = &self.keyed;
        let stays = |slot: &String| !slot.starts_with('=') || keyed.contains_key(slot);
        self.successes.retain(|slot, _| stays(slot));
    }

    /// Forgets all records.
    fn forget(&mut self, [_, op, seen, reset]: [&str; 4]) -> Answer {
        match self.token {
            None => return Answer::of(&["unset"]),
            _ if self.reset != reset => return Answer::of(&["reset"]),
            _ if self.seen() != seen => return Answer::of(&["moved"]),
            _ => {}
        }
        *self = Self {
            token: self.token,
            greatest: self.greatest,
            hold: self.hold.take(),
            recorded: std::mem::take(&mut self.recorded),
            reset: op.to_owned(),
            spent: std::mem::take(&mut self.spent),
            ..Self::default()
        };
        Answer::of(&["reset"]).writing()
    }

    /// Returns what a look shows of the job, and of this keyed slot.
    fn look(&self, now: u64, slot: &str) -> Answer {
        let record = |run: Option<&Run>| run.map(Run::to_string).unwrap_or_default();
        let open = self.open.iter().map(|(slot, n)| format!("{slot}:{n} "));
        let open = Some(open.collect::<String>()).filter(|open| !open.is_empty());
        let mut words = vec![
            "job".to_owned(),
            optional(self.token),
            self.reset.clone(),
            record(self.last.as_ref()),
            self.why.clone(),
            record(self.success.as_ref()),
            open.map_or_else(String::new, |open| format!(" {open}")),
            optional(self.floor),
        ];
        words.extend(match &self.hold {
            Some(hold) => [
                hold.until.to_string(),
                hold.owner.clone(),
                hold.run.attempts.to_string(),
                hold.run.began.to_string(),
                hold.run.who.clone(),
                hold.run.slot.clone(),
            ],
            None => Default::default(),
        });
        let known = self.keyed.get(slot).filter(|(_, ends)| *ends > now);
        words.push(record(known.map(|(run, _)| run)));
        Answer::with(words)
    }
}

/// As the server stores it.
impl Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outcome, who, slot) = (&self.outcome, &self.who, &self.slot);
        let [n, token, began, ended] = [self.attempts, self.token, self.began, self.ended];
        write!(f, "{outcome} {n} {token} {began} {ended} {who} {slot}")
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}
