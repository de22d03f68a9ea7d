//! Random interleavings on plain and fair locks: three clients, ten attempts, one to three names,
//! with replies that are lost, requests that are sent again, and copies that come late. After every
//! script its reply, all data and what is published are what the model says.

use redlatch_lua::FAIR;

use super::{driver::seeds, model::Name, prelude::*};

// L1, L2
#[test]
fn one_name_follows_the_model_under_lost_replies_and_late_copies() {
    worlds(|model, seed| {
        world(Of::Plain, model, seed, 1).probing(4).run();
    });
}

// L41
#[test]
fn several_names_are_taken_all_or_none() {
    for names in [2, 3] {
        for seed in seeds() {
            let world = world(Of::Plain, Model::ALL[seed as usize % 3], seed, names);
            world.probing(2).run();
        }
    }
}

// L23
#[test]
fn fair_lock_follows_the_model_under_lost_replies_and_late_copies() {
    let (mut grants, mut ahead) = (0, 0);
    for model in Model::ALL {
        for seed in seeds() {
            let (all, heard) = world(Of::Fair, model, seed, 1).run();
            grants += all;
            ahead += heard;
        }
    }
    println!("{grants} grants, {ahead} of them ahead");
    let runs = seeds().count();
    let enough = ahead > runs * 3;
    assert!(enough, "hardly anything was granted ahead: {ahead}");
    assert!(grants > runs * 20, "hardly anything was granted: {grants}");
}

#[test]
fn grant_that_its_waiter_is_not_told_of_is_noticed() {
    let told = "if p and string.sub(p, 1, 16) == token then";
    let fault = (&FAIR.exclusive.acquire, told, "if false then");
    let world = |seed| world(Of::Fair, Model::default(), seed, 1);
    assert_noticed(fault, world, World::run);
}

const NAMES: [&str; 3] = ["x", "y", "z"];

/// What an acquisition is for.
#[derive(Clone, Debug)]
struct What {
    ask: Ask,
    /// What its client knows to hold of each name; zero where it is not known.
    tokens: Vec<u64>,
}

/// Locks that one script may take together.
struct Locks {
    of: Of,
    names: Vec<Name>,
    grants: usize,
}

fn world(of: Of, model: Model, seed: u64, names: usize) -> World<Locks> {
    let names = NAMES.into_iter().take(names).map(|name| Name {
        name,
        fair: of == Of::Fair,
        ..Name::default()
    });
    let kind = Locks {
        of,
        names: names.collect(),
        grants: 0,
    };
    World::new(Bed::new(model), seed, kind)
}

impl Locks {
    fn named(&mut self, name: &str) -> &mut Name {
        let mut names = self.names.iter_mut();
        names.find(|other| other.name == name).unwrap()
    }
}

impl Kind for Locks {
    type What = What;
    type Other = Infallible;

    fn draw(rng: &mut Rng, what: &mut What) {
        if what.ask.of == Of::Plain {
            what.ask.register = rng.bool().then(|| rng.u64(100..=5_000));
        }
        what.ask.registered |= what.ask.register.is_some();
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
        let at = world.rng.usize(..world.kind.names.len());
        let name = &world.kind.names[at];
        let hold = name.lock.hold.iter().map(|hold| hold.until);
        let ends = hold.chain(name.lock.spent.until());
        let ends = ends.chain(name.waiters.values().copied());
        ends.chain(name.queue.ends()).collect()
    }

    fn passed(world: &mut World<Self>) {
        for at in 0..world.kind.names.len() {
            world.expire(at);
        }
        world.check_data();
    }

    fn wants_memory(call: &Call, _: &[String]) -> bool {
        call.script.name == "reentrant/acquire"
    }
}

impl World<Locks> {
    /// Returns how many were granted, and how many of them ahead.
    fn run(mut self) -> (usize, usize) {
        let rounds = if self.kind.of == Of::Fair { 300 } else { 100 };
        let own = [Self::begin_one, Self::ask_again, Self::force, Self::look];
        self.live(rounds, own);
        let told = (self.kind.grants, self.ahead);
        self.leave_nothing();
        told
    }

