//! Random interleavings of three clients, with replies that are lost, requests that are sent again,
//! and copies that come late. After every script its reply, the queue and what is published are
//! what the model says, and nobody is granted before somebody alive who came first.

use std::{convert::Infallible, time::Duration};

use redlatch_embedded::engine::Model;
use redlatch_lua::FAIR;

use super::{
    NAME,
    model::{Fair, client, client_of, words},
};
use crate::scripts::{
    bed::{Acquire, Bed, Call, Lock, Release, key, lives, queue},
    driver::{Attempt, Kind, Request, World, assert_noticed, seeds},
};

const RETENTION: u64 = 20_000;

// L23
#[test]
fn one_name_follows_the_model_under_lost_replies_and_late_copies() {
    let (mut grants, mut ahead) = (0, 0);
    for model in Model::ALL {
        for seed in seeds() {
            let (all, heard) = world(model, seed).run();
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

#[test]
fn grant_that_its_waiter_is_not_told_of_is_noticed() {
    let told = "if p and string.sub(p, 1, 16) == token then";
    let fault = (&FAIR.exclusive.acquire, told, "if false then");
    let world = |seed| world(Model::default(), seed);
    assert_noticed(fault, world, World::run);
}

/// What an acquisition is for.
#[derive(Clone, Debug)]
struct What {
    owner: String,
    address: String,
    lease: u64,
    register: Option<u64>,
}

/// One lock.
#[derive(Default)]
struct InOrder {
    fair: Fair,
    grants: u64,
    /// Grants that a waiter has heard of by a message.
    ahead: u64,
}

fn world(model: Model, seed: u64) -> World<InOrder> {
    World::new(Bed::new(model), seed, InOrder::default())
}

impl Kind for InOrder {
    type What = What;
    type Other = Infallible;

    fn act(world: &mut World<Self>, request: Request<What>) {
        match request {
            Request::Ask(attempt, by) => world.acquire(&attempt, by),
            Request::Renew(attempt, by, lease) => world.renewal(&attempt, by, lease),
            Request::Release(attempt, void) => world.release(&attempt, void),
        }
        world.compare();
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        let fair = &world.kind.fair;
        let hold = fair.lock.hold.iter().map(|hold| hold.until);
        let called = fair.called.iter().map(|(until, _)| *until);
        hold.chain(called)
            .chain(fair.lives.values().copied())
            .collect()
    }

    fn passed(world: &mut World<Self>) {
        world.expire();
        world.compare();
    }

    fn wants_memory(call: &Call, _: &[String]) -> bool {
        call.script.name == "fair/acquire"
    }
}

impl World<InOrder> {
    fn run(mut self) -> (u64, u64) {
        for _ in 0..300 {
            let span = match self.rng.u8(..40) {
                0 => self.rng.u64(4_000..7_000),
                1..=4 => self.rng.u64(200..2_500),
                _ => self.rng.u64(0..40),
            };
            self.pass_exactly(Duration::from_micros(span * 1_000 + 7));
            match self.rng.u8(..20) {
                0..4 => self.begin_one(),
                4..9 => self.ask_again(),
                9..12 => self.end_one(),
                12..14 => self.end_the_holder(),
                14 => self.renew(),
                15 if self.rng.u8(..4) == 0 => self.force(),
                16..19 => self.deliver(),
                _ if self.rng.u8(..4) == 0 => self.pass(3_000),
                _ => {}
            }
        }
        let told = (self.kind.grants, self.kind.ahead);
        self.wind_up();
        self.bed.pass(Duration::from_millis(2 * RETENTION));
        self.assert_unchanged(&[], "something is left");
        told
    }

    /// The waiter that was called asks, or whose grant was not heard of, or anybody.
    fn ask_again(&mut self) {
        let fair = &self.kind.fair;
        let called = fair.called.as_ref().map(|(_, who)| who.clone());
        let hold = fair.lock.hold.clone();
        let due = self.any(|one| {
            let holds = hold
                .as_ref()
                .is_some_and(|hold| hold.attempts.contains(&one.id));
            one.held.is_none() && (holds || called.as_ref() == Some(&one.what.address))
        });
        match due.filter(|_| self.rng.u8(..4) > 0) {
            Some(at) => self.send(at),
            None => self.send_again(),
        }
    }

    fn end_the_holder(&mut self) {
        if let Some(at) = self.any(|one| one.held.is_some()) {
            self.end(at);
        }
    }

    fn begin_one(&mut self) {
        if self.attempts.len() > 9 {
            return;
        }
        let n = self.number();
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
        let what = What {
            owner: format!("{client}:{owner}"),
            address,
            lease,
            register,
        };
        self.begin(format!("{client}:{n}"), what);
    }

    fn acquire(&mut self, attempt: &Attempt<What>, by: u64) {
        let what = &attempt.what;
        let call = Acquire {
            of: Lock::Fair,
            names: &[NAME],
            by,
            owner: &what.owner,
            attempt: &attempt.id,
            lease: what.lease,
            retention: RETENTION,
            register: what.register,
            address: &what.address,
        };
        let (now, micros) = (self.bed.millis(), self.bed.now.micros());
        self.nobody_is_passed_over(&call);
        let expected = match now > by {
            true => words(now, &["late"]),
            false => self.kind.fair.acquire(now, micros, &call),
        };
        let answer = self.ask(&call.call());
        self.assert_eq(&answer, &expected);
        let granted = answer[1] == "granted";
        self.kind.grants += u64::from(granted);
        let client = self.answered(&attempt.id);
        match client.filter(|client| client.held.is_none()) {
            Some(client) if granted => client.held = Some(answer[3].parse().unwrap()),
            // It was a try.
            Some(_) if what.register.is_none() => {
                self.attempts.retain(|known| known.id != attempt.id);
            }
            _ => {}
        }
    }

    /// By the data alone: if this call is granted what is free, nobody alive is in front of it.
    fn nobody_is_passed_over(&mut self, call: &Acquire<'_>) {
        let now = self.bed.millis();
        if self.kind.fair.lock.live(now).is_some() || now > call.by {
            return;
        }
        let before = self.bed.hash(&key(NAME));
        let members = self.bed.queue(&queue(NAME));
        let mut alive = self.bed.sorted(&lives(NAME));
        if let Some(register) = call.register {
            // Its own client lives, since it asks.
            alive.insert(client(call.address).to_owned(), now + register);
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
        let mut copy = self.kind.fair.clone();
        let verdict = copy
            .acquire(now, self.bed.now.micros(), call)
            .swap_remove(1);
        self.assert(
            verdict != "granted",
            format_args!("{first} came first: {call:?}"),
        );
    }

    fn renewal(&mut self, attempt: &Attempt<What>, by: u64, lease: u64) {
        let (now, token, owner) = (
            self.bed.millis(),
            attempt.held.unwrap(),
            &attempt.what.owner,
        );
        let verdict = match now > by {
            true => "late",
            false => self.kind.fair.lock.renew(now, owner, lease, token),
        };
        let answer = self.ask(&Lock::Fair.renew(&[NAME], by, owner, lease, RETENTION, &[token]));
        self.assert_eq(&answer, &words(now, &[verdict]));
    }

    fn release(&mut self, attempt: &Attempt<What>, void: Option<u64>) {
        let (now, micros) = (self.bed.millis(), self.bed.now.micros());
        let (what, waited) = (&attempt.what, attempt.held.is_none() || void.is_some());
        let call = Release {
            of: Lock::Fair,
            names: &[NAME],
            owner: &what.owner,
            attempt: &attempt.id,
            void,
            keep: RETENTION,
            address: if waited { &what.address } else { "" },
            tokens: &[attempt.held.unwrap_or_default()],
        };
        let (verdict, left) = self.kind.fair.release(now, micros, &call);
        let mut expected = words(now, &[verdict, &left.to_string()]);
        expected.append(&mut self.kind.fair.report);
        let answer = self.ask(&call.call());
        self.assert_eq(&answer, &expected);
        if let [_, _, _, word, granted, notice] = &answer[..]
            && word == "granted"
            && client_of(granted) == client_of(&what.owner)
        {
            self.hear(granted, notice);
        }
    }

    fn force(&mut self) {
        let (now, micros) = (self.bed.millis(), self.bed.now.micros());
        let fair = &mut self.kind.fair;
        let Some(token) = fair.lock.live(now).map(|hold| hold.token) else {
            return;
        };
        let verdict = fair.lock.force(now, token, "now");
        if fair.flag.is_some() {
            fair.wake(now, micros, None);
        }
        let mut expected = words(now, &[verdict]);
        expected.append(&mut fair.report);
        let answer = self.ask(&Lock::Fair.force(NAME, token, "now", RETENTION));
        self.assert_eq(&answer, &expected);
        self.compare();
    }

    /// What the server has forgotten may be forgotten.
    fn expire(&mut self) {
        let now = self.bed.millis();
        let living = |fair: &Fair, who: &str| fair.lives.get(client(who)) > Some(&now);
        if self.bed.hash(&key(NAME)).is_empty() {
            self.assert(self.kind.fair.lock.live(now).is_none(), "it forgets a hold");
            self.assert(
                self.kind.fair.flag <= Some(now),
                "it forgets that some wait",
            );
            self.kind.fair.forget();
        }
        if self.bed.sorted(&queue(NAME)).is_empty() {
            let fair = &self.kind.fair;
            let left = fair.queue.iter().any(|(_, who)| living(fair, who));
            self.assert(!left, "it forgets who waits");
            self.kind.fair.queue.clear();
        }
        if self.bed.sorted(&lives(NAME)).is_empty() {
            let left = self.kind.fair.lives.values().any(|until| *until > now);
            self.assert(!left, "it forgets who lives");
            self.kind.fair.lives.clear();
        }
    }

    fn compare(&mut self) {
        let members = self.bed.queue(&queue(NAME)).into_iter();
        let members: Vec<_> = members.map(|(who, at)| (at, who)).collect();
        self.assert_eq(&members, &self.kind.fair.queue);
        let alive = self.bed.sorted(&lives(NAME));
        self.assert_eq(&alive, &self.kind.fair.lives);
        let fields = self.bed.hash(&key(NAME));
        let flag = fields.get("n").map(|flag| flag.parse().unwrap());
        self.assert_eq(&flag, &self.kind.fair.flag);
        let called = self.kind.fair.called.as_ref();
        let called = called.map(|(until, who)| format!("{until} {who}"));
        self.assert_eq(&fields.get("y"), &called.as_ref());
        // Nobody listens on the third client's channel.
        let mut calls = std::mem::take(&mut self.kind.fair.calls);
        calls.retain(|(channel, _)| channel != "w:c");
        let published = self.bed.published();
        self.assert_eq(&published, &calls);
        for (channel, message) in &published {
            // A grant reaches the waiter, or does not.
            if let Some((waiter, notice)) = message.rsplit_once(" g") {
                let n = waiter.rsplit(' ').next().unwrap();
                self.hear(&format!("{}:{n}", channel.replace("w:", "")), notice);
            }
        }
        for key in [key(NAME), queue(NAME), lives(NAME)] {
            // Panics if there is no end.
            let _ = self.bed.ttl(&key);
        }
    }

    /// A waiter hears of the hold that a release has granted it, or does not.
    fn hear(&mut self, attempt: &str, notice: &str) {
        let lost = self.rng.u8(..3) == 0;
        let mut waiting = self.attempts.iter_mut();
        let waiter = waiting.find(|waiter| waiter.id == attempt && !lost);
        if let Some(waiter) = waiter.filter(|waiter| waiter.held.is_none()) {
            waiter.held = Some(notice.split('.').nth(1).unwrap().parse().unwrap());
            self.kind.grants += 1;
            self.kind.ahead += 1;
        }
    }
}
