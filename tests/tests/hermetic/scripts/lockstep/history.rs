//! A random history of three servers in lockstep.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use redlatch_embedded::engine::{Condition, Model, Snapshot};

use super::{
    calls::{Asked, Attempt, Ended, Kind, RETENTION, merged},
    server::{
        Data, data, items, needs, with_ranks_for_tickets, with_the_fresher_times,
        without_expired_holds, without_stale_upgradables,
    },
};
use crate::scripts::{
    bed::{Bed, Call, key},
    driver::Event,
};

/// By script, the entries that it served.
#[derive(Debug, Default)]
pub(super) struct Counts(pub(super) BTreeMap<&'static str, u64>);

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        for (script, counts) in &other.0 {
            *self.0.entry(script).or_default() += counts;
        }
    }
}

pub(super) struct History {
    rng: Rng,
    kind: Kind,
    /// The kind of a few calls, which use the same names.
    other: Kind,
    /// Asked by lists.
    merged: Bed,
    /// Asked by single calls.
    single: Bed,
    /// Asked by single calls of scripts without their plain branch.
    branchless: Bed,
    /// Whether expired holds of pools stay where only an ordinary script would have removed them.
    keeps_expired: bool,
    attempts: Vec<Attempt>,
    numbers: u32,
    story: Vec<Event>,
    /// Of the scripts of `kind`.
    pub(super) counts: Counts,
}

type Checked = Result<(), String>;

