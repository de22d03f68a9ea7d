//! Random interleavings on one pool: acquisitions of different sizes that wait or do not, splits,
//! forgets, renewals and changes of the size, with replies that are lost, requests that are sent
//! again, and copies that come late. After every script its reply and all data are what the model
//! says.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use redlatch_embedded::engine::Model;
use redlatch_lua::POOL;

use super::{
    calls::{self, Acquire, Release},
    model::{Found, Pool, Waiter},
};
use crate::scripts::{
    bed::{Bed, Call, key},
    driver::{Attempt, Kind, REACH, Request, World, assert_noticed, seeds},
};

#[test]
fn pool_follows_the_model_under_lost_replies_and_late_copies() {
    for model in Model::ALL {
        let mut ahead = 0;
        for seed in seeds() {
            ahead += World::new(Bed::new(model), seed, Counted::default()).run();
        }
        // A run of few seeds shows that it happens at all.
        let many = seeds().count();
        let least = if many < 100 { 0 } else { many / 5 };
        assert!(ahead > least, "hardly anything was granted ahead: {ahead}");
    }
}

/// Faults that are planted in the script: copies count twice, and an unheard grant is not named.
#[test]
fn faults_in_the_script_are_noticed() {
    let world = |seed| World::new(Bed::new(Model::default()), seed, Counted::default());
    for (right, wrong) in [
        ("            holds = true\n", ""),
        ("if who == '' and e.entered ~= 1 then", "if false then"),
    ] {
        assert_noticed((&POOL.acquire, right, wrong), world, World::run);
    }
}

/// What an acquisition is for. The client knows to hold so many of the permits.
#[derive(Clone, Debug)]
struct What {
    address: String,
    order: String,
    need: u64,
    lease: u64,
    waits: bool,
    registered: bool,
    /// The permits that a release leaves.
    left: u64,
    forgotten: u64,
}

