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
        let hold = |kind, name: &str| Hold {
            id,
            owner: id,
            process: process::id(),
            ..Hold::granted(kind, name, asked)
        };
        match random.u8(..3) {
            0 => {
                let name = any(&mut random, "lock");
                let lock = client.lock(&name);
                if let Ok(guard) = lock.lock().renewed_lease(lease).await {
                    tell(hold("lock-of-a-victim", &name), held(guard)).await;
                }
            }
            1 => {
                let name = any(&mut random, "fair");
                let lock = client.fair_lock(&name);
                if let Ok(guard) = lock.lock().lease(lease).await {
                    tell(hold("fair-of-a-victim", &name), held(guard)).await;
                }
            }
            _ => {
                let name = any(&mut random, "semaphore");
                let semaphore = client.semaphore(&name).permits_if_unset(PERMITS);
                if let Ok(guard) = semaphore.acquire().renewed_lease(lease).await {
                    let limit = PERMITS;
                    let hold = hold("semaphore-of-a-victim", &name);
                    tell(Hold { limit, ..hold }, held(guard)).await;
                }
            }
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
