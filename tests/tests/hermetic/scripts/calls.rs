//! Calls of the scripts that give out, prolong and end holds, in the words of their headers.

use redlatch_lua::{Exclusive, FAIR, POOL, REENTRANT, RWLOCK};

use super::{bed::parts, prelude::*};

/// What an attempt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Plain,
    Fair,
    Write,
    /// The write of whoever has the upgradable hold with this serial.
    Upgrade(u64),
    Read,
    Upgradable,
    /// Permits of a pool, which are one hold.
    Permits,
    /// Permits of which each has an id.
    Each,
}

/// The kind of pools here.
pub(crate) const KIND: &str = "semaphore:1";

/// How long a token is kept, in ms.
pub(crate) const RETENTION: u64 = 10_000;

impl Of {
    /// The side of a read-write lock.
    pub(crate) const fn side(self) -> &'static str {
        match self {
            Self::Read | Self::Upgradable => "r",
            _ => "w",
        }
    }

    fn exclusive(self) -> &'static Exclusive {
        match self {
            Self::Fair => &FAIR.exclusive,
            _ => &REENTRANT,
        }
    }

    /// The parts of a name that its scripts take.
    const fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["q"],
            Self::Fair => &["q", "l"],
            Self::Permits | Self::Each => &["d", "q", "l"],
            _ => &["q", "r", "l", "d"],
        }
    }
}

/// An attempt, and what its requests say.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) of: Of,
    pub(crate) names: Vec<&'static str>,
    /// Until when a request may act.
    pub(crate) by: u64,
    pub(crate) owner: String,
    pub(crate) attempt: String,
    pub(crate) lease: u64,
    /// For how long its client counts as alive if it has to wait, in ms.
    pub(crate) register: Option<u64>,
    /// Whether a copy may have registered a waiter.
    pub(crate) registered: bool,
    /// How it stands in a queue; empty for an attempt that ends with a busy answer.
    pub(crate) address: String,
    /// The permits that it needs.
    pub(crate) need: u64,
    /// The size of a pool that has none.
    pub(crate) size: Option<u64>,
    /// The permits that a release leaves, and those of them that are gone for good.
    pub(crate) left: u64,
    pub(crate) forgotten: u64,
}

impl Ask {
    /// Attempt `n` of the owner's client at `x`, for a minute, without waiting.
    pub(crate) fn new(of: Of, bed: &Bed, owner: &str, n: u64) -> Self {
        let client = owner.split(':').next().unwrap();
        Self {
            of,
            names: vec!["x"],
            by: bed.millis() + 5_000,
            owner: owner.to_owned(),
            attempt: format!("{client}:{n}"),
            lease: 60_000,
            register: None,
            registered: false,
            address: String::new(),
            need: 1,
            size: None,
            left: 0,
            forgotten: 0,
        }
    }

