//! Random interleavings on one pool: acquisitions of different sizes that wait or do not, splits,
//! forgets, renewals and changes of the size, with replies that are lost, requests that are sent
//! again, and copies that come late. After every script its reply and all data are what the model
//! says.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use fastrand::Rng;
use redlatch_embedded::engine::Model;

use super::{
    calls::{self, Acquire, Release},
    model::{Found, Pool, Waiter},
};
use crate::scripts::bed::{Bed, key};

fn seeds() -> Range<u64> {
    let few = if cfg!(feature = "servers") {
        1_000
    } else {
        100
    };
    match std::env::var("REDLATCH_SEEDS").ok() {
        Some(text) => match text.split_once("..") {
            Some((from, to)) => from.parse().unwrap()..to.parse().unwrap(),
            None => 0..text.parse().unwrap(),
        },
        None => 0..few,
    }
}

#[test]
fn pool_follows_the_model_under_lost_replies_and_late_copies() {
    for seed in seeds() {
        World::new(Model::ALL[seed as usize % 3], seed).run();
    }
}

/// How far ahead of the server's time a request may act, in ms.
const REACH: u64 = 5_000;

/// An acquisition as its client knows it.
#[derive(Clone, Debug)]
struct Attempt {
    id: String,
    address: String,
    need: u64,
    lease: u64,
    /// The largest `by` sent.
    by: u64,
    outstanding: usize,
    registered: bool,
    /// What its client knows to hold.
    left: Option<u64>,
    forgotten: u64,
}

/// A request on its way.
#[derive(Clone, Debug)]
enum Copy {
    Acquire(Attempt, u64, bool),
    Renew(Attempt, u64, u64),
    Release(Attempt, Option<u64>, u64, u64),
    Change(String, u64, &'static str, i64),
}

struct World {
    seed: u64,
    rng: Rng,
    bed: Bed,
    pool: Pool,
    attempts: Vec<Attempt>,
    flying: Vec<Copy>,
    next: u32,
    history: Vec<String>,
}

impl World {
    fn new(model: Model, seed: u64) -> Self {
        Self {
            seed,
            rng: Rng::with_seed(seed),
            bed: Bed::new(model),
            pool: Pool::default(),
            attempts: Vec::new(),
            flying: Vec::new(),
            next: 0,
            history: Vec::new(),
        }
    }

    fn run(mut self) {
        for _ in 0..120 {
            match self.rng.u8(..22) {
                0..5 => self.begin(),
                5..8 => self.send_again(),
                8..10 => self.deliver(),
                10..12 => self.renew(),
                12..16 => self.end_one(),
                16 => self.part_of_one(),
                17..19 => self.change(),
                19 if self.rng.u8(..4) == 0 => self.pass(30_000),
                19 | 20 => self.pass(3_000),
                _ => self.pass(300),
            }
        }
        self.wind_up();
    }

    /// Ends everything, in any order, and lets all copies come in, also late; then only the size
    /// may be left.
    fn wind_up(&mut self) {
        while !self.attempts.is_empty() || !self.flying.is_empty() {
            match self.rng.u8(..4) {
                0 => self.pass(500),
                1 => self.deliver(),
                _ => self.end_one(),
            }
        }
        let now = self.bed.millis();
        assert_eq!(self.pool.out(now), 0, "a ghost holds, {}", self.story());
        self.pass_exactly(Duration::from_secs(60));
        let answer = self.bed.ask(&calls::inspect(None));
        match self.pool.size {
            Some(size) => {
                let size = size.to_string();
                assert_eq!(
                    answer[1..],
                    ["set", &size, "0", "0", ""],
                    "{}",
                    self.story()
                );
                let dump = self.bed.dump();
                assert_eq!(dump.len(), 1, "{dump:?}, {}", self.story());
            }
            None => assert_eq!(answer[1..], ["unset"], "{}", self.story()),
        }
    }

    fn begin(&mut self) {
        if self.attempts.len() >= 9 {
            return;
        }
        self.next += 1;
        let channel = ["w:a", "w:b"][self.rng.usize(..2)];
        self.attempts.push(Attempt {
            id: format!("{channel}:{}", self.next),
            address: format!("PUBLISH {channel} {}", self.next),
            need: [1, 1, 2, 5][self.rng.usize(..4)],
            lease: [50, 400, 2_000, 9_000][self.rng.usize(..4)],
            by: 0,
            outstanding: 0,
            registered: false,
            left: None,
            forgotten: 0,
        });
        self.send(self.attempts.len() - 1);
    }

    fn send_again(&mut self) {
        if let Some(at) = self.any(|attempt| attempt.left.is_none()) {
            self.send(at);
        }
    }

