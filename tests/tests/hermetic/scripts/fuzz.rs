//! Random interleavings: two owners, one to three attempts each, on one to three names, with
//! replies that are lost, requests that are sent again, and copies that come late. After every
//! script its reply and all data are what the model says.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use fastrand::Rng;
use redlatch_embedded::engine::Model;

use super::{
    bed::{self, Acquire, Bed, CHANNELS, Call, Release, text},
    driver::{Attempt, Kind, Request, World, seeds, worlds},
    model::{Found, Lock},
};

// L1, L2
#[test]
fn one_name_follows_the_model_under_lost_replies_and_late_copies() {
    worlds(|model, seed| world(model, seed, 1).probing(4).run());
}

// L41
#[test]
fn several_names_are_taken_all_or_none() {
    for names in [2, 3] {
        for seed in seeds() {
            let world = world(Model::ALL[seed as usize % 3], seed, names);
            world.probing(2).run();
        }
    }
}

const NAMES: [&str; 3] = ["x", "y", "z"];

/// How long a token is kept, in ms.
const RETENTION: u64 = 10_000;

/// What an acquisition is for.
#[derive(Clone, Debug)]
struct What {
    owner: &'static str,
    address: String,
    names: Vec<usize>,
    lease: u64,
    register: Option<u64>,
    registered: bool,
    /// What its client knows to hold of each name; zero where it is not known.
    tokens: Vec<u64>,
}

/// Locks that one script may take together.
struct Plain {
    locks: Vec<Lock>,
    /// The greatest token there ever was, by name.
    tokens: [u64; 3],
}

fn world(model: Model, seed: u64, names: usize) -> World<Plain> {
    let kind = Plain {
        locks: vec![Lock::default(); names],
        tokens: [0; 3],
    };
    World::new(Bed::new(model), seed, kind)
}

impl Kind for Plain {
    type What = What;
    type Other = Infallible;

    fn draw(rng: &mut Rng, what: &mut What) {
        what.register = rng.bool().then(|| rng.u64(100..=5_000));
        what.registered |= what.register.is_some();
    }

    fn act(world: &mut World<Self>, request: Request<What>) {
        match request {
            Request::Ask(attempt, by) => world.acquire(&attempt, by),
            Request::Renew(attempt, by, lease) => world.renewal(&attempt, by, lease),
            Request::Release(attempt, void) => world.release(&attempt, void),
        }
        world.check_data();
    }

    /// Of one of the names.
    fn ends(world: &mut World<Self>) -> Vec<u64> {
        let at = world.rng.usize(..world.kind.locks.len());
        let lock = &world.kind.locks[at];
        let ends = lock.hold.iter().map(|hold| hold.until);
        let ends = ends.chain(lock.spent.until());
        ends.chain(lock.waiters.values().copied()).collect()
    }

    fn passed(world: &mut World<Self>) {
        for (lock, name) in world.kind.locks.iter_mut().zip(NAMES) {
            if world.bed.ttl(&bed::key(name)).is_none() {
                lock.forget();
            }
        }
        world.check_data();
    }

    fn wants_memory(call: &Call, _: &[String]) -> bool {
        call.script.name == "reentrant/acquire"
    }
}

impl World<Plain> {
    fn run(mut self) {
        for _ in 0..80 {
            self.step();
        }
        self.leave_nothing();
    }

    fn step(&mut self) {
        match self.rng.u8(..20) {
            0..4 => self.begin_one(),
            4..6 => self.send_again(),
            6..9 => self.deliver(),
            9..11 => self.renew(),
            11..14 => self.end_one(),
            14 => self.force(),
            15 => self.look(),
            16 if self.rng.u8(..4) == 0 => self.pass(30_000),
            16..18 => self.pass(3_000),
            _ => self.pass(200),
        }
    }