    pub(crate) fn names(self, names: &[&'static str]) -> Self {
        let names = names.to_vec();
        Self { names, ..self }
    }

    /// The same for so many ms.
    pub(crate) fn lease(self, lease: u64) -> Self {
        Self { lease, ..self }
    }

    /// The same for so many permits.
    pub(crate) fn need(self, need: u64) -> Self {
        Self { need, ..self }
    }

    /// The same for a release that leaves so many permits, and forgets so many.
    pub(crate) fn keeping(self, left: u64, forgotten: u64) -> Self {
        Self {
            left,
            forgotten,
            ..self
        }
    }

    /// The same at this address.
    pub(crate) fn at(self, address: &str) -> Self {
        Self {
            register: Some(5_000),
            address: address.to_owned(),
            ..self
        }
    }

    /// The same, waiting on its client's channel.
    pub(crate) fn waiting(self) -> Self {
        let (client, n) = self.attempt.split_once(':').unwrap();
        let own = match self.of {
            Of::Fair => parts(&self.owner).1.replace(':', " "),
            Of::Upgradable => " u".to_owned(),
            Of::Permits | Of::Each => format!(" {}", self.need),
            _ => String::new(),
        };
        let address = format!("PUBLISH w:{client} {n}{own}");
        self.at(&address)
    }

    /// The same, waiting with an order by which a release may grant it.
    pub(crate) fn ordered(self) -> Self {
        let mut ask = self.waiting();
        if ask.of == Of::Write {
            ask.address.push_str(&parts(&ask.owner).1.replace(':', " "));
        }
        let n: u64 = ask.attempt.split(':').nth(1).unwrap().parse().unwrap();
        let order = format!(" g{}.{}.{n:016x}", ask.lease, ask.lease + RETENTION);
        ask.address.push_str(&order);
        ask
    }

    /// Asks for an answer with this verdict.
    #[track_caller]
    pub(crate) fn gets(&self, bed: &mut Bed, verdict: &str) -> Vec<String> {
        bed.gets(&self.call(), verdict)
    }

    fn keys(&self) -> Vec<String> {
        let of = |name: &&'static str| {
            let (name, parts) = (*name, self.of.parts().iter());
            std::iter::once(key(name)).chain(parts.map(move |of| part(name, of)))
        };
        self.names.iter().flat_map(of).collect()
    }

    /// Returns until when it may act, and the lease and the TTL.
    fn times(&self, by: u64, lease: u64) -> [String; 3] {
        [by, lease, lease + RETENTION].map(|ms| ms.to_string())
    }

    pub(crate) fn call(&self) -> Call {
        let [by, lease, ttl] = self.times(self.by, self.lease);
        let (register, size) = (optional(self.register), optional(self.size));
        let (owner, attempt, address) = (&*self.owner, &*self.attempt, &*self.address);
        let ((client, number), need) = (parts(attempt), self.need.to_string());
        let serial = match self.of {
            Of::Upgrade(serial) => serial.to_string(),
            _ => String::new(),
        };
        let (script, what) = match self.of {
            Of::Plain | Of::Fair if self.names.len() == 1 => (&self.of.exclusive().acquire, ""),
            Of::Plain | Of::Fair => (&self.of.exclusive().acquire, "all"),
            Of::Write | Of::Upgrade(_) => (&RWLOCK.write, &*serial),
            Of::Read => (&RWLOCK.read, "r"),
            Of::Upgradable => (&RWLOCK.read, "u"),
            Of::Permits => (&POOL.acquire, ""),
            Of::Each => (&POOL.acquire, "1"),
        };
        let args = match self.of {
            Of::Plain | Of::Fair => vec![
                &*by, "", &lease, &ttl, what, owner, attempt, &register, address,
            ],
            Of::Permits | Of::Each => vec![
                &*by, &client, KIND, &lease, &number, &need, &size, &register, address, what,
            ],
            _ => vec![
                &*by, "", &lease, &ttl, owner, attempt, &register, address, what,
            ],
        };
        Call::new(script, self.keys(), &args)
    }

    /// Renews what it has of each name, for so many ms. `ids` has tokens or a serial.
    pub(crate) fn renew(&self, by: u64, lease: u64, ids: &[u64]) -> Call {
        let [by, lease, ttl] = self.times(by, lease);
        let (client, owner) = parts(&self.owner);
        let (script, head): (&'static Source, _) = match self.of {
            Of::Plain | Of::Fair => (&self.of.exclusive().renew, [&*by, &client, &lease, &ttl]),
            Of::Permits | Of::Each => (&POOL.renew, [&*by, "", KIND, &lease]),
            _ => (&RWLOCK.renew, [&*by, &client, &lease, &ttl]),
        };
        let mut args = text(&head);
        for id in ids.iter().map(u64::to_string) {
            args.extend(match self.of {
                Of::Plain | Of::Fair => vec![owner.clone(), id],
                Of::Permits | Of::Each => vec![self.attempt.clone()],
                _ => vec![owner.clone(), self.of.side().to_owned(), id],
            });
        }
        let keys = self.names.iter().map(|name| key(name)).collect();
        Call { script, keys, args }
    }

