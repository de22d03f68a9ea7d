//! Workers for all primitives that are acquired.

use std::future::Future;

use fastrand::Rng;
use redlatch::{Client, Durability};
use tokio::task::JoinSet;

use super::{Asked, Bench, Entry, Wanted, millis};
use crate::{
    any_guard::{Permit, Red},
    clock::now,
    names,
};

pub(super) fn start(bench: &Bench, random: &mut Rng, workers: &mut JoinSet<()>) {
    repeat(bench, random, workers, 8, lock);
    repeat(bench, random, workers, 6, fair);
    repeat(bench, random, workers, 8, read_write);
    repeat(bench, random, workers, 6, semaphore);
    repeat(bench, random, workers, 4, permits);
    repeat(bench, random, workers, 3, multi);
    if bench.replicas > 0 {
        repeat(bench, random, workers, 4, durable);
    }
    if !bench.nodes.is_empty() {
        repeat(bench, random, workers, 3, red);
    }
}

fn repeat<F>(
    bench: &Bench,
    random: &mut Rng,
    workers: &mut JoinSet<()>,
    count: usize,
    round: fn(Bench, Rng) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    for _ in 0..count {
        let (bench, mut random) = (bench.clone(), random.fork());
        workers.spawn(async move {
            while bench.goes_on() {
                round(bench.clone(), random.fork()).await;
                tokio::time::sleep(millis(&mut random, 0..40)).await;
            }
        });
    }
}

/// Chooses one of the three ways to acquire, with one of the two kinds of lease.
macro_rules! given {
    ($bench:expr, $random:expr, $what:expr, $wait:expr, $attempt:expr, $attempt_for:expr) => {{
        let (bench, random): (&Bench, &mut Rng) = ($bench, $random);
        let what: Wanted<'_> = $what;
        let renewed = random.bool();
        let lease = if renewed {
            millis(random, 1_000..3_000)
        } else {
            millis(random, 100..3_000)
        };
        macro_rules! with_lease {
            ($builder:expr) => {
                if renewed {
                    $builder.renewed_lease(lease)
                } else {
                    $builder.lease(lease)
                }
            };
        }
        match random.u8(..5) {
            0 => {
                let attempt = with_lease!($attempt);
                let given = bench.acquire(random, what.bounded(), attempt).await;
                given.and_then(|(asked, given)| Some((asked, given?)))
            }
            1 => {
                let wait = millis(random, 0..500);
                let attempt = with_lease!($attempt_for(wait));
                let given = bench.acquire(random, what.bounded(), attempt).await;
                given.and_then(|(asked, given)| Some((asked, given?)))
            }
            _ => bench.acquire(random, what, with_lease!($wait)).await,
        }
    }};
}

async fn lock(bench: Bench, mut random: Rng) {
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

async fn fair(bench: Bench, mut random: Rng) {
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

async fn read_write(bench: Bench, mut random: Rng) {
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

async fn semaphore(bench: Bench, mut random: Rng) {
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
        let entry = permit_entry("semaphore", units);
        bench.hold(&mut random, entry, asked, guard).await;
    }
}

async fn permits(bench: Bench, mut random: Rng) {
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
        let entry = permit_entry("permits", 1);
        bench.hold(&mut random, entry, asked, permit).await;
    }
}

async fn multi(bench: Bench, mut random: Rng) {
    let client = bench.client(&mut random).clone();
    let mut numbers: Vec<_> = (0..names::count("lock")).collect();
    random.shuffle(&mut numbers);
    let both = [0, 1].map(|at| names::name("lock", numbers[at]));
    let locks = both.each_ref().map(|name| client.lock(name));
    let multi = client.multi_lock(&[&locks[0], &locks[1]]);
    let given = given!(
        &bench,
        &mut random,
        Wanted::all("multi", &both),
        multi.lock(),
        multi.try_lock(),
        |wait| multi.try_lock_for(wait)
    );
    if let Some((asked, guard)) = given {
        let entry = Entry::exclusive("multi");
        bench.hold(&mut random, entry, asked, guard).await;
    }
}

async fn durable(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "durable");
    let lock = bench.client(&mut random).lock(&name);
    let all = Durability::Replicas(bench.replicas);
    let given = given!(
        &bench,
        &mut random,
        Wanted::of("durable", &name),
        lock.lock().durability(all),
        lock.try_lock().durability(all),
        |wait| lock.try_lock_for(wait).durability(all)
    );
    if let Some((asked, guard)) = given {
        let entry = Entry {
            durable: true,
            ..Entry::exclusive("durable")
        };
        bench.hold(&mut random, entry, asked, guard).await;
    }
}

async fn red(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "red");
    let clients: &Vec<Client> = &bench.nodes[random.usize(..bench.nodes.len())];
    let lock = clients[0].red_lock(&name, &clients[1..]);
    let lease = millis(&mut random, 500..3_000);
    let wait = millis(&mut random, 100..2_000);
    let given = lock.try_lock_for(wait).lease(lease);
    let what = Wanted::of("red", &name).bounded();
    if let Some((asked, Some(guard))) = bench.acquire(&mut random, what, given).await {
        let entry = Entry::exclusive("red");
        let guard = Red(name, guard);
        bench.hold(&mut random, entry, asked, guard).await;
    }
}

fn permit_entry(kind: &'static str, units: u32) -> Entry {
    Entry {
        kind,
        units,
        limit: PERMITS,
        durable: false,
    }
}

fn any(random: &mut Rng, stem: &str) -> String {
    names::name(stem, random.usize(..names::count(stem)))
}

/// The number of permits of each semaphore.
pub(crate) const PERMITS: u32 = 3;

/// A number greater than that of all readers.
pub(crate) const EVERYBODY: u32 = 1_000;
