//! Waiting for a latch: what it costs, and what ends or refuses it.

use super::{listening, passed, shut, waiting};
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
        deadline_of_one_waiter_does_not_end_another;
}

/// The re-check bound is 2 s ± 20 %, so in 0.5 s an idle waiter says nothing.
async fn idle_waiter_sends_nothing_between_rechecks(backend: &Backend, client: Client) {
    backend.preload();
    let latch = shut(&client, 1).await;
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
async fn rechecks_do_not_grow_with_the_waiters_of_a_client(backend: &Backend, client: Client) {
    backend.preload();
    for many in [1, 200] {
        let latch = shut(&client, 1).await;
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
        let most = 4 + u64::from(!backend.is_embedded()) * many as u64 / 8;
        assert!(came - before <= most, "{} looks at first", came - before);
        // One every 1.6 s to 2.4 s, and one that was under way.
        let most = 1 + took.as_millis().div_ceil(1_600);
        assert!(u128::from(calls) <= most, "{calls} looks in {took:?}");
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
    let latch = shut(&client, 1).await;
    let (many, _turn) = backend.crowd().await;
    let waiters: Vec<_> = (0..many).map(|_| waiting(latch.clone())).collect();
    listening(&client, many).await;
    let before = backend.script_calls();
    let start = Instant::now();
    assert_eq!(other.count_down_latch("x").count_down(1).await.unwrap(), 0);
    passed(waiters).await;
    let took = start.elapsed();
    // A re-check may have been due in that very moment.
    let calls = backend.script_calls() - before;
    println!("{many} waiters, {took:?} from the last count-down on, {calls} commands");
    assert!((2..=4).contains(&calls), "one look for all: {calls}");
    assert_tables_empty(&client).await;
}

// L5
async fn deadline_of_one_waiter_does_not_end_another(backend: &Backend, client: Client) {
    backend.preload();
    let latch = shut(&client, 1).await;
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
async fn subscription_ends_with_the_last_waiter(backend: &Backend, client: Client) {
    backend.preload();
    let latch = shut(&client, 1).await;
    let channel = "redlatch:{x}:b";
    assert_eq!(backend.subscribers(channel), 0);
    let waiters = [(); 2].map(|()| waiting(latch.clone()));
    listening(&client, 2).await;
    for waiter in waiters {
        backend.pass(50 * MS).await;
        assert_eq!(backend.subscribers(channel), 1);
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
    }
    let ended = async || backend.subscribers(channel) == 0;
    wait_for("the subscription to end", ended).await;
    client.settled().await;
    assert_eq!(backend.keys(), ["redlatch:{x}", "redlatch:{x}:o"]);
}

// L6
async fn many_latches_are_waited_for_at_once(backend: &Backend, [a, b]: [Client; 2]) {
    backend.preload();
    let many = 500;
    let names: Vec<_> = (0..many).map(|i| format!("n{i}")).collect();
    let set = |name| a.count_down_latch(name).try_set_count(1).into_future();
    let sets = names.iter().map(set);
    assert!(join_all(sets).await.into_iter().all(Result::unwrap));
    let wait = |name| waiting(b.count_down_latch(name));
    let waiters: Vec<_> = names.iter().map(wait).collect();
    listening(&b, many).await;
    assert!(b.tables().queues == many);
    for name in &names {
        a.count_down_latch(name).count_down(1).await.unwrap();
    }
    passed(waiters).await;
}