    /// Ends everything, in any order, and lets all copies come in, also late; then nothing may be
    /// left.
    fn leave_nothing(&mut self) {
        self.wind_up();
        let now = self.bed.millis();
        for name in self.kind.names.iter().filter(|name| !name.fair) {
            let held = name.lock.hold.iter().flat_map(|hold| &hold.attempts);
            // An undo passes on that the hold before was never given back.
            let ghosts = held.filter(|attempt| !["-", "="].contains(&attempt.as_str()));
            assert_eq!(Vec::from_iter(ghosts), Vec::<&String>::new());
            assert!(name.waiters.values().all(|until| *until <= now));
        }
        self.bed.pass(Duration::from_millis(2 * RETENTION));
        self.assert_unchanged(&[], "something is left");
    }

    fn begin_one(&mut self) {
        if self.attempts.len() > 9 {
            return;
        }
        let (of, n) = (self.kind.of, u64::from(self.number()));
        let own = match self.rng.u8(..4) {
            1.. if of == Of::Fair => 1_000 + n,
            _ => 1,
        };
        let owner = format!("{}:{own}", ["a", "b", "c"][self.rng.usize(..3)]);
        let mut names = NAMES[..self.kind.names.len()].to_vec();
        self.rng.shuffle(&mut names);
        names.truncate(self.rng.usize(1..=names.len()));
        names.sort_unstable();
        let lease = match self.rng.usize(..8) {
            at @ 0..4 => [50, 400, 2_000, 9_000][at],
            _ => self.rng.u64(50..9_000),
        };
        let ask = Ask::new(of, &self.bed, &owner, n);
        let mut ask = ask.names(&names).lease(lease).waiting();
        match self.rng.u8(..8) {
            _ if of == Of::Plain => {}
            0 => (ask.register, ask.address) = (None, String::new()),
            1 => ask.address = ask.address.replace("PUBLISH", "NONE"),
            2..=4 => {}
            _ => ask = ask.ordered(),
        }
        let what = What {
            tokens: vec![0; names.len()],
            ask,
        };
        self.begin(what.ask.attempt.clone(), what);
    }

    /// The waiter that was called asks, or whose grant was not heard of, or anybody.
    fn ask_again(&mut self) {
        let name = &self.kind.names[0];
        let (queue, hold) = (name.queue.clone(), name.lock.hold.clone());
        let due = self.any(|one| {
            let holds = hold
                .as_ref()
                .is_some_and(|hold| hold.attempts.contains(&one.id));
            one.held.is_none() && (holds || queue.is_called(&one.what.ask.address))
        });
        match due.filter(|_| self.rng.u8(..4) > 0) {
            Some(at) => self.send(at),
            None => self.send_again(),
        }
    }

    fn acquire(&mut self, attempt: &Attempt<What>, by: u64) {
        let mut ask = attempt.what.ask.clone();
        ask.by = by;
        if ask.of == Of::Fair {
            self.nobody_is_passed_over(&ask);
        }
        let before = self.bed.dump();
        let answer = self.ask(&ask.call());
        let right = self.expected_answer(&ask);
        self.assert_answer(&answer, &right);
        let granted = answer[1] == "granted";
        let waits = answer[1] == "busy" && (ask.of == Of::Fair || ask.register.is_some());
        if !granted && !waits {
            self.assert_unchanged(&before, "nothing is written");
        }
        self.kind.grants += usize::from(granted);
        let client = self.answered(&attempt.id);
        match client.filter(|client| client.held.is_none()) {
            Some(client) if granted => {
                let tokens = answer[2..].chunks_exact(4).map(|item| &item[1]);
                client.what.tokens = tokens.map(|token| token.parse().unwrap()).collect();
                client.held = client.what.tokens.first().copied();
            }
            // It was a try.
            Some(_) if ask.address.is_empty() => {
                self.attempts.retain(|known| known.id != attempt.id);
            }
            _ => {}
        }
    }

    fn expected_answer(&mut self, ask: &Ask) -> Vec<String> {
        let time = self.bed.now;
        if time.millis() > ask.by {
            return text(&["late"]);
        }
        for (i, name) in (1..).zip(&ask.names) {
            if let Some(answer) = self.kind.named(name).look(time, i, ask) {
                return answer;
            }
        }
        let mut answer = text(&["granted"]);
        for name in &ask.names {
            let (granted, placed) = self.kind.named(name).take(time, ask);
            answer.extend(granted.words());
            answer.extend(placed.then(|| "1".to_owned()));
        }
        answer
    }

