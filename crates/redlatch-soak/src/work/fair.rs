//! The fair lock.

use fastrand::Rng;
use redlatch::{Client, FairLockGuard, Held};

use super::{Bench, Crew, Entry, Kind, Visit, Wanted, any, given};
use crate::any_guard::any_guards;

/// The fair lock.
pub(super) struct Fair;

impl Kind for Fair {
    fn start(&self, crew: &mut Crew<'_>) {
        crew.repeat(6, round);
    }

    fn visit<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        Box::pin(async move {
            let guard = client.fair_lock(name).lock().await?;
            guard.release().await.map(drop)
        })
    }
}

any_guards! {
    FairLockGuard, |guard| Held::token(guard).as_u64();
}

async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "fair");
    let lock = bench.client(&mut random).fair_lock(&name);
    let given = given!(
        &bench,
        &mut random,
        Wanted::of("fair", &name),
        lock.lock(),
        lock.try_lock(),
        |wait| lock.try_lock_for(wait)
    );
    if let Some((asked, guard)) = given {
        let entry = Entry::exclusive("fair");
        bench.hold(&mut random, entry, asked, guard).await;
    }
}
