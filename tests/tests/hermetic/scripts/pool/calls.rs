//! Calls of the pool's scripts that no other kind has, in the words of their headers.

use redlatch_lua::POOL;

use crate::scripts::{calls::KIND, prelude::*};

/// An attempt of a client at so many permits, which waits.
pub(crate) fn waiting(bed: &Bed, client: &str, n: u64, need: u64) -> Call {
    let ask = Ask::new(Of::Permits, bed, client, n).need(need);
    ask.waiting().call()
}

/// Sends it, and returns the answer without the time.
pub(crate) fn wait(bed: &mut Bed, n: u64, client: &str, need: u64) -> Vec<String> {
    bed.ask(&waiting(bed, client, n, need)).split_off(1)
}

/// Returns the waiters that were notified, by number.
pub(crate) fn notified(bed: &mut Bed) -> Vec<u64> {
    let published = bed.published().into_iter();
    published
        .map(|(_, payload)| payload.rsplit_once(' ').unwrap().1.parse().unwrap())
        .collect()
}

/// Takes back all of a hold, for a client that passes nothing on.
pub(crate) fn release(hold: &str) -> Call {
    let args = ["", KIND, "10000", "", "", "", "0", "0", hold];
    call(&POOL.release, 4, &args)
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
pub(crate) fn set(bed: &mut Bed, op: &str, size: u64) {
    let number = i64::try_from(size).unwrap();
    let call = change(bed.millis() + 5_000, op, "set", number, "");
    assert_eq!(bed.ask(&call)[1..], ["done", &size.to_string()]);
}

pub(crate) fn inspect() -> Call {
    call(&POOL.inspect, 4, &[KIND, ""])
}

pub(crate) fn call(script: &'static Source, keys: usize, args: &[&str]) -> Call {
    let all = ["", ":d", ":q", ":l", ":o", ":p"];
    let keys = all[..keys].iter().map(|part| format!("{}{part}", key("x")));
    Call::new(script, keys.collect(), args)
}