impl History {
    /// `planted` has other texts of scripts, by name.
    pub(super) fn new(model: Model, kind: Kind, planted: &[(&'static str, String)]) -> Self {
        let mut merged = bed(model);
        for (script, text) in planted {
            merged.replace(script, text);
        }
        let mut branchless = bed(model);
        for source in redlatch_lua::all() {
            if let Some(text) = branchless_text(source.text) {
                branchless.replace(source.name, &text);
            }
        }
        Self {
            rng: Rng::with_seed(0),
            kind,
            other: kind,
            merged,
            single: bed(model),
            branchless,
            keeps_expired: false,
            attempts: Vec::new(),
            numbers: 0,
            story: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Runs the history of `seed` on empty servers. Returns what differs, with the last steps.
    pub(super) fn run(&mut self, seed: u64) -> Checked {
        self.rng = Rng::with_seed(seed);
        self.other = Kind::ALL[seed as usize / 2 % Kind::ALL.len()];
        self.keeps_expired = seed % 2 == 1;
        self.attempts.clear();
        self.story.clear();
        for bed in [&mut self.merged, &mut self.single, &mut self.branchless] {
            bed.engine.restore(&Snapshot::empty());
            bed.published();
        }
        for _ in 0..120 {
            let checked = self.step();
            checked.map_err(|difference| {
                let from = self.story.len().saturating_sub(30);
                let told: Vec<_> = self.story[from..].iter().map(Event::to_string).collect();
                format!("{difference}\nafter\n{}", told.join("\n"))
            })?;
        }
        Ok(())
    }

    fn step(&mut self) -> Checked {
        match self.rng.u8(..40) {
            0..10 => self.acquire_each(),
            10..17 => self.release_each(),
            17..20 => self.renew_each(),
            20..24 => self.acquire_one(),
            24..28 => self.release_one(),
            28 => self.force(),
            29 => self.renew_one(),
            30 => self.special(),
            31 => {
                self.pass(12_000);
                Ok(())
            }
            32..34 => {
                self.pass(3_000);
                Ok(())
            }
            _ => {
                self.pass(120);
                Ok(())
            }
        }
    }

    /// Lets up to `most` ms pass, at times to the very millisecond of an end.
    fn pass(&mut self, most: u64) {
        let mut span = Duration::from_micros(self.rng.u64(..most * 1_000));
        if self.rng.bool() {
            span = Duration::from_millis(LEASES[self.rng.usize(..LEASES.len())]);
        }
        self.story.push(Event::Passed(span));
        for bed in [&mut self.merged, &mut self.single, &mut self.branchless] {
            bed.pass(span);
        }
    }

    fn now(&self) -> u64 {
        self.single.millis()
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// Returns the history's kind; at times another one.
    fn any_kind(&mut self) -> Kind {
        match self.rng.u8(..12) {
            0..2 => self.other,
            2 if self.kind.is_rwlock() => [Kind::Read, Kind::Write][self.rng.usize(..2)],
            _ => self.kind,
        }
    }

    fn any_client(&mut self) -> &'static str {
        ["a", "b"][self.rng.usize(..2)]
    }

    fn any_name(&mut self) -> &'static str {
        let names = match self.kind {
            Kind::Crowd => 1,
            _ => NAMES.len(),
        };
        NAMES[self.rng.usize(..names)]
    }

    fn new_attempt(&mut self, kind: Kind, client: &'static str) -> usize {
        let number = self.number();
        let most = match kind {
            Kind::Hold | Kind::Crowd => 3,
            _ => 1,
        };
        let attempt = Attempt {
            kind,
            client,
            owner: format!("{client}:{}", self.rng.u8(1..4)),
            id: format!("{client}:{}", 100 + number),
            name: self.any_name(),
            need: match self.rng.u8(..20) {
                0 => 2,
                _ => self.rng.u32(1..=most),
            },
            size: ["4", "4", "4", "3", "2", ""][self.rng.usize(..6)],
            upgradable: false,
            by: 0,
            granted: None,
        };
        self.attempts.push(attempt);
        self.attempts.len() - 1
    }

    /// Returns an attempt of this kind and client that was made before.
    fn known(&mut self, kind: Kind, client: &str, granted: bool) -> Option<usize> {
        let fitting = self.attempts.iter().enumerate().rev();
        let fitting: Vec<_> = fitting
            .filter(|(_, it)| it.kind == kind && it.client == client)
            .filter(|(_, it)| !granted || it.granted.is_some())
            .take(8)
            .map(|(at, _)| at)
            .collect();
        fitting.get(self.rng.usize(..fitting.len().max(1))).copied()
    }

    fn any_known(&mut self, granted: bool) -> Option<usize> {
        let kind = self.any_kind();
        let client = self.any_client();
        self.known(kind, client, granted)
    }

    /// Returns a limit of time, which has passed at times.
    fn any_by(&mut self) -> u64 {
        match self.rng.u8(..30) {
            0 => self.now() - 1,
            1 => self.now(),
            _ => self.now() + self.rng.u64(1..4_000),
        }
    }

    fn any_lease(&mut self) -> u64 {
        LEASES[self.rng.usize(..LEASES.len())]
    }

    /// Returns the token that the attempt was granted; at times another one.
    fn any_token(&mut self, at: usize) -> Option<u64> {
        let own = self.attempts[at].granted?;
        Some(match self.rng.u8(..12) {
            0 => own - 1,
            1 => own + 1,
            2 => {
                let name = self.attempts[at].name;
                let others = self.attempts.iter().filter(|other| other.name == name);
                let tokens: Vec<_> = others.filter_map(|other| other.granted).collect();
                tokens[self.rng.usize(..tokens.len())]
            }
            _ => own,
        })
    }
}

/// Steps.
impl History {
    fn acquire_each(&mut self) -> Checked {
        let (kind, client) = (self.any_kind(), self.any_client());
        // A list has one limit.
        let (by, lease) = (self.any_by(), self.any_lease());
        let mut calls = Vec::new();
        let mut of = Vec::new();
        for _ in 0..self.rng.usize(1..7) {
            let copy = match self.rng.u8(..4) {
                0 => self.known(kind, client, false),
                _ => None,
            };
            let at = copy.unwrap_or_else(|| self.new_attempt(kind, client));
            if kind == Kind::Read && copy.is_none() {
                self.attempts[at].upgradable = self.rng.u8(..8) == 0;
            }
            calls.push(self.asking(at, by, lease));
            of.push(at);
        }
        self.batch(calls, &of)
    }

    fn release_each(&mut self) -> Checked {
        let (kind, client) = (self.any_kind(), self.any_client());
        let mut calls = Vec::new();
        for _ in 0..self.rng.usize(1..7) {
            // Entries of a list may say anything.
            let lists = !kind.is_pool();
            let granted = !lists || self.rng.u8(..4) > 0;
            let Some(at) = self.known(kind, client, granted) else {
                continue;
            };
            let void = kind.is_pool() && self.rng.u8(..8) == 0;
            let ended = Ended {
                void: (void || lists && self.rng.u8(..8) == 0).then_some(self.attempts[at].by),
                waiter: lists && self.rng.u8(..8) == 0,
                token: self
                    .any_token(at)
                    .filter(|_| !lists || self.rng.u8(..16) > 0),
            };
            calls.push(self.attempts[at].release(ended));
        }
        self.batch(calls, &[])
    }

    fn renew_each(&mut self) -> Checked {
        let (kind, client) = (self.any_kind(), self.any_client());
        let lease = self.any_lease();
        let by = self.any_by();
        let mut calls = Vec::new();
        for _ in 0..self.rng.usize(1..7) {
            let Some(at) = self.known(kind, client, true) else {
                continue;
            };
            // Sides of one lock merge.
            let token = self.any_token(at).unwrap();
            calls.push(self.attempts[at].renew(by, lease, token));
        }
        self.batch(calls, &[])
    }

    fn asking(&mut self, at: usize, by: u64, lease: u64) -> Call {
        let attempt = &mut self.attempts[at];
        attempt.by = attempt.by.max(by);
        let register = match self.rng.u8(..4) {
            // One time counts for all entries of a pool.
            _ if self.kind == Kind::Crowd => Some(5_000),
            0 if self.kind.is_pool() => Some(5_000),
            0 => Some(self.rng.u64(1..15_000)),
            _ => None,
        };
        self.attempts[at].acquire(Asked {
            by,
            lease,
            register,
        })
    }

    fn acquire_one(&mut self) -> Checked {
        let (kind, client) = (self.any_kind(), self.any_client());
        let copy = match self.rng.u8(..3) {
            0 => self.known(kind, client, false),
            _ => None,
        };
        let at = copy.unwrap_or_else(|| self.new_attempt(kind, client));
        if kind == Kind::Read && copy.is_none() {
            self.attempts[at].upgradable = self.rng.u8(..3) == 0;
        }
        let (by, lease) = (self.any_by(), self.any_lease());
        let call = self.asking(at, by, lease);
        let answer = self.both(&call)?;
        self.learn(at, &answer);
        Ok(())
    }

    /// Releases, undoes or leaves by the ordinary script.
    fn release_one(&mut self) -> Checked {
        let Some(at) = self.any_known(false) else {
            return Ok(());
        };
        let ended = Ended {
            void: self.rng.bool().then_some(self.attempts[at].by),
            waiter: self.rng.bool(),
            token: self.any_token(at).filter(|_| self.rng.u8(..4) > 0),
        };
        let call = self.attempts[at].release(ended);
        self.both(&call).map(|_| ())
    }

    fn force(&mut self) -> Checked {
        let how = ["now", "after"][self.rng.usize(..2)];
        let Some(at) = self.any_known(true) else {
            return Ok(());
        };
        match self.attempts[at].force(how) {
            Some(call) => self.both(&call).map(|_| ()),
            None => Ok(()),
        }
    }

    fn renew_one(&mut self) -> Checked {
        let Some(at) = self.any_known(true) else {
            return Ok(());
        };
        let (by, lease) = (self.any_by(), self.any_lease());
        let token = self.any_token(at).unwrap();
        let call = self.attempts[at].renew(by, lease, token);
        self.both(&call).map(|_| ())
    }

    /// Does what only its kind can do.
    fn special(&mut self) -> Checked {
        let kind = self.any_kind();
        let client = self.any_client();
        let by = self.any_by();
        if kind.is_pool() {
            let at = self.new_attempt(kind, client);
            let (verb, ttl) = match self.rng.u8(..8) {
                0 => ("delete", ""),
                1 => ("set", "2000"),
                2 => ("drain", ""),
                _ => ("set", ""),
            };
            let size = self.rng.u32(1..7);
            let call = self.attempts.pop().map(|it| it.change(by, verb, size, ttl));
            debug_assert_eq!(at, self.attempts.len());
            return self.both(&call.unwrap()).map(|_| ());
        }
        let Some(at) = self.known(Kind::Write, client, true) else {
            return Ok(());
        };
        let mut read = self.attempts[at].clone();
        read.kind = Kind::Read;
        read.id = format!("{client}:{}", 100 + self.number());
        read.granted = None;
        read.by = by;
        let asked = Asked {
            by,
            lease: self.any_lease(),
            register: None,
        };
        let call = self.attempts[at].downgrade(&read.id, asked);
        self.attempts.push(read);
        let answer = self.both(&call)?;
        self.learn(self.attempts.len() - 1, &answer);
        Ok(())
    }

    fn learn(&mut self, at: usize, answer: &[String]) {
        let attempt = &mut self.attempts[at];
        if answer.get(1).is_some_and(|verdict| verdict == "granted") {
            let id = if attempt.kind.is_rwlock() { 6 } else { 3 };
            attempt.granted = Some(answer[id].parse().unwrap());
        }
    }
}

/// Comparisons.
impl History {
    /// Asks all servers by the ordinary script.
    fn both(&mut self, call: &Call) -> Result<Vec<String>, String> {
        let answer = self.plainly(call)?;
        let other = items(self.merged.raw(call));
        self.note(call, &other);
        self.agree(call, &other, &answer)?;
        self.compare(&[], Longer::Neither)?;
        Ok(answer)
    }

    /// Asks the two servers that get no lists, and compares those.
    fn plainly(&mut self, call: &Call) -> Result<Vec<String>, String> {
        let answer = items(self.single.raw(call));
        let other = items(self.branchless.raw(call));
        if answer != other {
            return Err(format!(
                "{}: {answer:?} with a plain branch, {other:?} without",
                call
            ));
        }
        let (mut with, mut without) = (data(&self.single), data(&self.branchless));
        without_stale_upgradables(&mut with);
        without_stale_upgradables(&mut without);
        let now = self.now();
        let name = call.script.name;
        // A plain branch leaves the rest of a lease to the TTL, or sets the TTL without a look at
        // the rest of an earlier one; so do lists.
        let may = |with: u64, without: u64| match name {
            "rwlock/read" | "rwlock/write" => with <= without && now + RETENTION <= with,
            "rwlock/release" => without <= with && with <= without + LONGEST,
            _ => without <= with && with <= without + RETENTION,
        };
        let free: &[String] = match name {
            "rwlock/read" => &[call.keys[0].clone(), call.keys[4].clone()],
            _ if name.ends_with("/release") || name == "rwlock/write" => &call.keys[..1],
            _ => &[],
        };
        differ(&with, &without, free, may).map_err(|difference| {
            format!("{}, with and without a plain branch: {difference}", call)
        })?;
        self.branchless
            .engine
            .restore(&self.single.engine.snapshot());
        Ok(answer)
    }

    /// Asks one server by a list, and the others by a call for each entry. The calls belong to the
    /// attempts `of`, if they acquire.
    fn batch(&mut self, calls: Vec<Call>, of: &[usize]) -> Checked {
        if calls.is_empty() {
            return Ok(());
        }
        let common = merged(&calls);
        let name = common.script.name;
        let large = self.too_large();
        if matches!(
            name,
            "pool/acquire" | "pool/release" | "rwlock/read" | "rwlock/write"
        ) {
            self.refused_whole(&common)?;
        }
        let reply = self.merged.raw(&common);
        // A list is the answer to all.
        let all = reply
            .as_array()
            .map(|_| vec![items(reply.clone()).join(" "); calls.len()]);
        let all = all.map(|lines| lines.join("\n"));
        let text = all.as_deref().or(reply.as_str()).unwrap();
        let lines = text.split('\n').map(|line| items(listed_line(line)));
        let mut served: Vec<_> = lines.enumerate().collect();
        if served.len() != calls.len() {
            return Err(format!("{}: {text:?}", common));
        }
        self.note(&common, &[text.to_owned()]);
        if self.kind.scripts().contains(&common.script) {
            *self.counts.0.entry(name).or_default() += served.len() as u64;
        }
        let (mut keys, mut numbers) = (Vec::new(), Vec::new());
        if name == "pool/acquire" {
            self.in_order_of_service(&calls, &mut served);
        }
        for (place, mut line) in served {
            let call = &calls[place];
            let answer = self.plainly(call)?;
            if name == "pool/acquire" && line[1] == "granted" && answer[1] == "granted" {
                // Each grant of a pool has a number of its own.
                let number = (call.keys[0].clone(), line[3].parse::<u64>().unwrap());
                let first: u64 = answer[3].parse().unwrap();
                if !(first..first + calls.len() as u64).contains(&number.1)
                    || numbers.contains(&number)
                {
                    return Err(format!("{}: {line:?}, {numbers:?}", common));
                }
                numbers.push(number);
                line[3].clone_from(&answer[3]);
            }
            let others = calls.iter().filter(|other| other.keys[0] == call.keys[0]);
            if others.count() > 1
                && name == "pool/acquire"
                && [&line, &answer].iter().all(|line| line[1] == "busy")
            {
                // Told when to look again by the state after all entries of the pool.
                line[2..4].clone_from_slice(&answer[2..4]);
            }
            self.agree(call, &line, &answer)?;
            if call.script.name.starts_with("rwlock/") {
                keys.extend(call.keys.iter().cloned());
            }
            if let Some(&at) = of.get(place) {
                self.learn(at, &answer);
            }
        }
        let longer = match name {
            name if name.ends_with("/renew") => Longer::Neither,
            // A lock of which an earlier entry is not plain.
            "rwlock/read" | "rwlock/write" => Longer::Merged,
            _ => Longer::Single,
        };
        let waiters = calls.iter().filter_map(|call| call.args.get(8));
        let mut waiters: Vec<_> = match name {
            "pool/acquire" => waiters.cloned().collect(),
            _ => Vec::new(),
        };
        let had_large = !large.is_empty();
        waiters.extend(large);
        self.compare_without(&waiters, &keys, longer)?;
        if had_large {
            self.merged.engine.restore(&self.single.engine.snapshot());
        }
        Ok(())
    }

    /// Returns the waiters that need more than the size of their pool. Each look removes one at
    /// least.
    fn too_large(&mut self) -> Vec<String> {
        let mut large = Vec::new();
        for name in NAMES.into_iter().filter(|_| self.kind.is_pool()) {
            let Some((_, data)) = data(&self.single).remove_entry(&key(name)) else {
                continue;
            };
            let size = data.0.get("s").and_then(|size| size.parse::<u64>().ok());
            if let Some(size) = size {
                let members = self.single.sorted(&format!("{}:q", key(name))).into_keys();
                large.extend(members.filter(|member| needs(member) > size));
            }
        }
        large
    }

    /// Sorts entries as their pools serve them: those who are in the queue, in its order, then the
    /// others, and last those who ask for the second time.
    fn in_order_of_service(&mut self, calls: &[Call], served: &mut [(usize, Vec<String>)]) {
        let now = self.now();
        served.sort_by_cached_key(|&(place, _)| {
            let call = &calls[place];
            let earlier = calls[..place].iter();
            let again = earlier
                .filter(|other| other.args[4] == call.args[4])
                .count();
            let fields = self.single.hash(&call.keys[0]);
            let until = fields.get("n").and_then(|until| until.parse::<u64>().ok());
            let mut queue: Vec<_> = self.single.sorted(&call.keys[2]).into_iter().collect();
            queue.sort_by_key(|(_, ticket)| *ticket);
            let rank = queue.iter().position(|(member, _)| *member == call.args[8]);
            let rank = rank.filter(|_| until.is_some_and(|until| until > now));
            (again, rank.unwrap_or(usize::MAX), place)
        });
    }

    /// Checks that a full server refuses to give anything, or to queue anybody, and that it takes
    /// permits back.
    fn refused_whole(&mut self, common: &Call) -> Checked {
        let (state, before) = (self.merged.engine.snapshot(), self.merged.dump());
        self.merged.engine.set_condition(Condition::Full, true);
        let answer = self.merged.call(common);
        self.merged.engine.set_condition(Condition::Full, false);
        let untouched = self.merged.dump() == before;
        self.merged.engine.restore(&state);
        self.merged.published();
        let gives = !common.script.name.contains("release");
        match answer {
            Err(_) if gives && untouched => Ok(()),
            Ok(_) if !gives || untouched => Ok(()),
            answer => Err(format!("{} on a full server: {answer:?}", common)),
        }
    }

    fn note(&mut self, call: &Call, answer: &[String]) {
        let asked = Event::Asked(self.now(), call.clone());
        self.story.extend([asked, Event::Answered(answer.to_vec())]);
    }

    /// Compares the answers of the server with lists and of the server without.
    fn agree(&self, call: &Call, merged: &[String], single: &[String]) -> Checked {
        let forgets = self.keeps_expired && call.script.name.starts_with("pool/");
        let equal = merged.len() == single.len()
            && merged.iter().zip(single).all(|(merged, single)| {
                let over =
                    [merged, single].map(|word| ["expired", "gone"].contains(&word.as_str()));
                merged == single || forgets && over == [true; 2]
            });
        if equal {
            Ok(())
        } else {
            Err(format!(
                "{}: {merged:?} of a list, {single:?} of a single call",
                call
            ))
        }
    }

    /// Compares all data and messages. The TTLs of the keys `free` may differ.
    fn compare(&mut self, free: &[String], longer: Longer) -> Checked {
        self.compare_without(&[], free, longer)
    }

    /// As [`compare`](Self::compare), without messages to the addresses `waiters` of a crowd.
    fn compare_without(&mut self, waiters: &[String], free: &[String], longer: Longer) -> Checked {
        let now = self.now();
        let (mut merged, mut single) = (data(&self.merged), data(&self.single));
        for data in [&mut merged, &mut single] {
            without_expired_holds(data, now);
            without_stale_upgradables(data);
            if self.kind.is_pool() {
                for name in NAMES {
                    with_ranks_for_tickets(data, &key(name));
                }
            }
        }
        let fresher = self.kind.is_pool() && with_the_fresher_times(&mut merged, &single);
        let may = |merged: u64, single: u64| match longer {
            Longer::Neither => false,
            Longer::Merged => single <= merged && merged <= single + LONGEST,
            Longer::Single => merged <= single && now + RETENTION <= merged,
        };
        differ(&merged, &single, free, may)?;
        let (mut messages, mut others) = (self.merged.published(), self.single.published());
        if !waiters.is_empty() {
            let is_other = |(channel, payload): &(String, String)| {
                let number = payload.rsplit(' ').next().unwrap_or_default();
                let address = format!("PUBLISH {channel} {number} ");
                number.is_empty() || !waiters.iter().any(|waiter| waiter.starts_with(&address))
            };
            messages.retain(is_other);
            others.retain(is_other);
        }
        self.branchless.published();
        if self.kind.is_pool() {
            // A list serves one pool after the other.
            for told in [&mut messages, &mut others] {
                told.sort_by_key(|(_, payload)| payload.split(' ').next().map(str::to_owned));
            }
        }
        if messages != others {
            return Err(format!(
                "{messages:?} are published by one, {others:?} by the other"
            ));
        }
        if !self.keeps_expired || !free.is_empty() || fresher {
            self.merged.engine.restore(&self.single.engine.snapshot());
        }
        Ok(())
    }
}

/// Which server's keys may live longer after a list.
#[derive(Clone, Copy)]
enum Longer {
    Neither,
    Merged,
    Single,
}

/// Compares data. The last ms of the lives of `free` keys may differ as `may` says.
fn differ(one: &Data, other: &Data, free: &[String], may: impl Fn(u64, u64) -> bool) -> Checked {
    let keys: Vec<_> = one.keys().chain(other.keys()).collect();
    for key in keys {
        let (one, other) = (one.get(key), other.get(key));
        let equal = match (one, other) {
            (Some((one, until)), Some((other, same))) => {
                let loose = free.contains(key);
                let lives = match (until, same) {
                    (Some(until), Some(same)) if loose => may(*until, *same),
                    _ => false,
                };
                one == other && (until == same || lives)
            }
            _ => false,
        };
        if !equal {
            return Err(format!("{key}: {one:?} and {other:?}"));
        }
    }
    Ok(())
}

/// Returns a server whose time stands still in scripts, so that TTLs do not depend on their cost.
fn bed(model: Model) -> Bed {
    let mut bed = Bed::new(model);
    bed.engine.set_script_step(Duration::ZERO);
    bed
}

fn listed_line(line: &str) -> redlatch::runtime::Value {
    redlatch::runtime::Value::Bulk(line.as_bytes().to_vec())
}

/// Returns the text of a script without its plain branch, if it has one.
fn branchless_text(text: &str) -> Option<String> {
    let branches = [
        ("not off[key]", "false"),
        ("local plain = spent and", "local plain = false and"),
        ("local plain = pool.ends and", "local plain = false and"),
    ];
    let (branch, none) = branches
        .into_iter()
        .find(|(branch, _)| text.contains(branch))?;
    Some(text.replace(branch, none))
}

const NAMES: [&str; 4] = ["x", "y", "z", "w"];

const LEASES: [u64; 5] = [1, 60, 1_000, 9_000, LONGEST];

const LONGEST: u64 = 30_000;

#[test]
fn scripts_have_a_plain_branch() {
    let all = redlatch_lua::all();
    let mut names: Vec<_> = all
        .filter(|source| branchless_text(source.text).is_some())
        .map(|source| source.name)
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "election/acquire",
            "election/release",
            "fair/acquire",
            "fair/release",
            "fair_election/acquire",
            "fair_election/release",
            "pool/acquire",
            "pool/release",
            "reentrant/acquire",
            "reentrant/release",
            "rwlock/read",
            "rwlock/release",
            "rwlock/write",
        ]
    );
}
