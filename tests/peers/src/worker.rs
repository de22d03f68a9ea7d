//! The Rust worker. `clients/python/tests/peer.py` is its twin.

use std::{error::Error, time::Duration};

use redlatch::{Client, Held, Lockable};
use rustix::time::{ClockId, clock_gettime};

/// Returns the monotonic clock of the machine, in ns.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or_default()
}

/// Takes and releases the lock again and again until it is killed, and prints its history.
///
/// `args`: URL, name, `plain` or `fair`, lease in ms.
pub(crate) async fn work(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [url, name, kind, lease] = args else {
        return Err("worker: URL NAME plain|fair LEASE".into());
    };
    let lease = Duration::from_millis(lease.parse()?);
    let client = Client::connect(url).await?;
    let lock: Box<dyn Lockable> = if kind == "fair" {
        Box::new(client.fair_lock(name))
    } else {
        Box::new(client.lock(name))
    };
    loop {
        let guard = lock.lock().renewed_lease(lease).await?;
        hold(&guard).await;
        guard.release().await?;
    }
}

/// Believes in the hold for a few ms, and prints until when.
async fn hold(held: &Held) {
    // One in eight is long enough to be caught by whoever suspends or kills.
    let planned = if fastrand::u8(0..8) == 0 {
        30
    } else {
        fastrand::u64(0..5)
    };
    // A belief has the time before the look: the process may be suspended behind it.
    let mut believed = now();
    if held.check().is_err() {
        return;
    }
    println!("granted {} {believed} {planned}", held.token());
    let until = believed + planned * 1_000_000;
    let mut looked = believed;
    while looked < until {
        if held.check().is_err() {
            println!("lost {believed}");
            return;
        }
        believed = looked;
        tokio::time::sleep(Duration::from_millis(1)).await;
        looked = now();
    }
    let at = now();
    match held.check() {
        Ok(()) => println!("released {at}"),
        Err(_) => println!("lost {believed}"),
    }
}
