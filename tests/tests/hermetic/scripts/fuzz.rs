//! Random interleavings: two owners, one to three attempts each, on one to three names, with
//! replies that are lost, requests that are sent again, and copies that come late. After every
//! script its reply and all data are what the model says.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use fastrand::Rng;
use redlatch_embedded::engine::{Condition, Model, ServerTime};

use super::{
    bed::{self, Acquire, Bed, CHANNELS, Call, Release},
    model::{Found, Lock},
};

/// Returns the seeds to run: those of the variable `REDLATCH_SEEDS`, a number or a range; else a
/// few, and more where tests may take their time.
pub(super) fn seeds() -> Range<u64> {
    let few = if cfg!(feature = "servers") { 600 } else { 40 };
    let Ok(text) = std::env::var("REDLATCH_SEEDS") else {
        return 0..few;
    };
    match text.split_once("..") {
        Some((from, to)) => from.parse().unwrap()..to.parse().unwrap(),
        None => 0..text.parse().unwrap(),
    }
}

// L1, L2
#[test]
fn one_name_follows_the_model_under_lost_replies_and_late_copies() {
    for model in Model::ALL {
        for seed in seeds() {
            World::new(model, seed, 1).run();
        }
    }
}

// L41
#[test]
fn several_names_are_taken_all_or_none() {
    for names in [2, 3] {
        for seed in seeds() {
            World::new(Model::ALL[seed as usize % 3], seed, names).run();
        }
    }
}

#[test]
fn every_script_follows_the_model_when_full_or_short_of_replicas() {
    for model in Model::ALL {
        for seed in seeds().step_by(2) {
            let mut world = World::new(model, seed, 1 + seed as usize / 2 % 2);
            world.probing = true;
            world.run();
        }
    }
}

const NAMES: [&str; 3] = ["x", "y", "z"];

/// How long a token is kept, in ms.
const RETENTION: u64 = 10_000;

/// How far ahead of the server's time a request may act, in ms.
const REACH: u64 = 5_000;

/// An acquisition as its client knows it.
#[derive(Clone, Debug)]
struct Attempt {
    id: String,
    owner: &'static str,
    address: String,
    names: Vec<usize>,
    lease: u64,
    /// The largest `by` sent.
    by: u64,
    /// Copies sent and not answered, as far as the client knows.
    outstanding: usize,
    registered: bool,
    /// What its client knows to hold.
    tokens: Option<Vec<u64>>,
}

/// A request on its way.
#[derive(Clone, Debug)]
enum Copy {
    Acquire {
        attempt: Attempt,
        by: u64,
        register: Option<u64>,
    },
    Renew {
        attempt: Attempt,
        by: u64,
        lease: u64,
    },
    Release {
        attempt: Attempt,
        void: Option<u64>,
    },
}

struct World {
    seed: u64,
    rng: Rng,
    bed: Bed,
    locks: Vec<Lock>,
    /// The greatest token there ever was, by name.
    tokens: [u64; 3],
    attempts: Vec<Attempt>,
    flying: Vec<Copy>,
    next: u32,
    /// Whether each script is first run on a server in trouble.
    probing: bool,
    history: Vec<String>,
}

impl World {
    fn new(model: Model, seed: u64, names: usize) -> Self {
        Self {
            seed,
            rng: Rng::with_seed(seed),
            bed: Bed::new(model),
            locks: vec![Lock::default(); names],
            tokens: [0; 3],
            attempts: Vec::new(),
            flying: Vec::new(),
            next: 0,
            probing: false,
            history: Vec::new(),
        }
    }

    fn run(mut self) {
        for _ in 0..80 {
            self.step();
        }
        self.wind_up();
    }

