//! Calls of all kinds in the words of their headers, and how they merge.

use redlatch_core::family::Objects;
use redlatch_lua::{FAIR, POOL, REENTRANT, RWLOCK, Source};

use crate::scripts::bed::{Call, key};

/// What a history is about. Some of its calls are of the other kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lock,
    Fair,
    Read,
    Write,
    /// One hold of several permits.
    Hold,
    /// Permits that are holds of their own.
    Permit,
    /// As `Hold`, of one name that many wait for.
    Crowd,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Lock,
        Self::Fair,
        Self::Read,
        Self::Write,
        Self::Hold,
        Self::Permit,
    ];

    pub(super) const fn is_pool(self) -> bool {
        matches!(self, Self::Hold | Self::Permit | Self::Crowd)
    }

    pub(super) const fn is_rwlock(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// How calls of one script merge into one call of another. Positions count without the limit of
/// time.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) script: &'static Source,
    dated: bool,
    keys: &'static [usize],
    objects: Objects,
    shared: &'static [usize],
    ids: &'static [usize],
    texts: &'static [usize],
}

impl Merge {
    /// Makes one call of `calls`, whose ids begin with `client`.
    pub(super) fn call(&self, client: &str, calls: &[Call]) -> Call {
        let first = usize::from(self.dated);
        let mut args = Vec::new();
        if self.dated {
            args.extend(calls.iter().map(|call| call.args[0].clone()).min());
        }
        args.push(client.to_owned());
        for &at in self.shared {
            let shared = &calls[0].args[first + at];
            let equal = calls.iter().all(|call| call.args[first + at] == *shared);
            assert!(equal, "{calls:?}");
            args.push(shared.clone());
        }
        for call in calls {
            for &at in self.ids {
                let id = call.args[first + at].strip_prefix(client).unwrap();
                args.push(id.to_owned());
            }
            args.extend(self.texts.iter().map(|&at| call.args[first + at].clone()));
        }
        let have_keys = match self.objects {
            Objects::Each => calls,
            Objects::One => {
                let same = calls.iter().all(|call| call.keys == calls[0].keys);
                assert!(same, "{calls:?}");
                &calls[..1]
            }
        };
        let keys = have_keys
            .iter()
            .flat_map(|call| self.keys.iter().map(|&at| call.keys[at].clone()));
        Call {
            script: self.script,
            keys: keys.collect(),
            args,
        }
    }
}

pub(super) const fn acquiring(kind: Kind) -> Merge {
    let (script, keys): (_, &[usize]) = match kind {
        Kind::Lock => (&REENTRANT.acquire_each, &[0]),
        Kind::Fair => (&FAIR.exclusive.acquire_each, &[0]),
        Kind::Read => (&RWLOCK.read_each, &[0, 4]),
        Kind::Write => (&RWLOCK.write_each, &[0]),
        Kind::Hold | Kind::Permit => {
            return Merge {
                script: &POOL.acquire_each,
                dated: true,
                keys: &[0, 1],
                objects: Objects::Each,
                shared: &[0, 3],
                ids: &[1],
                texts: &[2, 4, 7],
            };
        }
        Kind::Crowd => {
            return Merge {
                script: &POOL.acquire_some,
                dated: true,
                keys: &[0, 1, 2, 3],
                objects: Objects::One,
                shared: &[0, 3, 5],
                ids: &[1],
                texts: &[2, 6, 7],
            };
        }
    };
    Merge {
        script,
        dated: true,
        keys,
        objects: Objects::Each,
        shared: &[2, 3],
        ids: &[0, 1],
        texts: &[],
    }
}

pub(super) const fn renewing(kind: Kind) -> Merge {
    let (script, shared, ids, texts): (_, &[usize], &[usize], &[usize]) = match kind {
        Kind::Lock => (&REENTRANT.renew_each, &[1, 2], &[0], &[3]),
        Kind::Fair => (&FAIR.exclusive.renew_each, &[1, 2], &[0], &[3]),
        Kind::Read | Kind::Write => (&RWLOCK.renew_each, &[1, 2], &[0], &[3, 4]),
        Kind::Hold | Kind::Permit | Kind::Crowd => (&POOL.renew_each, &[0, 1], &[2], &[]),
    };
    Merge {
        script,
        dated: true,
        keys: &[0],
        objects: Objects::Each,
        shared,
        ids,
        texts,
    }
}

