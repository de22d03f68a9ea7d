//! Waiting for a latch: what it costs, and what ends or refuses it.

use futures_util::future::join_all;
use redlatch::{CountDownLatch, ErrorKind};

use super::{listening, passed, set, waiting};
use crate::prelude::*;

behaviours! {
    Everywhere:
        subscription_ends_with_the_last_waiter;
    Cluster:
        ten_thousand_waiters_are_released_by_one_message,
        many_latches_are_waited_for_at_once;
    Single:
        idle_waiter_sends_nothing_between_rechecks,
        rechecks_do_not_grow_with_the_waiters_of_a_client,
        deadline_of_one_waiter_does_not_end_another,
        too_many_waiters_are_refused,
        close_ends_waits_and_refuses_calls;
}

/// The re-check bound is 2 s ± 20 %, so in 0.5 s an idle waiter says nothing.
async fn idle_waiter_sends_nothing_between_rechecks(backend: &Backend) {
    backend.preload();
    let (client, latch) = set(backend, 1).await;
    let before = backend.script_calls();
    let waiter = waiting(latch.clone());
    listening(&client, 1).await;
    // One that finds it shut, one after it has subscribed.
    assert_eq!(backend.script_calls() - before, 2);
    let before = backend.script_calls();
    backend.pass(500 * MS).await;
    assert_eq!(backend.script_calls() - before, 0);
    latch.count_down(1).await.unwrap();
    waiter.await.unwrap().unwrap();
}

// L8
async fn rechecks_do_not_grow_with_the_waiters_of_a_client(backend: &Backend) {
    backend.preload();
    for many in [1, 200] {
        let client = backend.client().await;
        let latch = client.count_down_latch(format!("of-{many}"));
        latch.try_set_count(1).await.unwrap();
        // All in one task, so that they come together however slow the machine is.
        let before = backend.script_calls();
        let waiters = (0..many).map(|_| latch.wait().into_future());
        let waiters = tokio::spawn(join_all(waiters));
        listening(&client, many).await;
        // Waiters that come during a look share the next one, which may begin after all have come.
        let mut came = backend.script_calls();
        loop {
            backend.pass(200 * MS).await;
            let now = backend.script_calls();
            if std::mem::replace(&mut came, now) == now {
                break;
            }
        }
        let start = Instant::now();
        backend.pass(5 * SECOND).await;
        let (calls, took) = (backend.script_calls() - came, start.elapsed());
        // Two or three to begin with, since those that come during a look share the next. On
        // several threads, looks end while waiters still come.
        let most = match backend {
            Backend::Embedded { .. } => 4,
            _ => 4 + u64::try_from(many / 8).unwrap(),
        };
        assert!(came - before <= most, "{} looks at first", came - before);
        // One every 1.6 s to 2.4 s, and one that was under way.
        assert!(
            u128::from(calls) <= 1 + took.as_millis().div_ceil(1_600),
            "{calls} looks of {many} waiters in {took:?}"
        );
        latch.count_down(1).await.unwrap();
        for waited in waiters.await.unwrap() {
            waited.unwrap();
        }
        assert_tables_empty(&client).await;
    }
}

// L7
async fn ten_thousand_waiters_are_released_by_one_message(backend: &Backend) {
    backend.preload();
    let (client, other) = (backend.client().await, backend.client().await);
    let latch = client.count_down_latch("x");
    latch.try_set_count(1).await.unwrap();
    let (many, _turn) = backend.crowd().await;
    let waiters: Vec<_> = (0..many).map(|_| waiting(latch.clone())).collect();
    listening(&client, many).await;
    let before = backend.script_calls();
    let start = Instant::now();
    assert_eq!(other.count_down_latch("x").count_down(1).await.unwrap(), 0);
    for waiter in join_all(waiters).await {
        waiter.unwrap().unwrap();
    }
    let took = start.elapsed();
    // A re-check may have been due in that very moment.
    let calls = backend.script_calls() - before;
    println!(
        "{many} waiters, {took:?} from the last count-down to the last of them, {calls} commands"
    );
    assert!(
        (2..=4).contains(&calls),
        "one look for all of them: {calls}"
    );
    assert_tables_empty(&client).await;
}

