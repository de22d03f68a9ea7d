//! A lock over a quorum of servers that know nothing of each other.

use redlatch_behaviours::multi::{
    Fleet,
    red_lock::{hasty, red},
};
use tokio::task::yield_now;

use crate::{prelude::*, trouble::lose_notes};

fn stop(node: &Backend) {
    node.embedded_server().stop();
}

fn resume(node: &Backend) {
    node.embedded_server().resume();
}

#[tokio::test(start_paused = true)]
async fn quorum_of_closed_clients_fails_at_once() {
    let clients = Fleet::embedded(5).clients().await;
    let lock = red(&clients);
    let started = Instant::now();
    for (at, client) in clients.iter().enumerate().take(3) {
        client.close_now().await;
        match lock.lock().await {
            Ok(guard) => drop(guard.release().await.unwrap()),
            Err(error) => assert_eq!((at, error.kind()), (2, ErrorKind::Closed)),
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
    assert!((2 * SECOND..2_050 * MS).contains(&took), "{took:?}");
    guard.release().await.unwrap();
    fleet.assert_nothing_left(&clients).await;
}

// L42
#[tokio::test(start_paused = true)]
async fn hanging_nodes_delay_an_attempt_by_their_timeout_at_most() {
    let fleet = Fleet::embedded(5);
    let clients = fleet.clients().await;
    fleet.0[..2].iter().for_each(stop);
    let lock = hasty(&clients);
    let guard = lock.try_lock().await.unwrap().unwrap();
    assert_eq!(guard.nodes_held(), 3);
    // A third makes a quorum impossible.
    fleet.0[2].embedded_server().stop();
    guard.release().await.unwrap();
    let error = lock.try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("no answer in time"), "{error}");
    fleet.0[..3].iter().for_each(resume);
    fleet.pass(SECOND).await;
    // What they were asked meanwhile does no harm, whenever they answer.
    fleet.assert_nothing_left(&clients).await;
}

#[tokio::test(start_paused = true)]
async fn hold_is_lost_when_a_quorum_cannot_be_renewed() {
    let fleet = Fleet::embedded(5);
    let clients = fleet.clients().await;
    let lock = hasty(&clients).lock().renewed_lease(3 * SECOND);
    let guard = lock.await.unwrap();
    fleet.0[..2].iter().for_each(stop);
    fleet.pass(20 * SECOND).await;
    assert_eq!((guard.nodes_held(), guard.state()), (3, HoldState::Held));
    fleet.0[2].embedded_server().stop();
    within(3 * SECOND, "the loss", guard.lost()).await;
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

/// Others hold all nodes. The waiter has begun with the clock of the client that is closed.
#[tokio::test(start_paused = true)]
async fn waiter_still_pauses_after_the_close_of_a_client() {
    let fleet = Fleet::embedded(3);
    fleet.0.iter().for_each(Backend::preload);
    let (clients, others) = (fleet.clients().await, fleet.clients().await);
    let held = red(&others).lock().await.unwrap();
    let strategy = WaitStrategy::Poll(Backoff::constant(100 * MS));
    let waiting = red(&clients).lock().strategy(strategy);
    let waiting = tokio::spawn(waiting.into_future());
    fleet.pass(SECOND).await;
    clients[0].close_now().await;
    let before = fleet.0[1].script_calls();
    // An attempt may undo what it has not awaited.
    let attempts = || (fleet.0[1].script_calls() - before).div_ceil(2);
    for _ in 0..1_000 {
        yield_now().await;
    }
    assert!(attempts() <= 2, "{} at one time", attempts());
    fleet.pass(SECOND).await;
    assert!((5..=13).contains(&attempts()), "{} in 1 s", attempts());
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(guard.nodes_held(), 2);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn close_of_a_client_leaves_the_other_nodes_their_time() {
    let fleet = Fleet::embedded(3);
    let clients = fleet.clients().await;
    fleet.0[1..].iter().for_each(stop);
    let waiting = tokio::spawn(red(&clients).try_lock().into_future());
    fleet.pass(100 * MS).await;
    clients[0].close_now().await;
    fleet.pass(100 * MS).await;
    assert!(!waiting.is_finished());
    fleet.0[1..].iter().for_each(resume);
    let guard = waiting.await.unwrap().unwrap().unwrap();
    assert_eq!(guard.nodes_held(), 2);
    guard.release().await.unwrap();
}

/// A lease of ten minutes on one node would outlast the time after which a wiped node counts.
#[tokio::test(start_paused = true)]
async fn all_nodes_get_the_default_lease_of_the_first_client() {
    let fleet = Fleet::embedded(3);
    let mut clients = fleet.clients().await;
    let builder = fleet.0[2].builder().default_lease(600 * SECOND);
    clients[2] = builder.connect().await.unwrap();
    let guard = red(&clients).lock().await.unwrap();
    assert_eq!(guard.nodes_held(), 3);
    for client in &clients {
        let left = client.lock("x").remaining().await.unwrap().unwrap();
        assert!(left > 25 * SECOND && left <= 30 * SECOND, "{left:?}");
    }
    guard.release().await.unwrap();
}

/// The servers answer no write of a note, which takes longer than the time per node.
#[tokio::test(start_paused = true)]
async fn note_takes_no_time_of_the_nodes() {
    let fleet = Fleet::embedded(3);
    let clients = fleet.clients().await;
    fleet.pass(60 * SECOND).await;
    fleet.0.iter().for_each(lose_notes);
    let guard = clients[0].red_lock("x", &clients[1..]).try_lock();
    let guard = within(2 * SECOND, "the note", guard.note("import")).await;
    assert_eq!(guard.unwrap().expect("all are free").nodes_held(), 3);
}

#[tokio::test(start_paused = true)]
async fn note_is_shown_by_each_node() {
    let fleet = Fleet::embedded(3);
    let (clients, others) = (fleet.clients().await, fleet.clients().await);
    let guard = red(&clients).lock().note("import").await.unwrap();
    for other in &others {
        let holder = other.lock("x").holders().await.unwrap().remove(0);
        assert_eq!(holder.note.as_deref(), Some("import"));
    }
    guard.release().await.unwrap();
}