/// A change: the operation, until when it may act, and the verb with its number.
type Change = (String, u64, &'static str, i64);

/// One pool.
#[derive(Default)]
struct Counted {
    pool: Pool,
    /// The number of grants that a waiter has heard of by a message.
    ahead: usize,
}

impl What {
    fn member(&self) -> String {
        calls::member(&self.address, self.need, &self.order)
    }
}

impl Kind for Counted {
    type What = What;
    type Other = Change;

    fn draw(rng: &mut Rng, what: &mut What) {
        what.waits = rng.u8(..4) > 0;
        what.registered |= what.waits;
    }

    fn act(world: &mut World<Self>, request: Request<What, Change>) {
        match request {
            Request::Ask(attempt, by) => world.acquire(&attempt, by),
            Request::Renew(attempt, by, lease) => world.renewal(&attempt, by, lease),
            Request::Release(attempt, void) => world.release(&attempt, void),
            Request::Other((op, by, verb, number)) => world.operate(&op, by, verb, number),
        }
        world.check_data();
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        let holds = world.kind.pool.holds.values().map(|hold| hold.until);
        holds.collect()
    }

    fn passed(_: &mut World<Self>) {}
}

impl World<Counted> {
    fn run(mut self) -> usize {
        for _ in 0..120 {
            match self.rng.u8(..22) {
                0..5 => self.begin_one(),
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
        self.leave_the_size();
        self.kind.ahead
    }

    /// Ends everything, in any order, and lets all copies come in, also late; then only the size
    /// may be left.
    fn leave_the_size(&mut self) {
        self.wind_up();
        let now = self.bed.millis();
        self.assert(self.kind.pool.out(now) == 0, "a ghost holds");
        self.pass_exactly(Duration::from_secs(60));
        let answer = self.bed.ask(&calls::inspect(None));
        match self.kind.pool.size {
            Some(size) => {
                let size = size.to_string();
                self.assert_eq(&answer[1..], &["set", &size, "0", "0", ""]);
                let dump = self.bed.dump();
                assert_eq!(dump.len(), 1, "{dump:?}, {}", self.story());
            }
            None => self.assert_eq(&answer[1..], &["unset"]),
        }
    }

    fn begin_one(&mut self) {
        if self.attempts.len() >= 9 {
            return;
        }
        let number = self.number();
        let client = ["a", "b"][self.rng.usize(..2)];
        let lease = [50, 400, 2_000, 9_000][self.rng.usize(..4)];
        let order = match self.rng.u8(..3) {
            0 => String::new(),
            _ => format!("g{lease}.{}.{:016x}", lease + 10_000, self.rng.u64(..)),
        };
        let what = What {
            address: format!("PUBLISH w:{client} {number}"),
            order,
            need: [1, 1, 2, 5][self.rng.usize(..4)],
            lease,
            waits: false,
            registered: false,
            left: 0,
            forgotten: 0,
        };
        self.begin(format!("{client}:{number}"), what);
    }

    /// Gives some of a hold's permits back, or up for good.
    fn part_of_one(&mut self) {
        if let Some(at) = self.any(|attempt| attempt.held.is_some_and(|left| left > 1)) {
            let forgets = self.rng.bool();
            let attempt = &mut self.attempts[at];
            let left = attempt.held.unwrap() - 1;
            attempt.held = Some(left);
            attempt.what.forgotten += u64::from(forgets);
            let mut part = attempt.clone();
            part.what.left = left;
            self.dispatch_repeatedly(Request::Release(part, None));
        }
    }

    fn change(&mut self) {
        let operation = self.number();
        let (verb, number) = match self.rng.u8(..8) {
            0..3 => ("set", self.rng.i64(0..9)),
            3 => ("try", self.rng.i64(0..9)),
            4..6 => ("add", self.rng.i64(-5..6)),
            6 => ("add", i64::from(u32::MAX)),
            _ => ("drain", 0),
        };
        let by = self.bed.millis() + self.rng.u64(..=REACH);
        let change = (format!("c:{operation}"), by, verb, number);
        self.dispatch_repeatedly(Request::Other(change));
    }

    fn acquire(&mut self, attempt: &Attempt<What>, by: u64) {
        let what = &attempt.what;
        let (member, waits) = (what.member(), what.waits);
        let call = Acquire {
            by,
            need: what.need,
            lease: what.lease,
            alive: waits.then_some(5_000),
            address: if waits { &what.address } else { "" },
            order: &what.order,
            ..Acquire::new(&self.bed, &attempt.id, 0)
        };
        let (now, mut queue) = (self.bed.millis(), self.queue());
        if waits {
            // Whoever asks is alive, and with it all of its client that have not failed to come.
            let patience = self.patience();
            let channel = what.address.split(' ').nth(1).unwrap();
            for waiter in queue.iter_mut().filter(|waiter| waiter.client() == channel) {
                let patient = patience.as_ref().filter(|(_, who)| *who == waiter.member);
                waiter.alive = patient.map_or(now + 5_000, |(until, _)| *until);
            }
        }
        let (pool, asks) = (&self.kind.pool, waits.then_some(member.as_str()));
        let expected = (now <= by).then(|| pool.find(now, &attempt.id, what.need, &queue, asks));
        let before = self.bed.dump();
        let answer = self.ask_and_hear(&call.call());
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
            Some(Found::Copy) => self.kind.pool.renew(&attempt.id, now + what.lease),
            Some(Found::Free) => {
                // A place is gone if its waiter was notified and did not come in time.
                let placed = |waiter: &Waiter| waiter.member == member && waiter.alive > now;
                let placed = queue.iter().any(placed);
                // A copy without an address has a place, and cannot say so.
                let known = u8::from(waits && placed).to_string();
                self.assert_eq(&answer[5], &known);
                let until = now + what.lease;
                self.kind.pool.spent.record(&attempt.id, by, now);
                self.kind.pool.grant(&attempt.id, what.need, until);
                assert!(self.kind.pool.out(now) <= self.kind.pool.size.unwrap());
                self.check_called();
            }
            Some(Found::Busy) => {
                if waits {
                    let placed = self.queue().iter().any(|waiter| waiter.member == member);
                    self.assert(placed, "it waits");
                    self.check_hints(&answer, &member);
                } else {
                    self.kind.pool.spent.record(&attempt.id, by, now);
                }
                self.check_called();
            }
            _ => self.assert_unchanged(&before, "nothing is written"),
        }
        let granted = (answer[1] == "granted").then_some(what.need);
        self.told(&attempt.id, granted);
    }

    /// What a waiter is told about when to look again.
    fn check_hints(&mut self, answer: &[String], member: &str) {
        let (now, queue) = (self.bed.millis(), self.queue());
        let head = &queue[0];
        let me = queue.iter().find(|waiter| waiter.member == member).unwrap();
        let (remaining, called) = (&answer[2], &answer[3]);
        let fits = head.need <= self.kind.pool.available(now);
        if head.client() == me.client() {
            if fits {
                self.assert_eq(&called, &head.number());
            } else {
                self.check_unheard(answer, me);
            }
            let holds = self.kind.pool.holds.values();
            let live = holds.filter(|hold| hold.until > now);
            if let Some(first) = live.map(|hold| hold.until).min().filter(|_| !fits) {
                let remaining: u64 = remaining.parse().unwrap();
                assert!(now + remaining <= first, "{}", self.story());
            }
        } else {
            self.check_unheard(answer, me);
            let ahead = queue
                .iter()
                .take_while(|waiter| waiter.client() != me.client());
            let clients = self.bed.sorted(&calls::clients());
            let others = ahead
                .skip(1)
                .filter_map(|waiter| clients.get(waiter.client()));
            let until = others.copied().max().unwrap_or(0).max(head.alive);
            self.assert_eq(remaining, &(until - now).to_string());
        }
    }

    /// A waiter that was in the queue is told of a hold of its client that nobody may have heard
    /// of.
    fn check_unheard(&mut self, answer: &[String], me: &Waiter) {
        let (called, entered) = (answer[3].as_str(), answer[4].as_str());
        let client = me.client().rsplit(':').next().unwrap();
        let now = self.bed.millis();
        let unheard = self.kind.pool.holds.iter().filter_map(|(id, hold)| {
            let (of, number) = id.split_once(':').unwrap();
            (of == client && hold.unheard && hold.until > now).then_some(number)
        });
        let unheard: Vec<_> = unheard.collect();
        if entered == "1" || unheard.is_empty() {
            self.assert_eq(&called, &"");
        } else {
            assert!(unheard.contains(&called), "{unheard:?}, {}", self.story());
        }
    }

    fn renewal(&mut self, attempt: &Attempt<What>, by: u64, lease: u64) {
        let now = self.bed.millis();
        let answer = self.ask_and_hear(&calls::renew(by, lease, &[&attempt.id]));
        let right: &[&str] = match self.kind.pool.holds.get_mut(&attempt.id) {
            _ if now > by => &["late"],
            None => &["gone"],
            Some(hold) if hold.until <= now => &["expired", "gone"],
            Some(_) => {
                self.kind.pool.renew(&attempt.id, now + lease);
                &["renewed"]
            }
        };
        assert!(right.contains(&answer[1].as_str()), "{}", self.story());
    }

    fn release(&mut self, attempt: &Attempt<What>, void: Option<u64>) {
        let (left, forgotten) = (attempt.what.left, attempt.what.forgotten);
        let now = self.bed.millis();
        let waiter = match attempt.what.registered && left == 0 {
            true => attempt.what.member(),
            false => String::new(),
        };
        let call = Release {
            attempt: &attempt.id,
            void,
            waiter: &waiter,
            left,
            forgotten,
            holds: &[&attempt.id],
        };
        let before = self.queue();
        let answer = self.ask(&call.call());
        let (right, rest) = self.kind.pool.release(now, &attempt.id, left, forgotten);
        let queue: Vec<_> = before
            .into_iter()
            .filter(|one| one.member != waiter)
            .collect();
        let client = attempt.id.split(':').next().unwrap();
        let grants = answer.iter().position(|word| word == "holds");
        let grants = grants.unwrap_or(answer.len());
        self.check_grants(&answer[3..grants], queue, Some(client));
        if answer[1] == "released" {
            self.assert_eq(&grants, &answer.len());
        } else {
            self.check_reminders(&answer[grants..], client);
        }
        self.assert(
            right.contains(&answer[1].as_str()),
            format_args!("{right:?}"),
        );
        self.assert_eq(&answer[2], &rest.to_string());
        if let Some(void) = void.filter(|&void| void >= now) {
            self.kind.pool.spent.record(&attempt.id, void, now);
        }
        self.check_called();
    }

    /// The reply to a repeated release names the holds that nobody of the client may have heard of.
    fn check_reminders(&mut self, words: &[String], asker: &str) {
        let now = self.bed.millis();
        let unheard = self.kind.pool.holds.iter();
        let unheard = unheard.filter(|(_, hold)| hold.unheard && hold.until > now);
        let unheard: Vec<_> = unheard
            .map(|(attempt, _)| attempt)
            .filter(|attempt| attempt.split(':').next() == Some(asker))
            .collect();
        let mut named: Vec<_> = words.chunks(2).map(|pair| &pair[1]).collect();
        named.sort();
        self.assert_eq(&named, &unheard);
    }

    /// A release grants to whoever has an order, in order, and calls the others. Each message goes
    /// to its waiter, or is lost. Waiters of the client `asker` hear from the reply.
    fn check_grants(&mut self, told: &[String], mut queue: Vec<Waiter>, asker: Option<&str>) {
        let (now, size) = (self.bed.millis(), self.kind.pool.size.unwrap_or(0));
        let mut messages = self.bed.published();
        for grant in told.chunks(3) {
            let [word, attempt, notice] = grant else {
                panic!("{told:?}, {}", self.story());
            };
            assert_eq!(word, "granted");
            let (client, number) = attempt.split_once(':').unwrap();
            let is_it =
                |one: &Waiter| one.number() == number && one.client() == format!("w:{client}");
            let waiter = queue.iter().find(|one| is_it(one)).unwrap().clone();
            let (pool, member) = (&self.kind.pool, Some(&*waiter.member));
            let found = pool.find(now, attempt, waiter.need, &queue, member);
            assert_eq!(found, Found::Free, "{attempt}, {queue:?}, {}", self.story());
            assert!(waiter.alive > now, "{waiter:?}, {}", self.story());
            queue.retain(|one| !is_it(one));
            let order: Vec<_> = waiter.order().unwrap()[1..].split('.').collect();
            let notice: Vec<_> = notice[1..].split('.').collect();
            let until = now + order[0].parse::<u64>().unwrap().min(5_000);
            assert_eq!(
                [notice[0], notice[2], notice[3]],
                [order[2], &until.to_string(), "0"]
            );
            self.kind.pool.spent.record(attempt, now + REACH, now);
            self.kind.pool.grant(attempt, waiter.need, until);
            self.kind.pool.holds.get_mut(attempt).unwrap().unheard = true;
            let message = format!("{} {number} {}", key("x"), grant[2]);
            let at = messages
                .iter()
                .position(|(to, text)| to == waiter.client() && *text == message);
            self.assert_eq(&at.is_none(), &(asker == Some(client)));
            if let Some(at) = at {
                messages.remove(at);
            }
            if self.rng.u8(..3) > 0 {
                self.hear(attempt);
            }
        }
        for (_, message) in messages {
            let mut waiting = queue.iter();
            let called = waiting.find(|one| message == format!("{} {}", key("x"), one.number()));
            let granted = called.is_some_and(|one| one.order().is_some() && one.need <= size);
            let known = called.is_some() && !granted || message == key("x");
            assert!(known, "{message}, {}", self.story());
        }
    }

    /// The message about the grant of `attempt` reaches its waiter.
    fn hear(&mut self, attempt: &str) {
        let mut waiting = self.attempts.iter_mut();
        if let Some(waiter) = waiting.find(|one| one.id == attempt && one.held.is_none()) {
            waiter.held = Some(waiter.what.need);
            self.kind.ahead += 1;
        }
    }

    fn operate(&mut self, op: &str, by: u64, verb: &'static str, number: i64) {
        let now = self.bed.millis();
        let answer = self.ask_and_hear(&calls::change(by, op, verb, number, ""));
        let right = match now > by {
            true => vec!["late".to_owned()],
            false => self.kind.pool.change(now, op, verb, number),
        };
        self.assert_answer(&answer, &right);
        if right[0] == "done" {
            self.check_called();
        }
    }

    /// Runs a script, which may notify waiters only.
    fn ask_and_hear(&mut self, call: &Call) -> Vec<String> {
        let before = self.queue();
        let answer = self.ask(call);
        for (_, payload) in self.bed.published() {
            let known = before
                .iter()
                .any(|waiter| payload == format!("{} {}", key("x"), waiter.number()));
            assert!(known || payload == key("x"), "{payload}, {}", self.story());
        }
        answer
    }

    /// Whoever may have what it needs beside those before it has been notified, and whoever is
    /// first is known to have been.
    fn check_called(&mut self) {
        let now = self.bed.millis();
        let queue = self.queue();
        let Some(head) = queue.first() else { return };
        let fields = self.bed.hash(&key("x"));
        let out: u64 = fields.get("c").map_or(0, |out| out.parse().unwrap());
        let room = self.kind.pool.size.unwrap_or(0).saturating_sub(out);
        if head.alive > now && head.need <= room {
            let called = fields.get("y").and_then(|called| called.split_once(' '));
            let called = called.map(|(_, member)| member);
            self.assert_eq(&called, &Some(head.member.as_str()));
        }
        let rung: u64 = fields.get("r").map_or(0, |rung| rung.parse().unwrap());
        let tickets = self.bed.sorted(&calls::tickets());
        let size = self.kind.pool.size.unwrap_or(0);
        let mut left = room;
        for waiter in queue
            .iter()
            .filter(|one| one.alive > now && one.need <= size)
        {
            let Some(rest) = left.checked_sub(waiter.need) else {
                break;
            };
            left = rest;
            let ticket = tickets[&waiter.member];
            assert!(ticket <= rung, "{waiter:?} {ticket}, {}", self.story());
        }
    }

    /// Who waits, in order of arrival.
    fn queue(&mut self) -> Vec<Waiter> {
        let clients = self.bed.sorted(&calls::clients());
        let tickets = self.bed.queue(&calls::tickets());
        let patience = self.patience();
        let waiters = tickets.into_iter().map(|(member, _)| {
            let mut waiter = Waiter {
                need: member.split(' ').nth(3).unwrap().parse().unwrap(),
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
        self.assert_eq(&size, &self.kind.pool.size);
        let mut holds = BTreeMap::new();
        for (field, hold) in &fields {
            if let Some(id) = field.strip_prefix("h:") {
                let (hold, unheard) = match hold.strip_suffix(" g") {
                    Some(hold) => (hold, true),
                    None => (hold.as_str(), false),
                };
                let numbers: Vec<u64> = hold.split(' ').map(|n| n.parse().unwrap()).collect();
                holds.insert(id.to_owned(), (numbers[0], numbers[1], numbers[2], unheard));
            }
        }
        let out: u64 = holds.values().map(|(_, permits, ..)| permits).sum();
        let stored = fields.get("c").map_or(0, |out| out.parse().unwrap());
        self.assert_eq(&out, &stored);
        let model = self.kind.pool.holds.iter();
        let model = model.filter(|(_, hold)| hold.until > now);
        let model = model.map(|(id, hold)| {
            let packed = (hold.until, hold.permits, hold.forgotten, hold.unheard);
            (id.clone(), packed)
        });
        let live = holds.iter().filter(|(_, (until, ..))| *until > now);
        let live: BTreeMap<_, _> = live.map(|(id, hold)| (id.clone(), *hold)).collect();
        self.assert_eq(&live, &model.collect::<BTreeMap<_, _>>());
        let index = self.bed.sorted(&calls::index());
        self.assert_eq(&index.len(), &holds.len());
        for (id, (until, ..)) in &holds {
            assert!(index[id] <= *until, "a lower bound, {}", self.story());
        }
        if !self.queue().is_empty() {
            let until: u64 = fields.get("n").map_or(0, |until| until.parse().unwrap());
            let clients = self.bed.sorted(&calls::clients());
            let known = clients.values().all(|alive| *alive <= until);
            self.assert(known, "some live longer than anybody may wait");
        }
    }
}