    fn send(&mut self, at: usize) {
        let by = self.bed.millis() + self.rng.u64(..=REACH);
        let waits = self.rng.u8(..4) > 0;
        let attempt = &mut self.attempts[at];
        attempt.by = attempt.by.max(by);
        attempt.outstanding += 1;
        attempt.registered |= waits;
        let copy = Copy::Acquire(attempt.clone(), by, waits);
        self.dispatch(copy);
    }

    fn renew(&mut self) {
        if let Some(at) = self.any(|attempt| attempt.left.is_some()) {
            let by = self.bed.millis() + self.rng.u64(..=REACH);
            let lease = [50, 1_000, 9_000][self.rng.usize(..3)];
            self.dispatch(Copy::Renew(self.attempts[at].clone(), by, lease));
        }
    }

    /// Gives some of a hold's permits back, or up for good.
    fn part_of_one(&mut self) {
        if let Some(at) = self.any(|attempt| attempt.left.is_some_and(|left| left > 1)) {
            let forgets = self.rng.bool();
            let attempt = &mut self.attempts[at];
            let left = attempt.left.unwrap() - 1;
            attempt.left = Some(left);
            attempt.forgotten += u64::from(forgets);
            let copy = Copy::Release(attempt.clone(), None, left, attempt.forgotten);
            self.dispatch_release(copy);
        }
    }

    /// Releases what a client holds, or undoes what it has given up.
    fn end_one(&mut self) {
        if let Some(at) = self.any(|_| true) {
            let attempt = self.attempts.swap_remove(at);
            let void = (attempt.outstanding > 0).then_some(attempt.by);
            let forgotten = attempt.forgotten;
            self.dispatch_release(Copy::Release(attempt, void, 0, forgotten));
        }
    }

    fn change(&mut self) {
        self.next += 1;
        let (verb, number) = match self.rng.u8(..8) {
            0..3 => ("set", self.rng.i64(0..9)),
            3 => ("try", self.rng.i64(0..9)),
            4..6 => ("add", self.rng.i64(-5..6)),
            6 => ("add", i64::from(u32::MAX)),
            _ => ("drain", 0),
        };
        let by = self.bed.millis() + self.rng.u64(..=REACH);
        let copy = Copy::Change(format!("c:{}", self.next), by, verb, number);
        self.dispatch_release(copy);
    }

    /// As `dispatch`, perhaps twice.
    fn dispatch_release(&mut self, copy: Copy) {
        if self.rng.u8(..3) == 0 {
            self.flying.push(copy.clone());
        }
        self.dispatch(copy);
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
        let span = Duration::from_micros(self.rng.u64(..most * 1_000));
        self.pass_exactly(span);
    }

    fn pass_exactly(&mut self, span: Duration) {
        self.history.push(format!("pass {span:?}"));
        self.bed.pass(span);
    }

    fn act(&mut self, copy: Copy) {
        match copy {
            Copy::Acquire(attempt, by, waits) => self.acquire(&attempt, by, waits),
            Copy::Renew(attempt, by, lease) => self.renewal(&attempt, by, lease),
            Copy::Release(attempt, void, left, forgotten) => {
                self.release(&attempt, void, left, forgotten);
            }
            Copy::Change(op, by, verb, number) => self.operate(&op, by, verb, number),
        }
        self.check_data();
    }

