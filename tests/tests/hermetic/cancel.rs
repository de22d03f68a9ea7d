//! Futures may be dropped at every await. The tests poll a future k times, drop it and look what is
//! left, for all k (L2).

use std::{
    future::{Future, IntoFuture, Ready, ready},
    pin::Pin,
    task::Poll,
};

use async_trait::async_trait;
use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use redlatch::{
    Backoff, Client, Error, WaitStrategy,
    compat::{Redisson, SetNx},
};
use redlatch_behaviours::{prelude::*, rwlock::assert_quiet, semaphore::assert_all_back};

/// What is polled.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Makes a task of a future, whose output does not count.
pub(crate) fn task<T: 'static>(future: impl Future<Output = T> + Send + 'static) -> Task {
    Box::pin(async move { drop(future.await) })
}

/// Polls `task` at most `polls` times, and drops it. Returns its output if it is done by then.
pub(crate) async fn polled<F: Future + Unpin>(
    backend: &Backend,
    mut task: F,
    polls: u32,
) -> Option<F::Output> {
    assert!(polls < 10_000, "it never ends");
    for _ in 0..polls {
        if let Poll::Ready(output) = futures_util::poll!(&mut task) {
            return Some(output);
        }
        // Lets the background work, timers and messages get one step ahead.
        backend.pass(MS / 2).await;
    }
    None
}

/// Runs `scene` with 1, 2, 3, … polls, until it says that its future was done before the drop.
/// Returns the last number.
pub(crate) async fn after_each_poll(scene: impl AsyncFn(u32) -> bool) -> u32 {
    let mut polls = 1;
    while !scene(polls).await {
        polls += 1;
    }
    assert!(polls > 1, "it has no await");
    polls
}

/// A kind of lock, or one side of one. All tests use the name `x`.
#[async_trait(?Send)]
pub(crate) trait Subject {
    /// Acquires the name, within `wait` if that is given, and lets it go.
    fn lock(&self, client: &Client, wait: Option<Duration>, strategy: WaitStrategy) -> Task;

    /// Waits for the name for so long. Tells whether it was granted.
    fn lock_for(&self, client: &Client, wait: Duration) -> BoxFuture<'static, Result<bool, Error>>;

    /// Tries once to acquire the name, which another client holds.
    fn try_in_vain(&self, client: &Client) -> Task;

    /// Acquires the name so that nobody else gets this side of it. Returns the release.
    async fn obstacle(&self, client: &Client) -> Task;

    /// Acquires the name. Returns the release.
    async fn hold(&self, client: &Client) -> Task;

    /// Acquires the name. Returns what extends the hold, runs under it, and waits for its loss.
    async fn use_hold(&self, client: &Client) -> Task;

    /// Checks that nobody waits, as `client` sees it.
    async fn assert_nobody_waits(&self, client: &Client);

    /// Checks that the name is free and that nothing is left, as `client` sees it.
    async fn assert_nothing_left(&self, backend: &Backend, client: &Client);
}

/// All locks, and the semaphore whose permits are acquired at once.
pub(crate) const SUBJECTS: [&dyn Subject; 8] = [
    &Plain,
    &Fair,
    &Read,
    &UpgradableRead,
    &Write,
    &Permits,
    &OfSetNx,
    &OfRedisson,
];

