//! What is the same for several kinds.

use std::slice;

use redlatch_tests::calls::{self, Kind, Wait};

use crate::{
    fair::support::{Grants, listening},
    holds::{self, Lease},
    prelude::*,
};

behaviours! {
    Everywhere:
        grants_come_in_order_of_arrival;
    Cluster:
        commands_per_acquisition_stay_flat_as_waiters_grow;
    Single:
        closing_ends_waits_and_refuses_calls,
        closing_releases_holds_of_every_kind,
        too_many_waiters_are_refused;
}

const LEASE: Lease = Lease::Renewed(Duration::from_secs(30));

async fn grants_come_in_order_of_arrival(_: Emptied<'_>, clients: [Client; 4]) {
    for kind in ["fair", "write"] {
        let (hold, grants, mut tasks) = (holds::of(kind), Grants::default(), Vec::new());
        let guard = hold(&clients[0], LEASE).await;
        for who in 0..40 {
            // Clients in an order that repeats nothing.
            let waiting = hold(&clients[who * who / 3 % 4], LEASE);
            let grants = grants.clone();
            tasks.push(tokio::spawn(async move {
                let guard = waiting.await;
                grants.note(who);
                guard.release().await.unwrap();
            }));
            wait_for("a waiter to queue", async || {
                clients[0].object(kind).await.unwrap().unwrap().waiters == who as u64 + 1
            })
            .await;
        }
        guard.release().await.unwrap();
        finished(tasks).await;
        assert_eq!(grants.list(), (0..40).collect::<Vec<_>>(), "{kind}");
    }
}

// L8
async fn commands_per_acquisition_stay_flat_as_waiters_grow(backend: Emptied<'_>) {
    let clients = join_all((0..4).map(|_| backend.patient_client())).await;
    listening(&backend, &clients).await;
    // The release of the first holder is none of theirs, or allowed for.
    for (kind, first, few) in [("fair", 1, 5.0), ("write", 0, 6.0)] {
        let hold = holds::of(kind);
        for waiters in [1, 16, 128, 1_000] {
            let guard = hold(&clients[0], LEASE).await;
            let before = backend.script_calls();
            let tasks = spawned(waiters, |who| {
                let waiting = hold(&clients[who % 4], LEASE);
                async move { waiting.await.release().await.unwrap() }
            });
            backend.pass(50 * MS).await;
            guard.release().await.unwrap();
            finished(tasks).await;
            let calls = backend.script_calls() - before - first;
            let each = calls as f64 / waiters as f64;
            println!("{kind}, {waiters} waiters: {each:.2} commands per acquisition");
            // Ticket, take, release; the looks of four clients come on top.
            let most = if waiters < 100 { few } else { 3.5 };
            assert!(each <= most, "{kind}: {each} with {waiters} waiters");
        }
    }
    assert_all_empty(&clients).await;
}

/// The kinds on one server: those of these names, or all.
fn kinds(names: &[&str]) -> Vec<&'static dyn Kind> {
    let mut kinds = calls::KINDS.to_vec();
    kinds.retain(|kind| {
        let is_wanted = names.is_empty() || names.contains(&format!("{kind:?}").as_str());
        is_wanted && kind.servers() == 1
    });
    kinds
}

// L20
async fn closing_ends_waits_and_refuses_calls(backend: &Backend, other: Client) {
    for kind in kinds(&[]) {
        let (client, others) = ([backend.client().await], [other.clone()]);
        let calls = kind.calls(&client).await;
        let waits = kind.waits(&others, &client).await.into_iter();
        let spawn = |wait: Wait| (wait.what, tokio::spawn(wait.call), wait.free);
        let waits: Vec<_> = waits.map(spawn).collect();
        let all_wait = async || client[0].tables().waiters >= waits.len();
        wait_for("all to wait", all_wait).await;
        client[0].close_now().await;
        let closed = |what: &str, error: Error| {
            let of_guard = ["extend", "upgrade", "downgrade"].contains(&what);
            let lost = of_guard && error.loss() == Some(LossCause::Closed);
            let is_closed = lost || error.kind() == ErrorKind::Closed;
            assert!(is_closed, "{kind:?}, {what}: {error:?}");
        };
        for (what, call, free) in waits {
            closed(what, call.await.unwrap().unwrap_err());
            free.await.unwrap();
        }
        // The close has released what is held.
        for call in calls.into_iter().filter(|call| call.what != "release") {
            closed(call.what, call.run.await.unwrap_err());
        }
        assert_tables_empty(&client[0]).await;
    }
}

// L20
async fn closing_releases_holds_of_every_kind(client: Client, other: Client) {
    let holds = holds::all(&client, Lease::Fixed(60 * SECOND)).await;
    let readers = (0..10).map(|_| client.read_write_lock("x").read().into_future());
    let readers = try_join_all(readers).await.unwrap();
    client.close_now().await;
    assert!(holds.iter().all(|(_, guard)| guard.check().is_err()));
    assert!(readers.iter().all(|guard| guard.check().is_err()));
    let write = other.read_write_lock("x").try_write().await.unwrap();
    assert!(write.is_some(), "all readers are released");
    let again = timeout(GENEROUS, holds::all(&other, LEASE)).await;
    again.expect("all are released");
    let job = client.once("x").every(SECOND);
    let served = job.serve(async |_: &JobRun| Ok::<_, String>(())).await;
    assert_fails(served, ErrorKind::Closed);
}

async fn too_many_waiters_are_refused(backend: &Backend, other: Client) {
    for kind in kinds(&["Lock", "ReadWrite", "Semaphore", "Latch", "Limit"]) {
        let client = backend.builder().max_waiters(1).connect().await.unwrap();
        let waits = kind
            .waits(slice::from_ref(&other), slice::from_ref(&client))
            .await;
        let mut waits = waits.into_iter();
        let Wait { call, free, .. } = waits.next().unwrap();
        let first = tokio::spawn(call);
        wait_for("the waiter", async || client.tables().waiters == 1).await;
        let refused = |error: Error| {
            assert_eq!(error.kind(), ErrorKind::TooManyWaiters, "{kind:?}");
            assert!(error.is_transient());
        };
        for wait in waits {
            refused(wait.call.await.unwrap_err());
            wait.free.await.unwrap();
        }
        refused(client.lock("x").try_lock().await.map(drop).unwrap_err());
        // Counting is no waiting.
        let latch = client.count_down_latch("x");
        assert!(latch.try_set_count(1).await.unwrap());
        assert_eq!(latch.count_down(1).await.unwrap(), 0);
        free.await.unwrap();
        first.await.unwrap().unwrap();
        assert_tables_empty(&client).await;
    }
}
