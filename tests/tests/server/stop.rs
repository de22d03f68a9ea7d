//! A server that is suspended: it answers nobody, and acts on what it was sent when it goes on.

use std::time::Instant;

use redlatch::{Client, Error, ErrorKind, LockGuard, LossCause};
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, SECOND, assert_nothing_left, held_until, registered, wall_millis},
    server::ServerBinary,
    stall::StallWatch,
};
use tokio::task::JoinHandle;

redlatch_tests::on_every_server!(
    every_holder_learns_of_loss_before_its_key_expires,
    buffered_requests_of_a_stopped_server_do_no_harm,
);

/// When and why the holder of a name was told.
struct Told {
    name: String,
    cause: LossCause,
    at: u64,
}

// L12
async fn every_holder_learns_of_loss_before_its_key_expires(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let client = backend.client().await;
    let mut guards = hold(&client, "renewed", 60, true).await;
    // Some have been renewed by the time the server stops.
    backend.pass(700 * MS).await;
    guards.extend(hold(&client, "fixed", 60, false).await);
    let stalls = StallWatch::start();
    let stopped = Instant::now();
    server.stop();
    let mut told = Vec::new();
    for task in guards.iter().map(watch).collect::<Vec<_>>() {
        told.push(task.await.unwrap());
    }
    // No renewal that the server finds when it goes on may still count.
    backend
        .pass((3_500 * MS).saturating_sub(stopped.elapsed()))
        .await;
    let late = u64::try_from(stalls.worst().as_millis()).unwrap();
    drop(stalls);
    server.cont();
    let mut margins = Vec::new();
    for told in &told {
        let until = held_until(server, &told.name);
        assert!(
            told.at < until + late,
            "{} was told {} ms late ({}; timers were up to {late} ms late)",
            told.name,
            told.at - until,
            told.cause
        );
        margins.push(i128::from(until) - i128::from(told.at));
    }
    margins.sort_unstable();
    println!(
        "{binary}: 120 holds told {} to {} ms before their keys ended, timers up to {late} ms late",
        margins[0],
        margins[margins.len() - 1]
    );
    drop(guards);
    assert_nothing_left(&backend, &[&client]).await;
}

/// Holds `n` names with leases of 1, 2 and 3 seconds.
async fn hold(client: &Client, stem: &str, n: u32, renewed: bool) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for i in 0..n {
        let acquire = client.lock(format!("{stem}-{i}")).lock();
        let lease = (1 + i % 3) * SECOND;
        let acquire = if renewed {
            acquire.renewed_lease(lease)
        } else {
            acquire.lease(lease)
        };
        guards.push(acquire.await.unwrap());
    }
    guards
}

fn watch(guard: &LockGuard) -> JoinHandle<Told> {
    let (name, lost) = (guard.name().to_owned(), guard.lost());
    tokio::spawn(async move {
        let cause = lost.await;
        let at = wall_millis();
        Told { name, cause, at }
    })
}

// L2, L4, L49
async fn buffered_requests_of_a_stopped_server_do_no_harm(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let (a, b) = (backend.client().await, backend.client().await);
    let dropped = hold(&a, "dropped", 20, true).await;
    let kept = a.lock("kept").lock().await.unwrap();
    let waiter = {
        let lock = b.lock("kept");
        tokio::spawn(async move { lock.try_lock_for(700 * MS).await })
    };
    registered(&backend, "kept").await;
    server.stop();
    drop(dropped);
    let started = Instant::now();
    let attempts: Vec<_> = (0..20)
        .map(|i| {
            let lock = b.lock(format!(
                "{}-{i}",
                if i % 2 == 0 { "free" } else { "dropped" }
            ));
            tokio::spawn(async move { lock.try_lock_for(300 * MS).await })
        })
        .collect();
    for attempt in attempts {
        let error = attempt.await.unwrap().map(drop).unwrap_err();
        assert!(is_unanswered(&error), "{error:?}");
    }
    assert!(
        started.elapsed() >= 290 * MS,
        "the caller's time is the caller's"
    );
    // A waiter that was told that the name is held need not ask again at its end; if it does,
    // nobody answers.
    if let Err(error) = waiter.await.unwrap() {
        assert!(is_unanswered(&error), "{error:?}");
    }
    assert!(started.elapsed() < 10 * SECOND);
    let stopped_for = started.elapsed();
    server.cont();
    kept.check().unwrap();
    assert_nothing_left_but(&backend, &a, &b, kept).await;
    println!("{binary}: nothing left after a stop of {stopped_for:?}");
}

/// Everything but `kept` is free and can be had, and then nothing is left.
async fn assert_nothing_left_but(backend: &Backend, a: &Client, b: &Client, kept: LockGuard) {
    for client in [a, b] {
        client.settled().await;
    }
    for name in ["free-0", "free-18", "dropped-0", "dropped-1", "dropped-19"] {
        let guard = b.lock(name).lock().await.unwrap();
        assert_eq!(b.lock(name).hold_count(guard.owner()).await.unwrap(), 1);
        guard.release().await.unwrap();
    }
    kept.release().await.unwrap();
    assert_nothing_left(backend, &[a, b]).await;
}

fn is_unanswered(error: &Error) -> bool {
    [ErrorKind::OutcomeUnknown, ErrorKind::Unavailable].contains(&error.kind())
}