pub(super) const fn releasing(kind: Kind) -> Merge {
    let (script, keys, shared, ids, texts): (_, &[usize], &[usize], &[usize], &[usize]) = match kind
    {
        Kind::Lock => (&REENTRANT.release_each, &[0], &[3], &[1], &[5]),
        Kind::Fair => (&FAIR.exclusive.release_each, &[0], &[3], &[1], &[5]),
        Kind::Read => (&RWLOCK.read_release_each, &[0, 4], &[3], &[0, 1], &[6]),
        Kind::Write => (&RWLOCK.write_release_each, &[0], &[3], &[1], &[6]),
        Kind::Hold | Kind::Permit => (&POOL.release_each, &[0, 1], &[0], &[7], &[]),
        Kind::Crowd => (&POOL.release_some, &[0, 1, 2, 3], &[0], &[7], &[]),
    };
    Merge {
        script,
        dated: false,
        keys,
        objects: match kind {
            Kind::Crowd => Objects::One,
            _ => Objects::Each,
        },
        shared,
        ids,
        texts,
    }
}

/// An acquisition as its client knows it.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) kind: Kind,
    pub(super) client: &'static str,
    pub(super) owner: String,
    pub(super) id: String,
    pub(super) name: &'static str,
    pub(super) need: u32,
    /// The size of a pool without one, or an empty text.
    pub(super) size: &'static str,
    /// Of a reader: it may become the writer.
    pub(super) upgradable: bool,
    /// The largest limit of its copies.
    pub(super) by: u64,
    /// The token or serial of the last grant.
    pub(super) granted: Option<u64>,
}

/// What an acquisition asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) by: u64,
    pub(super) lease: u64,
    pub(super) register: Option<u64>,
}

/// What a release says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) void: Option<u64>,
    /// Whether its waiter goes, too.
    pub(super) waiter: bool,
    pub(super) token: Option<u64>,
}