/// Makes a subject of the methods of a handle: how it is acquired, acquired in time, and acquired
/// as an obstacle, and tried; who waits, and what is left.
macro_rules! subject {
    (
        $subject:ident: |$client:ident| $handle:expr;
        $lock:ident($($n:literal)?) / $lock_for:ident / $try:ident beside $other:ident
        then $again:ident;
        $waiters:expr; $left:path
    ) => {
        pub(crate) struct $subject;

        #[async_trait(?Send)]
        impl Subject for $subject {
            fn lock(&self, $client: &Client, wait: Option<Duration>, how: WaitStrategy) -> Task {
                let lock = $handle;
                Box::pin(async move {
                    match wait {
                        Some(wait) => {
                            drop(lock.$lock_for($($n,)? wait).strategy(how).await.unwrap());
                        }
                        None => drop(lock.$lock($($n)?).strategy(how).await.unwrap()),
                    }
                })
            }

            fn lock_for(
                &self,
                $client: &Client,
                wait: Duration,
            ) -> BoxFuture<'static, Result<bool, Error>> {
                let waited = $handle.$lock_for($($n,)? wait).into_future();
                waited.map(|got| got.map(|got| got.is_some())).boxed()
            }

            fn try_in_vain(&self, $client: &Client) -> Task {
                let lock = $handle;
                task(async move { assert!(lock.$try($($n)?).await.unwrap().is_none()) })
            }

            async fn obstacle(&self, $client: &Client) -> Task {
                let guard = $handle.$other($($n)?).await.unwrap();
                task(async move { guard.release().await.unwrap() })
            }

            async fn hold(&self, $client: &Client) -> Task {
                let guard = $handle.$lock($($n)?).await.unwrap();
                task(async move { guard.release().await.unwrap() })
            }

            async fn use_hold(&self, $client: &Client) -> Task {
                let guard = $handle.$lock($($n)?).await.unwrap();
                Box::pin(async move {
                    guard.extend(Duration::from_secs(60)).await.unwrap();
                    let lost = guard.lost();
                    let run = guard.run(tokio::time::sleep(3 * MS));
                    futures_util::pin_mut!(lost, run);
                    futures_util::future::select(lost, run).await;
                })
            }

            async fn assert_nobody_waits(&self, $client: &Client) {
                assert_eq!($waiters, 0);
            }

            async fn assert_nothing_left(&self, backend: &Backend, $client: &Client) {
                $left(backend, $client).await;
                let again = $handle.$again($($n)?).await.unwrap();
                assert!(again.is_some(), "the name is free");
            }
        }
    };
}

subject!(
    Plain: |client| client.lock("x");
    lock() / try_lock_for / try_lock beside lock then try_lock;
    client.lock("x").info().await.unwrap().map_or(0, |info| info.waiters); only_counters
);
subject!(
    Fair: |client| client.fair_lock("x");
    lock() / try_lock_for / try_lock beside lock then try_lock;
    client.fair_lock("x").info().await.unwrap().map_or(0, |info| info.waiters); only_counters
);
subject!(
    Read: |client| client.read_write_lock("x");
    read() / try_read_for / try_read beside write then try_write; waiters(client).await; quiet
);
subject!(
    UpgradableRead: |client| client.read_write_lock("x");
    upgradable_read() / try_upgradable_read_for / try_upgradable_read beside upgradable_read then try_write;
    waiters(client).await; quiet
);
subject!(
    Write: |client| client.read_write_lock("x");
    write() / try_write_for / try_write beside read then try_write; waiters(client).await; quiet
);
subject!(
    Permits: |client| client.semaphore("x").permits_if_unset(3);
    acquire_many(3) / try_acquire_many_for / try_acquire_many beside acquire_many then try_acquire_many;
    client.semaphore("x").totals().await.unwrap().waiters; all_back
);
// The server has no list of the waiters of old layouts.
subject!(
    OfSetNx: |client| SetNx::new(client, "x");
    lock() / try_lock_for / try_lock beside lock then try_lock;
    SetNx::new(client, "x").info().await.map_or(1, |_| 0); only_counters
);
subject!(
    OfRedisson: |client| Redisson::new(client, "x");
    lock() / try_lock_for / try_lock beside lock then try_lock;
    Redisson::new(client, "x").info().await.map_or(1, |_| 0); only_counters
);

async fn waiters(client: &Client) -> u64 {
    let info = client.read_write_lock("x").info().await.unwrap();
    info.waiting_writers + info.waiting_readers
}

fn only_counters(backend: &Backend, _: &Client) -> Ready<()> {
    backend.assert_only_counters_left();
    ready(())
}

async fn quiet(backend: &Backend, client: &Client) {
    assert_quiet(backend, client, "x").await;
}

async fn all_back(backend: &Backend, client: &Client) {
    // The first acquisition makes the semaphore.
    let semaphore = client.semaphore("x").permits_if_unset(3);
    let again = semaphore.try_acquire_many(3).await.unwrap();
    drop(again.expect("all permits are back"));
    assert_all_back(backend, client, &semaphore).await;
}

/// Polls what `make` gives first 1, 2, 3, … times and drops it, until it is done before that. Then
/// others release what `make` gives second. After that `client` has nothing, and nothing is left on
/// the server. If another client waits behind it, that one is served at once.
pub(crate) async fn dropped_at_every_await(
    subject: &dyn Subject,
    make: impl AsyncFn(&Backend, &Client) -> (Task, Option<Task>),
) -> u32 {
    after_each_poll(async |polls| {
        let alone = dropped(subject, polls, &make, Behind::Nobody).await;
        let followed = dropped(subject, polls, &make, Behind::Waiter).await;
        alone && followed
    })
    .await
}

