//! A server whose clock is set while locks are held: no promise of exclusion is left (A2), all
//! others are.

use std::time::Instant;

use redlatch_tests::fixture::held_until;

use crate::prelude::*;

redlatch_tests::on_servers_with!(
    "a clock that can be set", ServerBinary::has_settable_clock;
    holders_learn_of_loss_when_the_clock_is_set_forward,
    clock_set_back_prolongs_the_hold_of_a_dead_client,
);

fn with_own_clock(binary: &ServerBinary) -> Backend {
    Backend::Real(Server::start(binary, ServerOptions::new().own_clock()))
}

// L12
async fn holders_learn_of_loss_when_the_clock_is_set_forward(binary: ServerBinary) {
    let backend = with_own_clock(&binary);
    let server = backend.server();
    let (a, b) = (backend.client().await, backend.client().await);
    let fixed = a.lock("fixed").lock().lease(LEASE).await.unwrap();
    let renewed = a.lock("renewed").lock().renewed_lease(9 * SECOND);
    let renewed = renewed.await.unwrap();
    let fair = a.fair_lock("fair").lock().lease(LEASE).await.unwrap();
    let waiter = waiting(b.lock("fixed"));
    registered(&backend, "fixed").await;
    let fair_waiter = tokio::spawn(b.fair_lock("fair").lock().into_future());
    registered(&backend, "fair").await;
    let ends = ["fixed", "renewed", "fair"].map(|name| held_until(server, name));
    server.set_clock(FORWARD);
    let (set, now) = (Instant::now(), server.millis());
    assert!(ends.iter().all(|ends| *ends < now), "{ends:?} by {now}");
    // Gone at once: a newcomer gets it, and the next renewal of the holder says so.
    let next = b.lock("renewed").try_lock().await.unwrap();
    let next = next.expect("its lease is over for the server");
    assert!(next.token() > renewed.token(), "the fence rises");
    assert_eq!(renewed.lost().await, LossCause::Taken);
    println!("{binary}: told by a renewal after {:?}", set.elapsed());
    // Waiters hear nothing of it, and look by timers of their own.
    let second = timeout(GENEROUS, waiter).await.unwrap().unwrap();
    println!("{binary}: its waiter served after {:?}", set.elapsed());
    let third = timeout(GENEROUS, fair_waiter).await.unwrap();
    let third = third.unwrap().unwrap();
    println!("{binary}: the fair one's after {:?}", set.elapsed());
    assert!(second.token() > fixed.token() && third.token() > fair.token());
    let error = fixed.extend(LEASE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(LossCause::Taken), "{error:?}");
    assert_eq!(fixed.release().await.unwrap(), Released::TakenOver);
    let error = fair.extend(LEASE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(LossCause::Taken), "{error:?}");
    for guard in [next, second] {
        assert_eq!(guard.release().await.unwrap(), Released::Free);
    }
    third.release().await.unwrap();
    drop((renewed, fair));
    assert_nothing_left(&backend, &[&a, &b]).await;
}

async fn clock_set_back_prolongs_the_hold_of_a_dead_client(binary: ServerBinary) {
    let backend = with_own_clock(&binary);
    let server = backend.server();
    let (a, b) = (backend.client().await, backend.client().await);
    let dead = a.lock("dead").lock().lease(3 * SECOND).await.unwrap();
    let lives = a.lock("lives").lock().renewed_lease(3 * SECOND);
    let lives = lives.await.unwrap();
    let for_dead = waiting(b.lock("dead"));
    registered(&backend, "dead").await;
    let for_living = waiting(b.lock("lives"));
    registered(&backend, "lives").await;
    let expiry = held_until(server, "dead");
    server.set_clock(BACK);
    // Its holder knows by its own clock, which nobody has set; the server does not. A lease and the
    // jump, and no longer.
    dead.lost().await;
    let left = expiry - server.millis();
    assert_eq!(held_until(server, "dead"), expiry);
    assert!((100_000..=123_000).contains(&left), "{left} ms");
    assert!(!for_dead.is_finished());
    // The server says that it is no use to look for two minutes. They look all the same.
    let asked = backend.script_calls();
    let looked = async || backend.script_calls() >= asked + 4;
    wait_for("the waiters to look", looked).await;
    assert!(!for_dead.is_finished());
    // Renewals of the living go on, and its release wakes its waiter as ever.
    lives.extend(3 * SECOND).await.unwrap();
    assert_eq!(lives.release().await.unwrap(), Released::Free);
    let released = Instant::now();
    let next = timeout(GENEROUS, for_living).await.unwrap().unwrap();
    println!("{binary}: handed over in {:?}", released.elapsed());
    next.release().await.unwrap();
    server.set_clock(0);
    let right = Instant::now();
    let next = timeout(GENEROUS, for_dead).await.unwrap().unwrap();
    println!("{binary}: served {:?} after it was right", right.elapsed());
    assert!(next.token() > dead.token());
    assert_eq!(next.release().await.unwrap(), Released::Free);
    drop(dead);
    assert_nothing_left(&backend, &[&a, &b]).await;
}

/// How many seconds the clock is set forward, and back.
const FORWARD: i64 = 60;
const BACK: i64 = -120;

const LEASE: Duration = Duration::from_secs(30);
