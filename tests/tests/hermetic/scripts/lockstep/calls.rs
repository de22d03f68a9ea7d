//! Calls of all kinds in the words of their headers, and how they merge.

use redlatch_lua::{FAIR, POOL, REENTRANT, RWLOCK, Source};

use crate::scripts::bed::{Call, key, parts};

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

    /// Returns the scripts whose calls merge.
    pub(super) const fn scripts(self) -> [&'static Source; 3] {
        match self {
            Self::Lock => [&REENTRANT.acquire, &REENTRANT.release, &REENTRANT.renew],
            Self::Fair => {
                let scripts = &FAIR.exclusive;
                [&scripts.acquire, &scripts.release, &scripts.renew]
            }
            Self::Read => [&RWLOCK.read, &RWLOCK.release, &RWLOCK.renew],
            Self::Write => [&RWLOCK.write, &RWLOCK.release, &RWLOCK.renew],
            Self::Hold | Self::Permit | Self::Crowd => [&POOL.acquire, &POOL.release, &POOL.renew],
        }
    }
}

/// Makes one list of calls of one script with equal shared arguments. The list has the earliest
/// limit of time.
pub(super) fn merged(calls: &[Call]) -> Call {
    let script = calls[0].script;
    let shared = script.list.unwrap().shared;
    let mut header = calls[0].args[..shared].to_vec();
    if is_time(&header[0]) {
        header[0] = calls.iter().map(|call| call.args[0].clone()).min().unwrap();
    }
    let own = calls.iter().flat_map(|call| {
        let (front, own) = call.args.split_at(shared);
        let from = usize::from(is_time(&header[0]));
        assert!(
            call.script == script && front[from..] == header[from..],
            "{calls:?}"
        );
        own
    });
    let own: Vec<_> = own.cloned().collect();
    Call {
        script,
        keys: calls.iter().flat_map(|call| call.keys.clone()).collect(),
        args: [header, own].concat(),
    }
}

fn is_time(arg: &str) -> bool {
    arg.len() == 13 && arg.bytes().all(|byte| byte.is_ascii_digit())
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
            let (client, attempt) = parts(&self.id);
            let args = [
                &by.to_string(),
                &client,
                self.pool(),
                &lease.to_string(),
                &attempt,
                &self.need.to_string(),
                self.size,
                &text(register),
                &self.address(),
                each,
            ];
            return self.call(&POOL.acquire, args.map(str::to_owned).to_vec());
        }
        let ttl = (lease + RETENTION).to_string();
        if !self.kind.is_rwlock() {
            let script = match self.kind {
                Kind::Lock => &REENTRANT.acquire,
                _ => &FAIR.exclusive.acquire,
            };
            let (client, owner) = parts(&self.owner);
            let attempt = parts(&self.id).1;
            let args = [
                by.to_string(),
                client,
                lease.to_string(),
                ttl,
                String::new(),
                owner,
                attempt,
                text(register),
                self.address(),
            ];
            return self.call(script, args.to_vec());
        }
        let (script, what) = match self.kind {
            Kind::Read if self.upgradable => (&RWLOCK.read, "u"),
            Kind::Read => (&RWLOCK.read, "r"),
            _ => (&RWLOCK.write, ""),
        };
        let (client, owner) = parts(&self.owner);
        let attempt = parts(&self.id).1;
        let args = [
            by.to_string(),
            client,
            lease.to_string(),
            ttl,
            owner,
            attempt,
            text(register),
            self.address(),
            what.to_owned(),
        ];
        self.call(script, args.to_vec())
    }

    pub(super) fn renew(&self, by: u64, lease: u64, token: u64) -> Call {
        let mut args = vec![by.to_string()];
        if self.kind.is_pool() {
            let (client, number) = parts(&self.hold());
            args.extend([client, self.pool().to_owned(), lease.to_string(), number]);
        } else {
            let (client, number) = parts(&self.owner);
            let ttl = lease + RETENTION;
            args.extend([client, lease.to_string(), ttl.to_string(), number]);
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
            let (client, hold) = parts(&self.hold());
            let attempt = void.map(|_| parts(&self.id).1).unwrap_or_default();
            let args = [
                &client,
                self.pool(),
                &RETENTION.to_string(),
                &attempt,
                &text(void),
                &address,
                "0",
                "0",
                &hold,
            ];
            return self.call(&POOL.release, args.map(str::to_owned).to_vec());
        }
        let keep = RETENTION.to_string();
        let (client, owner) = parts(&self.owner);
        let attempt = parts(&self.id).1;
        let mut args = vec![client, keep, owner, attempt, text(void), address];
        if self.kind.is_rwlock() {
            args.push(self.side().to_owned());
        }
        args.push(text(token));
        let script = match self.kind {
            Kind::Lock => &REENTRANT.release,
            Kind::Fair => &FAIR.exclusive.release,
            _ => &RWLOCK.release,
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
                self.call(&RWLOCK.force, args.map(str::to_owned).to_vec())
            }
            Kind::Hold | Kind::Permit | Kind::Crowd => return None,
        })
    }

    /// Turns its write hold into a read hold of the attempt `id`.
    pub(super) fn downgrade(&self, id: &str, asked: Asked) -> Call {
        let args = vec![
            asked.by.to_string(),
            self.owner.clone(),
            id.to_owned(),
            asked.lease.to_string(),
            (asked.lease + RETENTION).to_string(),
            self.id.clone(),
            text(self.granted),
            String::new(),
        ];
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
