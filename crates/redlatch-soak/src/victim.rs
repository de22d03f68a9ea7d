//! The process that is killed. No other process knows until when it believed in a hold, so it
//! reports its belief all the time.

use std::{panic, process, time::Duration};

use crate::record::{Hold, Record};
use fastrand::Rng;
use redlatch::{Client, Error};
use redlatch_tests::hold::{self, held};

use crate::{
    clock::now,
    work::{PERMITS, any, millis},
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
        let (kind, limit) = [("lock", 1), ("fair", 1), ("semaphore", PERMITS)][random.usize(..3)];
        let name = any(&mut random, kind);
        let given = match kind {
            "lock" => {
                let lock = client.lock(&name);
                lock.lock().renewed_lease(lease).await.map(held)
            }
            "fair" => {
                let lock = client.fair_lock(&name);
                lock.lock().lease(lease).await.map(held)
            }
            _ => {
                let semaphore = client.semaphore(&name).permits_if_unset(PERMITS);
                semaphore.acquire().renewed_lease(lease).await.map(held)
            }
        };
        if let Ok(guard) = given {
            let hold = Hold {
                id,
                owner: id,
                process: process::id(),
                limit,
                ..Hold::granted(&format!("{kind}-of-a-victim"), &name, asked)
            };
            tell(hold, guard).await;
        }
        tokio::time::sleep(millis(&mut random, 10..200)).await;
    }
}

/// Holds for a while, and reports all the while that it does.
async fn tell(mut hold: Hold, guard: Box<dyn hold::Hold>) {
    hold.token = guard.fence().unwrap_or(0);
    for _ in 0..20 {
        if !hold.look(&*guard) {
            break;
        }
        if let Ok(line) = Record::Hold(hold.clone()).line() {
            println!("{line}");
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    // The process goes on or is killed; the result does not matter.
    let _ = guard.give_back().await;
}

/// The exit code of a process with a panic.
pub(crate) const PANICKED: i32 = 70;