    /// Ends everything, in any order, and lets all copies come in, also late; then nothing may be
    /// left.
    fn leave_nothing(&mut self) {
        self.wind_up();
        let keys: Vec<_> = self.names().map(bed::key).collect();
        for (name, key) in NAMES.into_iter().zip(keys) {
            let left = self.bed.hash(&key);
            if let Some(attempts) = left.get("h") {
                // An undo passes on that the hold before was never given back.
                let nobody = [" ", " - ", " = "].contains(&attempts.as_str());
                assert!(nobody, "a ghost holds: {left:?}, {}", self.story());
            }
            assert_eq!(self.living_on_server(name), Vec::<String>::new());
        }
        self.bed.pass(Duration::from_millis(2 * RETENTION));
        self.assert_unchanged(&[], "something is left");
    }

    /// Starts an acquisition, if its owner has fewer than three.
    fn begin_one(&mut self) {
        let side = self.rng.usize(..2);
        let owner = ["a:1", "b:1"][side];
        let has = self
            .attempts
            .iter()
            .filter(|attempt| attempt.what.owner == owner);
        if has.count() >= 3 {
            return;
        }
        let number = self.number();
        let id = format!("{}:{number}", ["a", "b"][side]);
        let mut names: Vec<_> = (0..self.kind.locks.len()).collect();
        self.rng.shuffle(&mut names);
        names.truncate(self.rng.usize(1..=self.kind.locks.len()));
        names.sort_unstable();
        let what = What {
            address: format!("PUBLISH {} {number}", CHANNELS[side]),
            owner,
            tokens: vec![0; names.len()],
            names,
            lease: [50, 400, 2_000, 9_000][self.rng.usize(..4)],
            register: None,
            registered: false,
        };
        self.begin(id, what);
    }

    fn acquire(&mut self, attempt: &Attempt<What>, by: u64) {
        let what = &attempt.what;
        let names: Vec<_> = what.names.iter().map(|&at| NAMES[at]).collect();
        let call = Acquire {
            of: bed::Lock::Plain,
            names: &names,
            by,
            owner: what.owner,
            attempt: &attempt.id,
            lease: what.lease,
            retention: RETENTION,
            register: what.register,
            address: &what.address,
        };
        let before = self.bed.dump();
        let answer = self.ask(&call.call());
        let right = self.expected_grant(attempt, by);
        self.assert_answer(&answer, &right);
        if answer[1] != "granted" && (answer[1] != "busy" || what.register.is_none()) {
            self.assert_unchanged(&before, "nothing is written");
        }
        let tokens = answer[2..].chunks(4).filter(|_| answer[1] == "granted");
        let tokens: Vec<u64> = tokens.map(|item| item[1].parse().unwrap()).collect();
        if let Some(client) = self.told(&attempt.id, tokens.first().copied()) {
            client.what.tokens = tokens;
        }
    }

    fn expected_grant(&mut self, attempt: &Attempt<What>, by: u64) -> Vec<String> {
        let what = &attempt.what;
        let now = self.bed.millis();
        if now > by {
            return text(&["late"]);
        }
        for (i, &at) in what.names.iter().enumerate() {
            match self.kind.locks[at].find(now, what.owner, &attempt.id) {
                Found::Void => return text(&["void"]),
                Found::Busy { remaining, holder } => {
                    if let Some(span) = what.register {
                        let waiters = &mut self.kind.locks[at].waiters;
                        waiters.insert(what.address.clone(), now + span);
                    }
                    let (i, remaining) = ((i + 1).to_string(), remaining.to_string());
                    return text(&["busy", &i, &remaining, &holder]);
                }
                Found::Free => {}
            }
        }
        let mut reply = text(&["granted"]);
        for &at in &what.names {
            let (micros, limits) = (self.bed.now.micros(), (by, what.lease));
            let lock = &mut self.kind.locks[at];
            lock.waiters.remove(&what.address);
            let fresh = lock.live(now).is_none();
            let granted = lock.grant(now, micros, what.owner, &attempt.id, limits);
            let rises = granted.token > self.kind.tokens[at];
            self.assert(!fresh || rises, "tokens rise");
            self.kind.tokens[at] = granted.token;
            reply.extend(granted.words());
        }
        reply
    }

