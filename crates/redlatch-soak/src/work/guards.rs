//! The rounds of the kinds whose holds are guards.

use fastrand::Rng;
use redlatch::{Client, Durability, Held, MultiGuard};
use redlatch_tests::hold::held;

use super::{Bench, Wanted, any, millis};
use crate::{
    clock::now,
    names,
    record::{Hold, Record},
};

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
    let Some((hold, guard)) = given else { return };
    if random.u8(..4) == 0 {
        // The lease is no longer than others. If a failover forgets the release, the name is
        // blocked for as long.
        let lease = millis(&mut random, 1_000..3_000);
        let again = lock.try_lock().owner(guard.owner());
        let again = again.renewed_lease(lease);
        let inner = bench.attempt(&mut random, what, again).await;
        // After a loss it may be another hold of the same owner.
        if let Some((mut again, inner)) = inner
            && inner.token() == guard.token()
        {
            again.owner = hold.owner;
            bench.give_back(&mut random, again, held(inner)).await;
        }
    }
    bench.keep(&mut random, hold, held(guard)).await;
}

/// Keeps a name of its own for 5 to 20 s at a time, so that many faults hit a hold that lasts.
pub(super) async fn kept(bench: Bench, mut random: Rng, at: usize) {
    let name = names::name("kept", at);
    while bench.goes_on() {
        let lock = bench.client(&mut random).lock(&name);
        let lease = millis(&mut random, 10_000..12_000);
        let what = Wanted::of("kept", &name);
        let given = lock.lock().renewed_lease(lease);
        let Some((mut hold, guard)) = bench.acquire(&mut random, what, given).await else {
            continue;
        };
        let (guard, end) = (held(guard), now() + random.u64(5_000_000..20_000_000));
        while hold.look(&*guard) && now() < end && bench.goes_on() {
            tokio::time::sleep(millis(&mut random, 10..40)).await;
        }
        bench.give_back(&mut random, hold, guard).await;
    }
}

/// Takes a fair lock.
pub(super) async fn fair(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "fair");
    let lock = bench.client(&mut random).fair_lock(&name);
    let what = Wanted::of("fair", &name);
    let given = given!(bench, random, what, lock, [lock, try_lock, try_lock_for]);
    bench.keep_granted(&mut random, given).await;
}

/// Takes a plain lock that replicas have to confirm.
pub(super) async fn durable(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "durable");
    let lock = bench.client(&mut random).lock(&name);
    let all = Durability::Replicas(bench.replicas);
    let what = Wanted {
        durable: true,
        ..Wanted::of("durable", &name)
    };
    let given = given!(
        bench,
        random,
        what,
        lock,
        [lock, try_lock, try_lock_for],
        durability = all
    );
    bench.keep_granted(&mut random, given).await;
}

/// Takes a side of a read-write lock.
pub(super) async fn sides(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "rw");
    let lock = bench.client(&mut random).read_write_lock(&name);
    if random.u8(..4) > 0 {
        let what = Wanted::of("read", &name).units(1, EVERYBODY);
        let given = given!(bench, random, what, lock, [read, try_read, try_read_for]);
        return bench.keep_granted(&mut random, given).await;
    }
    let what = Wanted::of("write", &name).units(EVERYBODY, EVERYBODY);
    let given = given!(bench, random, what, lock, [write, try_write, try_write_for]);
    bench.keep_granted(&mut random, given).await;
}

/// Takes some permits of a semaphore.
pub(super) async fn semaphore(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "semaphore");
    let semaphore = bench.client(&mut random).semaphore(&name);
    let semaphore = semaphore.permits_if_unset(PERMITS);
    let units = random.u32(1..=PERMITS);
    let given = given!(
        bench,
        random,
        Wanted::of("semaphore", &name).units(units, PERMITS),
        semaphore,
        [acquire_many, try_acquire_many, try_acquire_many_for],
        units = units
    );
    bench.keep_granted(&mut random, given).await;
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
    if let Some((hold, guard)) = given {
        let part = |part: &Held| (part.name().to_owned(), part.token().as_u64());
        let parts: Vec<_> = guard.members().iter().map(part).collect();
        let hold = bench.hold(&mut random, hold, held(guard)).await;
        for (name, token) in parts {
            let hold = hold.clone();
            bench.history.add(Record::Hold(Hold {
                name,
                token,
                ..hold
            }));
        }
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
    let given = bench.attempt(&mut random, what, given).await;
    bench.keep_granted(&mut random, given).await;
}

/// A number greater than that of all readers.
const EVERYBODY: u32 = 1_000;

/// The number of permits of each semaphore.
pub(crate) const PERMITS: u32 = 3;
