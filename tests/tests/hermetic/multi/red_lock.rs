//! A lock over a quorum of servers that know nothing of each other.

use redlatch::{ErrorKind, HoldState};
use redlatch_behaviours::{
    multi::{
        Fleet,
        red_lock::{hasty, red},
    },
    prelude::*,
};

#[tokio::test(start_paused = true)]
async fn quorum_of_closed_clients_fails_at_once() {
    let clients = Fleet::embedded(5).clients().await;
    let lock = red(&clients);
    let started = Instant::now();
    for (at, client) in clients.iter().enumerate().take(3) {
        client.close_now().await;
        match lock.lock().await {
            Ok(guard) => drop(guard.release().await.unwrap()),
            Err(error) => {
                assert_eq!((at, error.kind()), (2, ErrorKind::Closed));
            }
        }
    }
    assert!(lock.lock().await.is_err());
    assert!(started.elapsed() < 3 * SECOND, "not after the patience");
}

// L42
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_busy_quorum_ends_at_its_time() {
    let fleet = Fleet::embedded(5);
    let (clients, others) = (fleet.clients().await, fleet.clients().await);
    let guard = red(&others).lock().await.unwrap();
    let started = Instant::now();
    let lock = red(&clients);
    assert!(lock.try_lock_for(2 * SECOND).await.unwrap().is_none());
    let took = started.elapsed();
    assert!(
        took >= 2 * SECOND && took < 2 * SECOND + 50 * MS,
        "{took:?}"
    );
    guard.release().await.unwrap();
    fleet.assert_nothing_left(&clients).await;
}

// L42
#[tokio::test(start_paused = true)]
async fn hanging_nodes_delay_an_attempt_by_their_timeout_at_most() {
    let fleet = Fleet::embedded(5);
    let clients = fleet.clients().await;
    for node in &fleet.0[..2] {
        node.embedded_server().stop();
    }
    let lock = hasty(&clients);
    let guard = lock.try_lock().await.unwrap().unwrap();
    assert_eq!(guard.nodes_held(), 3);
    // A third makes a quorum impossible.
    fleet.0[2].embedded_server().stop();
    guard.release().await.unwrap();
    let error = lock.try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("no answer in time"), "{error}");
    for node in &fleet.0[..3] {
        node.embedded_server().resume();
    }
    fleet.pass(SECOND).await;
    // What they were asked meanwhile does no harm, whenever they answer.
    fleet.assert_nothing_left(&clients).await;
}

#[tokio::test(start_paused = true)]
async fn hold_is_lost_when_a_quorum_cannot_be_renewed() {
    let fleet = Fleet::embedded(5);
    let clients = fleet.clients().await;
    let guard = hasty(&clients)
        .lock()
        .renewed_lease(3 * SECOND)
        .await
        .unwrap();
    for node in &fleet.0[..2] {
        node.embedded_server().stop();
    }
    fleet.pass(20 * SECOND).await;
    assert_eq!((guard.nodes_held(), guard.state()), (3, HoldState::Held));
    fleet.0[2].embedded_server().stop();
    let started = Instant::now();
    guard.lost().await;
    assert!(started.elapsed() < 3 * SECOND);
    assert!(guard.check().is_err());
    // Nobody else gets it before.
    let other = fleet.0[3].client().await;
    assert!(other.lock("x").try_lock().await.unwrap().is_none());
}

/// The documented limit: a wiped node counts again once it has run for a lease, and until then it
/// does not.
#[tokio::test(start_paused = true)]
async fn a_wiped_node_does_not_make_two_holders() {
    let fleet = Fleet::embedded(3);
    let (a, b) = (fleet.clients().await, fleet.clients().await);
    fleet.pass(60 * SECOND).await;
    let first = a[0].red_lock("x", &a[1..]);
    let lease = 5 * SECOND;
    let guard = first.lock().lease(lease).await.unwrap();
    // Of its three nodes one never granted, as far as others know, and one forgets.
    a[2].lock("x").force_release().await.unwrap();
    fleet.0[1].embedded_server().restart_empty();
    let second = b[0].red_lock("x", &b[1..]);
    assert!(guard.check().is_ok());
    let taken = second.try_lock_for(2 * SECOND).lease(lease).await;
    assert!(taken.is_err() || taken.unwrap().is_none());
    guard.lost().await;
    let next = second.lock().lease(lease).await.unwrap();
    next.release().await.unwrap();
}