    fn acquire(&mut self, attempt: &Attempt, by: u64, waits: bool) {
        let member = format!("{} {}", attempt.address, attempt.need);
        let call = Acquire {
            by,
            need: attempt.need,
            lease: attempt.lease,
            alive: waits.then_some(5_000),
            address: if waits { &attempt.address } else { "" },
            ..Acquire::new(&self.bed, &attempt.id, 0)
        };
        let (now, mut queue) = (self.bed.millis(), self.queue());
        if waits {
            // Whoever asks is alive, and with it all of its client that have not failed to come.
            let patience = self.patience();
            let channel = attempt.address.split(' ').nth(1).unwrap();
            for waiter in queue.iter_mut().filter(|waiter| waiter.client() == channel) {
                let patient = patience.as_ref().filter(|(_, who)| *who == waiter.member);
                waiter.alive = patient.map_or(now + 5_000, |(until, _)| *until);
            }
        }
        let expected = if now > by {
            None
        } else {
            let member = waits.then_some(member.as_str());
            Some(
                self.pool
                    .find(now, &attempt.id, attempt.need, &queue, member),
            )
        };
        let before = self.bed.dump();
        let answer = self.ask(&call.call());
        let verdict = answer[1].as_str();
        let right = match &expected {
            None => "late",
            Some(Found::Void) => "void",
            Some(Found::Copy | Found::Free) => "granted",
            Some(Found::Unset) => "unset",
            Some(Found::Large(_)) => "large",
            Some(Found::Busy) => "busy",
        };
        assert_eq!(verdict, right, "{queue:?}, {}", self.story());
        match expected {
            Some(Found::Copy) => {
                let hold = self.pool.holds.get_mut(&attempt.id).unwrap();
                hold.until = hold.until.max(now + attempt.lease);
            }
            Some(Found::Free) => {
                let placed = queue.iter().any(|waiter| waiter.member == member);
                // A copy without an address has a place, and cannot say so.
                let known = u8::from(waits && placed).to_string();
                assert_eq!(answer[5], known, "{}", self.story());
                let until = now + attempt.lease;
                self.pool.grant(&attempt.id, attempt.need, until);
                assert!(self.pool.out(now) <= self.pool.size.unwrap());
                self.check_called();
            }
            Some(Found::Busy) => {
                if waits {
                    let place = self
                        .queue()
                        .iter()
                        .position(|waiter| waiter.member == member);
                    assert!(place.is_some(), "it waits, {}", self.story());
                    self.check_hints(&answer, &member);
                }
                self.check_called();
            }
            _ => assert_eq!(
                self.bed.dump(),
                before,
                "nothing is written, {}",
                self.story()
            ),
        }
        // Its client may still be there, and may get the reply.
        let lost = self.rng.u8(..3) == 0;
        let mut known = self.attempts.iter_mut();
        let client = known.find(|known| known.id == attempt.id);
        if let Some(client) = client.filter(|_| !lost) {
            client.outstanding -= 1;
            if answer[1] == "granted" && client.left.is_none() {
                client.left = Some(attempt.need);
            }
        }
    }

    /// What a waiter is told about when to look again.
    fn check_hints(&mut self, answer: &[String], member: &str) {
        let (now, queue) = (self.bed.millis(), self.queue());
        let head = &queue[0];
        let me = queue.iter().find(|waiter| waiter.member == member).unwrap();
        let (remaining, called) = (&answer[2], &answer[3]);
        let fits = head.need <= self.pool.available(now);
        if head.client() == me.client() {
            let expected = if fits { head.number() } else { "" };
            assert_eq!(called, expected, "{}", self.story());
            let live = self.pool.holds.values().filter(|hold| hold.until > now);
            if let Some(first) = live.map(|hold| hold.until).min().filter(|_| !fits) {
                let remaining: u64 = remaining.parse().unwrap();
                assert!(now + remaining <= first, "{}", self.story());
            }
        } else {
            assert_eq!(called, "");
            let ahead = queue
                .iter()
                .take_while(|waiter| waiter.client() != me.client());
            let clients = self.bed.sorted(&calls::clients());
            let others = ahead
                .skip(1)
                .filter_map(|waiter| clients.get(waiter.client()));
            let until = others.copied().max().unwrap_or(0).max(head.alive);
            assert_eq!(*remaining, (until - now).to_string(), "{}", self.story());
        }
    }

    fn renewal(&mut self, attempt: &Attempt, by: u64, lease: u64) {
        let now = self.bed.millis();
        let answer = self.ask(&calls::renew(by, lease, &[&attempt.id]));
        let right: &[&str] = match self.pool.holds.get_mut(&attempt.id) {
            _ if now > by => &["late"],
            None => &["gone"],
            Some(hold) if hold.until <= now => &["expired", "gone"],
            Some(hold) => {
                hold.until = hold.until.max(now + lease);
                &["renewed"]
            }
        };
        assert!(right.contains(&answer[1].as_str()), "{}", self.story());
    }

    fn release(&mut self, attempt: &Attempt, void: Option<u64>, left: u64, forgotten: u64) {
        let now = self.bed.millis();
        let waiter = if attempt.registered && left == 0 {
            format!("{} {}", attempt.address, attempt.need)
        } else {
            String::new()
        };
        let call = Release {
            attempt: &attempt.id,
            void,
            waiter: &waiter,
            left,
            forgotten,
            holds: &[&attempt.id],
        };
        let answer = self.ask(&call.call());
        let (right, rest) = self.pool.release(now, &attempt.id, left, forgotten);
        assert!(
            right.contains(&answer[1].as_str()),
            "{right:?}, {}",
            self.story()
        );
        assert_eq!(answer[2], rest.to_string(), "{}", self.story());
        if let Some(void) = void.filter(|&void| void >= now) {
            self.pool.voids.insert(attempt.id.clone(), void);
        }
        self.check_called();
    }

    fn operate(&mut self, op: &str, by: u64, verb: &'static str, number: i64) {
        let now = self.bed.millis();
        let answer = self.ask(&calls::change(by, op, verb, number, ""));
        let right = if now > by {
            vec!["late".to_owned()]
        } else {
            self.pool.change(now, op, verb, number)
        };
        assert_eq!(answer[1..], right, "{}", self.story());
        if right[0] == "done" {
            self.check_called();
        }
    }