    /// By the data alone: if this request is granted what is free, nobody alive is in front of it.
    fn nobody_is_passed_over(&mut self, ask: &Ask) {
        let now = self.bed.millis();
        let name = &self.kind.names[0];
        if name.lock.live(now).is_some() || now > ask.by {
            return;
        }
        let mut queue = Queue::read(&mut self.bed, name.name, "q");
        if let Some(register) = ask.register {
            // Its own client lives, since it asks.
            let own = client(&ask.address).to_owned();
            queue.lives.insert(own, now + register);
        }
        if let Some((first, _)) = queue.first(now).filter(|(first, _)| *first != ask.address) {
            let denied = name.clone().look(self.bed.now, 1, ask);
            assert!(denied.is_some(), "{first} came first: {ask:?}");
        }
    }

    fn renewal(&mut self, attempt: &Attempt<What>, by: u64, lease: u64) {
        let What { ask, tokens, .. } = &attempt.what;
        self.check_renewal(&ask.renew(by, lease, tokens), by, |kind, now| {
            let held = ask.names.iter().zip(tokens);
            held.map(|(name, &token)| {
                let lock = &mut kind.named(name).lock;
                lock.renew(now, &ask.owner, lease, token)
            })
            .collect()
        });
    }

    /// Returns whom a release takes out of the queue: the waiter itself if it may be there, or, of
    /// a plain lock, one of another owner that is to ask right behind it.
    fn leaving(&mut self, attempt: &Attempt<What>, void: Option<u64>) -> String {
        let ask = &attempt.what.ask;
        let fair = ask.of == Of::Fair;
        let left = fair && attempt.held.is_some() && void.is_none();
        if ask.registered && !left {
            return ask.address.clone();
        }
        let waits = |one: &Attempt<What>| one.what.ask.owner != ask.owner && one.held.is_none();
        match self.any(waits).filter(|_| !fair && self.rng.bool()) {
            Some(next) => format!("+{}", self.attempts[next].what.ask.address),
            None => String::new(),
        }
    }

    fn release(&mut self, attempt: &Attempt<What>, void: Option<u64>) {
        let What { ask, tokens, .. } = &attempt.what;
        let address = self.leaving(attempt, void);
        let answer = self.ask(&ask.release(tokens, void, &address));
        let time = self.bed.now;
        let mut right = Vec::new();
        for (name, &token) in ask.names.iter().zip(tokens) {
            let name = self.kind.named(name);
            right.extend(name.release(time, ask, void, &address, token));
        }
        self.assert_answer(&answer, &right);
        if let [.., word, granted, notice] = &answer[..]
            && word == "granted"
            && client_of(granted) == client_of(&ask.owner)
        {
            self.hear_of(granted, notice);
        }
    }

    fn force(&mut self) {
        let at = self.rng.usize(..self.kind.names.len());
        let older = self.rng.u64(..3) / 2;
        let how = ["now", "after"][self.rng.usize(..2)];
        let name = &mut self.kind.names[at];
        let token = name.lock.greatest.saturating_sub(older);
        let right = name.force(self.bed.now, token, how);
        let ask = Ask::new(self.kind.of, &self.bed, "a:1", 0);
        let answer = self.ask(&ask.names(&NAMES[at..=at]).force(token, how));
        self.assert_answer(&answer, &right);
        self.check_data();
    }

    fn look(&mut self) {
        let at = self.rng.usize(..self.kind.names.len());
        let ask = Ask::new(self.kind.of, &self.bed, "a:1", 0);
        let answer = self.inspect(&ask.names(&NAMES[at..=at]).inspect());
        let now = self.bed.millis();
        let name = &self.kind.names[at];
        let Some(hold) = name.lock.live(now) else {
            return self.assert_answer(&answer, &["free"]);
        };
        // One of a fair lock counts until a script removes it.
        let living = name.waiters.values().filter(|&&until| until >= now);
        let waiters = living.count() + name.queue.members.len();
        let right = [
            "held",
            &hold.owner,
            &hold.attempts.len().to_string(),
            &hold.token.to_string(),
            &(hold.until - now).to_string(),
            &waiters.to_string(),
        ];
        self.assert_answer(&answer, &right);
    }

