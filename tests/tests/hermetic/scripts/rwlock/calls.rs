//! Calls of the scripts in the words of their headers.

use redlatch_lua::RWLOCK;

use crate::scripts::bed::{self, Call, optional};

/// What an acquire script takes.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) by: u64,
    pub(crate) owner: String,
    pub(crate) attempt: String,
    pub(crate) lease: u64,
    pub(crate) register: Option<u64>,
    pub(crate) member: String,
}

/// How long a token is kept, in ms.
pub(crate) const RETENTION: u64 = 10_000;

/// The channel of the message to all waiting readers of the lock `x`.
pub(crate) const BROADCAST: &str = "p:{t}x:b";

fn keys() -> Vec<String> {
    let key = bed::key("x");
    let parts = ["q", "r", "l", "d"].map(|part| format!("{key}:{part}"));
    std::iter::once(key).chain(parts).collect()
}

impl Ask {
    fn call(&self, script: &'static redlatch_lua::Source, what: &str) -> Call {
        let (by, lease, ttl) = self.times();
        let register = optional(self.register);
        let (owner, attempt, member) = (&*self.owner, &*self.attempt, &*self.member);
        let args = [
            &*by, "", &lease, &ttl, owner, attempt, &register, member, what,
        ];
        Call::new(script, keys(), &args)
    }

    /// Returns until when it may act, and the lease and the TTL.
    fn times(&self) -> (String, String, String) {
        let ttl = self.lease + RETENTION;
        (self.by.to_string(), self.lease.to_string(), ttl.to_string())
    }

    /// The same with a lease of so many ms.
    pub(crate) fn lease(self, lease: u64) -> Self {
        Self { lease, ..self }
    }

    /// The same of a waiter for the upgradable hold.
    pub(crate) fn upgradable(mut self) -> Self {
        self.member.push_str(" u");
        self
    }

    /// Asks for one side, `w` or `r`.
    pub(crate) fn of(&self, side: &str) -> Call {
        match side {
            "r" => self.read("r"),
            _ => self.write(""),
        }
    }

    /// `kind` is `r` or `u`.
    pub(crate) fn read(&self, kind: &str) -> Call {
        self.call(&RWLOCK.read, kind)
    }

    /// `serial` is that of an upgradable hold, or empty.
    pub(crate) fn write(&self, serial: &str) -> Call {
        self.call(&RWLOCK.write, serial)
    }

    pub(crate) fn downgrade(&self, attempt: &str, token: u64, void: Option<u64>) -> Call {
        let (by, lease, ttl) = self.times();
        let (token, void) = (token.to_string(), optional(void));
        let (owner, own) = (&*self.owner, &*self.attempt);
        let args = [&*by, owner, own, &lease, &ttl, attempt, &token, &void];
        Call::new(&RWLOCK.downgrade, keys(), &args)
    }
}

/// `side` is `w` or `r`.
pub(crate) fn renew(by: u64, owner: &str, lease: u64, side: &str, id: u64) -> Call {
    let (client, number) = bed::parts(owner);
    let (by, ttl) = (by.to_string(), (lease + RETENTION).to_string());
    let (lease, id) = (lease.to_string(), id.to_string());
    let args = [&*by, &client, &lease, &ttl, &number, side, &id];
    Call::new(&RWLOCK.renew, vec![bed::key("x")], &args)
}

pub(crate) fn release(
    owner: &str,
    attempt: &str,
    void: Option<u64>,
    member: &str,
    side: &str,
    id: Option<u64>,
) -> Call {
    let (keep, void, id) = (RETENTION.to_string(), optional(void), optional(id));
    let args = ["", &keep, owner, attempt, &void, member, side, &id];
    Call::new(&RWLOCK.release, keys(), &args)
}

pub(crate) fn force(side: &str, owner: &str, id: u64, how: &str) -> Call {
    let (id, keep) = (id.to_string(), RETENTION.to_string());
    let args = [side, owner, &id, how, &keep, ""];
    Call::new(&RWLOCK.force, keys(), &args)
}

pub(crate) fn inspect(owner: &str) -> Call {
    Call::new(&RWLOCK.inspect, keys(), &[owner])
}

pub(crate) fn holders(cursor: &str) -> Call {
    Call::new(&RWLOCK.holders, vec![bed::key("x")], &[cursor])
}

/// Makes one call of calls of the same script, each for one of the locks `names`.
pub(crate) fn list(calls: &[Call], names: &[&str]) -> Call {
    let first = &calls[0];
    let shared = first.script.list.unwrap().shared;
    let each = calls.iter().zip(names);
    let keys = each.flat_map(|(call, name)| call.keys.iter().map(|key| key.replace('x', name)));
    let own = calls.iter().flat_map(|call| &call.args[shared..]);
    Call {
        script: first.script,
        keys: keys.collect(),
        args: first.args[..shared].iter().chain(own).cloned().collect(),
    }
}
