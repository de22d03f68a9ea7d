//! Random interleavings of three clients, with replies that are lost, requests that are sent again,
//! and copies that come late. After every script its reply, the queue and what is published are
//! what the model says, and nobody is granted before somebody alive who came first.

use std::time::Duration;

use fastrand::Rng;
use redlatch_embedded::engine::Model;

use super::{
    model::{Fair, client, words},
    words::{Acquire, NAME, Release, force, lives, queue, renew},
};
use crate::scripts::{
    bed::{Bed, Call, key},
    driver::seeds,
};

const RETENTION: u64 = 20_000;
const REACH: u64 = 5_000;

// L23
#[test]
fn one_name_follows_the_model_under_lost_replies_and_late_copies() {
    let (mut grants, mut ahead) = (0, 0);
    for model in Model::ALL {
        for seed in seeds() {
            let (all, heard) = World::new(model, seed).run();
            grants += all;
            ahead += heard;
        }
    }
    println!("{grants} grants, {ahead} of them ahead");
    let runs = seeds().count() as u64;
    assert!(
        ahead > runs * 3,
        "hardly anything was granted ahead: {ahead}"
    );
    assert!(grants > runs * 20, "hardly anything was granted: {grants}");
}

struct World {
    bed: Bed,
    rng: Rng,
    seed: u64,
    fair: Fair,
    /// Attempts under way, or holding with a token.
    attempts: Vec<Attempt>,
    /// Everything that was ever sent and may come once more.
    acquires: Vec<Acquire>,
    releases: Vec<Release>,
    next: u64,
    grants: u64,
    /// Grants that a waiter has heard of by a message.
    ahead: u64,
    story: Vec<(u64, Call)>,
}

#[derive(Clone, Debug)]
struct Attempt {
    call: Acquire,
    token: u64,
    unanswered: bool,
}

impl World {
    fn new(model: Model, seed: u64) -> Self {
        Self {
            bed: Bed::new(model),
            rng: Rng::with_seed(seed),
            seed,
            fair: Fair::default(),
            attempts: Vec::new(),
            acquires: Vec::new(),
            releases: Vec::new(),
            next: 1,
            grants: 0,
            ahead: 0,
            story: Vec::new(),
        }
    }

    fn run(mut self) -> (u64, u64) {
        for _ in 0..250 {
            let span = match self.rng.u8(..40) {
                0 => self.rng.u64(4_000..7_000),
                1..=4 => self.rng.u64(200..2_500),
                _ => self.rng.u64(0..40),
            };
            self.bed.pass(Duration::from_micros(span * 1_000 + 7));
            self.expire();
            match self.rng.u8(..20) {
                0..=3 => self.begin(),
                4..=8 => self.ask_again(),
                9..=13 => self.end(),
                14 => self.renew(),
                15 if self.rng.u8(..4) == 0 => self.force(),
                16 | 17 => self.late_acquire(),
                18 => self.late_release(),
                _ => {}
            }
            self.compare();
        }
        (self.grants, self.ahead)
    }

    fn begin(&mut self) {
        if self.attempts.len() > 9 {
            return;
        }
        let n = self.next;
        self.next += 1;
        let client = ["a", "b", "c"][self.rng.usize(..3)];
        let owner = match self.rng.u8(..4) {
            0 => 1,
            _ => 1_000 + n,
        };
        let lease = self.rng.u64(50..9_000);
        let order = format!("g{lease}.{}.{:016x}", lease + RETENTION, self.rng.u64(..));
        let (register, address) = match self.rng.u8(..8) {
            0 => (None, String::new()),
            1 => (Some(5_000), format!("NONE w:{client} {n} {owner}")),
            2..=4 => (Some(5_000), format!("PUBLISH w:{client} {n} {owner}")),
            _ => (
                Some(5_000),
                format!("PUBLISH w:{client} {n} {owner} {order}"),
            ),
        };
        let attempt = Attempt {
            call: Acquire {
                by: self.bed.millis() + REACH,
                owner: format!("{client}:{owner}"),
                attempt: format!("{client}:{n}"),
                lease,
                retention: RETENTION,
                register,
                address,
            },
            token: 0,
            unanswered: false,
        };
        self.attempts.push(attempt);
        self.send(self.attempts.len() - 1);
    }

    fn ask_again(&mut self) {
        let waiting: Vec<_> = (0..self.attempts.len())
            .filter(|&at| self.attempts[at].token == 0)
            .collect();
        if waiting.is_empty() {
            return;
        }
        let at = waiting[self.rng.usize(..waiting.len())];
        self.attempts[at].call.by = self.bed.millis() + REACH;
        self.send(at);
    }

