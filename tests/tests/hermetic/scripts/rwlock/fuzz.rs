//! Random interleavings: four owners of two clients, who read, write, upgrade and downgrade, with
//! replies that are lost, requests that are sent again, and copies that come late. After every
//! script its reply and all data are what the model says.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fastrand::Rng;
use redlatch_embedded::engine::Model;
use redlatch_lua::RWLOCK;

use super::{
    calls::{self, Ask, BROADCAST, RETENTION},
    model::{Rw, Waiting},
    told::Told,
};
use crate::scripts::{
    bed::{self, Bed, CHANNELS, Call},
    driver::{self, Event, Kind, Request, World, assert_noticed, worlds},
    model::Granted,
};

// L23
#[test]
fn readers_and_writers_follow_the_model_under_lost_replies_and_late_copies() {
    worlds(|model, seed| world(model, seed).probing(4).run());
}

#[test]
fn grant_that_its_writer_is_not_told_of_is_noticed() {
    let told = "if p and string.sub(p, 1, 16) == token then";
    let fault = (&RWLOCK.write, told, "if false then");
    assert_noticed(fault, |seed| world(Model::default(), seed), World::run);
}

const OWNERS: [&str; 4] = ["a:1", "a:2", "b:1", "b:2"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Goal {
    Read,
    Upgradable,
    Write,
    /// Of the upgradable hold with this serial.
    Upgrade(u64),
    /// Of this write attempt with this token, of which copies may act so long.
    Downgrade(String, u64, Option<u64>),
}

/// What an acquisition is for.
#[derive(Clone, Debug)]
struct What {
    ask: Ask,
    goal: Goal,
    /// The write's token, for a writer.
    token: u64,
}

type Attempt = driver::Attempt<What>;

/// A forced end: its side, whose hold it ends, by what id, and when.
type Force = (&'static str, &'static str, u64, &'static str);

impl What {
    const fn side(&self) -> &'static str {
        match self.goal {
            Goal::Write | Goal::Upgrade(_) => "w",
            Goal::Read | Goal::Upgradable | Goal::Downgrade(..) => "r",
        }
    }
}

/// One lock.
#[derive(Default)]
struct ReadWrite {
    lock: Rw,
    /// The greatest token and serial there ever were.
    greatest: (u64, u64),
    told: Told,
    /// Who has just been told that it has to wait.
    looked: Option<String>,
}

fn world(model: Model, seed: u64) -> World<ReadWrite> {
    let mut bed = Bed::new(model);
    bed.listen(&[BROADCAST]);
    World::new(bed, seed, ReadWrite::default())
}

impl Kind for ReadWrite {
    type What = What;
    type Other = Force;

    fn draw(rng: &mut Rng, what: &mut What) {
        what.ask.register = (rng.u8(..4) > 0).then(|| rng.u64(100..=5_000));
    }

    fn act(world: &mut World<Self>, request: Request<What, Force>) {
        let before = world.waiting();
        let could = world.could_come(&before);
        let leaves: Vec<String> = match request {
            Request::Ask(mut attempt, by) => {
                attempt.what.ask.by = by;
                let granted = world.acquire(&attempt, &before);
                let after = world.waiting();
                let mut left = after.writers.iter().chain(&after.readers);
                let ghost = left.any(|(member, _)| granted.as_ref() == Some(member));
                world.assert(!ghost || !after.any, "who came in still waits");
                granted.into_iter().collect()
            }
            Request::Renew(attempt, by, lease) => {
                world.renewal(&attempt, by, lease);
                Vec::new()
            }
            Request::Release(attempt, void) => world.release(&attempt, void, &before),
            Request::Other(force) => world.force(force, &before),
        };
        world.check_queues(&before, &leaves);
        world.check_told(&before, &could);
        world.sync();
        world.check_data();
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        let waiting = world.waiting();
        let lock = &world.kind.lock;
        let reads = lock.reads.values().map(|hold| hold.until);
        let writes = lock.write.hold.iter().map(|hold| hold.until);
        let mut ends: Vec<_> = reads.chain(writes).collect();
        ends.extend(lock.write.spent.until());
        ends.extend(waiting.clients.values());
        ends.extend(waiting.called.iter().map(|(until, _)| *until));
        ends.extend(waiting.batch.iter().map(|(_, until, _)| *until));
        ends.extend(waiting.upgrader.iter().map(|(until, _)| *until));
        ends
    }

    fn passed(world: &mut World<Self>) {
        world.sync();
        world.check_data();
    }

    fn wants_memory(call: &Call, _: &[String]) -> bool {
        let takes = ["rwlock/read", "rwlock/write", "rwlock/downgrade"];
        takes.contains(&call.script.name)
    }
}

impl World<ReadWrite> {
    fn run(mut self) {
        for _ in 0..120 {
            self.step();
        }
        self.wind_up();
        let now = self.bed.millis();
        self.assert(self.kind.lock.live_write(now).is_none(), "a ghost writes");
        self.assert(self.kind.lock.readers(now) == 0, "a ghost reads");
        self.bed.pass(Duration::from_millis(2 * RETENTION));
        self.assert_unchanged(&[], "something is left");
    }

    fn step(&mut self) {
        match self.rng.u8(..24) {
            0..7 => self.begin_one(),
            7..10 => self.send_again(),
            10..12 => self.deliver(),
            12..14 => self.renew(),
            14..18 => self.end_one(),
            18 => self.begin_force(),
            19 => self.look(),
            20 if self.rng.u8(..4) == 0 => self.pass(30_000),
            20 | 21 => self.pass(3_000),
            _ => self.pass(200),
        }
    }

    fn begin_one(&mut self) {
        if self.attempts.len() >= 7 {
            return;
        }
        let number = self.number();
        let mut owner = OWNERS[self.rng.usize(..4)].to_owned();
        let held = |goal: &Goal| matches!(goal, Goal::Upgradable | Goal::Write | Goal::Upgrade(_));
        let goal = match self.rng.u8(..8) {
            0..3 => Goal::Read,
            3..5 => Goal::Write,
            5 => Goal::Upgradable,
            _ => match self.any(|attempt| attempt.held.is_some() && held(&attempt.what.goal)) {
                None => Goal::Read,
                Some(at) => {
                    let base = &self.attempts[at];
                    owner = base.what.ask.owner.clone();
                    match base.what.side() {
                        "r" => Goal::Upgrade(base.held.unwrap()),
                        _ => Goal::Downgrade(base.id.clone(), base.what.token, base.void()),
                    }
                }
            },
        };
        let side = usize::from(owner.starts_with('b'));
        let address = format!("PUBLISH {} {number}", CHANNELS[side]);
        let mut ask = Ask {
            by: 0,
            attempt: format!("{}:{number}", &owner[..1]),
            owner,
            lease: [50, 400, 2_000, 9_000][self.rng.usize(..4)],
            register: None,
            member: address,
        };
        if goal == Goal::Upgradable {
            ask.member.push_str(" u");
        } else if goal == Goal::Write && self.rng.bool() {
            let n = ask.owner.rsplit(':').next().unwrap();
            let (lease, ttl) = (ask.lease, ask.lease + RETENTION);
            ask.member = format!("{} {n} g{lease}.{ttl}.{number:016x}", ask.member);
        }
        let (id, token) = (ask.attempt.clone(), 0);
        self.begin(id, What { ask, goal, token });
    }

    /// Forgets what the server was free to forget.
    fn sync(&mut self) {
        let hash = self.bed.hash(&bed::key("x"));
        if hash.is_empty() {
            self.kind.lock = Rw::default();
            return;
        }
        let now = self.bed.millis();
        let lock = &self.kind.lock;
        let over = lock.reads.values().filter(|hold| !hold.lives(now));
        let over = over.map(|hold| hold.owner.clone());
        let gone: Vec<_> = over
            .filter(|owner| !hash.contains_key(&format!("r{owner}")))
            .collect();
        for owner in gone {
            let hold = self.kind.lock.reads.remove(&owner).unwrap();
            let told = !hold.forced || hold.noted <= now;
            self.assert(
                told,
                format_args!("{owner} cannot learn that it was forced"),
            );
        }
    }

    /// Returns who may have left the queues alive.
    fn acquire(&mut self, attempt: &Attempt, waiting: &Waiting) -> Option<String> {
        let ask = &attempt.what.ask;
        let call = match &attempt.what.goal {
            Goal::Read => ask.read("r"),
            Goal::Upgradable => ask.read("u"),
            Goal::Write => ask.write(""),
            Goal::Upgrade(serial) => ask.write(&serial.to_string()),
            Goal::Downgrade(write, token, void) => ask.downgrade(write, *token, *void),
        };
        let answer = self.ask(&call);
        let now = self.bed.millis();
        let verdict = self.expected_verdict(attempt, waiting);
        self.assert(
            answer[1] == verdict,
            format_args!("{answer:?} is not {verdict}, {waiting:?}"),
        );
        if ask.register.is_some() && verdict != "late" {
            self.kind.told.asked(&ask.member);
        }
        match verdict {
            "granted" => {
                let granted = self.grant(attempt);
                let (words, id) = (granted.words().join(" "), granted.id);
                self.assert_eq(&answer.join(" "), &format!("{now} granted {words} {id}"));
                self.got(attempt, Some(&granted));
                return Some(ask.member.clone());
            }
            "busy" => {
                let writer = self.kind.lock.live_write(now);
                let writer = writer.map_or("", |hold| &hold.owner);
                self.assert_eq(&answer[3], &writer);
                let remaining = answer[2].parse::<u64>();
                self.assert(
                    answer[2].is_empty() || remaining.is_ok_and(|left| left > 0),
                    format_args!("{answer:?}"),
                );
                let upgrades = matches!(attempt.what.goal, Goal::Upgrade(_))
                    || self.kind.lock.live_read(now, &ask.owner).is_some();
                let mut known = waiting.writers.iter().chain(&waiting.readers);
                let known = known.any(|(member, _)| *member == ask.member);
                // One that was dead may have been removed and enters anew.
                if !known {
                    let entered = match (ask.register, upgrades) {
                        (None, _) => "0",
                        (Some(_), false) => "1",
                        (Some(_), true) => "2",
                    };
                    self.assert_eq(&answer[5], &entered);
                }
                self.check_busy_writer(attempt, &answer);
                self.kind.looked = Some(ask.member.clone());
                self.got(attempt, None);
            }
            _ => self.got(attempt, None),
        }
        None
    }

    fn expected_verdict(&self, attempt: &Attempt, waiting: &Waiting) -> &'static str {
        let (now, ask) = (self.bed.millis(), &attempt.what.ask);
        if now > ask.by {
            return "late";
        }
        let (lock, owner, id) = (&self.kind.lock, ask.owner.as_str(), ask.attempt.as_str());
        let member = ask.member.as_str();
        match &attempt.what.goal {
            Goal::Read => lock.may_read(now, owner, id, member, false, waiting),
            Goal::Upgradable => lock.may_read(now, owner, id, member, true, waiting),
            Goal::Write => lock.may_write(now, owner, id, member, None, waiting),
            Goal::Upgrade(serial) => lock.may_write(now, owner, id, member, Some(*serial), waiting),
            Goal::Downgrade(_, token, _) => match lock.may_downgrade(now, owner, id, *token) {
                Ok(()) => "granted",
                Err("void") => "void",
                Err(_) => "lost",
            },
        }
    }

    fn grant(&mut self, attempt: &Attempt) -> Granted {
        let (now, micros, ask) = (self.bed.millis(), self.bed.now.micros(), &attempt.what.ask);
        let lock = &mut self.kind.lock;
        let upgradable = attempt.what.goal == Goal::Upgradable;
        if attempt.what.side() == "r" {
            lock.write.spent.record(&ask.attempt, ask.by, now);
            let granted = lock.read(now, micros, &ask.owner, &ask.attempt, ask.lease, upgradable);
            if let Goal::Downgrade(write, token, void) = &attempt.what.goal {
                lock.write.end_attempt(write, *void, now);
                let writes = lock.live_write(now);
                if writes.is_some_and(|hold| hold.token == *token) {
                    lock.write.release(now, &ask.owner, write, None, *token);
                }
            }
            self.kind.greatest.1 = self.kind.greatest.1.max(granted.id);
            return granted;
        }
        let fresh = lock.live_write(now).is_none();
        let limits = (ask.by, ask.lease);
        let granted = lock
            .write
            .grant(now, micros, &ask.owner, &ask.attempt, limits);
        let rises = granted.token > self.kind.greatest.0;
        self.assert(!fresh || rises, "tokens rise");
        self.kind.greatest.0 = granted.token;
        let mut others = self.kind.lock.reads.values();
        let inside = others.any(|hold| hold.owner != ask.owner && hold.lives(now));
        assert!(!inside, "a reader beside a writer, {}", self.story());
        granted
    }

    /// Lets the client know of its hold.
    fn got(&mut self, attempt: &Attempt, granted: Option<&Granted>) {
        let id = &attempt.id;
        let client = self.told(id, granted.map(|granted| granted.id));
        if let (Some(client), Some(granted)) = (client, granted) {
            client.what.token = granted.token;
        }
    }

    fn renewal(&mut self, attempt: &Attempt, by: u64, lease: u64) {
        let (owner, side) = (&attempt.what.ask.owner, attempt.what.side());
        let id = attempt.held.unwrap();
        let before = self.bed.dump();
        let answer = self.ask(&calls::renew(by, owner, lease, side, id));
        let now = self.bed.millis();
        let verdict = match now > by {
            true => "late",
            false => self.kind.lock.renew(now, owner, lease, side, id),
        };
        self.assert_answer(&answer, &[verdict]);
        if verdict != "renewed" {
            self.assert_unchanged(&before, "it never creates");
        }
    }

    /// A busy writer is told the last token, and which attempt of its client holds and may not know
    /// it.
    fn check_busy_writer(&self, attempt: &Attempt, answer: &[String]) {
        let lock = &self.kind.lock;
        if attempt.what.side() != "w" {
            return;
        }
        let last = lock.write.last_token.map(|token| token.to_string());
        self.assert_eq(&answer[6], &last.unwrap_or_default());
        let ask = &attempt.what.ask;
        let now = self.bed.millis();
        let client = ask.owner.split(':').next().unwrap();
        if lock.live_write(now).is_some() && ask.register.is_some() && answer[5] == "0" {
            let unheard = lock.write.unheard(now);
            let n = unheard.and_then(|holder| holder.strip_prefix(&format!("{client}:")));
            self.assert_eq(&answer[4], &n.unwrap_or_default());
        }
    }

    /// Checks that a script whose reply tells of a grant, from item `at` on, gave the lock to the
    /// first writer, and perhaps lets its client hear of it. Returns that writer.
    fn given(&mut self, answer: &[String], at: usize, waiting: &Waiting) -> Option<String> {
        let grant = answer.get(at..).filter(|items| !items.is_empty())?;
        let (now, micros) = (self.bed.millis(), self.bed.now.micros());
        let after = self.waiting();
        let stays = |member: &str| after.writers.iter().any(|(other, _)| other == member);
        let mut gone = waiting.writers.iter().map(|(member, _)| member);
        let first = gone.find(|member| waiting.stands(member, now) && !stays(member));
        let Some(first) = first.cloned() else {
            panic!("{answer:?} is given to nobody, {}", self.story());
        };
        let mut earlier = waiting.writers.iter().map(|(member, _)| member);
        let passed = earlier.find(|member| waiting.stands(member, now) && stays(member));
        let behind = |other: &String| {
            let place = |member: &String| waiting.writers.iter().position(|(is, _)| is == member);
            place(other) > place(&first)
        };
        self.assert(
            passed.is_none_or(behind),
            format_args!("{passed:?} is passed over"),
        );
        let lock = &self.kind.lock;
        let turn = lock.may_write(now, "-", "-", &first, None, waiting);
        assert_eq!(turn, "granted", "{first} may not come, {}", self.story());
        assert_eq!(self.kind.lock.readers(now), 0, "somebody reads");
        let write = &mut self.kind.lock.write;
        let (attempt, text) = write.give(now, micros, &first).unwrap();
        let token = write.last_token.unwrap();
        assert!(token > self.kind.greatest.0, "tokens rise");
        self.kind.greatest.0 = token;
        self.assert_eq(&grant, &["granted", &attempt, &text]);
        if self.rng.bool() {
            let mut clients = self.attempts.iter_mut();
            let client = clients.find(|known| known.id == attempt);
            if let Some(client) = client.filter(|client| client.held.is_none()) {
                client.held = Some(token);
                client.what.token = token;
            }
        }
        Some(first)
    }

    fn release(&mut self, attempt: &Attempt, void: Option<u64>, waiting: &Waiting) -> Vec<String> {
        let ask = &attempt.what.ask;
        let side = attempt.what.side();
        let of @ (owner, id) = (ask.owner.as_str(), ask.attempt.as_str());
        let call = calls::release(owner, id, void, &ask.member, side, attempt.held);
        let answer = self.ask(&call);
        let now = self.bed.millis();
        let lock = &mut self.kind.lock;
        let (verdict, left) = lock.release(now, of, void, side, attempt.held);
        self.assert_answer(&answer[..3], &[verdict, &left.to_string()]);
        let idle = self.kind.lock.live_write(now).is_none() && self.kind.lock.readers(now) == 0;
        // Dead readers may be counted still.
        assert!(idle || answer[3] == "0", "{}", self.story());
        // It has left before the lock is given to another.
        let mut others = waiting.clone();
        others.writers.retain(|(member, _)| *member != ask.member);
        others.readers.retain(|(member, _)| *member != ask.member);
        others.upgrader.take_if(|(_, member)| *member == ask.member);
        let client = |name: &str| name.split(':').next().unwrap().to_owned();
        let unheard = self.kind.lock.write.unheard(now).cloned();
        let unheard = unheard.filter(|attempt| client(attempt) == client(&ask.owner));
        if let Some(holder) = unheard.filter(|_| verdict != "released") {
            self.assert_eq(&answer[4..], &["holds".to_owned(), holder]);
            return vec![ask.member.clone()];
        }
        let given = self.given(&answer, 4, &others);
        given.into_iter().chain([ask.member.clone()]).collect()
    }

    fn begin_force(&mut self) {
        let how = ["now", "after"][self.rng.usize(..2)];
        let older = self.rng.u64(..3) / 2;
        let lock = &self.kind.lock;
        let (side, owner, id) = match self.rng.bool() {
            true => ("w", "", lock.write.last_token),
            false => {
                let owner = OWNERS[self.rng.usize(..4)];
                ("r", owner, lock.reads.get(owner).map(|hold| hold.id))
            }
        };
        let id = id.unwrap_or(1) - older;
        ReadWrite::act(self, Request::Other((side, owner, id, how)));
    }

    fn force(&mut self, (side, owner, id, how): Force, waiting: &Waiting) -> Vec<String> {
        let answer = self.ask(&calls::force(side, owner, id, how));
        let now = self.bed.millis();
        let verdict = self.kind.lock.force(now, owner, side, id, how);
        self.assert_answer(&answer[..2], &[verdict]);
        if verdict == "done" {
            let idle = self.kind.lock.live_write(now).is_none() && self.kind.lock.readers(now) == 0;
            // Dead readers may be counted still.
            assert!(idle || answer[2] == "0", "{}", self.story());
        }
        self.given(&answer, 3, waiting).into_iter().collect()
    }

    fn look(&mut self) {
        let owner = OWNERS[self.rng.usize(..4)];
        let answer = self.inspect(&calls::inspect(owner));
        let now = self.bed.millis();
        let write = self.kind.lock.live_write(now);
        let own = write.filter(|hold| hold.owner == owner);
        let mine = self.kind.lock.live_read(now, owner);
        self.assert_eq(&answer[3], &write.map_or("", |hold| &hold.owner));
        self.assert_eq(&answer[6], &self.kind.lock.readers(now).to_string());
        let counts = [
            own.map_or(0, |hold| hold.attempts.len()).to_string(),
            mine.map_or(0, |hold| hold.attempts.len()).to_string(),
        ];
        self.assert_eq(&answer[10..], &counts);
        let answer = self.inspect(&calls::holders("0"));
        assert_eq!(answer[2], "0");
        let listed = answer[3..].chunks(6);
        let listed = listed.map(|hold| (hold[0].clone(), hold[2].clone()));
        let lock = &self.kind.lock;
        let live = lock.reads.values().filter(|hold| hold.lives(now));
        let live = live.map(|hold| (hold.owner.clone(), hold.id.to_string()));
        self.assert_eq(&BTreeMap::from_iter(listed), &BTreeMap::from_iter(live));
    }

    /// What the server knows of those who wait.
    fn waiting(&mut self) -> Waiting {
        let key = bed::key("x");
        let hash = self.bed.hash(&key);
        let now = self.bed.millis();
        let mut queue = |part: &str| self.bed.queue(&format!("{key}:{part}"));
        let (writers, readers) = (queue("q"), queue("r"));
        let clients = queue("l").into_iter().collect();
        let pair = |field: &str| {
            let text = hash.get(field)?;
            Some((text[..13].parse().unwrap(), text[14..].to_owned()))
        };
        let batch = hash.get("b").map(|text| {
            let at = |from: usize, to: usize| text[from..to].parse().unwrap();
            (at(0, 16), at(17, 30), at(31, 47))
        });
        Waiting {
            any: hash
                .get("n")
                .is_some_and(|until| until.parse::<u64>().unwrap() > now),
            writers,
            readers,
            clients,
            called: pair("y"),
            batch,
            upgrader: pair("x"),
        }
    }

    /// Nobody who lives leaves a queue but by his own request, and nobody overtakes.
    fn check_queues(&mut self, before: &Waiting, leaves: &[String]) {
        let now = self.bed.millis();
        let after = self.waiting();
        for (was, is, reads) in [
            (&before.writers, &after.writers, false),
            (&before.readers, &after.readers, true),
        ] {
            let last = was.last().map_or(0, |(_, ticket)| *ticket);
            for (member, ticket) in is {
                let same = was.iter().find(|(other, _)| other == member);
                let fits =
                    same.is_some_and(|(_, old)| old == ticket) || *ticket > last || was.is_empty();
                assert!(fits, "{member} overtakes, {}", self.story());
            }
            for (member, ticket) in was {
                let stays = is.iter().any(|(other, _)| other == member);
                let channel = member.split(' ').nth(1).unwrap();
                let until = before.clients.get(channel);
                let alive = until.is_some_and(|&until| until > now);
                let called = before.called.as_ref();
                let called = called.is_some_and(|(until, who)| who == member && *until <= now);
                let missed = reads && before.missed(*ticket, now);
                self.assert(
                    stays || !alive || called || missed || leaves.contains(member),
                    format_args!("{member} was struck out"),
                );
            }
        }
    }

    /// Those who wait, by the server's knowledge, and would be answered something else if they
    /// asked.
    fn could_come(&self, waiting: &Waiting) -> BTreeSet<String> {
        let now = self.bed.millis();
        let waits = |attempt: &&Attempt| {
            let (owner, member) = (&attempt.what.ask.owner, &attempt.what.ask.member);
            let upgrades = waiting.upgrades(member, now);
            // The client itself tells those whose owner has come to hold.
            let lock = &self.kind.lock;
            let writes = lock.live_write(now);
            let holds = writes.is_some_and(|hold| hold.owner == *owner)
                || !upgrades && lock.live_read(now, owner).is_some();
            (upgrades || waiting.stands(member, now)) && !holds
        };
        let would_be_told = |attempt: &&Attempt| {
            let mut asks = (*attempt).clone();
            asks.what.ask.by = now;
            ["granted", "lost"].contains(&self.expected_verdict(&asks, waiting))
        };
        let known = self.attempts.iter().filter(waits).filter(would_be_told);
        known
            .map(|attempt| attempt.what.ask.member.clone())
            .collect()
    }

    fn check_told(&mut self, before: &Waiting, could: &BTreeSet<String>) {
        let messages = self.bed.published();
        if !messages.is_empty() {
            self.note(Event::Told(messages.clone()));
        }
        let after = self.waiting();
        self.kind.told.hear(&messages, before);
        self.kind.told.hear(&messages, &after);
        let now = self.bed.millis();
        let mut can = self.could_come(&after);
        // Who counted as dead and is heard of again looks for himself.
        can.retain(|member| before.stands(member, now) || before.upgrades(member, now));
        let alone = self.kind.told.left_alone(could, &can);
        assert_eq!(alone, None, "may come in and is not told, {}", self.story());
        // Whoever looks and has to wait calls the one who may come, whom one that died was to call.
        if let Some(looked) = self.kind.looked.take() {
            let first = after.first_writer(now).unwrap_or_default();
            let come = self.could_come(&after).contains(first) && first != looked;
            self.assert(
                !come || self.kind.told.knows(first),
                format_args!("{first} is not called"),
            );
        }
    }

    fn check_data(&mut self) {
        let now = self.bed.millis();
        let hash = self.bed.hash(&bed::key("x"));
        for (owner, hold) in &self.kind.lock.reads {
            if self.kind.lock.live_read(now, owner).is_some() {
                let field = &hash[&format!("r{owner}")];
                let mut attempts: Vec<_> = field[49..].split_whitespace().collect();
                attempts.sort_unstable();
                self.assert_eq(&attempts, &Vec::from_iter(&hold.attempts));
                self.assert_eq(&field[..13], &hold.until.to_string());
                let bound = self.bed.sorted(&format!("{}:d", bed::key("x")))[owner];
                self.assert(bound <= hold.until, "the index is no lower bound");
            }
        }
        let fields = hash.iter().filter(|(name, _)| name.starts_with('r'));
        let counted = fields.filter(|(_, hold)| &hold[48..49] != "f").count();
        let count = hash.get("c").map_or(0, |text| text[34..].parse().unwrap());
        assert_eq!(count, counted, "{hash:?}, {}", self.story());
        let lock = &self.kind.lock;
        let reads = lock.reads.values().map(|hold| hold.until);
        let ends = reads.chain(lock.live_write(now).map(|hold| hold.until));
        let ends = ends.filter(|&until| until > now);
        let ends = ends.map(|until| until + RETENTION).max();
        let copies = lock.write.spent.until().filter(|&until| until >= now);
        let needed = ends.max(copies).unwrap_or(0);
        let until = self.bed.ttl(&bed::key("x")).map_or(0, |ttl| now + ttl);
        assert!(until >= needed, "{until} < {needed}, {}", self.story());
        for part in ["q", "r", "l", "d"] {
            // Panics where a key has no end.
            self.bed.ttl(&format!("{}:{part}", bed::key("x")));
        }
        for name in hash.keys().filter(|name| !name.starts_with(['v', 'r'])) {
            assert!(
                "kohtuzfapncgbyx".contains(name.as_str()),
                "{name} in {hash:?}"
            );
        }
    }
}
