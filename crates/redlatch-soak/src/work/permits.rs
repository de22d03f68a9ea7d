//! Permits with ids.

use std::time::Duration;

use fastrand::Rng;
use redlatch::{Client, Error, PermitExpirableSemaphore, PermitId, permits::PermitRelease};

use super::{Asked, Bench, Crew, Kind, PERMITS, Visit, Wanted, any, millis, semaphore};
use crate::{
    any_guard::AnyGuard,
    clock::{micros, now},
};

/// The semaphore whose permits have ids.
pub(super) struct Ids;

impl Kind for Ids {
    fn start(&self, crew: &mut Crew<'_>) {
        crew.repeat(4, round);
    }

    fn visit<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        Box::pin(async move {
            let permits = client.permit_expirable_semaphore(name);
            let permits = permits.permits_if_unset(PERMITS);
            let ids = permits.acquire_many(PERMITS).await?;
            permits.release_all(&ids).await.map(drop)
        })
    }

    fn delete<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        Box::pin(async move {
            let permits = client.permit_expirable_semaphore(name);
            permits.delete().await.map(drop)
        })
    }
}

/// A permit with an id. Its holder computes the deadline: the remaining time that the server
/// reported, counted from before the request, less the margin of two clocks.
struct Permit {
    semaphore: PermitExpirableSemaphore,
    id: PermitId,
    valid_until: u64,
}

impl Permit {
    fn new(semaphore: &PermitExpirableSemaphore, id: PermitId, asked: u64, left: Duration) -> Self {
        let margin = left / 50 + Duration::from_millis(4);
        Self {
            semaphore: semaphore.clone(),
            id,
            valid_until: asked + micros(left.saturating_sub(margin)),
        }
    }
}

impl AnyGuard for Permit {
    fn valid(&self) -> bool {
        now() < self.valid_until
    }

    fn parts(&self) -> Vec<(String, u64)> {
        let name = self.semaphore.name().unwrap_or_default();
        vec![(name.to_owned(), 0)]
    }

    async fn prolong(&self, _: Duration) -> Result<(), Error> {
        Ok(())
    }

    async fn give_back(self) -> Result<bool, Error> {
        Ok(self.semaphore.release(&self.id).await? == PermitRelease::Released)
    }
}

async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "permits");
    let client = bench.client(&mut random);
    let semaphore = client.permit_expirable_semaphore(&name);
    let semaphore = semaphore.permits_if_unset(PERMITS);
    let lease = millis(&mut random, 100..2_000);
    let what = Wanted::of("permits", &name);
    let given = match random.u8(..3) {
        0 => {
            let given = semaphore.try_acquire().lease(lease);
            let given = bench.acquire(&mut random, what.bounded(), given).await;
            given.and_then(|(asked, given)| Some((asked, given?)))
        }
        1 => {
            let wait = millis(&mut random, 0..500);
            let given = semaphore.try_acquire_for(wait).lease(lease);
            let given = bench.acquire(&mut random, what.bounded(), given).await;
            given.and_then(|(asked, given)| Some((asked, given?)))
        }
        _ => {
            let given = semaphore.acquire().lease(lease);
            bench.acquire(&mut random, what, given).await
        }
    };
    if let Some((asked, id)) = given {
        // It may have been granted at any time since the request, so the server is asked for the
        // remaining time.
        let known = now();
        let left = bench.bounded("to look at a permit", semaphore.remaining(&id));
        let left = left.await.and_then(|left| bench.history.note(left));
        let Some(Some(left)) = left else { return };
        let asked = Asked {
            granted: now(),
            ..asked
        };
        let permit = Permit::new(&semaphore, id, known, left);
        let entry = semaphore::entry("permits", 1);
        bench.hold(&mut random, entry, asked, permit).await;
    }
}
