//! Calls of the pool's scripts in the words of their headers.

use redlatch_lua::{POOL, Source};

use crate::scripts::bed::{Bed, Call, key, optional, parts, queue};

pub(crate) const KIND: &str = "semaphore:1";

/// Arguments of `acquire`.
#[derive(Clone, Debug)]
pub(crate) struct Acquire<'a> {
    pub(crate) by: u64,
    pub(crate) attempt: &'a str,
    pub(crate) need: u64,
    pub(crate) lease: u64,
    pub(crate) size: Option<u64>,
    pub(crate) alive: Option<u64>,
    pub(crate) address: &'a str,
    /// The order with which a release may grant it, or ''.
    pub(crate) order: &'a str,
    pub(crate) each: bool,
}

impl<'a> Acquire<'a> {
    /// One hold of `need` permits, for a minute, without waiting.
    pub(crate) fn new(bed: &Bed, attempt: &'a str, need: u64) -> Self {
        Self {
            by: bed.millis() + 5_000,
            attempt,
            need,
            lease: 60_000,
            size: None,
            alive: None,
            address: "",
            order: "",
            each: false,
        }
    }

    /// The same, waiting at `address`.
    pub(crate) fn waiting(self, address: &'a str) -> Self {
        Self {
            alive: Some(5_000),
            address,
            ..self
        }
    }

    pub(crate) fn call(&self) -> Call {
        let member = match self.address {
            "" => String::new(),
            address => member(address, self.need, self.order),
        };
        let (client, attempt) = parts(self.attempt);
        call(
            &POOL.acquire,
            4,
            &[
                &self.by.to_string(),
                &client,
                KIND,
                &self.lease.to_string(),
                &attempt,
                &self.need.to_string(),
                &optional(self.size),
                &optional(self.alive),
                &member,
                if self.each { "1" } else { "" },
            ],
        )
    }
}

/// Returns the request of waiter `n` of a client.
pub(crate) fn waiting(bed: &Bed, client: &str, n: u64, need: u64) -> Call {
    let (attempt, address) = (format!("{client}:{n}"), format!("PUBLISH w:{client} {n}"));
    Acquire::new(bed, &attempt, need).waiting(&address).call()
}

/// Sends it, and returns the answer without the time.
pub(crate) fn wait(bed: &mut Bed, n: u64, client: &str, need: u64) -> Vec<String> {
    let call = waiting(bed, client, n, need);
    bed.ask(&call).split_off(1)
}

/// Returns the waiters that were notified, by number.
pub(crate) fn notified(bed: &mut Bed) -> Vec<u64> {
    let published = bed.published().into_iter();
    published
        .map(|(_, payload)| payload.rsplit_once(' ').unwrap().1.parse().unwrap())
        .collect()
}

/// Returns a member of the queue.
pub(crate) fn member(address: &str, need: u64, order: &str) -> String {
    match order {
        "" => format!("{address} {need}"),
        order => format!("{address} {need} {order}"),
    }
}

pub(crate) fn renew(by: u64, lease: u64, holds: &[&str]) -> Call {
    let (by, lease) = (by.to_string(), lease.to_string());
    let mut args = vec![by.as_str(), "", KIND, &lease];
    args.extend(holds);
    let mut call = call(&POOL.renew, 1, &args);
    call.keys = vec![call.keys[0].clone(); holds.len()];
    call
}

/// Arguments of `release`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Release<'a> {
    pub(crate) attempt: &'a str,
    pub(crate) void: Option<u64>,
    pub(crate) waiter: &'a str,
    pub(crate) left: u64,
    pub(crate) forgotten: u64,
    pub(crate) holds: &'a [&'a str],
}

impl Release<'_> {
    pub(crate) fn call(&self) -> Call {
        let (left, forgotten) = (self.left.to_string(), self.forgotten.to_string());
        let (client, attempt) = parts(self.attempt);
        let short = |hold: &&str| match hold.strip_prefix(&*client) {
            Some(rest) if rest.starts_with(':') => rest.to_owned(),
            _ => (*hold).to_owned(),
        };
        let holds: Vec<_> = self.holds.iter().map(short).collect();
        let holds = holds.join(" ");
        let (void, waiter) = (optional(self.void), self.waiter);
        let args = [
            &*client, KIND, "10000", &attempt, &void, waiter, &left, &forgotten, &holds,
        ];
        call(&POOL.release, 4, &args)
    }
}

/// Makes one call of calls of one script, whose shared arguments are equal.
pub(crate) fn list(calls: &[Call]) -> Call {
    let form = calls[0].script.list.unwrap();
    let mut all = calls[0].clone();
    for call in &calls[1..] {
        assert_eq!(call.args[..form.shared], all.args[..form.shared]);
        all.keys.extend(call.keys.iter().cloned());
        all.args.extend(call.args[form.shared..].iter().cloned());
    }
    all
}

pub(crate) fn release(hold: &str) -> Call {
    let holds = [hold];
    let it = Release {
        holds: &holds,
        ..Release::default()
    };
    it.call()
}

pub(crate) fn change(by: u64, op: &str, verb: &str, number: i64, ttl: &str) -> Call {
    let (by, number) = (by.to_string(), number.to_string());
    call(
        &POOL.change,
        6,
        &[&by, KIND, op, "30000", verb, &number, ttl],
    )
}

/// Sets the size at once.
pub(crate) fn set(bed: &mut Bed, op: &str, size: i64) {
    let call = change(bed.millis() + 5_000, op, "set", size, "");
    assert_eq!(bed.ask(&call)[1..], ["done", &size.to_string()]);
}

pub(crate) fn inspect(size: Option<u64>) -> Call {
    call(&POOL.inspect, 4, &[KIND, &optional(size)])
}

pub(crate) fn call(script: &'static Source, keys: usize, args: &[&str]) -> Call {
    let all = ["", ":d", ":q", ":l", ":o", ":p"];
    let keys = all[..keys].iter().map(|part| format!("{}{part}", key("x")));
    Call::new(script, keys.collect(), args)
}

pub(crate) fn index() -> String {
    format!("{}:d", key("x"))
}

pub(crate) fn clients() -> String {
    format!("{}:l", key("x"))
}

pub(crate) fn tickets() -> String {
    queue("x")
}
