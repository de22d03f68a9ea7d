//! Every future of the lock may be dropped at every await: poll it k times, drop it, look what is
//! left (L2).

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use redlatch::{Client, LockGuard};
use redlatch_tests::backend::{Backend, assert_tables_empty};

const MS: Duration = Duration::from_millis(1);

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Polls what `make` gives 1, 2, 3, … times and drops it, until it is done before that. After each
/// drop, `client` has nothing, and once `others` have let go nothing is on the server.
async fn dropped_at_every_await(
    make: impl AsyncFn(&Backend, &Client) -> (Task, Option<LockGuard>),
) -> u32 {
    for polls in 1.. {
        let backend = Backend::embedded();
        let client = backend.client().await;
        let (mut task, other) = make(&backend, &client).await;
        let mut done = false;
        for _ in 0..polls {
            if futures_util::poll!(task.as_mut()).is_ready() {
                done = true;
                break;
            }
            // Lets the background work, timers and messages get one step ahead.
            backend.pass(MS / 2).await;
        }
        drop(task);
        if let Some(other) = other {
            other.release().await.unwrap();
        }
        assert_tables_empty(&client).await;
        backend.pass(10 * MS).await;
        assert_tables_empty(&client).await;
        backend.assert_only_counters_left();
        let again = client.lock("x").try_lock().await.unwrap();
        assert!(
            again.is_some(),
            "dropped after {polls} polls, the name is free"
        );
        if done {
            return polls;
        }
        assert!(polls < 10_000, "it never ends");
    }
    unreachable!("the loop ends by itself")
}

async fn held_by_another(backend: &Backend) -> LockGuard {
    backend.client().await.lock("x").lock().await.unwrap()
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_lock_of_a_free_name_leaves_nothing() {
    let polls = dropped_at_every_await(async |_: &Backend, client: &Client| {
        let lock = client.lock("x");
        (
            Box::pin(async move { drop(lock.lock().await.unwrap()) }) as Task,
            None,
        )
    })
    .await;
    assert!(polls > 1);
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_lock_of_a_held_name_leaves_nothing() {
    dropped_at_every_await(async |backend: &Backend, client: &Client| {
        let other = held_by_another(backend).await;
        let lock = client.lock("x");
        (
            Box::pin(async move { drop(lock.try_lock_for(30 * MS).await.unwrap()) }) as Task,
            Some(other),
        )
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_lock_before_the_subscription_leaves_nothing() {
    dropped_at_every_await(async |backend: &Backend, _: &Client| {
        let other = held_by_another(backend).await;
        let client = backend.builder().self_check(false).connect().await.unwrap();
        let lock = client.lock("x");
        (
            Box::pin(async move { drop(lock.try_lock_for(30 * MS).await.unwrap()) }) as Task,
            Some(other),
        )
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_lock_during_a_hand_over_leaves_nothing() {
    dropped_at_every_await(async |backend: &Backend, client: &Client| {
        let other = held_by_another(backend).await;
        let lock = client.lock("x");
        tokio::spawn(async move {
            tokio::time::sleep(3 * MS).await;
            other.release().await.unwrap();
        });
        (
            Box::pin(async move { drop(lock.lock().await.unwrap()) }) as Task,
            None,
        )
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_lock_behind_a_waiter_of_the_same_client_leaves_nothing() {
    dropped_at_every_await(async |_: &Backend, client: &Client| {
        let guard = client.lock("x").lock().await.unwrap();
        let mut first = Box::pin(client.lock("x").try_lock_for(20 * MS).into_future());
        assert!(futures_util::poll!(first.as_mut()).is_pending());
        let lock = client.lock("x");
        let task = async move {
            let second = lock.try_lock_for(40 * MS);
            let (first, second) = futures_util::join!(first, second.into_future());
            drop((first.unwrap(), second.unwrap()));
        };
        (Box::pin(task) as Task, Some(guard))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_re_entry_undoes_only_its_own_attempt() {
    for polls in 1..12 {
        let backend = Backend::embedded();
        let client = backend.client().await;
        let lock = client.lock("x");
        let outer = lock.lock().await.unwrap();
        let mut inner = Box::pin(lock.lock().owner(outer.owner()).into_future());
        for _ in 0..polls {
            if futures_util::poll!(inner.as_mut()).is_ready() {
                break;
            }
            backend.pass(MS / 2).await;
        }
        drop(inner);
        client.settled().await;
        assert_eq!(
            lock.hold_count(outer.owner()).await.unwrap(),
            1,
            "after {polls} polls"
        );
        outer.check().unwrap();
        outer.release().await.unwrap();
        backend.assert_only_counters_left();
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_release_goes_on_in_the_background() {
    dropped_at_every_await(async |_: &Backend, client: &Client| {
        let guard = client.lock("x").lock().await.unwrap();
        (
            Box::pin(async move {
                guard.release().await.unwrap();
            }) as Task,
            None,
        )
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_extend_run_and_lost_leave_the_hold() {
    dropped_at_every_await(async |_: &Backend, client: &Client| {
        let guard = client.lock("x").lock().await.unwrap();
        let task = async move {
            guard.extend(Duration::from_secs(60)).await.unwrap();
            let lost = guard.lost();
            let run = guard.run(tokio::time::sleep(3 * MS));
            futures_util::pin_mut!(lost, run);
            futures_util::future::select(lost, run).await;
        };
        (Box::pin(task) as Task, None)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_inspection_and_forced_release_leave_nothing() {
    dropped_at_every_await(async |_: &Backend, client: &Client| {
        let lock = client.lock("x");
        let client = client.clone();
        let guard = lock.lock().await.unwrap();
        let task = async move {
            lock.info().await.unwrap();
            lock.holders().await.unwrap();
            client.locks("*").next().await.unwrap().unwrap();
            lock.force_release().await.unwrap();
        };
        (Box::pin(task) as Task, Some(guard))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_connect_and_close_leave_nothing() {
    for polls in 1.. {
        let backend = Backend::embedded();
        let mut connecting: Pin<Box<dyn Future<Output = _>>> =
            Box::pin(backend.builder().connect());
        let mut client = None;
        for _ in 0..polls {
            if let std::task::Poll::Ready(done) = futures_util::poll!(connecting.as_mut()) {
                client = Some(done.unwrap());
                break;
            }
            backend.pass(MS / 2).await;
        }
        drop(connecting);
        if let Some(client) = client {
            let _guard = client.lock("x").lock().await.unwrap();
            client.close_now().await;
            client.close_now().await;
        }
        backend.pass(Duration::from_secs(5)).await;
        assert_eq!(
            backend.embedded_server().connection_count(),
            0,
            "after {polls} polls"
        );
        if polls > 60 {
            return;
        }
    }
}
