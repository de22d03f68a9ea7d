//! The plain lock, entered again by some holders.

use fastrand::Rng;
use redlatch::{Client, Held, LockGuard};

use super::{Bench, Crew, Entry, Kind, Visit, Wanted, any, given, millis, visit_lock};
use crate::any_guard::any_guards;

/// The plain lock.
pub(super) struct Plain;

impl Kind for Plain {
    fn start(&self, crew: &mut Crew<'_>) {
        crew.repeat(8, round);
    }

    fn visit<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        visit_lock(client, name)
    }
}

any_guards! {
    LockGuard, |guard| Held::token(guard).as_u64();
}

async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "lock");
    let lock = bench.client(&mut random).lock(&name);
    let given = given!(
        &bench,
        &mut random,
        Wanted::of("lock", &name),
        lock.lock(),
        lock.try_lock(),
        |wait| lock.try_lock_for(wait)
    );
    let Some((asked, guard)) = given else { return };
    if random.u8(..4) == 0 {
        // The lease is no longer than others. If a failover forgets the release, the name is
        // blocked for as long.
        let lease = millis(&mut random, 1_000..3_000);
        let again = lock.try_lock().owner(guard.owner());
        let again = again.renewed_lease(lease);
        let what = Wanted::of("lock", &name).bounded();
        let inner = bench.acquire(&mut random, what, again).await;
        // After a loss it may be another hold of the same owner.
        if let Some((_, Some(inner))) = inner
            && inner.token() == guard.token()
        {
            let released = bench.bounded("to release", inner.release()).await;
            bench.history.note(released.transpose());
        }
    }
    let entry = Entry::exclusive("lock");
    bench.hold(&mut random, entry, asked, guard).await;
}
