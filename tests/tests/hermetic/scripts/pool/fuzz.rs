//! Random interleavings on one pool: acquisitions of different sizes that wait or do not, splits,
//! forgets, renewals and changes of the size, with replies that are lost, requests that are sent
//! again, and copies that come late. After every script its reply and all data are what the model
//! says.

use redlatch_lua::POOL;

use super::{
    calls,
    model::{Hold, Pool, need, order},
};
use crate::scripts::{
    driver::{REACH, seeds},
    prelude::*,
    queue::number,
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

/// A change: the operation, until when it may act, and the verb with its number.
type Change = (String, u64, &'static str, i64);

/// One pool. A client knows how many permits an attempt holds.
#[derive(Default)]
struct Counted {
    pool: Pool,
}

impl Kind for Counted {
    type What = Ask;
    type Other = Change;

    fn draw(rng: &mut Rng, ask: &mut Ask) {
        ask.register = (rng.u8(..4) > 0).then_some(5_000);
        ask.registered |= ask.register.is_some();
    }

    fn act(world: &mut World<Self>, request: Request<Ask, Change>) {
        match request {
            Request::Ask(attempt, by) => world.acquire(&attempt, by),
            Request::Renew(attempt, by, lease) => world.renewal(&attempt, by, lease),
            Request::Release(attempt, void) => world.release(&attempt, void),
            Request::Other(change) => world.operate(&change),
        }
        world.check_data();
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        let queue = world.queue();
        let holds = world.kind.pool.holds.values().map(|hold| hold.until);
        holds.chain(queue.ends()).collect()
    }

    fn passed(_: &mut World<Self>) {}
}

impl World<Counted> {
    fn run(mut self) -> usize {
        let own = [
            Self::begin_one,
            Self::send_again,
            Self::change,
            Self::part_of_one,
        ];
        self.live(150, own);
        self.leave_the_size();
        self.ahead
    }

    /// Ends everything, in any order, and lets all copies come in, also late; then only the size
    /// may be left.
    fn leave_the_size(&mut self) {
        self.wind_up();
        let now = self.bed.millis();
        assert_eq!(self.kind.pool.out(now), 0, "a ghost holds");
        self.pass_exactly(Duration::from_secs(60));
        let answer = self.bed.ask(&calls::inspect());
        match self.kind.pool.size {
            Some(size) => {
                assert_eq!(answer[1..], ["set", &size.to_string(), "0", "0", ""]);
                assert_eq!(self.bed.dump().len(), 1, "the size");
            }
            None => assert_eq!(answer[1..], ["unset"]),
        }
    }

    fn begin_one(&mut self) {
        if self.attempts.len() >= 9 {
            return;
        }
        let n = u64::from(self.number());
        let client = ["a", "b"][self.rng.usize(..2)];
        let lease = [50, 400, 2_000, 9_000][self.rng.usize(..4)];
        let ask = Ask::new(Of::Permits, &self.bed, client, n).lease(lease);
        let ask = ask.need([1, 1, 2, 5][self.rng.usize(..4)]);
        let ask = match self.rng.u8(..3) {
            0 => ask.waiting(),
            _ => ask.ordered(),
        };
        self.begin(ask.attempt.clone(), ask);
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

    fn acquire(&mut self, attempt: &Attempt<Ask>, by: u64) {
        let (now, mut queue) = (self.bed.millis(), self.queue());
        let mut ask = attempt.what.clone();
        ask.by = by;
        match ask.register {
            // A copy that does not wait has a place perhaps, and cannot say so.
            None => ask.address.clear(),
            // Whoever asks is alive, and with it all of its client that have not failed to come.
            Some(register) => {
                let own = client(&ask.address).to_owned();
                queue.lives.insert(own, now + register);
            }
        }
        let (pool, id) = (&self.kind.pool, &ask.attempt);
        let found = match now > by {
            true => "late",
            false => pool.find(now, id, ask.need, &ask.address, &queue),
        };
        let before = self.bed.dump();
        let answer = self.ask_and_hear(&ask.call());
        let verdict = if found == "copy" { "granted" } else { found };
        assert_eq!(answer[1], verdict, "{queue:?}");
        let pool = &mut self.kind.pool;
        match found {
            "copy" => {
                pool.renew(now, id, now + ask.lease);
            }
            "granted" => {
                // A place is gone if its waiter was notified and did not come in time.
                let placed = queue.has(&ask.address) && queue.alive(&ask.address) > now;
                assert_eq!(answer[5], u8::from(placed).to_string());
                pool.spent.record(id, by, now);
                pool.grant(id, ask.need, now + ask.lease);
                assert!(pool.out(now) <= pool.size.unwrap());
                self.check_called();
            }
            "busy" if ask.address.is_empty() => {
                pool.spent.record(id, by, now);
                self.check_called();
            }
            "busy" => {
                self.check_hints(&answer, &ask.address);
                self.check_called();
            }
            _ => self.assert_unchanged(&before, "nothing is written"),
        }
        let granted = (verdict == "granted").then_some(ask.need);
        self.told(&attempt.id, granted);
    }

    /// What a waiter is told about when to look again.
    fn check_hints(&mut self, answer: &[String], member: &str) {
        let (now, queue) = (self.bed.millis(), self.queue());
        assert!(queue.has(member), "it waits");
        let (pool, own) = (&self.kind.pool, client(member));
        let (head, _) = &queue.members[0];
        if client(head) != own {
            self.check_unheard(answer, own);
            let until = queue.before(now, own, queue.alive(head)).unwrap();
            assert_eq!(answer[2], (until - now).to_string());
        } else if need(head) <= pool.available(now) {
            assert_eq!(answer[3], number(head));
        } else {
            self.check_unheard(answer, own);
            let live = pool.holds.values().filter(|hold| hold.until > now);
            if let Some(first) = live.map(|hold| hold.until).min() {
                let remaining: u64 = answer[2].parse().unwrap();
                assert!(now + remaining <= first);
            }
        }
    }

    /// A waiter that was in the queue is told of a hold of its client that nobody may have heard
    /// of.
    fn check_unheard(&self, answer: &[String], channel: &str) {
        let client = channel.rsplit(':').next().unwrap();
        let unheard = self.kind.pool.unheard(self.bed.millis(), client);
        let (called, entered) = (&answer[3], &answer[4]);
        if entered == "1" || unheard.is_empty() {
            assert_eq!(called, "");
        } else {
            let named = format!("{client}:{called}");
            assert!(unheard.contains(&&named), "{named} of {unheard:?}");
        }
    }

    fn renewal(&mut self, attempt: &Attempt<Ask>, by: u64, lease: u64) {
        let call = attempt.what.renew(by, lease, &[0]);
        self.check_renewal(&call, by, |kind, now| {
            vec![kind.pool.renew(now, &attempt.id, now + lease), ""]
        });
    }

    fn release(&mut self, attempt: &Attempt<Ask>, void: Option<u64>) {
        let ask = &attempt.what;
        let (now, mut queue) = (self.bed.millis(), self.queue());
        let waiter = match ask.registered && ask.left == 0 {
            true => ask.address.as_str(),
            false => "",
        };
        queue.leave(waiter);
        let answer = self.ask(&ask.release(&[0], void, waiter));
        let (verdict, rest) = self.kind.pool.release(now, ask);
        self.assert_answer(&answer[..3], &[verdict, &rest.to_string()]);
        let asker = client_of(&attempt.id);
        let grants = answer.iter().position(|word| word == "holds");
        let grants = grants.unwrap_or(answer.len());
        self.check_grants(&answer[3..grants], queue, asker);
        // The reply to a repeated release names the holds that nobody of the client may have heard
        // of.
        let mut named: Vec<_> = answer[grants..].chunks(2).map(|pair| &pair[1]).collect();
        named.sort();
        let unheard = match verdict {
            "released" => Vec::new(),
            _ => self.kind.pool.unheard(now, asker),
        };
        assert_eq!(named, unheard);
        if let Some(void) = void.filter(|&void| void >= now) {
            self.kind.pool.spent.record(&attempt.id, void, now);
        }
        self.check_called();
    }

    /// A release grants to whoever has an order, in order, and calls the others. Each message goes
    /// to its waiter, or is lost. Waiters of the client `asker` hear from the reply.
    fn check_grants(&mut self, told: &[String], mut queue: Queue, asker: &str) {
        let (now, size) = (self.bed.millis(), self.kind.pool.size.unwrap_or(0));
        let mut messages = self.bed.published();
        for grant in told.chunks(3) {
            let [word, attempt, notice] = grant else {
                panic!("{told:?}");
            };
            assert_eq!(word, "granted");
            let (of, n) = attempt.split_once(':').unwrap();
            let channel = format!("w:{of}");
            let mut members = queue.members.iter().map(|(member, _)| member);
            let waiter = members.find(|one| number(one) == n && client(one) == channel);
            let waiter = waiter.unwrap().clone();
            let pool = &mut self.kind.pool;
            let found = pool.find(now, attempt, need(&waiter), &waiter, &queue);
            assert_eq!(found, "granted", "{attempt}, {queue:?}");
            assert!(queue.alive(&waiter) > now, "{waiter}");
            queue.leave(&waiter);
            let ordered: Vec<_> = order(&waiter).unwrap()[1..].split('.').collect();
            let given: Vec<_> = notice[1..].split('.').collect();
            let until = now + ordered[0].parse::<u64>().unwrap().min(5_000);
            let right = [ordered[2], &until.to_string(), "0"];
            assert_eq!([given[0], given[2], given[3]], right);
            pool.spent.record(attempt, now + REACH, now);
            pool.grant(attempt, need(&waiter), until);
            pool.holds.get_mut(attempt).unwrap().unheard = true;
            let message = (channel, format!("{} {n} {notice}", key("x")));
            let at = messages.iter().position(|other| *other == message);
            assert_eq!(at.is_none(), asker == of);
            if let Some(at) = at {
                messages.remove(at);
            }
            self.hear(attempt, need(&waiter));
        }
        for (_, message) in messages {
            let mut members = queue.members.iter().map(|(member, _)| member);
            let called = members.find(|one| message == call_to(one));
            let granted = called.is_some_and(|one| order(one).is_some() && need(one) <= size);
            let known = called.is_some() && !granted || message == key("x");
            assert!(known, "{message}");
        }
    }

    fn operate(&mut self, (op, by, verb, number): &Change) {
        let now = self.bed.millis();
        let answer = self.ask_and_hear(&calls::change(*by, op, verb, *number, ""));
        let right = match now > *by {
            true => text(&["late"]),
            false => self.kind.pool.change(now, op, verb, *number),
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
            let mut members = before.members.iter();
            let known = members.any(|(member, _)| payload == call_to(member));
            assert!(known || payload == key("x"), "{payload}");
        }
        answer
    }

    /// Whoever may have what it needs beside those before it has been notified, and whoever is
    /// first is known to have been.
    fn check_called(&mut self) {
        let now = self.bed.millis();
        let queue = self.queue();
        let Some((head, _)) = queue.members.first() else {
            return;
        };
        let fields = self.bed.hash(&key("x"));
        let field = |name: &str| fields.get(name).map_or(0, |n| n.parse::<u64>().unwrap());
        let size = self.kind.pool.size.unwrap_or(0);
        let (mut room, rung) = (size.saturating_sub(field("c")), field("r"));
        if queue.alive(head) > now && need(head) <= room {
            assert!(queue.is_called(head), "{queue:?}");
        }
        for (member, ticket) in &queue.members {
            if queue.alive(member) <= now || need(member) > size {
                continue;
            }
            let Some(rest) = room.checked_sub(need(member)) else {
                break;
            };
            room = rest;
            assert!(*ticket <= rung, "{member} {ticket}");
        }
    }

    /// Who waits, in order of arrival.
    fn queue(&mut self) -> Queue {
        Queue::read(&mut self.bed, "x", "q")
    }

    /// Everything stored is what the model says.
    fn check_data(&mut self) {
        let now = self.bed.millis();
        let fields = self.bed.hash(&key("x"));
        let pool = &mut self.kind.pool;
        // What has ended may be removed at any time.
        let stays = |id: &String| fields.contains_key(&format!("h:{id}"));
        pool.holds.retain(|id, hold| hold.until > now || stays(id));
        let size = fields.get("s").map(|size| size.parse().unwrap());
        assert_eq!(size, pool.size);
        let stored = fields.iter().filter_map(|(field, hold)| {
            let words: Vec<_> = hold.split(' ').collect();
            let number = |at: usize| words[at].parse().unwrap();
            let id = field.strip_prefix("h:")?.to_owned();
            let hold = Hold {
                until: number(0),
                permits: number(1),
                forgotten: number(2),
                unheard: words.get(3) == Some(&"g"),
            };
            Some((id, hold))
        });
        assert_eq!(stored.collect::<BTreeMap<_, _>>(), pool.holds);
        let out: u64 = fields.get("c").map_or(0, |out| out.parse().unwrap());
        let permits = pool.holds.values().map(|hold| hold.permits);
        assert_eq!(permits.sum::<u64>(), out);
        let index = self.bed.sorted(&part("x", "d"));
        assert_eq!(index.len(), pool.holds.len());
        for (id, hold) in &pool.holds {
            assert!(index[id] <= hold.until, "a lower bound");
        }
        let queue = self.queue();
        let until = queue.flag.unwrap_or(0);
        let known = queue.lives.values().all(|alive| *alive <= until);
        let known = known || queue.members.is_empty();
        assert!(known, "some live longer than anybody may wait");
    }
}

/// The message that calls a waiter.
fn call_to(member: &str) -> String {
    format!("{} {}", key("x"), number(member))
}
