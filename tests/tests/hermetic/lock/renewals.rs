//! Many holds and a server that is slow or far away: nothing is lost that can be kept.

use redlatch_embedded::engine::Condition;
use redlatch_tests::slow::{SlowTransport, Work, far_client};

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn slow_server_that_keeps_up_loses_no_hold() {
    let (backend, client, work) = slow(Backend::embedded()).await;
    // All at once, so that all are due at once, too: 20 s of work for what has 29.4 s.
    let guards = hold(&client, "x", 2000, 30 * SECOND).await;
    work.takes(10 * MS);
    work.most_in_line();
    for _ in 0..120 {
        backend.pass(SECOND).await;
        assert_eq!(lost(&guards), 0);
    }
    // What waits in line at the server cannot be overtaken, and its time-out has begun: about a
    // second.
    let most = work.most_in_line();
    assert!(most <= 128, "{most} in line");
    work.takes(Duration::ZERO);
    drop(guards);
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn urgent_renewals_overtake_others() {
    let (backend, client, work) = slow(Backend::embedded()).await;
    let long = hold(&client, "long", 1200, 30 * SECOND).await;
    let short = hold(&client, "short", 10, 6 * SECOND).await;
    // The long ones alone are 12 s of work as soon as they are due.
    work.takes(10 * MS);
    for _ in 0..600 {
        backend.pass(100 * MS).await;
        assert_eq!((lost(&short), lost(&long)), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn due_holds_are_renewed_in_time_after_a_pause_of_the_process() {
    let backend = Backend::embedded();
    let client = far_client(&backend, 100 * MS).await;
    // One pipeline of 256 after the other would need 2.6 s, and 2.2 s are left.
    let guards = hold(&client, "x", 3000, 6 * SECOND).await;
    backend.pass(SECOND).await;
    tokio::time::advance(2500 * MS).await;
    for _ in 0..100 {
        backend.pass(100 * MS).await;
        assert_eq!(lost(&guards), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn pause_of_the_process_does_not_repeat_a_request() {
    let backend = Backend::embedded();
    let client = far_client(&backend, 100 * MS).await;
    drop(hold(&client, "warm", 1, SECOND).await);
    client.settled().await;
    let before = backend.script_calls();
    let lock = client.lock("x");
    let taking = tokio::spawn(lock.try_lock().into_future());
    backend.pass(50 * MS).await;
    // The answer is on its way, and the time to wait for it has passed when somebody looks.
    tokio::time::advance(3 * SECOND).await;
    let guard = taking.await.unwrap().unwrap().unwrap();
    assert_eq!(backend.script_calls() - before, 1);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn recovered_server_receives_larger_batches() {
    let (backend, client, work) = slow(Backend::embedded()).await;
    let guards = hold(&client, "x", 1500, 30 * SECOND).await;
    work.takes(20 * MS);
    backend.pass(20 * SECOND).await;
    let before = work.served();
    work.takes(Duration::ZERO);
    backend.pass(12 * SECOND).await;
    assert_eq!(lost(&guards), 0);
    let renewed = work.served() - before;
    assert!(renewed >= 1500, "{renewed} renewals");
}

#[tokio::test(start_paused = true)]
async fn due_holds_are_unknown_while_the_server_is_silent() {
    let (backend, client, work) = slow(Backend::embedded()).await;
    let guards = hold(&client, "x", 500, 30 * SECOND).await;
    backend.pass(7 * SECOND).await;
    work.takes(3600 * SECOND);
    // All are due after 10 s, and those first asked for are given up a second later; most of the
    // others are never sent.
    backend.pass(5 * SECOND).await;
    assert_eq!(in_state(&guards, HoldState::Unknown), 500);
    work.takes(Duration::ZERO);
    backend.pass(5 * SECOND).await;
    assert_eq!(in_state(&guards, HoldState::Held), 500);
    work.takes(3600 * SECOND);
    backend.pass(30 * SECOND).await;
    let unreachable = HoldState::Lost(LossCause::Unreachable);
    assert_eq!(in_state(&guards, unreachable), 500);
}

#[tokio::test(start_paused = true)]
async fn refused_renewal_does_not_count_as_silence() {
    let backend = Backend::embedded();
    let client = far_client(&backend, 100 * MS).await;
    let guards = hold(&client, "x", 3000, 30 * SECOND).await;
    tokio::time::advance(11 * SECOND).await;
    let server = backend.embedded_server();
    server.set_condition(Condition::Busy, true);
    backend.pass(300 * MS).await;
    server.set_condition(Condition::Busy, false);
    let in_doubt = in_state(&guards, HoldState::Unknown);
    assert!((1..1000).contains(&in_doubt), "{in_doubt} in doubt");
    backend.pass(10 * SECOND).await;
    assert_eq!(in_state(&guards, HoldState::Held), 3000);
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_renewal_does_not_count_for_a_durable_guard() {
    let backend = Backend::embedded();
    backend.embedded_server().set_replicas(1);
    let (backend, client, work) = slow(backend).await;
    let server = backend.embedded_server();
    let others = hold(&client, "x", 2000, 30 * SECOND).await;
    let lock = client.lock("shared");
    let outer = lock.lock().renewed_lease(30 * SECOND).await.unwrap();
    work.takes(10 * MS);
    backend.pass(12 * SECOND).await;
    // Its renewal waits behind the others, to go without a wait for replicas.
    let joining = lock.lock().owner(outer.owner());
    let joining = joining.renewed_lease(30 * SECOND);
    let joined = joining.durability(Durability::Replicas(1)).into_future();
    let joined = tokio::spawn(joined);
    backend.pass(SECOND).await;
    let joined = joined.await.unwrap().unwrap();
    server.set_replicas(0);
    backend.pass(7 * SECOND).await;
    work.takes(Duration::ZERO);
    backend.pass(5 * SECOND).await;
    assert_eq!(joined.state(), HoldState::Unknown);
    backend.pass(19 * SECOND).await;
    let unreachable = HoldState::Lost(LossCause::Unreachable);
    assert_eq!((joined.state(), outer.state()), (unreachable, unreachable));
    assert_eq!(lost(&others), 0);
}

async fn hold(client: &Client, stem: &str, holds: usize, lease: Duration) -> Vec<LockGuard> {
    let locks = (0..holds).map(|i| client.lock(format!("{stem}{i}")));
    let locks: Vec<_> = locks.collect();
    let take = |lock: &Lock| lock.lock().renewed_lease(lease).into_future();
    let taken = join_all(locks.iter().map(take)).await.into_iter();
    taken.map(Result::unwrap).collect()
}

fn in_state(guards: &[LockGuard], state: HoldState) -> usize {
    guards.iter().filter(|guard| guard.state() == state).count()
}

fn lost(guards: &[LockGuard]) -> usize {
    guards.iter().filter(|guard| guard.check().is_err()).count()
}

/// Connects a client to a server that is fast until its work takes longer. Commands queue there.
pub(super) async fn slow(backend: Backend) -> (Backend, Client, Work) {
    let transport = SlowTransport::new(Arc::new(backend.embedded_transport()), Duration::ZERO);
    let work = transport.work();
    let client = backend.client_over(transport).await;
    // The scripts are there, or the first pipelines would come twice.
    let warm = hold(&client, "warm", 1, SECOND).await;
    backend.pass(SECOND).await;
    drop(warm);
    client.settled().await;
    (backend, client, work)
}
