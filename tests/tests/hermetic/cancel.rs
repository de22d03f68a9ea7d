//! Futures may be dropped at every await. The tests poll a future k times, drop it and look what is
//! left, for all k (L2).

use std::{pin::Pin, task::Poll};

use futures_util::future::select;
use redlatch_behaviours::multi::Fleet;
use redlatch_tests::calls::{self, Call};

use crate::{
    prelude::*,
    ways::{Guard, WAYS, Wait, Way},
};

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

/// Releases what is held.
pub(crate) fn release(guard: impl Into<Guard>) -> Task {
    let guard: Guard = guard.into();
    task(async move { guard.release().await.unwrap() })
}

/// Extends a hold, runs under it, and waits for its loss.
fn uses(guard: Guard) -> Task {
    task(async move {
        guard.extend(60 * SECOND).await.unwrap();
        let run = guard.run(sleep(3 * MS));
        select(guard.lost(), std::pin::pin!(run)).await;
    })
}

/// Acquires the name and lets it go.
pub(crate) fn lock(way: Way, client: &Client, wait: Wait, strategy: WaitStrategy) -> Task {
    let acquired = way.ask_by(client, wait, strategy);
    task(async move { drop(acquired.await.unwrap()) })
}

/// Polls what `make` gives first 1, 2, 3, … times and drops it, until it is done before that. Then
/// others release what `make` gives second. After that `client` has nothing, and nothing is left on
/// the server. If another client waits behind it, that one is served at once.
pub(crate) async fn dropped_at_every_await(
    way: Way,
    make: impl AsyncFn(&Backend, &Client) -> (Task, Option<Task>),
) -> u32 {
    after_each_poll(async |polls| {
        let alone = dropped(way, polls, &make, Behind::Nobody).await;
        let followed = dropped(way, polls, &make, Behind::Waiter).await;
        alone && followed
    })
    .await
}

/// Does that in each way. Returns how many polls each took.
async fn each_dropped_at_every_await(
    make: impl AsyncFn(Way, &Backend, &Client) -> (Task, Option<Task>),
) -> Vec<u32> {
    let mut all = Vec::new();
    for way in WAYS {
        println!("{}", way.what);
        let make = async |backend: &Backend, client: &Client| make(way, backend, client).await;
        all.push(dropped_at_every_await(way, make).await);
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
    way: Way,
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
            // The server has no list of the waiters of old layouts.
            let object = next.object("x").await.unwrap();
            assert_eq!(object.map_or(0, |object| object.waiters), 0);
            others.await;
        }
        assert_tables_empty(&client).await;
    } else {
        let waiter = tokio::spawn(lock(way, &next, Wait::Forever, WaitStrategy::Notify));
        backend.pass(MS).await;
        drop(task);
        if let Some(others) = others {
            others.await;
        }
        assert_tables_empty(&client).await;
        within(50 * MS, ("polls", polls), waiter).await.unwrap();
    }
    // What others do in the background ends, too.
    backend.pass(50 * MS).await;
    assert_all_empty([&client, &next]).await;
    way.assert_nothing_left(&backend, &next).await;
    done
}

/// Acquires the name on another client. Returns the release.
pub(crate) async fn held_by_another(way: Way, backend: &Backend) -> Task {
    release(way.obstacle(&backend.client().await).await)
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_lock_of_a_free_name_leaves_nothing() {
    let polls = each_dropped_at_every_await(async |way, _, client| {
        (lock(way, client, Wait::Forever, WaitStrategy::Notify), None)
    });
    assert!(polls.await.iter().all(|polls| *polls > 1));
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_lock_of_a_held_name_leaves_nothing() {
    each_dropped_at_every_await(async |way, backend, client| {
        let others = held_by_another(way, backend).await;
        let waiting = lock(way, client, Wait::For(30 * MS), WaitStrategy::Notify);
        (waiting, Some(others))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_polling_lock_leaves_nothing() {
    each_dropped_at_every_await(async |way, backend, client| {
        let others = held_by_another(way, backend).await;
        let poll = WaitStrategy::Poll(Backoff::constant(2 * MS));
        (lock(way, client, Wait::For(20 * MS), poll), Some(others))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_lock_before_the_subscription_leaves_nothing() {
    each_dropped_at_every_await(async |way, backend, _| {
        let others = held_by_another(way, backend).await;
        let client = backend.builder().self_check(false).connect().await.unwrap();
        let waiting = lock(way, &client, Wait::For(30 * MS), WaitStrategy::Notify);
        (waiting, Some(others))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_lock_during_a_hand_over_leaves_nothing() {
    each_dropped_at_every_await(async |way, backend, client| {
        let others = held_by_another(way, backend).await;
        tokio::spawn(async move {
            sleep(3 * MS).await;
            others.await;
        });
        (lock(way, client, Wait::Forever, WaitStrategy::Notify), None)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiters_of_one_client_leave_nothing() {
    each_dropped_at_every_await(async |way, backend, client| {
        let others = held_by_another(way, backend).await;
        let wait = |ms| lock(way, client, Wait::For(ms * MS), WaitStrategy::Notify);
        let both = join_all([10, 20].map(wait));
        (task(both), Some(others))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_release_goes_on_in_the_background() {
    each_dropped_at_every_await(async |way, _, client| (release(way.hold(client).await), None))
        .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_extend_run_and_lost_leave_the_hold() {
    each_dropped_at_every_await(async |way, _, client| (uses(way.hold(client).await), None)).await;
}

/// Makes each of the calls, one after the other.
fn all(calls: Vec<Call>) -> Task {
    task(async move {
        for Call { what, run, .. } in calls {
            let ended = run.await;
            ended.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        }
    })
}

/// After each drop the client has nothing, and another can make the same calls at once.
// L2
#[tokio::test(start_paused = true)]
async fn cancelled_calls_of_every_kind_are_in_nobodys_way() {
    for kind in calls::KINDS {
        after_each_poll(async |polls| {
            let fleet = Fleet::embedded(kind.servers());
            let (clients, others) = (fleet.clients().await, fleet.clients().await);
            let dropped = all(kind.calls(&clients).await);
            let done = polled(&fleet.0[0], dropped, polls).await.is_some();
            fleet.pass(20 * MS).await;
            assert_all_empty(&clients).await;
            let again = async { all(kind.calls(&others).await).await };
            within(SECOND, (kind, polls), again).await;
            assert_all_empty(&others).await;
            done
        })
        .await;
    }
}
