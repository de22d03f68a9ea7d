//! Futures may be dropped at every await. The tests poll a future k times, drop it and look what is
//! left, for all k (L2). `cancellation_tests!` runs the tests that all locks share.

use std::{future::Future, pin::Pin, task::Poll, time::Duration};

use redlatch::{Backoff, Client, WaitStrategy};
use redlatch_tests::backend::{Backend, assert_tables_empty};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// What is polled.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls `task` at most `polls` times. Returns its output if it is done by then.
pub(crate) async fn polled<F: Future + Unpin>(
    backend: &Backend,
    task: &mut F,
    polls: u32,
) -> Option<F::Output> {
    assert!(polls < 10_000, "it never ends");
    for _ in 0..polls {
        if let Poll::Ready(output) = futures_util::poll!(&mut *task) {
            return Some(output);
        }
        // Lets the background work, timers and messages get one step ahead.
        backend.pass(MS / 2).await;
    }
    None
}

/// A kind of lock, or one side of one. All tests use the name `x`.
pub(crate) trait Subject {
    /// Acquires the name, within `wait` if that is given, and lets it go.
    fn lock(client: &Client, wait: Option<Duration>, strategy: WaitStrategy) -> Task;

    /// Acquires the name so that nobody else gets this side of it. Returns the release.
    async fn obstacle(client: &Client) -> Task;

    /// Acquires the name. Returns the release.
    async fn hold(client: &Client) -> Task;

    /// Acquires the name. Returns what extends the hold, runs under it, and waits for its loss.
    async fn use_hold(client: &Client) -> Task;

    /// Checks that nobody waits, as `client` sees it.
    async fn assert_nobody_waits(client: &Client);

    /// Checks that the name is free and that nothing is left, as `client` sees it.
    async fn assert_nothing_left(backend: &Backend, client: &Client);
}

/// Makes a subject of the methods of a handle.
macro_rules! subject {
    (
        $visible:vis $subject:ident:
        $handle:ident.$lock:ident / $lock_for:ident beside $other:ident,
        $nobody_waits:path, $nothing_left:path
    ) => {
        $visible struct $subject;

        impl crate::cancel::Subject for $subject {
            fn lock(
                client: &redlatch::Client,
                wait: Option<std::time::Duration>,
                strategy: redlatch::WaitStrategy,
            ) -> crate::cancel::Task {
                let lock = client.$handle("x");
                Box::pin(async move {
                    match wait {
                        Some(wait) => drop(lock.$lock_for(wait).strategy(strategy).await.unwrap()),
                        None => drop(lock.$lock().strategy(strategy).await.unwrap()),
                    }
                })
            }

            async fn obstacle(client: &redlatch::Client) -> crate::cancel::Task {
                let guard = client.$handle("x").$other().await.unwrap();
                Box::pin(async move {
                    guard.release().await.unwrap();
                })
            }

            async fn hold(client: &redlatch::Client) -> crate::cancel::Task {
                let guard = client.$handle("x").$lock().await.unwrap();
                Box::pin(async move {
                    guard.release().await.unwrap();
                })
            }

            async fn use_hold(client: &redlatch::Client) -> crate::cancel::Task {
                let guard = client.$handle("x").$lock().await.unwrap();
                Box::pin(async move {
                    let minute = std::time::Duration::from_secs(60);
                    guard.extend(minute).await.unwrap();
                    let lost = guard.lost();
                    let run = guard.run(tokio::time::sleep(3 * crate::cancel::MS));
                    futures_util::pin_mut!(lost, run);
                    futures_util::future::select(lost, run).await;
                })
            }

            async fn assert_nobody_waits(client: &redlatch::Client) {
                $nobody_waits(client).await;
            }

            async fn assert_nothing_left(
                backend: &redlatch_tests::backend::Backend,
                client: &redlatch::Client,
            ) {
                $nothing_left(backend, client).await;
            }
        }
    };
}

/// Polls what `make` gives first 1, 2, 3, … times and drops it, until it is done before that. Then
/// others release what `make` gives second. After that `client` has nothing, and nothing is left on
/// the server. If another client waits behind it, that one is served at once.
pub(crate) async fn dropped_at_every_await<S: Subject>(
    make: impl AsyncFn(&Backend, &Client) -> (Task, Option<Task>),
) -> u32 {
    for polls in 1.. {
        let alone = dropped::<S>(polls, &make, Behind::Nobody).await;
        let followed = dropped::<S>(polls, &make, Behind::Waiter).await;
        if alone && followed {
            return polls;
        }
    }
    unreachable!("the loop ends by itself")
}

/// Who waits behind the dropped future.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Nobody,
    Waiter,
}

