//! Permits with ids.

use fastrand::Rng;
use redlatch::{Client, Error, PermitExpirableSemaphore};
use redlatch_tests::hold::Ids;

use super::{Bench, PATIENCE, PERMITS, Wanted, any, millis};
use crate::{clock::now, record::Hold};

/// Takes all permits, and returns them.
pub(super) async fn visit(client: &Client, name: &str) -> Result<(), Error> {
    let permits = semaphore(client, name);
    let ids = permits.acquire_many(PERMITS).await?;
    permits.release_all(&ids).await.map(drop)
}

fn semaphore(client: &Client, name: &str) -> PermitExpirableSemaphore {
    let permits = client.permit_expirable_semaphore(name);
    permits.permits_if_unset(PERMITS)
}

pub(super) async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "permits");
    let semaphore = semaphore(bench.client(&mut random), &name);
    let lease = millis(&mut random, 100..2_000);
    let what = Wanted::of("permits", &name).units(1, PERMITS);
    let given = match random.u8(..3) {
        0 => {
            let given = semaphore.try_acquire().lease(lease);
            bench.attempt(&mut random, what, given).await
        }
        1 => {
            let wait = millis(&mut random, 0..500);
            let given = semaphore.try_acquire_for(wait).lease(lease);
            bench.attempt(&mut random, what, given).await
        }
        _ => {
            let given = semaphore.acquire().lease(lease);
            bench.acquire(&mut random, what, given).await
        }
    };
    let Some((hold, id)) = given else { return };
    let look = Ids::look(semaphore, vec![id]);
    let ids = bench.bounded("to look at a permit", PATIENCE, look).await;
    let Some(ids) = ids.and_then(|ids| bench.history.note(ids)) else {
        return;
    };
    let from = now();
    let hold = Hold {
        from,
        until: from,
        deadline: from,
        ..hold
    };
    bench.keep(&mut random, hold, Box::new(ids)).await;
}
