//! The read-write lock.

use fastrand::Rng;
use redlatch::{Client, ReadGuard, WriteGuard};

use super::{Bench, Crew, Entry, Kind, Visit, Wanted, any, given};
use crate::any_guard::any_guards;

/// The read-write lock.
pub(super) struct ReadWrite;

impl Kind for ReadWrite {
    fn start(&self, crew: &mut Crew<'_>) {
        crew.repeat(8, round);
    }

    fn visit<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        Box::pin(async move {
            let guard = client.read_write_lock(name).write().await?;
            guard.release().await.map(drop)
        })
    }
}

any_guards! {
    WriteGuard, |guard| guard.token().as_u64();
    ReadGuard, |_| 0;
}

async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "rw");
    let lock = bench.client(&mut random).read_write_lock(&name);
    let entry = |units| Entry {
        kind: if units == 1 { "read" } else { "write" },
        units,
        limit: EVERYBODY,
        durable: false,
    };
    if random.u8(..4) > 0 {
        let given = given!(
            &bench,
            &mut random,
            Wanted::of("read", &name),
            lock.read(),
            lock.try_read(),
            |wait| lock.try_read_for(wait)
        );
        if let Some((asked, guard)) = given {
            bench.hold(&mut random, entry(1), asked, guard).await;
        }
        return;
    }
    let given = given!(
        &bench,
        &mut random,
        Wanted::of("write", &name),
        lock.write(),
        lock.try_write(),
        |wait| lock.try_write_for(wait)
    );
    if let Some((asked, guard)) = given {
        let entry = entry(EVERYBODY);
        bench.hold(&mut random, entry, asked, guard).await;
    }
}

/// A number greater than that of all readers.
const EVERYBODY: u32 = 1_000;