// L5
async fn deadline_of_one_waiter_does_not_end_another(backend: &Backend) {
    backend.preload();
    let (client, latch) = set(backend, 1).await;
    let short = (0..20).map(|_| latch.wait_for(300 * MS).into_future());
    let short = tokio::spawn(join_all(short));
    let long: Vec<_> = (0..20).map(|_| waiting(latch.clone())).collect();
    for result in short.await.unwrap() {
        backend.assert_not_granted(result);
    }
    listening(&client, 20).await;
    latch.count_down(1).await.unwrap();
    passed(long).await;
}

// L49
async fn subscription_ends_with_the_last_waiter(backend: &Backend) {
    backend.preload();
    let (client, latch) = set(backend, 1).await;
    let channel = "redlatch:{x}:b";
    assert_eq!(backend.subscribers(channel), 0);
    let waiters = [(); 2].map(|()| waiting(latch.clone()));
    listening(&client, 2).await;
    assert_eq!(backend.subscribers(channel), 1);
    let [first, second] = waiters;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    backend.pass(50 * MS).await;
    assert_eq!(backend.subscribers(channel), 1);
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    wait_for("the subscription to end", async || {
        backend.subscribers(channel) == 0
    })
    .await;
    assert_tables_empty(&client).await;
    assert_eq!(backend.keys(), ["redlatch:{x}", "redlatch:{x}:o"]);
}

// L6
async fn many_latches_are_waited_for_at_once(backend: &Backend) {
    backend.preload();
    let (a, b) = (backend.client().await, backend.client().await);
    let many = 500;
    let names: Vec<_> = (0..many).map(|i| format!("n{i}")).collect();
    let sets = names
        .iter()
        .map(|name| a.count_down_latch(name).try_set_count(1).into_future());
    assert!(join_all(sets).await.into_iter().all(Result::unwrap));
    let wait = |name| waiting(b.count_down_latch(name));
    let waiters: Vec<_> = names.iter().map(wait).collect();
    listening(&b, many).await;
    assert!(b.tables().queues == many);
    for name in &names {
        a.count_down_latch(name).count_down(1).await.unwrap();
    }
    passed(waiters).await;
    assert_tables_empty(&b).await;
}

async fn too_many_waiters_are_refused(backend: &Backend) {
    let client = backend.builder().max_waiters(2).connect().await.unwrap();
    let latch = client.count_down_latch("x");
    latch.try_set_count(1).await.unwrap();
    let waiters = [(); 2].map(|()| waiting(latch.clone()));
    listening(&client, 2).await;
    assert_fails(latch.wait().await, ErrorKind::TooManyWaiters);
    assert_eq!(
        latch.count_down(1).await.unwrap(),
        0,
        "counting is no waiting"
    );
    passed(waiters).await;
    assert_tables_empty(&client).await;
}

async fn close_ends_waits_and_refuses_calls(backend: &Backend) {
    let (client, other) = (backend.client().await, backend.client().await);
    let latch = client.count_down_latch("x");
    latch.try_set_count(1).await.unwrap();
    let waiters = [(); 3].map(|()| waiting(latch.clone()));
    listening(&client, 3).await;
    client.close(Duration::from_secs(1)).await;
    for waiter in waiters {
        assert_fails(waiter.await.unwrap(), ErrorKind::Closed);
    }
    assert_eq!(errors(&latch).await, [ErrorKind::Closed; 8]);
    assert_tables_empty(&client).await;
    assert_eq!(other.count_down_latch("x").count().await.unwrap(), 1);
}

/// What each call fails with.
async fn errors(latch: &CountDownLatch) -> [ErrorKind; 8] {
    let second = Duration::from_secs(1);
    [
        latch.try_set_count(1).await.unwrap_err().kind(),
        latch.count_down(1).await.unwrap_err().kind(),
        latch.count().await.unwrap_err().kind(),
        latch.info().await.unwrap_err().kind(),
        latch.wait().await.unwrap_err().kind(),
        latch.wait_for(second).await.unwrap_err().kind(),
        latch.count_down_and_wait(1).await.unwrap_err().kind(),
        latch.delete().await.unwrap_err().kind(),
    ]
}