    fn renewal(&mut self, attempt: &Attempt<What>, by: u64, lease: u64) {
        let what = &attempt.what;
        let names: Vec<_> = what.names.iter().map(|&at| NAMES[at]).collect();
        let call = bed::Lock::Plain.renew(&names, by, what.owner, lease, RETENTION, &what.tokens);
        let before = self.bed.dump();
        let answer = self.ask(&call);
        let now = self.bed.millis();
        let right = if now > by {
            vec!["late"]
        } else {
            let held = what.names.iter().zip(&what.tokens);
            let verdicts = held.map(|(&at, &token)| {
                let lock = &mut self.kind.locks[at];
                lock.renew(now, what.owner, lease, token)
            });
            verdicts.collect()
        };
        self.assert_answer(&answer, &right);
        if !answer.iter().any(|item| item == "renewed") {
            self.assert_unchanged(&before, "it never creates");
        }
    }

    /// Returns, now and then, a waiter of the other owner that is to ask right behind a release.
    fn successor(&mut self, owner: &str) -> Option<String> {
        let waits = |one: &Attempt<What>| one.what.owner != owner && one.held.is_none();
        let next = self.any(waits).filter(|_| self.rng.bool())?;
        Some(format!("+{}", self.attempts[next].what.address))
    }

    fn release(&mut self, attempt: &Attempt<What>, void: Option<u64>) {
        let what = &attempt.what;
        let names: Vec<_> = what.names.iter().map(|&at| NAMES[at]).collect();
        let successor = self.successor(what.owner);
        let address = match &successor {
            _ if what.registered => &what.address,
            Some(next) => next,
            None => "",
        };
        let call = Release {
            of: bed::Lock::Plain,
            names: &names,
            owner: what.owner,
            attempt: &attempt.id,
            void,
            keep: RETENTION,
            address,
            tokens: &what.tokens,
        };
        let answer = self.ask(&call.call());
        let published = self.bed.published();
        let now = self.bed.millis();
        let (mut expected, mut wakes) = (Vec::new(), Vec::new());
        for (&at, &token) in what.names.iter().zip(&what.tokens) {
            let lock = &mut self.kind.locks[at];
            let (verdict, left) = lock.release(now, what.owner, &attempt.id, void, token);
            let share = (attempt.id.clone(), token);
            match verdict {
                "already" => assert!(lock.in_time.contains(&share), "it was not in time"),
                "revoked" if token != 0 => assert!(lock.ever_forced.contains(&token)),
                _ => {}
            }
            expected.extend([verdict.to_owned(), left.to_string()]);
            match address.strip_prefix('+') {
                None => drop(lock.waiters.remove(address)),
                Some(next) if verdict == "released" && lock.live(now).is_none() => {
                    lock.waiters.remove(next);
                }
                Some(_) => {}
            }
            let woken = (lock.live(now).is_none()).then(|| lock.wake(now)).flatten();
            if let Some(who) = woken {
                let wake = wake(&who, NAMES[at]);
                expected.extend([wake.0.clone(), lock.waiters.len().to_string()]);
                wakes.push(wake);
            }
        }
        self.assert_answer(&answer, &expected);
        // One living waiter is woken.
        self.assert_eq(&published, &wakes);
    }

    fn force(&mut self) {
        let at = self.rng.usize(..self.kind.locks.len());
        let older = self.rng.u64(..3);
        let token = self.kind.tokens[at].saturating_sub(older / 2);
        let how = ["now", "after"][self.rng.usize(..2)];
        let call = bed::Lock::Plain.force(NAMES[at], token, how, RETENTION);
        let answer = self.ask(&call);
        let published = self.bed.published();
        let now = self.bed.millis();
        let lock = &mut self.kind.locks[at];
        let verdict = lock.force(now, token, how);
        let woken = match (verdict, how) {
            ("done", "now") => lock.wake(now),
            _ => None,
        };
        let wake = woken.map(|who| wake(&who, NAMES[at]));
        let mut right = vec![verdict.to_owned()];
        if let Some((channel, _)) = &wake {
            right.extend([channel.clone(), lock.waiters.len().to_string()]);
        }
        self.assert_answer(&answer, &right);
        self.assert_eq(&published, &Vec::from_iter(wake));
        self.check_data();
    }