    fn ask(&mut self, call: &crate::scripts::bed::Call) -> Vec<String> {
        let (before, now) = (self.queue(), self.bed.millis());
        let answer = self.bed.ask(call);
        let line = format!("{now} {} {:?} -> {answer:?}", call.script.name, call.args);
        self.history.push(line);
        for (_, payload) in self.bed.published() {
            let known = before
                .iter()
                .any(|waiter| payload == format!("{} {}", key("x"), waiter.number()));
            assert!(known || payload == key("x"), "{payload}, {}", self.story());
        }
        answer
    }

    /// Whoever is first and may have what it needs has been called.
    fn check_called(&mut self) {
        let now = self.bed.millis();
        let queue = self.queue();
        let Some(head) = queue.first() else { return };
        let fields = self.bed.hash(&key("x"));
        let out: u64 = fields.get("c").map_or(0, |out| out.parse().unwrap());
        let room = self.pool.size.unwrap_or(0).saturating_sub(out);
        if head.alive > now && head.need <= room {
            let called = fields.get("y").and_then(|called| called.split_once(' '));
            let called = called.map(|(_, member)| member);
            assert_eq!(called, Some(head.member.as_str()), "{}", self.story());
        }
    }

    /// Who waits, in order of arrival.
    fn queue(&mut self) -> Vec<Waiter> {
        let clients = self.bed.sorted(&calls::clients());
        let mut tickets: Vec<_> = self.bed.sorted(&calls::tickets()).into_iter().collect();
        tickets.sort_by_key(|(_, ticket)| *ticket);
        let patience = self.patience();
        let waiters = tickets.into_iter().map(|(member, _)| {
            let mut waiter = Waiter {
                need: member.rsplit_once(' ').unwrap().1.parse().unwrap(),
                member,
                alive: 0,
            };
            waiter.alive = clients.get(waiter.client()).copied().unwrap_or(0);
            if let Some((until, _)) = patience.as_ref().filter(|(_, who)| *who == waiter.member) {
                waiter.alive = waiter.alive.min(*until);
            }
            waiter
        });
        waiters.collect()
    }

    /// Who was called last, and until when it may take its time to come.
    fn patience(&mut self) -> Option<(u64, String)> {
        let called = self.bed.hash(&key("x")).remove("y")?;
        let (until, member) = called.split_once(' ')?;
        Some((until.parse().unwrap(), member.to_owned()))
    }

    /// Everything stored is what the model says.
    fn check_data(&mut self) {
        let now = self.bed.millis();
        let fields = self.bed.hash(&key("x"));
        let size = fields.get("s").map(|size| size.parse().unwrap());
        assert_eq!(size, self.pool.size, "{}", self.story());
        let mut holds = BTreeMap::new();
        for (field, hold) in &fields {
            if let Some(id) = field.strip_prefix("h:") {
                let numbers: Vec<u64> = hold.split(' ').map(|n| n.parse().unwrap()).collect();
                holds.insert(id.to_owned(), (numbers[0], numbers[1], numbers[2]));
            }
        }
        let out: u64 = holds.values().map(|(_, permits, _)| permits).sum();
        let stored = fields.get("c").map_or(0, |out| out.parse().unwrap());
        assert_eq!(out, stored, "{}", self.story());
        let model = self.pool.holds.iter().filter(|(_, hold)| hold.until > now);
        let model = model.map(|(id, hold)| {
            let packed = (hold.until, hold.permits, hold.forgotten);
            (id.clone(), packed)
        });
        let live = holds.iter().filter(|(_, (until, ..))| *until > now);
        let live: BTreeMap<_, _> = live.map(|(id, hold)| (id.clone(), *hold)).collect();
        assert_eq!(live, model.collect(), "{}", self.story());
        let index = self.bed.sorted(&calls::index());
        assert_eq!(index.len(), holds.len(), "{}", self.story());
        for (id, (until, ..)) in &holds {
            assert!(index[id] <= *until, "a lower bound, {}", self.story());
        }
        if !self.queue().is_empty() {
            let until: u64 = fields.get("n").map_or(0, |until| until.parse().unwrap());
            let clients = self.bed.sorted(&calls::clients());
            assert!(
                clients.values().all(|alive| *alive <= until),
                "{}",
                self.story()
            );
        }
    }

    fn story(&self) -> String {
        let from = self.history.len().saturating_sub(14);
        let model = self.bed.engine.model();
        let told = self.history[from..].join("\n");
        format!("{model:?}, seed {}, after\n{told}", self.seed)
    }
}
