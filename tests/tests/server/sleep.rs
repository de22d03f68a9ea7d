//! A server that sleeps: alive, and answering nobody for longer than leases last, or not quite as
//! long.

use std::{thread, time::Instant};

use redlatch::{HoldState, LossCause, Released};
use redlatch_tests::{
    backend::Backend,
    fixture::{SECOND, assert_nothing_left, registered, waiting},
    server::ServerBinary,
    wait::GENEROUS,
};
use tokio::time::timeout;

redlatch_tests::on_every_server!(holder_learns_of_loss_before_a_sleeping_server_grants_the_next);

// L12
async fn holder_learns_of_loss_before_a_sleeping_server_grants_the_next(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let (a, b) = (backend.client().await, backend.client().await);
    let short = a.lock("short").lock().renewed_lease(2 * SECOND);
    let short = short.await.unwrap();
    let long = a.lock("long").lock().await.unwrap();
    let waiter = waiting(b.lock("short"));
    registered(&backend, "short").await;
    let told = tokio::spawn({
        let lost = short.lost();
        async move { (lost.await, Instant::now()) }
    });
    let mut admin = backend.server().connect().unwrap();
    let asleep = thread::spawn(move || {
        admin.command(&["DEBUG", "SLEEP", "4"]).unwrap().unwrap();
        Instant::now()
    });
    let next = timeout(GENEROUS, waiter).await.unwrap().unwrap();
    let granted = Instant::now();
    let (cause, told) = told.await.unwrap();
    let awake = asleep.join().unwrap();
    // Which of the two depends on whether a renewal was under way when it fell asleep.
    let expected = [LossCause::Unreachable, LossCause::Expired];
    assert!(expected.contains(&cause), "{cause}");
    assert!(told < granted, "two holders");
    println!(
        "{binary}: told {:?} before it awoke; the next had it {:?} after that",
        awake - told,
        granted.saturating_duration_since(awake),
    );
    assert!(next.token() > short.token());
    assert_eq!(next.release().await.unwrap(), Released::Free);
    long.extend(60 * SECOND).await.unwrap();
    assert_eq!(long.state(), HoldState::Held, "its lease is longer");
    assert_eq!(long.release().await.unwrap(), Released::Free);
    drop(short);
    assert_nothing_left(&backend, &[&a, &b]).await;
}