fn text(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

impl Attempt {
    pub(super) fn keys(&self) -> Vec<String> {
        let parts: &[&str] = match self.kind {
            Kind::Lock => &["", ":q"],
            Kind::Fair => &["", ":q", ":l"],
            Kind::Read | Kind::Write => &["", ":q", ":r", ":l", ":d"],
            Kind::Hold | Kind::Permit | Kind::Crowd => &["", ":d", ":q", ":l"],
        };
        let key = key(self.name);
        parts.iter().map(|part| format!("{key}{part}")).collect()
    }

    /// Returns the address of its waiter, as the queue has it.
    fn address(&self) -> String {
        let number = self.id.split(':').nth(1).unwrap();
        let address = format!("PUBLISH w:{} {number}", self.client);
        match self.kind {
            Kind::Read if self.upgradable => format!("{address} u"),
            // No waiter has an order: one common release gives numbers that differ from those of
            // several releases.
            Kind::Hold | Kind::Permit | Kind::Crowd => format!("{address} {}", self.need),
            _ => address,
        }
    }

    fn call(&self, script: &'static Source, args: Vec<String>) -> Call {
        Call {
            script,
            keys: self.keys(),
            args,
        }
    }

    pub(super) fn acquire(&self, asked: Asked) -> Call {
        let Asked {
            by,
            lease,
            register,
        } = asked;
        if self.kind.is_pool() {
            let each = if self.kind == Kind::Permit { "1" } else { "" };
            let args = [
                &by.to_string(),
                self.pool(),
                &self.id,
                &self.need.to_string(),
                &lease.to_string(),
                self.size,
                &text(register),
                &self.address(),
                each,
            ];
            return self.call(&POOL.acquire, args.map(str::to_owned).to_vec());
        }
        let mut args = vec![
            by.to_string(),
            self.owner.clone(),
            self.id.clone(),
            lease.to_string(),
            (lease + RETENTION).to_string(),
            text(register),
            self.address(),
        ];
        let script = match self.kind {
            Kind::Lock => &REENTRANT.acquire,
            Kind::Fair => &FAIR.exclusive.acquire,
            Kind::Read => {
                args.push(if self.upgradable { "u" } else { "r" }.to_owned());
                &RWLOCK.read
            }
            _ => {
                args.push(String::new());
                &RWLOCK.write
            }
        };
        if self.kind.is_rwlock() {
            args.extend(BROADCAST.map(str::to_owned));
        }
        self.call(script, args)
    }

    pub(super) fn renew(&self, by: u64, lease: u64, token: u64) -> Call {
        let mut args = vec![by.to_string()];
        if self.kind.is_pool() {
            args.extend([self.pool().to_owned(), lease.to_string(), self.hold()]);
        } else {
            args.extend([
                self.owner.clone(),
                lease.to_string(),
                (lease + RETENTION).to_string(),
            ]);
            if self.kind.is_rwlock() {
                args.push(self.side().to_owned());
            }
            args.push(token.to_string());
        }
        let script = match self.kind {
            Kind::Lock => &REENTRANT.renew,
            Kind::Fair => &FAIR.exclusive.renew,
            Kind::Read | Kind::Write => &RWLOCK.renew,
            Kind::Hold | Kind::Permit | Kind::Crowd => &POOL.renew,
        };
        let mut call = self.call(script, args);
        call.keys.truncate(1);
        call
    }

    pub(super) fn release(&self, ended: Ended) -> Call {
        let Ended {
            void,
            waiter,
            token,
        } = ended;
        let address = if waiter {
            self.address()
        } else {
            String::new()
        };
        if self.kind.is_pool() {
            let attempt = void.map(|_| self.id.clone()).unwrap_or_default();
            let args = [
                self.pool(),
                &attempt,
                &text(void),
                &RETENTION.to_string(),
                &address,
                "0",
                "0",
                &self.hold(),
            ];
            return self.call(&POOL.release, args.map(str::to_owned).to_vec());
        }
        let mut args = vec![
            self.owner.clone(),
            self.id.clone(),
            text(void),
            RETENTION.to_string(),
            address,
        ];
        if self.kind.is_rwlock() {
            args.push(self.side().to_owned());
        }
        args.push(text(token));
        let script = match self.kind {
            Kind::Lock => &REENTRANT.release,
            Kind::Fair => &FAIR.exclusive.release,
            _ => {
                args.extend(BROADCAST.map(str::to_owned));
                &RWLOCK.release
            }
        };
        self.call(script, args)
    }

    /// Ends its hold by force, or forbids its renewal. `None` for a pool.
    pub(super) fn force(&self, how: &str) -> Option<Call> {
        let token = text(self.granted);
        let exclusive = vec![token.clone(), how.to_owned(), RETENTION.to_string()];
        Some(match self.kind {
            Kind::Lock => self.call(&REENTRANT.force, exclusive),
            Kind::Fair => self.call(&FAIR.exclusive.force, exclusive),
            Kind::Read | Kind::Write => {
                let keep = RETENTION.to_string();
                let args = [self.side(), &self.owner, &token, how, &keep];
                let args = args.into_iter().chain(BROADCAST);
                self.call(&RWLOCK.force, args.map(str::to_owned).collect())
            }
            Kind::Hold | Kind::Permit | Kind::Crowd => return None,
        })
    }

    /// Turns its write hold into a read hold of the attempt `id`.
    pub(super) fn downgrade(&self, id: &str, asked: Asked) -> Call {
        let mut args = vec![
            asked.by.to_string(),
            self.owner.clone(),
            id.to_owned(),
            asked.lease.to_string(),
            (asked.lease + RETENTION).to_string(),
            self.id.clone(),
            text(self.granted),
            String::new(),
        ];
        args.extend(BROADCAST.map(str::to_owned));
        self.call(&RWLOCK.downgrade, args)
    }

    /// Changes the size of its pool.
    pub(super) fn change(&self, by: u64, verb: &str, size: u32, ttl: &str) -> Call {
        let (by, size) = (by.to_string(), size.to_string());
        let args = [&by, self.pool(), &self.id, "30000", verb, &size, ttl];
        let mut call = self.call(&POOL.change, args.map(str::to_owned).to_vec());
        let key = key(self.name);
        call.keys
            .extend([":o", ":p"].map(|part| format!("{key}{part}")));
        call
    }

    const fn side(&self) -> &'static str {
        match self.kind {
            Kind::Write => "w",
            _ => "r",
        }
    }

    /// Returns the kind of its pool, as the server stores it.
    const fn pool(&self) -> &'static str {
        match self.kind {
            Kind::Permit => POOL_KINDS[1],
            _ => POOL_KINDS[0],
        }
    }

    /// Returns the name of its first hold of a pool.
    fn hold(&self) -> String {
        match self.kind {
            Kind::Permit => format!("{}:0", self.id),
            _ => self.id.clone(),
        }
    }
}

/// How long a token is kept, in ms.
pub(super) const RETENTION: u64 = 10_000;

pub(super) const POOL_KINDS: [&str; 2] = ["semaphore:1", "permits:1"];

/// The message to all waiting readers.
const BROADCAST: [&str; 2] = ["PUBLISH", "w:all"];