    /// What the server has forgotten may be forgotten.
    fn expire(&mut self, at: usize) {
        let now = self.bed.millis();
        let name = &mut self.kind.names[at];
        if self.bed.ttl(&key(name.name)).is_none() {
            assert!(name.lock.live(now).is_none(), "it forgets a hold");
            assert!(name.queue.flag <= Some(now), "it forgets that some wait");
            name.forget();
        }
        let queue = &mut name.queue;
        if self.bed.sorted(&part(name.name, "q")).is_empty() {
            let lives = |who: &str| queue.lives.get(client(who)) > Some(&now);
            let left = queue.members.iter().any(|(who, _)| lives(who));
            assert!(!left, "it forgets who waits");
            queue.members.clear();
        }
        if self.bed.sorted(&part(name.name, "l")).is_empty() {
            let left = queue.lives.values().any(|until| *until > now);
            assert!(!left, "it forgets who lives");
            queue.lives.clear();
        }
    }

    /// Compares what is stored and what was published with what the model says.
    fn check_data(&mut self) {
        let mut right = Vec::new();
        for (at, name) in NAMES.into_iter().enumerate().take(self.kind.names.len()) {
            let fields = self.bed.hash(&key(name));
            self.check_fields(at, &fields);
            if self.kind.of == Of::Fair {
                let queue = Queue::read(&mut self.bed, name, "q");
                assert_eq!(queue, self.kind.names[at].queue);
            } else {
                self.check_waiters(at);
            }
            // Panics where a key has no end.
            let all = [key(name), part(name, "q"), part(name, "l")];
            for key in all {
                let _ = self.bed.ttl(&key);
            }
            right.append(&mut self.kind.names[at].messages);
        }
        // Nobody listens on the third client's channel.
        right.retain(|(channel, _)| channel != "w:c");
        let published = self.bed.published();
        assert_eq!(published, right);
        for (channel, message) in published {
            // A grant reaches the waiter, or does not.
            if let Some((waiter, notice)) = message.rsplit_once(" g") {
                let n = waiter.rsplit(' ').next().unwrap();
                self.hear_of(&format!("{}:{n}", channel.replace("w:", "")), notice);
            }
        }
    }

    fn check_fields(&self, at: usize, fields: &BTreeMap<String, String>) {
        if fields.is_empty() {
            return;
        }
        let fair = self.kind.of == Of::Fair;
        let (kind, known) = match fair {
            true => ("fair:1", "kohtuzfnbvyp"),
            false => ("lock:1", "kohtuzfnbv"),
        };
        assert_eq!(fields["k"], kind);
        let stored = ["t", "o", "u", "h", "v"].map(|name| {
            let mut words: Vec<_> = fields.get(name)?.split(' ').collect();
            if name == "h" {
                words.retain(|word| !word.is_empty());
                words.sort_unstable();
            }
            Some(words.join(" "))
        });
        let right = self.kind.names[at].lock.fields();
        assert_eq!(stored, right.map(|(_, text)| text), "t, o, u, h, v");
        for name in fields.keys() {
            assert!(known.contains(name.as_str()), "{name} in {fields:?}");
        }
    }

    /// No key ends before what lives in it, and those who wait for a plain lock are known.
    fn check_waiters(&mut self, at: usize) {
        let now = self.bed.millis();
        let name = &self.kind.names[at];
        let (lock, queue) = (&name.lock, part(name.name, "q"));
        let hold = lock.live(now).map_or(0, |hold| hold.until + RETENTION);
        let copies = lock.spent.until().filter(|&until| until >= now);
        let needed = hold.max(copies.unwrap_or(0));
        let ends = self.bed.ttl(&key(name.name)).map_or(0, |ttl| now + ttl);
        assert!(ends >= needed, "{ends} < {needed}");
        let mut living = name.waiters.clone();
        living.retain(|_, until| *until > now);
        let last = living.values().max().copied().unwrap_or(0);
        let ends = self.bed.ttl(&queue).map_or(0, |ttl| now + ttl);
        assert!(ends >= last, "the queue: {ends} < {last}");
        let mut stored = self.bed.sorted(&queue);
        stored.retain(|_, until| *until > now);
        assert_eq!(stored, living);
    }

    /// A waiter hears of the hold that a release has granted it, or does not.
    fn hear_of(&mut self, attempt: &str, notice: &str) {
        let token = notice.split('.').nth(1).unwrap().parse().unwrap();
        if let Some(waiter) = self.hear(attempt, token) {
            waiter.what.tokens = vec![token];
            self.kind.grants += 1;
        }
    }
}