    fn send(&mut self, at: usize) {
        let call = self.attempts[at].call.clone();
        self.acquires.push(call.clone());
        let answer = self.acquire(&call);
        let lost = self.rng.u8(..5) == 0;
        let attempt = &mut self.attempts[at];
        attempt.unanswered |= lost;
        if !lost && answer[1] == "granted" {
            attempt.token = answer[3].parse().unwrap();
        } else if !lost && call.register.is_none() {
            self.attempts.remove(at);
        }
    }

    fn acquire(&mut self, call: &Acquire) -> Vec<String> {
        let (now, micros) = (self.bed.millis(), self.bed.now.micros());
        self.nobody_is_passed_over(call);
        let expected = if now > call.by {
            words(now, &["late"])
        } else {
            self.fair.acquire(now, micros, call)
        };
        let answer = self.ask(call.call());
        assert_eq!(answer, expected, "{}", self.tell());
        if answer[1] == "granted" {
            self.grants += 1;
        }
        answer
    }

    /// By the data alone: if this call is granted what is free, nobody alive is in front of it.
    fn nobody_is_passed_over(&mut self, call: &Acquire) {
        let now = self.bed.millis();
        if self.fair.lock.live(now).is_some() || now > call.by {
            return;
        }
        let before = self.bed.hash(&key(NAME));
        let mut members: Vec<_> = self.bed.sorted(&queue()).into_iter().collect();
        members.sort_by_key(|(_, ticket)| *ticket);
        let mut alive = self.bed.sorted(&lives());
        if let Some(register) = call.register {
            // Its own client lives, since it asks.
            alive.insert(client(&call.address).to_owned(), now + register);
        }
        let patience = |member: &str| {
            let called = before.get("y").filter(|called| called[14..] == *member);
            called.map_or(u64::MAX, |called| called[..13].parse().unwrap())
        };
        let first = members.iter().find(|(member, _)| {
            let lives = alive.get(client(member)).copied().unwrap_or(0);
            lives.min(patience(member)) > now
        });
        let Some((first, _)) = first.filter(|(member, _)| *member != call.address) else {
            return;
        };
        let mut copy = self.fair.clone();
        let verdict = copy
            .acquire(now, self.bed.now.micros(), call)
            .swap_remove(1);
        assert_ne!(
            verdict,
            "granted",
            "{first} came first: {call:?}, {}",
            self.tell()
        );
    }

    fn end(&mut self) {
        if self.attempts.is_empty() {
            return;
        }
        let holder = self.attempts.iter().position(|one| one.token > 0);
        let any = self.rng.usize(..self.attempts.len());
        let at = holder.filter(|_| self.rng.bool()).unwrap_or(any);
        let attempt = self.attempts.swap_remove(at);
        let call = Release {
            owner: attempt.call.owner.clone(),
            attempt: attempt.call.attempt.clone(),
            void: attempt.unanswered.then_some(attempt.call.by),
            keep: RETENTION,
            address: if attempt.token == 0 || attempt.unanswered {
                attempt.call.address.clone()
            } else {
                String::new()
            },
            token: attempt.token,
        };
        if !attempt.unanswered {
            // Its copies have all been answered: none is under way.
            self.acquires.retain(|sent| sent.attempt != call.attempt);
        }
        self.releases.push(call.clone());
        self.release(&call);
    }

    fn release(&mut self, call: &Release) {
        let (now, micros) = (self.bed.millis(), self.bed.now.micros());
        let (verdict, left) = self.fair.release(now, micros, call);
        let answer = self.ask(call.call());
        let mut expected = words(now, &[verdict, &left.to_string()]);
        expected.append(&mut self.fair.report);
        assert_eq!(answer, expected, "{}", self.tell());
        let client = call.owner.split(':').next().unwrap();
        if let [_, _, _, word, attempt, notice] = &answer[..]
            && word == "granted"
            && attempt.starts_with(&format!("{client}:"))
        {
            self.hear(attempt, notice);
        }
    }

    fn renew(&mut self) {
        let now = self.bed.millis();
        let Some(holder) = self.attempts.iter().find(|attempt| attempt.token > 0) else {
            return;
        };
        let (owner, token) = (holder.call.owner.clone(), holder.token);
        let expected = self.fair.lock.renew(now, &owner, 3_000, token);
        let answer = self.ask(renew(now + REACH, &owner, 3_000, RETENTION, token));
        assert_eq!(answer, words(now, &[expected]), "{}", self.tell());
    }

