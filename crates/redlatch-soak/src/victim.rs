//! The process that is killed. No other process knows until when it believed in a hold, so it
//! reports its belief all the time.

use std::{panic, process, time::Duration};

use fastrand::Rng;
use redlatch::{Client, Error};

use crate::{
    any_guard::AnyGuard,
    clock::now,
    names,
    record::{Hold, Record},
    work::{Entry, PERMITS, millis},
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
        let any = |random: &mut Rng, stem| names::name(stem, random.usize(..names::count(stem)));
        let lease = millis(&mut random, 1_000..3_000);
        match random.u8(..3) {
            0 => {
                let lock = client.lock(any(&mut random, "lock"));
                if let Ok(guard) = lock.lock().renewed_lease(lease).await {
                    tell(Entry::exclusive("lock of a victim"), (id, asked), guard).await;
                }
            }
            1 => {
                let lock = client.fair_lock(any(&mut random, "fair"));
                if let Ok(guard) = lock.lock().lease(lease).await {
                    tell(Entry::exclusive("fair of a victim"), (id, asked), guard).await;
                }
            }
            _ => {
                let semaphore = client.semaphore(any(&mut random, "semaphore"));
                let semaphore = semaphore.permits_if_unset(PERMITS);
                if let Ok(guard) = semaphore.acquire().renewed_lease(lease).await {
                    let entry = Entry {
                        limit: PERMITS,
                        ..Entry::exclusive("semaphore of a victim")
                    };
                    tell(entry, (id, asked), guard).await;
                }
            }
        }
        tokio::time::sleep(millis(&mut random, 10..200)).await;
    }
}

/// Holds for a while, and reports all the while that it does.
async fn tell<G: AnyGuard>(entry: Entry, (id, asked): (u64, u64), guard: G) {
    let from = now();
    let (name, token) = guard.parts().swap_remove(0);
    for _ in 0..20 {
        let until = now();
        if !guard.valid() {
            break;
        }
        let hold = Hold {
            id,
            kind: entry.kind.replace(' ', "-"),
            name: name.clone(),
            units: entry.units,
            limit: entry.limit,
            token,
            asked,
            from,
            until,
            gone: 0,
            durable: false,
        };
        println!("{}", Record::Hold(hold));
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    // The process goes on or is killed; the result does not matter.
    let _ = guard.give_back().await;
}

/// The exit code of a process with a panic.
pub(crate) const PANICKED: i32 = 70;
