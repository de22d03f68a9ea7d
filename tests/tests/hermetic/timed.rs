//! Bounded waits for what another client keeps end with `None`, however far the server is. A
//! request that the end cuts off leaves nothing.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use redlatch::{
    Backoff, Client, Error, Lockable, MultiLock, WaitStrategy,
    compat::{Redisson, SetNx},
};
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    slow::FarTransport,
};
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);

/// Tells whether the wait has got what it was for.
type Got = BoxFuture<'static, Result<bool, Error>>;

/// What keeps a name taken.
type Hold = Box<dyn Send>;

/// A kind, how a client takes all of it, and how another waits for it.
type Kind = (
    &'static str,
    fn(Client) -> BoxFuture<'static, Hold>,
    fn(&Client, Duration) -> Got,
);

const KINDS: [Kind; 11] = [
    (
        "lock",
        |client| hold(client.lock("x").lock()),
        |client, wait| got(client.lock("x").try_lock_for(wait)),
    ),
    (
        "fair lock",
        |client| hold(client.fair_lock("x").lock()),
        |client, wait| got(client.fair_lock("x").try_lock_for(wait)),
    ),
    (
        "read",
        |client| hold(client.read_write_lock("x").write()),
        |client, wait| got(client.read_write_lock("x").try_read_for(wait)),
    ),
    (
        "write",
        |client| hold(client.read_write_lock("x").read()),
        |client, wait| got(client.read_write_lock("x").try_write_for(wait)),
    ),
    (
        "upgradable read",
        |client| hold(client.read_write_lock("x").upgradable_read()),
        |client, wait| got(client.read_write_lock("x").try_upgradable_read_for(wait)),
    ),
    (
        "semaphore",
        |client| hold(client.semaphore("x").permits_if_unset(3).acquire_many(2)),
        |client, wait| got(client.semaphore("x").try_acquire_many_for(2, wait)),
    ),
    (
        "permits",
        |client| {
            let permits = client.permit_expirable_semaphore("x").permits_if_unset(1);
            hold(permits.acquire().lease(3_600_000 * MS))
        },
        |client, wait| got(client.permit_expirable_semaphore("x").try_acquire_for(wait)),
    ),
    (
        "multi-lock",
        |client| hold(client.fair_lock("x").lock()),
        |client, wait| {
            let (free, taken) = (client.lock("a"), client.fair_lock("x"));
            let members: [&dyn Lockable; 2] = [&free, &taken];
            got(MultiLock::new(&members).try_lock_for(wait))
        },
    ),
    (
        "setnx",
        |client| hold(SetNx::redis_py(&client, "x").lock()),
        |client, wait| got(SetNx::redis_py(client, "x").try_lock_for(wait)),
    ),
    (
        "redisson",
        |client| hold(Redisson::new(&client, "x").lock()),
        |client, wait| got(Redisson::new(client, "x").try_lock_for(wait)),
    ),
    (
        "latch",
        |client| {
            let latch = client.count_down_latch("x");
            hold(async move { latch.try_set_count(1).await })
        },
        |client, wait| {
            client
                .count_down_latch("x")
                .wait_for(wait)
                .into_future()
                .boxed()
        },
    ),
];

fn hold<T: Send + 'static>(
    acquire: impl IntoFuture<Output = Result<T, Error>, IntoFuture: Send + 'static>,
) -> BoxFuture<'static, Hold> {
    let held = acquire.into_future();
    held.map(|held| Box::new(held.unwrap()) as Hold).boxed()
}

fn got<T: 'static>(
    wait: impl IntoFuture<Output = Result<Option<T>, Error>, IntoFuture: Send + 'static>,
) -> Got {
    let waited = wait.into_future();
    waited.map(|got| got.map(|got| got.is_some())).boxed()
}

#[tokio::test(start_paused = true)]
async fn busy_is_no_error_however_far_the_server_is() {
    let poll = WaitStrategy::Poll(Backoff::constant(37 * MS));
    for (kind, take, wait_for) in KINDS {
        for (round_trip, strategy) in [2, 20, 80]
            .into_iter()
            .flat_map(|round_trip| [(round_trip, WaitStrategy::Notify), (round_trip, poll)])
        {
            let backend = Backend::embedded();
            let held = take(backend.client().await).await;
            let far =
                FarTransport::new(Arc::new(backend.embedded_transport()), round_trip * MS / 2);
            let builder = backend.builder().transport(Arc::new(far));
            let client = builder.wait_strategy(strategy).connect().await.unwrap();
            let case = format!("{kind}, {round_trip} ms, {strategy:?}");
            let once = async |wait: u32| {
                let wait = wait * MS;
                let start = Instant::now();
                let got = wait_for(&client, wait).await;
                assert!(!got.unwrap_or_else(|error| panic!("{case}, {wait:?}: {error:?}")));
                let took = start.elapsed();
                assert!(took >= wait && took <= wait + 2 * MS, "{case}: {took:?}");
            };
            // One after the other, also short ones, and then all of them in one line. The first
            // one sends the text of the script.
            let short = 2 * round_trip + 30..5 * round_trip + 130;
            for wait in (1600..2600).step_by(199).chain(short.step_by(7)) {
                once(wait).await;
            }
            join_all((1600..2600).step_by(47).map(&once)).await;
            assert_tables_empty(&client).await;
            drop(held);
        }
    }
}

/// Only an answer says that a name is busy.
#[tokio::test(start_paused = true)]
async fn silent_server_is_no_busy_member() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let (one, two) = (client.lock("{t}a"), client.lock("{t}b"));
    let members: [&dyn Lockable; 2] = [&one, &two];
    let both = MultiLock::new(&members);
    drop(both.try_lock().await.unwrap());
    client.settled().await;
    backend.embedded_server().stop();
    for wait in (20..400).step_by(7) {
        let tried = both.try_lock_for(wait * MS).lease(300 * MS).await;
        assert!(tried.is_err(), "{wait} ms");
    }
}
