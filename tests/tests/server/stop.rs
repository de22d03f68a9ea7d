//! A server that is suspended: it answers nobody, and acts on what it was sent when it goes on.

use std::time::Instant;

use redlatch::{Client, Error, ErrorKind, LockGuard};
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, SECOND, assert_nothing_left, registered},
    server::ServerBinary,
};

redlatch_tests::on_every_server!(buffered_requests_of_a_stopped_server_do_no_harm,);

// L2, L4, L49
async fn buffered_requests_of_a_stopped_server_do_no_harm(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let (a, b) = (backend.client().await, backend.client().await);
    let mut dropped = Vec::new();
    for i in 0..20 {
        let lock = a.lock(format!("dropped-{i}")).lock();
        dropped.push(lock.renewed_lease((1 + i % 3) * SECOND).await.unwrap());
    }
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
