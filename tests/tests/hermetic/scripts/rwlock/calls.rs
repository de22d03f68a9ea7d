//! Calls of the scripts in the words of their headers.

use redlatch_lua::RWLOCK;

use crate::scripts::bed::{self, Call};

/// What an acquire script takes.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) by: u64,
    pub(super) owner: String,
    pub(super) attempt: String,
    pub(super) lease: u64,
    pub(super) register: Option<u64>,
    pub(super) member: String,
}

/// How long a token is kept, in ms.
pub(super) const RETENTION: u64 = 10_000;

/// The channel of the message to all waiting readers of the lock `x`.
pub(super) const BROADCAST: &str = "p:{t}x:b";

fn keys() -> Vec<String> {
    let key = bed::key("x");
    let parts = ["q", "r", "l", "d"].map(|part| format!("{key}:{part}"));
    std::iter::once(key).chain(parts).collect()
}

impl Ask {
    fn call(&self, script: &'static redlatch_lua::Source, what: &str) -> Call {
        let register = self.register.map(|ms| ms.to_string()).unwrap_or_default();
        Call {
            script,
            keys: keys(),
            args: vec![
                self.by.to_string(),
                String::new(),
                self.lease.to_string(),
                (self.lease + RETENTION).to_string(),
                self.owner.clone(),
                self.attempt.clone(),
                register,
                self.member.clone(),
                what.to_owned(),
            ],
        }
    }

    /// The same with a lease of so many ms.
    pub(super) fn lease(self, lease: u64) -> Self {
        Self { lease, ..self }
    }

    /// The same of a waiter for the upgradable hold.
    pub(super) fn upgradable(mut self) -> Self {
        self.member.push_str(" u");
        self
    }

    /// Asks for one side, `w` or `r`.
    pub(super) fn of(&self, side: &str) -> Call {
        match side {
            "r" => self.read("r"),
            _ => self.write(""),
        }
    }

    /// `kind` is `r` or `u`.
    pub(super) fn read(&self, kind: &str) -> Call {
        self.call(&RWLOCK.read, kind)
    }

    /// `serial` is that of an upgradable hold, or empty.
    pub(super) fn write(&self, serial: &str) -> Call {
        self.call(&RWLOCK.write, serial)
    }

    pub(super) fn downgrade(&self, attempt: &str, token: u64, void: Option<u64>) -> Call {
        Call {
            script: &RWLOCK.downgrade,
            keys: keys(),
            args: vec![
                self.by.to_string(),
                self.owner.clone(),
                self.attempt.clone(),
                self.lease.to_string(),
                (self.lease + RETENTION).to_string(),
                attempt.to_owned(),
                token.to_string(),
                void.map(|by| by.to_string()).unwrap_or_default(),
            ],
        }
    }
}

/// `side` is `w` or `r`.
pub(super) fn renew(by: u64, owner: &str, lease: u64, side: &str, id: u64) -> Call {
    let (client, number) = bed::parts(owner);
    Call {
        script: &RWLOCK.renew,
        keys: vec![bed::key("x")],
        args: vec![
            by.to_string(),
            client,
            lease.to_string(),
            (lease + RETENTION).to_string(),
            number,
            side.to_owned(),
            id.to_string(),
        ],
    }
}

pub(super) fn release(
    owner: &str,
    attempt: &str,
    void: Option<u64>,
    member: &str,
    side: &str,
    id: Option<u64>,
) -> Call {
    Call {
        script: &RWLOCK.release,
        keys: keys(),
        args: vec![
            String::new(),
            RETENTION.to_string(),
            owner.to_owned(),
            attempt.to_owned(),
            void.map(|by| by.to_string()).unwrap_or_default(),
            member.to_owned(),
            side.to_owned(),
            id.map(|id| id.to_string()).unwrap_or_default(),
        ],
    }
}

pub(super) fn force(side: &str, owner: &str, id: u64, how: &str) -> Call {
    Call {
        script: &RWLOCK.force,
        keys: keys(),
        args: vec![
            side.to_owned(),
            owner.to_owned(),
            id.to_string(),
            how.to_owned(),
            RETENTION.to_string(),
            String::new(),
        ],
    }
}

pub(super) fn inspect(owner: &str) -> Call {
    Call {
        script: &RWLOCK.inspect,
        keys: keys(),
        args: vec![owner.to_owned()],
    }
}

pub(super) fn holders(cursor: &str) -> Call {
    Call {
        script: &RWLOCK.holders,
        keys: vec![bed::key("x")],
        args: vec![cursor.to_owned()],
    }
}

/// Makes one call of calls of the same script, each for one of the locks `names`.
pub(super) fn list(calls: &[Call], names: &[&str]) -> Call {
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
