//! The semaphore.

use fastrand::Rng;
use redlatch::{Client, SemaphorePermit};

use super::{Bench, Crew, Entry, Kind, Visit, Wanted, any, given};
use crate::any_guard::any_guards;

/// The semaphore.
pub(super) struct Permits;

impl Kind for Permits {
    fn start(&self, crew: &mut Crew<'_>) {
        crew.repeat(6, round);
    }

    fn visit<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        Box::pin(async move {
            let semaphore = client.semaphore(name).permits_if_unset(PERMITS);
            let guard = semaphore.acquire_many(PERMITS).await?;
            guard.release().await.map(drop)
        })
    }

    fn delete<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        Box::pin(async move { client.semaphore(name).delete().await.map(drop) })
    }
}

any_guards! {
    SemaphorePermit, |_| 0;
}

async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "semaphore");
    let semaphore = bench.client(&mut random).semaphore(&name);
    let semaphore = semaphore.permits_if_unset(PERMITS);
    let units = random.u32(1..=PERMITS);
    let given = given!(
        &bench,
        &mut random,
        Wanted::of("semaphore", &name),
        semaphore.acquire_many(units),
        semaphore.try_acquire_many(units),
        |wait| semaphore.try_acquire_many_for(units, wait)
    );
    if let Some((asked, guard)) = given {
        let entry = entry("semaphore", units);
        bench.hold(&mut random, entry, asked, guard).await;
    }
}

/// Describes a hold of permits.
pub(super) const fn entry(kind: &'static str, units: u32) -> Entry {
    Entry {
        kind,
        units,
        limit: PERMITS,
        durable: false,
    }
}

/// The number of permits of each semaphore.
pub(crate) const PERMITS: u32 = 3;