    fn step(&mut self) {
        match self.rng.u8(..20) {
            0..4 => self.begin(),
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
    fn wind_up(&mut self) {
        while !self.attempts.is_empty() || !self.flying.is_empty() {
            match self.rng.u8(..4) {
                0 => self.pass(500),
                1 => self.deliver(),
                _ => self.end_one(),
            }
        }
        let keys: Vec<_> = self.names().map(bed::key).collect();
        for (name, key) in NAMES.into_iter().zip(keys) {
            let left = self.bed.hash(&key);
            if let Some(attempts) = left.get("h") {
                assert_eq!(attempts, " ", "a ghost holds: {left:?}, {}", self.story());
            }
            assert_eq!(self.living_on_server(name), Vec::<String>::new());
        }
        self.bed.pass(Duration::from_millis(2 * RETENTION));
        assert_eq!(self.bed.dump(), [], "{}", self.story());
    }

    /// Starts an acquisition, if its owner has fewer than three.
    fn begin(&mut self) {
        let side = self.rng.usize(..2);
        let owner = ["a:1", "b:1"][side];
        let has = self
            .attempts
            .iter()
            .filter(|attempt| attempt.owner == owner);
        if has.count() >= 3 {
            return;
        }
        self.next += 1;
        let id = format!("{}:{}", CHANNELS[side], self.next);
        let mut names: Vec<_> = (0..self.locks.len()).collect();
        self.rng.shuffle(&mut names);
        names.truncate(self.rng.usize(1..=self.locks.len()));
        names.sort_unstable();
        self.attempts.push(Attempt {
            address: format!("PUBLISH {} {}", CHANNELS[side], self.next),
            id,
            owner,
            names,
            lease: [50, 400, 2_000, 9_000][self.rng.usize(..4)],
            by: 0,
            outstanding: 0,
            registered: false,
            tokens: None,
        });
        self.send(self.attempts.len() - 1);
    }

    fn send_again(&mut self) {
        let waiting = |attempt: &Attempt| attempt.tokens.is_none();
        if let Some(at) = self.any(waiting) {
            self.send(at);
        }
    }

    /// Sends a copy of an acquisition; it comes at once or later.
    fn send(&mut self, at: usize) {
        let by = self.bed.millis() + self.rng.u64(..=REACH);
        let register = self.rng.bool().then(|| self.rng.u64(100..=5_000));
        let attempt = &mut self.attempts[at];
        attempt.by = attempt.by.max(by);
        attempt.outstanding += 1;
        attempt.registered |= register.is_some();
        let copy = Copy::Acquire {
            attempt: attempt.clone(),
            by,
            register,
        };
        self.dispatch(copy);
    }

    fn renew(&mut self) {
        let holding = |attempt: &Attempt| attempt.tokens.is_some();
        if let Some(at) = self.any(holding) {
            let by = self.bed.millis() + self.rng.u64(..=REACH);
            let lease = [50, 1_000, 9_000][self.rng.usize(..3)];
            let attempt = self.attempts[at].clone();
            self.dispatch(Copy::Renew { attempt, by, lease });
        }
    }

    /// Releases what a client holds, or undoes what it has given up; perhaps twice, perhaps much
    /// later.
    fn end_one(&mut self) {
        if let Some(at) = self.any(|_| true) {
            let attempt = self.attempts.swap_remove(at);
            let void = (attempt.outstanding > 0).then_some(attempt.by);
            let copy = Copy::Release { attempt, void };
            if self.rng.u8(..3) == 0 {
                self.flying.push(copy.clone());
            }
            self.dispatch(copy);
        }
    }

    fn dispatch(&mut self, copy: Copy) {
        match self.rng.u8(..4) {
            0 => self.flying.push(copy),
            _ => self.act(copy),
        }
    }

    fn deliver(&mut self) {
        if !self.flying.is_empty() {
            let at = self.rng.usize(..self.flying.len());
            let copy = self.flying.swap_remove(at);
            self.act(copy);
        }
    }

    fn any(&mut self, which: impl Fn(&Attempt) -> bool) -> Option<usize> {
        let fitting = self.attempts.iter().enumerate();
        let fitting: Vec<_> = fitting.filter(|(_, attempt)| which(attempt)).collect();
        let at = self.rng.usize(..fitting.len().max(1));
        fitting.get(at).map(|(at, _)| *at)
    }

    fn pass(&mut self, most: u64) {
        let mut span = Duration::from_micros(self.rng.u64(..most * 1_000));
        if self.rng.u8(..4) == 0 {
            span = self.until_an_end().unwrap_or(span);
        }
        self.history.push(format!("pass {span:?}"));
        self.bed.pass(span);
        for (lock, name) in self.locks.iter_mut().zip(NAMES) {
            if self.bed.ttl(&bed::key(name)).is_none() {
                lock.forget();
            }
        }
        self.check_data();
    }

    /// Returns how long it is to the very millisecond in which something ends.
    fn until_an_end(&mut self) -> Option<Duration> {
        let now = self.bed.millis();
        let at = self.rng.usize(..self.locks.len());
        let lock = &self.locks[at];
        let ends = lock.hold.iter().map(|hold| hold.until);
        let ends = ends.chain(lock.voids.values().copied());
        let ends = ends.chain(lock.waiters.values().copied());
        let ends: Vec<_> = ends.filter(|&end| end > now).collect();
        let end = *ends.get(self.rng.usize(..ends.len().max(1)))?;
        Some(ServerTime::from_millis(end).since(self.bed.now))
    }

    fn act(&mut self, copy: Copy) {
        match copy {
            Copy::Acquire {
                attempt,
                by,
                register,
            } => self.acquire(&attempt, by, register),
            Copy::Renew { attempt, by, lease } => self.renewal(&attempt, by, lease),
            Copy::Release { attempt, void } => self.release(&attempt, void),
        }
        self.check_data();
    }

    fn acquire(&mut self, attempt: &Attempt, by: u64, register: Option<u64>) {
        let names: Vec<_> = attempt.names.iter().map(|&at| NAMES[at]).collect();
        let call = Acquire {
            names: &names,
            by,
            owner: attempt.owner,
            attempt: &attempt.id,
            lease: attempt.lease,
            retention: RETENTION,
            register,
            address: &attempt.address,
        };
        let before = self.bed.dump();
        let answer = self.ask(&call.call());
        let expected = self.expected_grant(attempt, by, register);
        assert_eq!(answer, expected, "{}", self.story());
        if answer[1] != "granted" && (answer[1] != "busy" || register.is_none()) {
            assert_eq!(
                self.bed.dump(),
                before,
                "nothing is written, {}",
                self.story()
            );
        }
        // Its client may still be there, and may get the reply.
        let lost = self.rng.u8(..3) == 0;
        let client = self
            .attempts
            .iter_mut()
            .find(|known| known.id == attempt.id);
        let Some(client) = client.filter(|_| !lost) else {
            return;
        };
        client.outstanding -= 1;
        if answer[1] == "granted" && client.tokens.is_none() {
            let tokens = answer[2..].chunks(4).map(|item| item[1].parse().unwrap());
            client.tokens = Some(tokens.collect());
        }
    }

    fn expected_grant(&mut self, attempt: &Attempt, by: u64, register: Option<u64>) -> Vec<String> {
        let now = self.bed.millis();
        let text = |items: &[&str]| -> Vec<String> {
            let head = std::iter::once(now.to_string());
            head.chain(items.iter().map(|&item| item.to_owned()))
                .collect()
        };
        if now > by {
            return text(&["late"]);
        }
        for (i, &at) in attempt.names.iter().enumerate() {
            match self.locks[at].find(now, attempt.owner, &attempt.id) {
                Found::Void => return text(&["void"]),
                Found::Busy { remaining, holder } => {
                    if let Some(span) = register {
                        let waiters = &mut self.locks[at].waiters;
                        waiters.insert(attempt.address.clone(), now + span);
                    }
                    let (i, remaining) = ((i + 1).to_string(), remaining.to_string());
                    return text(&["busy", &i, &remaining, &holder]);
                }
                Found::Free => {}
            }
        }
        let mut reply = text(&["granted"]);
        for &at in &attempt.names {
            let (micros, lease) = (self.bed.now.micros(), attempt.lease);
            let lock = &mut self.locks[at];
            lock.waiters.remove(&attempt.address);
            let fresh = lock.live(now).is_none();
            let granted = lock.grant(now, micros, attempt.owner, &attempt.id, lease);
            assert!(!fresh || granted.token > self.tokens[at], "tokens rise");
            self.tokens[at] = granted.token;
            reply.extend([
                granted.count.to_string(),
                granted.token.to_string(),
                u8::from(granted.abandoned).to_string(),
                granted
                    .lasts
                    .map_or(String::new(), |lasts| lasts.to_string()),
            ]);
        }
        reply
    }

    fn renewal(&mut self, attempt: &Attempt, by: u64, lease: u64) {
        let names: Vec<_> = attempt.names.iter().map(|&at| NAMES[at]).collect();
        let tokens = attempt.tokens.clone().unwrap();
        let call = bed::renew(&names, by, attempt.owner, lease, RETENTION, &tokens);
        let before = self.bed.dump();
        let answer = self.ask(&call);
        let now = self.bed.millis();
        let mut expected = vec![now.to_string()];
        if now > by {
            expected.push("late".to_owned());
        } else {
            let renewed = attempt.names.iter().zip(&tokens).map(|(&at, &token)| {
                let verdict = self.locks[at].renew(now, attempt.owner, lease, token);
                verdict.to_owned()
            });
            expected.extend(renewed);
        }
        assert_eq!(answer, expected, "{}", self.story());
        if !answer.iter().any(|item| item == "renewed") {
            assert_eq!(
                self.bed.dump(),
                before,
                "it never creates, {}",
                self.story()
            );
        }
    }

    /// Returns, now and then, a waiter of the other owner that is to ask right behind a release.
    fn successor(&mut self, owner: &str) -> Option<String> {
        let waits = |attempt: &Attempt| attempt.owner != owner && attempt.tokens.is_none();
        let next = self.any(waits).filter(|_| self.rng.bool())?;
        Some(format!("+{}", self.attempts[next].address))
    }

    fn release(&mut self, attempt: &Attempt, void: Option<u64>) {
        let names: Vec<_> = attempt.names.iter().map(|&at| NAMES[at]).collect();
        let unknown = vec![0; names.len()];
        let tokens = attempt.tokens.clone().unwrap_or(unknown);
        let successor = self.successor(attempt.owner);
        let address = match &successor {
            _ if attempt.registered => &attempt.address,
            Some(next) => next,
            None => "",
        };
        let call = Release {
            names: &names,
            owner: attempt.owner,
            attempt: &attempt.id,
            void,
            keep: RETENTION,
            address,
            tokens: &tokens,
        };
        let answer = self.ask(&call.call());
        let published = self.bed.published();
        let now = self.bed.millis();
        let (mut expected, mut wakes) = (vec![now.to_string()], Vec::new());
        for (&at, &token) in attempt.names.iter().zip(&tokens) {
            let lock = &mut self.locks[at];
            let (verdict, left) = lock.release(now, attempt.owner, &attempt.id, void, token);
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
                if names.len() == 1 {
                    let channel = who.split(' ').nth(1).unwrap();
                    expected.extend([channel.to_owned(), lock.waiters.len().to_string()]);
                }
                wakes.push(wake(&who, NAMES[at]));
            }
        }
        assert_eq!(answer, expected, "{}", self.story());
        assert_eq!(
            published,
            wakes,
            "one living waiter is woken, {}",
            self.story()
        );
    }

    fn force(&mut self) {
        let at = self.rng.usize(..self.locks.len());
        let older = self.rng.u64(..3);
        let token = self.tokens[at].saturating_sub(older / 2);
        let how = ["now", "after"][self.rng.usize(..2)];
        let call = bed::force(NAMES[at], token, how, RETENTION);
        let answer = self.ask(&call);
        let published = self.bed.published();
        let now = self.bed.millis();
        let verdict = self.locks[at].force(now, token, how);
        assert_eq!(
            answer,
            [now.to_string(), verdict.to_owned()],
            "{}",
            self.story()
        );
        let woken = match (verdict, how) {
            ("done", "now") => self.locks[at].wake(now),
            _ => None,
        };
        let wakes: Vec<_> = woken.iter().map(|who| wake(who, NAMES[at])).collect();
        assert_eq!(published, wakes, "{}", self.story());
        self.check_data();
    }

    fn look(&mut self) {
        let at = self.rng.usize(..self.locks.len());
        let before = self.bed.dump();
        let answer = self.ask(&bed::inspect(NAMES[at]));
        let now = self.bed.millis();
        let expected = match self.locks[at].live(now) {
            None => vec![now.to_string(), "free".to_owned()],
            Some(hold) => {
                let waiters = self.locks[at].waiters.values();
                vec![
                    now.to_string(),
                    "held".to_owned(),
                    hold.owner.clone(),
                    hold.attempts.len().to_string(),
                    hold.token.to_string(),
                    (hold.until - now).to_string(),
                    waiters.filter(|&&until| until >= now).count().to_string(),
                ]
            }
        };
        assert_eq!(answer, expected, "{}", self.story());
        assert_eq!(self.bed.dump(), before, "it writes nothing");
    }

    /// Runs a script, before that on a server in trouble, where it must do all or nothing.
    fn ask(&mut self, call: &Call) -> Vec<String> {
        let shown = format!("{} {} {:?}", self.bed.millis(), call.script.name, call.args);
        self.history.push(shown);
        if self.probing {
            self.probe(call);
        }
        self.bed.ask(call)
    }

    fn probe(&mut self, call: &Call) {
        let (data, before) = (self.bed.engine.snapshot(), self.bed.dump());
        let calm = (self.bed.ask(call), self.bed.dump());
        for (condition, code) in [
            (Condition::Full, "OOM"),
            (Condition::ShortOfReplicas, "NOREPLICAS"),
        ] {
            self.bed.engine.restore(&data);
            self.bed.engine.set_condition(condition, true);
            let answer = self.bed.call(call);
            self.bed.engine.set_condition(condition, false);
            let after = self.bed.dump();
            match answer {
                Ok(answer) => assert_eq!((answer, after), calm, "{}", self.story()),
                Err(error) => {
                    let refused = error.code == code || error.message.contains(code);
                    assert!(refused, "{error}, {}", self.story());
                    assert_eq!(after, before, "refused whole, {}", self.story());
                    let wants_memory = call.script.name == "reentrant/acquire";
                    assert!(
                        code == "NOREPLICAS" || wants_memory,
                        "{} on a full server, {}",
                        call.script.name,
                        self.story()
                    );
                }
            }
        }
        self.bed.engine.restore(&data);
        self.bed.published();
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
        let lock = &self.locks[at];
        let field = |name: &str| hash.get(name).map(String::as_str);
        if hash.is_empty() {
            return;
        }
        assert_eq!(field("k"), Some("lock:1"));
        let token = lock.last_token.map(|token| token.to_string());
        assert_eq!(field("t"), token.as_deref(), "{}", self.story());
        let owner = lock.hold.as_ref().map(|hold| hold.owner.as_str());
        assert_eq!(field("o"), owner, "{}", self.story());
        let until = lock.hold.as_ref().map(|hold| hold.until.to_string());
        assert_eq!(field("u"), until.as_deref(), "{}", self.story());
        let attempts = field("h").map(|attempts| {
            let mut attempts: Vec<_> = attempts.split_whitespace().collect();
            attempts.sort_unstable();
            attempts
        });
        let held = lock.hold.as_ref();
        let held = held.map(|hold| hold.attempts.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(attempts, held, "{}", self.story());
        let now = self.bed.millis();
        for (attempt, until) in lock.voids.iter().filter(|(_, until)| **until >= now) {
            let mark = hash.get(&format!("v:{attempt}"));
            let lasts = mark.is_some_and(|mark| mark.parse::<u64>().unwrap() >= *until);
            assert!(lasts, "no mark of {attempt}: {hash:?}");
        }
        for name in hash.keys().filter(|name| !name.starts_with('v')) {
            assert!("kohtuzfnb".contains(name.as_str()), "{name} in {hash:?}");
        }
    }

    /// Every key has an end, and none before that of what lives in it.
    fn check_ends(&mut self, at: usize, gone: bool) {
        let now = self.bed.millis();
        let (key, queue) = (bed::key(NAMES[at]), bed::queue(NAMES[at]));
        let lock = &self.locks[at];
        let hold = lock.live(now).map_or(0, |hold| hold.until + RETENTION);
        let voids = lock.voids.values().filter(|&&until| until >= now);
        let needed = hold.max(voids.max().copied().unwrap_or(0));
        let ends = self.bed.ttl(&key).map_or(0, |ttl| now + ttl);
        assert!(ends >= needed, "{ends} < {needed}, {}", self.story());
        assert!(!gone || needed == 0);
        let last = lock.waiters.values().filter(|&&until| until > now).max();
        let last = last.copied().unwrap_or(0);
        let ends = self.bed.ttl(&queue).map_or(0, |ttl| now + ttl);
        assert!(ends >= last, "the queue: {ends} < {last}, {}", self.story());
        let living = lock.waiters.iter().filter(|(_, until)| **until > now);
        let living: Vec<_> = living.map(|(who, _)| who.clone()).collect();
        assert_eq!(self.living_on_server(NAMES[at]), living, "{}", self.story());
    }

    fn living_on_server(&mut self, name: &str) -> Vec<String> {
        let now = self.bed.millis();
        let all = self.bed.sorted(&bed::queue(name)).into_iter();
        all.filter(|(_, until)| *until > now)
            .map(|(who, _)| who)
            .collect()
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        NAMES.into_iter().take(self.locks.len())
    }

    fn story(&self) -> String {
        let from = self.history.len().saturating_sub(12);
        let model = self.bed.engine.model();
        format!(
            "{model:?}, {} names, seed {}, after\n{}",
            self.locks.len(),
            self.seed,
            self.history[from..].join("\n")
        )
    }
}

/// The message that wakes whoever has this address.
fn wake(address: &str, name: &str) -> (String, String) {
    let channel = address.split(' ').nth(1).unwrap();
    (channel.to_owned(), bed::key(name))
}
