//! The rounds of the kinds whose holds are guards.

use fastrand::Rng;
use redlatch::{Client, Durability, Held, MultiGuard};
use redlatch_tests::hold::held;

use super::{Asked, Belief, Bench, Entry, Wanted, any, millis};
use crate::names;

/// Chooses one of the three methods to acquire, with one of the two kinds of lease.
macro_rules! given {
    (
        $bench:expr, $random:expr, $what:expr, $on:expr,
        [$wait:ident, $attempt:ident, $attempt_for:ident]
        $(, units = $units:expr)? $(, durability = $durability:expr)?
    ) => {{
        let (bench, random): (&Bench, &mut Rng) = (&$bench, &mut $random);
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
                    $builder$(.durability($durability))?.renewed_lease(lease)
                } else {
                    $builder$(.durability($durability))?.lease(lease)
                }
            };
        }
        match random.u8(..5) {
            0 => {
                let attempt = with_lease!($on.$attempt($($units)?));
                bench.attempt(random, what, attempt).await
            }
            1 => {
                let wait = millis(random, 0..500);
                let attempt = with_lease!($on.$attempt_for($($units,)? wait));
                bench.attempt(random, what, attempt).await
            }
            _ => {
                let acquisition = with_lease!($on.$wait($($units)?));
                bench.acquire(random, what, acquisition).await
            }
        }
    }};
}

/// Takes a plain lock, and enters it again at times.
pub(super) async fn lock(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "lock");
    let lock = bench.client(&mut random).lock(&name);
    let what = Wanted::of("lock", &name);
    let given = given!(bench, random, what, lock, [lock, try_lock, try_lock_for]);
    let Some((asked, guard)) = given else { return };
    if random.u8(..4) == 0 {
        // The lease is no longer than others. If a failover forgets the release, the name is
        // blocked for as long.
        let lease = millis(&mut random, 1_000..3_000);
        let again = lock.try_lock().owner(guard.owner());
        let again = again.renewed_lease(lease);
        let inner = bench.attempt(&mut random, what, again).await;
        // After a loss it may be another hold of the same owner.
        if let Some((again, inner)) = inner
            && inner.token() == guard.token()
        {
            let (entry, parts) = (Entry::exclusive("lock"), vec![part(&inner)]);
            let belief = Belief::since(again.granted);
            let owner = asked.owner;
            bench
                .give_back(
                    &mut random,
                    entry,
                    Asked { owner, ..again },
                    belief,
                    parts,
                    held(inner),
                )
                .await;
        }
    }
    let (entry, parts) = (Entry::exclusive("lock"), vec![part(&guard)]);
    bench
        .hold(&mut random, entry, asked, parts, held(guard))
        .await;
}

/// Takes a fair lock.
pub(super) async fn fair(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "fair");
    let lock = bench.client(&mut random).fair_lock(&name);
    let what = Wanted::of("fair", &name);
    let given = given!(bench, random, what, lock, [lock, try_lock, try_lock_for]);
    if let Some((asked, guard)) = given {
        let (entry, parts) = (Entry::exclusive("fair"), vec![part(&guard)]);
        bench
            .hold(&mut random, entry, asked, parts, held(guard))
            .await;
    }
}

/// Takes a plain lock that replicas have to confirm.
pub(super) async fn durable(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "durable");
    let lock = bench.client(&mut random).lock(&name);
    let all = Durability::Replicas(bench.replicas);
    let what = Wanted::of("durable", &name);
    let given = given!(
        bench,
        random,
        what,
        lock,
        [lock, try_lock, try_lock_for],
        durability = all
    );
    if let Some((asked, guard)) = given {
        let entry = Entry {
            durable: true,
            ..Entry::exclusive("durable")
        };
        let parts = vec![part(&guard)];
        bench
            .hold(&mut random, entry, asked, parts, held(guard))
            .await;
    }
}

/// Takes a side of a read-write lock.
pub(super) async fn sides(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "rw");
    let lock = bench.client(&mut random).read_write_lock(&name);
    if random.u8(..4) > 0 {
        let what = Wanted::of("read", &name);
        let given = given!(bench, random, what, lock, [read, try_read, try_read_for]);
        if let Some((asked, guard)) = given {
            let (entry, parts) = (Entry::units("read", 1, EVERYBODY), vec![part(&guard)]);
            bench
                .hold(&mut random, entry, asked, parts, held(guard))
                .await;
        }
        return;
    }
    let what = Wanted::of("write", &name);
    let given = given!(bench, random, what, lock, [write, try_write, try_write_for]);
    if let Some((asked, guard)) = given {
        let entry = Entry::units("write", EVERYBODY, EVERYBODY);
        let parts = vec![part(&guard)];
        bench
            .hold(&mut random, entry, asked, parts, held(guard))
            .await;
    }
}

/// Takes some permits of a semaphore.
pub(super) async fn semaphore(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "semaphore");
    let semaphore = bench.client(&mut random).semaphore(&name);
    let semaphore = semaphore.permits_if_unset(PERMITS);
    let units = random.u32(1..=PERMITS);
    let what = Wanted::of("semaphore", &name);
    let given = given!(
        bench,
        random,
        what,
        semaphore,
        [acquire_many, try_acquire_many, try_acquire_many_for],
        units = units
    );
    if let Some((asked, guard)) = given {
        let entry = Entry::units("semaphore", units, PERMITS);
        let parts = vec![(name, 0)];
        bench
            .hold(&mut random, entry, asked, parts, held(guard))
            .await;
    }
}

/// Takes two of the plain locks together.
pub(super) async fn multi(bench: Bench, mut random: Rng) {
    let client = bench.client(&mut random).clone();
    let mut numbers: Vec<_> = (0..names::count("lock")).collect();
    random.shuffle(&mut numbers);
    let both = [0, 1].map(|at| names::name("lock", numbers[at]));
    let locks = both.each_ref().map(|name| client.lock(name));
    let multi = client.multi_lock(&[&locks[0], &locks[1]]);
    let what = Wanted::all("multi", &both);
    let given: Option<(_, MultiGuard)> =
        given!(bench, random, what, multi, [lock, try_lock, try_lock_for]);
    if let Some((asked, guard)) = given {
        let parts = guard.members().iter().map(part).collect();
        let entry = Entry::exclusive("multi");
        bench
            .hold(&mut random, entry, asked, parts, held(guard))
            .await;
    }
}

/// Takes a lock over a quorum of servers, one of which has all names.
pub(super) async fn red(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "red");
    let clients: &Vec<Client> = &bench.nodes[random.usize(..bench.nodes.len())];
    let lock = clients[0].red_lock(&name, &clients[1..]);
    let lease = millis(&mut random, 500..3_000);
    let wait = millis(&mut random, 100..2_000);
    let given = lock.try_lock_for(wait).lease(lease);
    let what = Wanted::of("red", &name);
    if let Some((asked, guard)) = bench.attempt(&mut random, what, given).await {
        // Its waiters retry after pauses, so there is no hand-off to measure.
        let entry = Entry {
            notifies: false,
            ..Entry::exclusive("red")
        };
        let parts = vec![(name, 0)];
        bench
            .hold(&mut random, entry, asked, parts, held(guard))
            .await;
    }
}

/// Returns the name of a hold, and its token.
pub(crate) fn part(guard: &Held) -> (String, u64) {
    (guard.name().to_owned(), guard.token().as_u64())
}

/// A number greater than that of all readers.
const EVERYBODY: u32 = 1_000;

/// The number of permits of each semaphore.
pub(crate) const PERMITS: u32 = 3;
