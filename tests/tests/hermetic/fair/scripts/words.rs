//! Calls in the words of the scripts' headers, on one name.

use redlatch_lua::FAIR;

use crate::scripts::bed::{Call, key, parts};

/// The one name.
pub(super) const NAME: &str = "x";

pub(super) fn queue() -> String {
    format!("{}:q", key(NAME))
}

pub(super) fn lives() -> String {
    format!("{}:l", key(NAME))
}

fn keys() -> Vec<String> {
    vec![key(NAME), queue(), lives()]
}

/// Arguments of `acquire`.
#[derive(Clone, Debug)]
pub(super) struct Acquire {
    pub(super) by: u64,
    pub(super) owner: String,
    pub(super) attempt: String,
    pub(super) lease: u64,
    pub(super) retention: u64,
    pub(super) register: Option<u64>,
    pub(super) address: String,
}

impl Acquire {
    pub(super) fn call(&self) -> Call {
        Call {
            script: &FAIR.exclusive.acquire,
            keys: keys(),
            args: vec![
                self.by.to_string(),
                String::new(),
                self.lease.to_string(),
                (self.lease + self.retention).to_string(),
                String::new(),
                self.owner.clone(),
                self.attempt.clone(),
                self.register.map(|ms| ms.to_string()).unwrap_or_default(),
                self.address.clone(),
            ],
        }
    }
}

/// Arguments of `release`; a token of zero is not known.
#[derive(Clone, Debug)]
pub(super) struct Release {
    pub(super) owner: String,
    pub(super) attempt: String,
    pub(super) void: Option<u64>,
    pub(super) keep: u64,
    pub(super) address: String,
    pub(super) token: u64,
}

impl Release {
    pub(super) fn call(&self) -> Call {
        let token = (self.token > 0).then(|| self.token.to_string());
        Call {
            script: &FAIR.exclusive.release,
            keys: keys(),
            args: vec![
                String::new(),
                self.keep.to_string(),
                self.owner.clone(),
                self.attempt.clone(),
                self.void.map(|by| by.to_string()).unwrap_or_default(),
                self.address.clone(),
                token.unwrap_or_default(),
            ],
        }
    }
}

pub(super) fn renew(by: u64, owner: &str, lease: u64, retention: u64, token: u64) -> Call {
    let (client, number) = parts(owner);
    Call {
        script: &FAIR.exclusive.renew,
        keys: vec![key(NAME)],
        args: vec![
            by.to_string(),
            client,
            lease.to_string(),
            (lease + retention).to_string(),
            number,
            token.to_string(),
        ],
    }
}

pub(super) fn force(token: u64, how: &str, keep: u64) -> Call {
    Call {
        script: &FAIR.exclusive.force,
        keys: keys(),
        args: vec![
            token.to_string(),
            how.to_owned(),
            keep.to_string(),
            String::new(),
        ],
    }
}
