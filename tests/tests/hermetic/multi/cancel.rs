//! Locks over several may be dropped at every await: poll k times, drop, look what is left (L2,
//! L41).

use std::cell::RefCell;

use redlatch::{Client, Lockable, RedLock};
use redlatch_behaviours::{
    multi::{
        Fleet,
        mixes::{assert_quiet, mix},
    },
    prelude::*,
};

use crate::cancel::{Task, after_each_poll, polled, task};

/// Polls what `make` gives 1, 2, 3, … times and drops it, until it is done before that. After each
/// drop `check` looks what is left.
async fn dropped_at_every_await(
    nodes: usize,
    make: impl AsyncFn(&Fleet, &[Client]) -> (Task,),
    check: impl AsyncFn(&Fleet, &[Client], u32),
) -> u32 {
    after_each_poll(async |polls| {
        let fleet = Fleet::embedded(nodes);
        let clients = fleet.clients().await;
        let (task,) = make(&fleet, &clients).await;
        let done = polled(&fleet.0[0], task, polls).await.is_some();
        check(&fleet, &clients, polls).await;
        done
    })
    .await
}

async fn nothing_left(fleet: &Fleet, clients: &[Client], _: u32) {
    fleet.pass(10 * MS).await;
    fleet.assert_nothing_left(clients).await;
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_multi_lock_leaves_nothing() {
    let make = async |_: &Fleet, clients: &[Client]| {
        let (a, b) = (clients[0].lock("a"), clients[1].lock("b"));
        let all = clients[0].multi_lock(&[&a, &b, &clients[0].lock("c")]);
        (task(async move {
            let guard = all.lock().lease(300 * MS).await.unwrap();
            guard.release().await.unwrap();
        }),)
    };
    assert!(dropped_at_every_await(2, make, nothing_left).await > 3);
}

/// Members of every kind. Either they are free, or each is held by another for a while, so that it
/// is waited for, and others behind it are free or not. After each drop others get everything.
#[tokio::test(start_paused = true)]
async fn cancelled_mixed_lock_leaves_nothing() {
    for (busy, least) in [(false, 5), (true, 50)] {
        let held = RefCell::new(None);
        let make = async |fleet: &Fleet, clients: &[Client]| {
            if busy {
                let guard = mix(&fleet.clients().await).lock().await.unwrap();
                held.replace(Some(tokio::spawn(async move {
                    for (at, member) in guard.into_members().into_iter().enumerate() {
                        tokio::time::sleep(5 * MS * (at as u32 + 1)).await;
                        member.release().await.unwrap();
                    }
                })));
            }
            let waiting = mix(clients).lock().into_future();
            (task(async move { waiting.await.unwrap() }),)
        };
        let check = async |fleet: &Fleet, clients: &[Client], polls| {
            let holder = held.take();
            finished(holder).await;
            for client in clients {
                client.settled().await;
            }
            let others = fleet.clients().await;
            let again = mix(&others).try_lock().await.unwrap();
            let again = again.unwrap_or_else(|| panic!("{busy}: held after {polls} polls"));
            again.release().await.unwrap();
            assert_quiet(fleet, clients).await;
            assert_quiet(fleet, &others).await;
        };
        let polls = dropped_at_every_await(2, make, check).await;
        assert!(polls > least, "{busy}: {polls}");
    }
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_red_lock_leaves_nothing() {
    let make = async |_: &Fleet, clients: &[Client]| {
        let locks: Vec<_> = clients.iter().map(|client| client.lock("x")).collect();
        let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
        let lock = RedLock::builder(&nodes).durable_nodes().build().unwrap();
        (task(async move {
            lock.lock().await.unwrap().release().await.unwrap()
        }),)
    };
    dropped_at_every_await(3, make, nothing_left).await;
}
