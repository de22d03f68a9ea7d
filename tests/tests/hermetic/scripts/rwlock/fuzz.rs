//! Random interleavings: four owners of two clients, who read, write, upgrade and downgrade, with
//! replies that are lost, requests that are sent again, and copies that come late. After every
//! script its reply and all data are what the model says.

use std::collections::BTreeSet;

use redlatch_lua::RWLOCK;

use super::{
    model::{Rw, Waiting},
    told::{BROADCAST, Told},
};
use crate::scripts::{driver, model::Granted, prelude::*};

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

/// What an acquisition is for.
#[derive(Clone, Debug)]
struct What {
    ask: Ask,
    /// The write attempt that it turns into a read, its token, and how long its copies may act.
    write: Option<(String, u64, Option<u64>)>,
}

type Attempt = driver::Attempt<What>;

/// A forced end: whose hold it ends, by what id, and when.
type Force = (Ask, u64, &'static str);

/// One lock.
#[derive(Default)]
struct ReadWrite {
    lock: Rw,
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
        what.ask.registered |= what.ask.register.is_some();
    }

    fn act(world: &mut World<Self>, request: Request<What, Force>) {
        let before = Waiting::read(&mut world.bed);
        let could = world.could_come(&before);
        let leaves: Vec<String> = match request {
            Request::Ask(mut attempt, by) => {
                attempt.what.ask.by = by;
                let granted = world.acquire(&attempt, &before);
                let after = Waiting::read(&mut world.bed);
                let mut ghosts = granted.iter().filter(|member| after.has(member));
                assert!(ghosts.next().is_none() || !after.any, "who came in waits");
                granted.into_iter().collect()
            }
            Request::Renew(attempt, by, lease) => {
                world.renewal(&attempt, by, lease);
                Vec::new()
            }
            Request::Release(attempt, void) => world.release(&attempt, void, &before),
            Request::Other(force) => world.force(&force, &before),
        };
        world.check_queues(&before, &leaves);
        world.check_told(&before, &could);
        world.sync();
        world.check_data();
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        let waiting = Waiting::read(&mut world.bed);
        let lock = &world.kind.lock;
        let reads = lock.reads.values().map(|hold| hold.until);
        let writes = lock.write.hold.iter().map(|hold| hold.until);
        let mut ends: Vec<_> = reads.chain(writes).collect();
        ends.extend(lock.write.spent.until());
        ends.extend(waiting.writers.ends());
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
        let own = [
            Self::begin_one,
            Self::send_again,
            Self::begin_force,
            Self::look,
        ];
        self.live(300, own);
        self.wind_up();
        let now = self.bed.millis();
        assert!(self.kind.lock.live_write(now).is_none(), "a ghost writes");
        assert_eq!(self.kind.lock.readers(now), 0, "a ghost reads");
        self.bed.pass(Duration::from_millis(2 * RETENTION));
        self.assert_unchanged(&[], "something is left");
    }

    fn begin_one(&mut self) {
        if self.attempts.len() >= 7 {
            return;
        }
        let n = u64::from(self.number());
        let (mut owner, mut write) = (OWNERS[self.rng.usize(..4)].to_owned(), None);
        let of = match self.rng.u8(..8) {
            0..3 => Of::Read,
            3..5 => Of::Write,
            5 => Of::Upgradable,
            _ => match self.any(|one| one.held.is_some() && one.what.ask.of != Of::Read) {
                None => Of::Read,
                Some(at) => {
                    let base = &self.attempts[at];
                    owner.clone_from(&base.what.ask.owner);
                    let id = base.held.unwrap();
                    if base.what.ask.of == Of::Upgradable {
                        Of::Upgrade(id)
                    } else {
                        write = Some((base.id.clone(), id, base.void()));
                        Of::Read
                    }
                }
            },
        };
        let lease = [50, 400, 2_000, 9_000][self.rng.usize(..4)];
        let ask = Ask::new(of, &self.bed, &owner, n).lease(lease);
        let what = What {
            ask: match of {
                Of::Write if self.rng.bool() => ask.ordered(),
                _ => ask.waiting(),
            },
            write,
        };
        self.begin(what.ask.attempt.clone(), what);
    }

    /// Forgets what the server was free to forget.
    fn sync(&mut self) {
        let hash = self.bed.hash(&key("x"));
        let (now, lock) = (self.bed.millis(), &mut self.kind.lock);
        if hash.is_empty() {
            return lock.forget();
        }
        let kept = |owner: &String| hash.contains_key(&format!("r{owner}"));
        lock.reads.retain(|owner, hold| {
            let gone = !hold.lives(now) && !kept(owner);
            let told = !hold.forced || hold.noted <= now;
            assert!(!gone || told, "{owner} cannot learn that it was forced");
            !gone
        });
    }

    /// Returns who may have left the queues alive.
    fn acquire(&mut self, attempt: &Attempt, waiting: &Waiting) -> Option<String> {
        let What { ask, write, .. } = &attempt.what;
        let call = match write {
            Some((write, token, void)) => ask.downgrade(write, *token, *void),
            None => ask.call(),
        };
        let answer = self.ask(&call);
        let now = self.bed.millis();
        let verdict = self.verdict(attempt, waiting);
        let found = answer[1..].join(" ");
        let fits = found.starts_with(verdict);
        assert!(fits, "{found}: {verdict}, {waiting:?}");
        if ask.register.is_some() && verdict != "late" {
            self.kind.told.asked(&ask.address);
        }
        let granted = (verdict == "granted").then(|| self.grant(attempt));
        self.told(&attempt.id, granted.map(|granted| granted.id));
        if let Some(granted) = granted {
            let (words, id) = (granted.words().join(" "), granted.id);
            assert_eq!(answer.join(" "), format!("{now} granted {words} {id}"));
            return Some(ask.address.clone());
        }
        if verdict == "reader" {
            // Its client gives the attempt up.
            self.kind.told.refused(&ask.address);
        }
        if verdict == "busy" {
            self.check_busy(ask, &answer, waiting);
            self.kind.looked = Some(ask.address.clone());
        }
        None
    }

    fn verdict(&self, attempt: &Attempt, waiting: &Waiting) -> &'static str {
        let (now, lock) = (self.bed.millis(), &self.kind.lock);
        let What { ask, write, .. } = &attempt.what;
        match write {
            _ if now > ask.by => "late",
            Some((_, token, _)) => lock.may_downgrade(now, ask, *token),
            None => lock.verdict(now, ask, waiting),
        }
    }

    fn grant(&mut self, attempt: &Attempt) -> Granted {
        let What { ask, write, .. } = &attempt.what;
        let (time, lock) = (self.bed.now, &mut self.kind.lock);
        let now = time.millis();
        if ask.of.side() == "r" {
            let granted = lock.read(time, ask);
            if let Some((write, token, void)) = write {
                lock.write.end_attempt(write, *void, now);
                let writes = lock.live_write(now);
                if writes.is_some_and(|hold| hold.token == *token) {
                    lock.write.release(now, &ask.owner, write, None, *token);
                }
            }
            return granted;
        }
        let mut others = lock.reads.values();
        let inside = others.any(|hold| hold.owner != ask.owner && hold.lives(now));
        assert!(!inside, "a reader beside a writer");
        let limits = (ask.by, ask.lease);
        lock.write.grant(time, &ask.owner, &ask.attempt, limits)
    }

    fn check_busy(&self, ask: &Ask, answer: &[String], waiting: &Waiting) {
        let (now, lock) = (self.bed.millis(), &self.kind.lock);
        let writer = lock.live_write(now);
        assert_eq!(answer[3], writer.map_or("", |hold| &hold.owner));
        let remaining = answer[2].parse::<u64>();
        let later = remaining.is_ok_and(|left| left > 0);
        assert!(answer[2].is_empty() || later, "{answer:?}");
        // One that was dead may have been removed and enters anew.
        if !waiting.has(&ask.address) {
            let upgrades = matches!(ask.of, Of::Upgrade(_));
            let entered = match ask.register {
                None => "0",
                Some(_) if upgrades || lock.live_read(now, &ask.owner).is_some() => "2",
                Some(_) => "1",
            };
            assert_eq!(answer[5], entered);
        }
        if ask.of.side() == "r" {
            return;
        }
        // A writer is told the last token, and which attempt of its client holds and may not know
        // it.
        assert_eq!(answer[6], optional(lock.write.last_token));
        if writer.is_some() && ask.register.is_some() && answer[5] == "0" {
            let unheard = lock.write.unheard(now);
            let unheard = unheard.filter(|holder| client_of(holder) == client_of(&ask.owner));
            let n = unheard.map_or("", |holder| holder.split(':').nth(1).unwrap());
            assert_eq!(answer[4], n);
        }
    }

    fn renewal(&mut self, attempt: &Attempt, by: u64, lease: u64) {
        let (ask, id) = (&attempt.what.ask, attempt.held.unwrap());
        self.check_renewal(&ask.renew(by, lease, &[id]), by, |kind, now| {
            vec![kind.lock.renew(now, ask, lease, id)]
        });
    }

    /// Checks that a script whose reply ends with `grant` gave the lock to the first writer, and
    /// perhaps lets its client hear of it. Returns that writer.
    fn given(&mut self, grant: &[String], waiting: &Waiting) -> Option<String> {
        if grant.is_empty() {
            return None;
        }
        let (time, now) = (self.bed.now, self.bed.millis());
        let after = Waiting::read(&mut self.bed);
        let first = waiting.first_writer(now);
        let Some(first) = first.filter(|first| !after.writers.has(first)) else {
            panic!("{grant:?} is not given to {first:?}");
        };
        let lock = &mut self.kind.lock;
        let ask = Ask::new(Of::Write, &self.bed, "-:0", 0).at(first);
        let turn = lock.verdict(now, &ask, waiting);
        assert_eq!(turn, "granted", "{first} may not come");
        assert_eq!(lock.readers(now), 0, "somebody reads");
        let (attempt, text) = lock.write.give(time, first).unwrap();
        let token = lock.write.greatest;
        assert_eq!(grant, ["granted", &attempt, &text]);
        self.hear(&attempt, token);
        Some(first.to_owned())
    }

    fn release(&mut self, attempt: &Attempt, void: Option<u64>, waiting: &Waiting) -> Vec<String> {
        let ask = &attempt.what.ask;
        let id = attempt.held.unwrap_or_default();
        let member = if ask.registered { &*ask.address } else { "" };
        let answer = self.ask(&ask.release(&[id], void, member));
        let now = self.bed.millis();
        let (verdict, left) = self.kind.lock.release(now, ask, void, attempt.held);
        self.assert_answer(&answer[..3], &[verdict, &left.to_string()]);
        self.check_idle(&answer[3]);
        // It has left before the lock is given to another.
        let mut others = waiting.clone();
        others.leave(&ask.address);
        let unheard = self.kind.lock.write.unheard(now);
        let unheard = unheard.filter(|holder| client_of(holder) == client_of(&ask.owner));
        if let Some(holder) = unheard.filter(|_| verdict != "released") {
            assert_eq!(answer[4..], ["holds", holder]);
            return vec![ask.address.clone()];
        }
        let given = self.given(&answer[4..], &others);
        given.into_iter().chain([ask.address.clone()]).collect()
    }

    /// Checks the word for whether nobody holds. Dead readers may be counted still.
    fn check_idle(&self, word: &str) {
        let (now, lock) = (self.bed.millis(), &self.kind.lock);
        let idle = lock.live_write(now).is_none() && lock.readers(now) == 0;
        assert!(idle || word == "0", "somebody holds");
    }

    fn begin_force(&mut self) {
        let how = ["now", "after"][self.rng.usize(..2)];
        let older = self.rng.u64(..3) / 2;
        let (of, owner) = match self.rng.bool() {
            true => (Of::Write, ""),
            false => (Of::Read, OWNERS[self.rng.usize(..4)]),
        };
        let lock = &self.kind.lock;
        let id = match of {
            Of::Write => lock.write.last_token,
            _ => lock.reads.get(owner).map(|hold| hold.id),
        };
        let ask = Ask::new(of, &self.bed, owner, 0);
        ReadWrite::act(self, Request::Other((ask, id.unwrap_or(1) - older, how)));
    }

    fn force(&mut self, (ask, id, how): &Force, waiting: &Waiting) -> Vec<String> {
        let answer = self.ask(&ask.force(*id, how));
        let now = self.bed.millis();
        let verdict = self.kind.lock.force(now, ask, *id, how);
        self.assert_answer(&answer[..2], &[verdict]);
        if verdict == "done" {
            self.check_idle(&answer[2]);
        }
        let grant = answer.get(3..).unwrap_or_default();
        self.given(grant, waiting).into_iter().collect()
    }

    fn look(&mut self) {
        let owner = OWNERS[self.rng.usize(..4)];
        let call = Ask::new(Of::Read, &self.bed, owner, 0).inspect();
        let answer = self.inspect(&call);
        let now = self.bed.millis();
        let lock = &self.kind.lock;
        let write = lock.live_write(now);
        let own = write.filter(|hold| hold.owner == owner);
        let mine = lock.live_read(now, owner);
        assert_eq!(answer[3], write.map_or("", |hold| &hold.owner));
        assert_eq!(answer[6], lock.readers(now).to_string());
        let counts = [
            own.map_or(0, |hold| hold.attempts.len()).to_string(),
            mine.map_or(0, |hold| hold.attempts.len()).to_string(),
        ];
        assert_eq!(answer[10..], counts);
        let call = Call::new(&RWLOCK.holders, vec![key("x")], &["0"]);
        let answer = self.inspect(&call);
        assert_eq!(answer[2], "0");
        let listed = answer[3..].chunks(6);
        let listed = listed.map(|hold| (hold[0].clone(), hold[2].clone()));
        let lock = &self.kind.lock;
        let live = lock.reads.values().filter(|hold| hold.lives(now));
        let live = live.map(|hold| (hold.owner.clone(), hold.id.to_string()));
        assert_eq!(BTreeMap::from_iter(listed), BTreeMap::from_iter(live));
    }

    /// Nobody who lives leaves a queue but by his own request, and nobody overtakes.
    fn check_queues(&mut self, before: &Waiting, leaves: &[String]) {
        let now = self.bed.millis();
        let after = Waiting::read(&mut self.bed);
        for (was, is, reads) in [
            (&before.writers, &after.writers, false),
            (&before.readers, &after.readers, true),
        ] {
            let last = was.members.last().map_or(0, |(_, ticket)| *ticket);
            for (member, ticket) in &is.members {
                let same = was.ticket(member) == Some(*ticket);
                let behind = *ticket > last || was.members.is_empty();
                assert!(same || behind, "{member} overtakes");
            }
            for (member, ticket) in &was.members {
                let dead = was.alive(member) <= now || reads && before.missed(*ticket, now);
                let goes = dead || leaves.contains(member);
                assert!(goes || is.has(member), "{member} was struck out");
            }
        }
    }

    /// Those who wait, by the server's knowledge, and would be answered something else if they
    /// asked.
    fn could_come(&self, waiting: &Waiting) -> BTreeSet<String> {
        let (now, lock) = (self.bed.millis(), &self.kind.lock);
        let comes = |attempt: &&Attempt| {
            let ask = &attempt.what.ask;
            let upgrades = waiting.upgrades(&ask.address, now);
            // The client itself tells those whose owner has come to hold.
            let writes = lock.live_write(now);
            let holds = writes.is_some_and(|hold| hold.owner == ask.owner)
                || !upgrades && lock.live_read(now, &ask.owner).is_some();
            let mut asks = (*attempt).clone();
            asks.what.ask.by = now;
            let verdict = self.verdict(&asks, waiting);
            (upgrades || waiting.stands(&ask.address, now))
                && !holds
                && (verdict.starts_with("granted") || verdict.starts_with("lost"))
        };
        let known = self.attempts.iter().filter(comes);
        known
            .map(|attempt| attempt.what.ask.address.clone())
            .collect()
    }

    fn check_told(&mut self, before: &Waiting, could: &BTreeSet<String>) {
        let messages = self.bed.published();
        if !messages.is_empty() {
            self.note(Event::Told(messages.clone()));
        }
        let after = Waiting::read(&mut self.bed);
        self.kind.told.hear(&messages, before);
        self.kind.told.hear(&messages, &after);
        let now = self.bed.millis();
        let mut can = self.could_come(&after);
        let come = can.clone();
        // Who counted as dead and is heard of again looks for himself.
        can.retain(|member| before.stands(member, now) || before.upgrades(member, now));
        let alone = self.kind.told.left_alone(could, &can);
        assert_eq!(alone, None, "may come in and is not told");
        // Whoever looks and has to wait calls the one who may come, whom one that died was to call.
        if let Some(looked) = self.kind.looked.take() {
            let first = after.first_writer(now).unwrap_or_default();
            let waits = come.contains(first) && first != looked;
            let knows = self.kind.told.knows(first);
            assert!(!waits || knows, "{first} is not called");
        }
    }

    fn check_data(&mut self) {
        let now = self.bed.millis();
        let hash = self.bed.hash(&key("x"));
        let index = self.bed.sorted(&part("x", "d"));
        let lock = &self.kind.lock;
        for (owner, hold) in lock.reads.iter().filter(|(_, hold)| hold.lives(now)) {
            let field = &hash[&format!("r{owner}")];
            let mut attempts: Vec<_> = field[49..].split_whitespace().collect();
            attempts.sort_unstable();
            assert_eq!(attempts, Vec::from_iter(&hold.attempts));
            assert_eq!(field[..13], hold.until.to_string());
            assert!(index[owner] <= hold.until, "the index is no lower bound");
        }
        let fields = hash.iter().filter(|(name, _)| name.starts_with('r'));
        let counted = fields.filter(|(_, hold)| &hold[48..49] != "f").count();
        let count = hash.get("c").map_or(0, |text| text[34..].parse().unwrap());
        assert_eq!(count, counted, "{hash:?}");
        let reads = lock.reads.values().map(|hold| hold.until);
        let ends = reads.chain(lock.live_write(now).map(|hold| hold.until));
        let ends = ends.filter(|&until| until > now);
        let ends = ends.map(|until| until + RETENTION).max();
        let copies = lock.write.spent.until().filter(|&until| until >= now);
        let needed = ends.max(copies).unwrap_or(0);
        let until = self.bed.ttl(&key("x")).map_or(0, |ttl| now + ttl);
        assert!(until >= needed, "{until} < {needed}");
        for of in ["q", "r", "l", "d"] {
            // Panics where a key has no end.
            self.bed.ttl(&part("x", of));
        }
        for name in hash.keys().filter(|name| !name.starts_with(['v', 'r'])) {
            let known = "kohtuzfapncgbyx".contains(name.as_str());
            assert!(known, "{name} in {hash:?}");
        }
    }
}