/// Drops a future once. Returns true if it was done before.
async fn dropped<S: Subject>(
    polls: u32,
    make: &impl AsyncFn(&Backend, &Client) -> (Task, Option<Task>),
    behind: Behind,
) -> bool {
    let backend = Backend::embedded();
    let (client, next) = (backend.client().await, backend.client().await);
    let (mut task, others) = make(&backend, &client).await;
    let done = polled(&backend, &mut task, polls).await.is_some();
    if behind == Behind::Nobody {
        drop(task);
        if let Some(others) = others {
            // Tasks that it has aborted end first.
            backend.pass(MS).await;
            client.settled().await;
            S::assert_nobody_waits(&next).await;
            others.await;
        }
        assert_tables_empty(&client).await;
    } else {
        let waiter = tokio::spawn(S::lock(&next, None, WaitStrategy::Notify));
        backend.pass(MS).await;
        drop(task);
        if let Some(others) = others {
            others.await;
        }
        assert_tables_empty(&client).await;
        let start = tokio::time::Instant::now();
        waiter.await.unwrap();
        let waited = start.elapsed();
        assert!(waited < 50 * MS, "after {polls} polls: {waited:?}");
    }
    // What others do in the background ends, too.
    backend.pass(50 * MS).await;
    assert_tables_empty(&client).await;
    assert_tables_empty(&next).await;
    S::assert_nothing_left(&backend, &next).await;
    done
}

/// The tests that all locks share, for one subject.
macro_rules! cancellation_tests {
    ($subject:ty) => {
        // L2
        #[tokio::test(start_paused = true)]
        async fn cancelled_lock_of_a_free_name_leaves_nothing() {
            crate::cancel::free_name::<$subject>().await;
        }

        // L2
        #[tokio::test(start_paused = true)]
        async fn cancelled_lock_of_a_held_name_leaves_nothing() {
            crate::cancel::held_name::<$subject>().await;
        }

        #[tokio::test(start_paused = true)]
        async fn cancelled_polling_lock_leaves_nothing() {
            crate::cancel::polling::<$subject>().await;
        }

        #[tokio::test(start_paused = true)]
        async fn cancelled_lock_before_the_subscription_leaves_nothing() {
            crate::cancel::before_the_subscription::<$subject>().await;
        }

        #[tokio::test(start_paused = true)]
        async fn cancelled_lock_during_a_hand_over_leaves_nothing() {
            crate::cancel::during_a_hand_over::<$subject>().await;
        }

        #[tokio::test(start_paused = true)]
        async fn cancelled_waiters_of_one_client_leave_nothing() {
            crate::cancel::waiters_of_one_client::<$subject>().await;
        }

        #[tokio::test(start_paused = true)]
        async fn cancelled_release_goes_on_in_the_background() {
            crate::cancel::release::<$subject>().await;
        }

        #[tokio::test(start_paused = true)]
        async fn cancelled_extend_run_and_lost_leave_the_hold() {
            crate::cancel::use_of_a_hold::<$subject>().await;
        }
    };
}

pub(crate) use {cancellation_tests, subject};

/// Acquires the name on another client. Returns the release.
pub(crate) async fn held_by_another<S: Subject>(backend: &Backend) -> Task {
    S::obstacle(&backend.client().await).await
}

pub(crate) async fn free_name<S: Subject>() {
    let polls = dropped_at_every_await::<S>(async |_: &Backend, client: &Client| {
        (S::lock(client, None, WaitStrategy::Notify), None)
    })
    .await;
    assert!(polls > 1);
}

pub(crate) async fn held_name<S: Subject>() {
    dropped_at_every_await::<S>(async |backend: &Backend, client: &Client| {
        let others = held_by_another::<S>(backend).await;
        let waiting = S::lock(client, Some(30 * MS), WaitStrategy::Notify);
        (waiting, Some(others))
    })
    .await;
}

pub(crate) async fn polling<S: Subject>() {
    dropped_at_every_await::<S>(async |backend: &Backend, client: &Client| {
        let others = held_by_another::<S>(backend).await;
        let poll = WaitStrategy::Poll(Backoff::constant(2 * MS));
        (S::lock(client, Some(20 * MS), poll), Some(others))
    })
    .await;
}

pub(crate) async fn before_the_subscription<S: Subject>() {
    dropped_at_every_await::<S>(async |backend: &Backend, _: &Client| {
        let others = held_by_another::<S>(backend).await;
        let client = backend.builder().self_check(false).connect().await.unwrap();
        let waiting = S::lock(&client, Some(30 * MS), WaitStrategy::Notify);
        (waiting, Some(others))
    })
    .await;
}

pub(crate) async fn during_a_hand_over<S: Subject>() {
    dropped_at_every_await::<S>(async |backend: &Backend, client: &Client| {
        let others = held_by_another::<S>(backend).await;
        tokio::spawn(async move {
            tokio::time::sleep(3 * MS).await;
            others.await;
        });
        (S::lock(client, None, WaitStrategy::Notify), None)
    })
    .await;
}

pub(crate) async fn waiters_of_one_client<S: Subject>() {
    dropped_at_every_await::<S>(async |backend: &Backend, client: &Client| {
        let others = held_by_another::<S>(backend).await;
        let waits = [10, 20].map(|wait| S::lock(client, Some(wait * MS), WaitStrategy::Notify));
        let both = futures_util::future::join_all(waits);
        let both = Box::pin(async move { drop(both.await) });
        (both as Task, Some(others))
    })
    .await;
}

pub(crate) async fn release<S: Subject>() {
    dropped_at_every_await::<S>(async |_: &Backend, client: &Client| (S::hold(client).await, None))
        .await;
}

pub(crate) async fn use_of_a_hold<S: Subject>() {
    dropped_at_every_await::<S>(async |_: &Backend, client: &Client| {
        (S::use_hold(client).await, None)
    })
    .await;
}