    /// Ends what it has. `ids` has tokens or a serial, zero where they are not known. `address` is
    /// the waiter to remove.
    pub(crate) fn release(&self, ids: &[u64], void: Option<u64>, address: &str) -> Call {
        let (keep, void) = (RETENTION.to_string(), optional(void));
        let (script, side) = match self.of {
            Of::Permits | Of::Each => {
                let (client, n) = parts(&self.attempt);
                let [left, forgotten] = [self.left, self.forgotten].map(|n| n.to_string());
                let one = if self.of == Of::Each { ":0" } else { "" };
                let hold = format!("{n}{one}");
                let args = [
                    &*client, KIND, &keep, &n, &void, address, &left, &forgotten, &hold,
                ];
                return Call::new(&POOL.release, self.keys(), &args);
            }
            Of::Plain | Of::Fair => (&self.of.exclusive().release, None),
            _ => (&RWLOCK.release, Some(self.of.side())),
        };
        let mut args = text(&["", &keep]);
        for &id in ids {
            args.extend(text(&[&self.owner, &self.attempt, &void, address]));
            args.extend(side.map(str::to_owned));
            args.push(optional((id > 0).then_some(id)));
        }
        Call {
            script,
            keys: self.keys(),
            args,
        }
    }

    /// Ends the owner's hold with this token or serial, by `now` or `after`.
    pub(crate) fn force(&self, id: u64, how: &str) -> Call {
        let (id, keep) = (id.to_string(), RETENTION.to_string());
        let (script, args) = match self.of {
            Of::Plain | Of::Fair => (&self.of.exclusive().force, vec![&*id, how, &keep, ""]),
            _ => {
                let side = self.of.side();
                (&RWLOCK.force, vec![side, &self.owner, &id, how, &keep, ""])
            }
        };
        Call::new(script, self.keys(), &args)
    }

    pub(crate) fn inspect(&self) -> Call {
        match self.of {
            Of::Plain | Of::Fair => Call::new(&self.of.exclusive().inspect, self.keys(), &[]),
            Of::Permits | Of::Each => Call::new(&POOL.inspect, self.keys(), &[KIND, ""]),
            _ => Call::new(&RWLOCK.inspect, self.keys(), &[&self.owner]),
        }
    }

    /// Turns the write of another attempt into a read.
    pub(crate) fn downgrade(&self, attempt: &str, token: u64, void: Option<u64>) -> Call {
        let [by, lease, ttl] = self.times(self.by, self.lease);
        let (token, void) = (token.to_string(), optional(void));
        let (owner, own) = (&*self.owner, &*self.attempt);
        let args = [&*by, owner, own, &lease, &ttl, attempt, &token, &void];
        Call::new(&RWLOCK.downgrade, self.keys(), &args)
    }

    /// Returns the token or serial of what is held of each name, as the server has it.
    pub(crate) fn ids(&self, bed: &mut Bed) -> Vec<u64> {
        let id = |name: &&'static str| -> u64 {
            let fields = bed.hash(&key(name));
            match self.of {
                Of::Permits | Of::Each => 0,
                Of::Read | Of::Upgradable => {
                    let hold = &fields[&format!("r{}", self.owner)];
                    hold[14..30].parse().unwrap()
                }
                _ => fields["t"].parse().unwrap(),
            }
        };
        self.names.iter().map(id).collect()
    }
}

/// Makes one call of calls of one script, whose shared arguments are equal.
pub(crate) fn list(calls: &[Call]) -> Call {
    let shared = calls[0].script.list.unwrap().shared;
    let mut all = calls[0].clone();
    for call in &calls[1..] {
        assert_eq!(call.args[..shared], all.args[..shared]);
        all.keys.extend(call.keys.iter().cloned());
        all.args.extend(call.args[shared..].iter().cloned());
    }
    all
}
