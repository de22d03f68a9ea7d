//! The process that is killed. No other process knows until when it believed in a hold, so it
//! reports its belief all the time.

use std::{panic, process, time::Duration};

use crate::record::{Hold, Record};
use fastrand::Rng;
use redlatch::{Client, Error};
use redlatch_tests::hold::{self, held};

use crate::{
    clock::now,
    work::{Belief, Entry, PERMITS, any, millis, part},
};

/// Acquires and releases until it is killed. Returns only with an error.
pub(crate) async fn run(url: &str, seed: u64) -> Result<(), Error> {
    end_with_any_panic();
    let client = Client::connect(url).await?;
    let workers = (1..5).map(|at| {
        let (client, random) = (client.clone(), Rng::with_seed(seed + at));
        work(client, random, at << 32)
    });
    futures_util::future::join_all(workers).await;
    Ok(())
}

/// Ends the process at any panic. No code joins the library's own tasks, and a panic there would
/// look like any other death.
fn end_with_any_panic() {
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        told(info);
        process::exit(PANICKED);
    }));
}

async fn work(client: Client, mut random: Rng, mut id: u64) {
    loop {
        id += 1;
        let asked = now();
        let lease = millis(&mut random, 1_000..3_000);
        match random.u8(..3) {
            0 => {
                let lock = client.lock(any(&mut random, "lock"));
                if let Ok(guard) = lock.lock().renewed_lease(lease).await {
                    let entry = Entry::exclusive("lock of a victim");
                    tell(entry, (id, asked), part(&guard), held(guard)).await;
                }
            }
            1 => {
                let lock = client.fair_lock(any(&mut random, "fair"));
                if let Ok(guard) = lock.lock().lease(lease).await {
                    let entry = Entry::exclusive("fair of a victim");
                    tell(entry, (id, asked), part(&guard), held(guard)).await;
                }
            }
            _ => {
                let name = any(&mut random, "semaphore");
                let semaphore = client.semaphore(&name).permits_if_unset(PERMITS);
                if let Ok(guard) = semaphore.acquire().renewed_lease(lease).await {
                    let entry = Entry::units("semaphore of a victim", 1, PERMITS);
                    tell(entry, (id, asked), (name, 0), held(guard)).await;
                }
            }
        }
        tokio::time::sleep(millis(&mut random, 10..200)).await;
    }
}

/// Holds for a while, and reports all the while that it does.
async fn tell(
    entry: Entry,
    (id, asked): (u64, u64),
    (name, token): (String, u64),
    guard: Box<dyn hold::Hold>,
) {
    let from = now();
    let mut belief = Belief::since(from);
    for _ in 0..20 {
        if !belief.look(&*guard) {
            break;
        }
        let hold = Hold {
            id,
            owner: id,
            process: process::id(),
            kind: entry.kind.replace(' ', "-"),
            name: name.clone(),
            units: entry.units,
            limit: entry.limit,
            token,
            asked,
            from,
            until: belief.until,
            deadline: belief.deadline,
            gone: 0,
            durable: false,
        };
        if let Ok(line) = Record::Hold(hold).line() {
            println!("{line}");
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    // The process goes on or is killed; the result does not matter.
    let _ = guard.give_back().await;
}

/// The exit code of a process with a panic.
pub(crate) const PANICKED: i32 = 70;