    fn look(&mut self) {
        let at = self.rng.usize(..self.kind.locks.len());
        let answer = self.inspect(&bed::inspect(NAMES[at]));
        let now = self.bed.millis();
        let lock = &self.kind.locks[at];
        let Some(hold) = lock.live(now) else {
            return self.assert_answer(&answer, &["free"]);
        };
        let waiters = lock.waiters.values().filter(|&&until| until >= now);
        let right = [
            "held",
            &hold.owner,
            &hold.attempts.len().to_string(),
            &hold.token.to_string(),
            &(hold.until - now).to_string(),
            &waiters.count().to_string(),
        ];
        self.assert_answer(&answer, &right);
    }

    /// Compares what is stored with what the model says.
    fn check_data(&mut self) {
        for (at, name) in self.names().enumerate() {
            let hash = self.bed.hash(&bed::key(name));
            self.check_hash(at, &hash);
            self.check_ends(at, hash.is_empty());
        }
    }

    fn check_hash(&self, at: usize, hash: &BTreeMap<String, String>) {
        let lock = &self.kind.locks[at];
        let field = |name: &str| hash.get(name).map(String::as_str);
        if hash.is_empty() {
            return;
        }
        assert_eq!(field("k"), Some("lock:1"));
        let token = lock.last_token.map(|token| token.to_string());
        self.assert_eq(&field("t"), &token.as_deref());
        let owner = lock.hold.as_ref().map(|hold| hold.owner.as_str());
        self.assert_eq(&field("o"), &owner);
        let until = lock.hold.as_ref().map(|hold| format!("{:013}", hold.until));
        self.assert_eq(&field("u"), &until.as_deref());
        let attempts = field("h").map(|attempts| {
            let mut attempts: Vec<_> = attempts.split_whitespace().collect();
            attempts.sort_unstable();
            attempts
        });
        let held = lock.hold.as_ref();
        let held = held.map(|hold| hold.attempts.iter().map(String::as_str).collect::<Vec<_>>());
        self.assert_eq(&attempts, &held);
        let spent = field("v").unwrap_or_default();
        self.assert_eq(&spent, &lock.spent.to_string());
        for name in hash.keys() {
            assert!("kohtuzfnbv".contains(name.as_str()), "{name} in {hash:?}");
        }
    }

    /// Every key has an end, and none before that of what lives in it.
    fn check_ends(&mut self, at: usize, gone: bool) {
        let now = self.bed.millis();
        let (key, queue) = (bed::key(NAMES[at]), bed::queue(NAMES[at]));
        let lock = &self.kind.locks[at];
        let hold = lock.live(now).map_or(0, |hold| hold.until + RETENTION);
        let copies = lock.spent.until().filter(|&until| until >= now);
        let needed = hold.max(copies.unwrap_or(0));
        let ends = self.bed.ttl(&key).map_or(0, |ttl| now + ttl);
        assert!(ends >= needed, "{ends} < {needed}, {}", self.story());
        assert!(!gone || needed == 0);
        let last = lock.waiters.values().filter(|&&until| until > now).max();
        let last = last.copied().unwrap_or(0);
        let ends = self.bed.ttl(&queue).map_or(0, |ttl| now + ttl);
        assert!(ends >= last, "the queue: {ends} < {last}, {}", self.story());
        let living = lock.waiters.iter().filter(|(_, until)| **until > now);
        let living: Vec<_> = living.map(|(who, _)| who.clone()).collect();
        let stored = self.living_on_server(NAMES[at]);
        self.assert_eq(&stored, &living);
    }

    fn living_on_server(&mut self, name: &str) -> Vec<String> {
        let now = self.bed.millis();
        let all = self.bed.sorted(&bed::queue(name)).into_iter();
        all.filter(|(_, until)| *until > now)
            .map(|(who, _)| who)
            .collect()
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        NAMES.into_iter().take(self.kind.locks.len())
    }
}

/// The message that wakes whoever has this address.
fn wake(address: &str, name: &str) -> (String, String) {
    let channel = address.split(' ').nth(1).unwrap();
    (channel.to_owned(), bed::key(name))
}