    fn force(&mut self) {
        let now = self.bed.millis();
        let Some(token) = self.fair.lock.live(now).map(|hold| hold.token) else {
            return;
        };
        let flagged = self.fair.flag.is_some();
        let expected = self.fair.lock.force(now, token, "now");
        if flagged {
            self.fair.wake(now, self.bed.now.micros(), None);
        }
        let answer = self.ask(force(token, "now", RETENTION));
        let mut expected = words(now, &[expected]);
        expected.append(&mut self.fair.report);
        assert_eq!(answer, expected, "{}", self.tell());
    }

    fn late_acquire(&mut self) {
        if self.acquires.is_empty() {
            return;
        }
        let call = self.acquires[self.rng.usize(..self.acquires.len())].clone();
        self.acquire(&call);
    }

    fn late_release(&mut self) {
        if self.releases.is_empty() {
            return;
        }
        let call = self.releases[self.rng.usize(..self.releases.len())].clone();
        self.release(&call);
    }

    /// What the server has forgotten may be forgotten.
    fn expire(&mut self) {
        let now = self.bed.millis();
        if self.bed.hash(&key(NAME)).is_empty() {
            assert!(self.fair.lock.live(now).is_none(), "{}", self.tell());
            assert!(self.fair.flag <= Some(now), "{}", self.tell());
            self.fair.forget();
        }
        let alive = |fair: &Fair, who: &str| fair.lives.get(client(who)) > Some(&now);
        if self.bed.sorted(&queue()).is_empty() {
            let living = self
                .fair
                .queue
                .iter()
                .any(|(_, who)| alive(&self.fair, who));
            assert!(!living, "{}", self.tell());
            self.fair.queue.clear();
        }
        if self.bed.sorted(&lives()).is_empty() {
            assert!(self.fair.lives.values().all(|until| *until <= now));
            self.fair.lives.clear();
        }
    }

    fn compare(&mut self) {
        let mut members: Vec<_> = self.bed.sorted(&queue()).into_iter().collect();
        members.sort_by_key(|(_, ticket)| *ticket);
        let members: Vec<_> = members.into_iter().map(|(who, at)| (at, who)).collect();
        assert_eq!(members, self.fair.queue, "{}", self.tell());
        assert_eq!(
            self.bed.sorted(&lives()),
            self.fair.lives,
            "{}",
            self.tell()
        );
        let fields = self.bed.hash(&key(NAME));
        let flag = fields.get("n").map(|flag| flag.parse().unwrap());
        assert_eq!(flag, self.fair.flag, "{}", self.tell());
        let called = self.fair.called.as_ref();
        let called = called.map(|(until, who)| format!("{until} {who}"));
        assert_eq!(fields.get("y"), called.as_ref(), "{}", self.tell());
        // Nobody listens on the third client's channel.
        let mut calls = std::mem::take(&mut self.fair.calls);
        calls.retain(|(channel, _)| channel != "w:c");
        let published = self.bed.published();
        assert_eq!(published, calls, "{}", self.tell());
        for (channel, message) in &published {
            self.hear_message(channel, message);
        }
        for key in [key(NAME), queue(), lives()] {
            // Panics if there is no end.
            let _ = self.bed.ttl(&key);
        }
    }

    /// A message about a hold that a release has granted reaches the waiter, or does not.
    fn hear_message(&mut self, channel: &str, message: &str) {
        if let Some((waiter, notice)) = message.rsplit_once(" g") {
            let n = waiter.rsplit(' ').next().unwrap();
            let attempt = format!("{}:{n}", channel.rsplit(':').next().unwrap());
            self.hear(&attempt, notice);
        }
    }

    /// A waiter hears of the hold that a release has granted it, or does not.
    fn hear(&mut self, attempt: &str, notice: &str) {
        let lost = self.rng.u8(..3) == 0;
        let mut waiting = self.attempts.iter_mut();
        let Some(waiter) = waiting.find(|waiter| waiter.call.attempt == attempt && !lost) else {
            return;
        };
        waiter.token = notice.split('.').nth(1).unwrap().parse().unwrap();
        self.grants += 1;
        self.ahead += 1;
    }

    fn ask(&mut self, call: Call) -> Vec<String> {
        let answer = self.bed.ask(&call);
        self.story.push((self.bed.millis(), call));
        answer
    }

    fn tell(&self) -> String {
        let from = self.story.len().saturating_sub(14);
        let told = self.story[from..].iter();
        let told = told.map(|(at, call)| format!("{at} {call}"));
        let model = self.bed.engine.model();
        format!(
            "{model:?}, seed {}, after\n{}",
            self.seed,
            told.collect::<Vec<_>>().join("\n")
        )
    }
}