/// Does that with each subject. Returns how many polls each took.
async fn each_dropped_at_every_await(
    make: impl AsyncFn(&dyn Subject, &Backend, &Client) -> (Task, Option<Task>),
) -> Vec<u32> {
    let mut all = Vec::new();
    for subject in SUBJECTS {
        let make = async |backend: &Backend, client: &Client| make(subject, backend, client).await;
        all.push(dropped_at_every_await(subject, make).await);
    }
    all
}

/// Who waits behind the dropped future.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Nobody,
    Waiter,
}

/// Drops a future once. Returns true if it was done before.
async fn dropped(
    subject: &dyn Subject,
    polls: u32,
    make: &impl AsyncFn(&Backend, &Client) -> (Task, Option<Task>),
    behind: Behind,
) -> bool {
    let (backend, [client, next]) = embedded().await;
    let (mut task, others) = make(&backend, &client).await;
    let done = polled(&backend, &mut task, polls).await.is_some();
    if behind == Behind::Nobody {
        drop(task);
        if let Some(others) = others {
            // Tasks that it has aborted end first.
            backend.pass(MS).await;
            client.settled().await;
            subject.assert_nobody_waits(&next).await;
            others.await;
        }
        assert_tables_empty(&client).await;
    } else {
        let waiter = tokio::spawn(subject.lock(&next, None, WaitStrategy::Notify));
        backend.pass(MS).await;
        drop(task);
        if let Some(others) = others {
            others.await;
        }
        assert_tables_empty(&client).await;
        let start = Instant::now();
        waiter.await.unwrap();
        let waited = start.elapsed();
        assert!(waited < 50 * MS, "after {polls} polls: {waited:?}");
    }
    // What others do in the background ends, too.
    backend.pass(50 * MS).await;
    assert_tables_empty(&client).await;
    assert_tables_empty(&next).await;
    subject.assert_nothing_left(&backend, &next).await;
    done
}

/// Acquires the name on another client. Returns the release.
pub(crate) async fn held_by_another(subject: &dyn Subject, backend: &Backend) -> Task {
    subject.obstacle(&backend.client().await).await
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_lock_of_a_free_name_leaves_nothing() {
    let polls = each_dropped_at_every_await(async |subject, _, client| {
        (subject.lock(client, None, WaitStrategy::Notify), None)
    });
    assert!(polls.await.iter().all(|polls| *polls > 1));
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_lock_of_a_held_name_leaves_nothing() {
    each_dropped_at_every_await(async |subject, backend, client| {
        let others = held_by_another(subject, backend).await;
        let waiting = subject.lock(client, Some(30 * MS), WaitStrategy::Notify);
        (waiting, Some(others))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_polling_lock_leaves_nothing() {
    each_dropped_at_every_await(async |subject, backend, client| {
        let others = held_by_another(subject, backend).await;
        let poll = WaitStrategy::Poll(Backoff::constant(2 * MS));
        (subject.lock(client, Some(20 * MS), poll), Some(others))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_lock_before_the_subscription_leaves_nothing() {
    each_dropped_at_every_await(async |subject, backend, _| {
        let others = held_by_another(subject, backend).await;
        let client = backend.builder().self_check(false).connect().await.unwrap();
        let waiting = subject.lock(&client, Some(30 * MS), WaitStrategy::Notify);
        (waiting, Some(others))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_lock_during_a_hand_over_leaves_nothing() {
    each_dropped_at_every_await(async |subject, backend, client| {
        let others = held_by_another(subject, backend).await;
        tokio::spawn(async move {
            tokio::time::sleep(3 * MS).await;
            others.await;
        });
        (subject.lock(client, None, WaitStrategy::Notify), None)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiters_of_one_client_leave_nothing() {
    each_dropped_at_every_await(async |subject, backend, client| {
        let others = held_by_another(subject, backend).await;
        let wait = |ms| subject.lock(client, Some(ms * MS), WaitStrategy::Notify);
        let both = join_all([10, 20].map(wait));
        (task(both), Some(others))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_release_goes_on_in_the_background() {
    each_dropped_at_every_await(async |subject, _, client| (subject.hold(client).await, None))
        .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_extend_run_and_lost_leave_the_hold() {
    each_dropped_at_every_await(async |subject, _, client| (subject.use_hold(client).await, None))
        .await;
}
