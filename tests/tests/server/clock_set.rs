//! A server whose clock is set while locks are held: no promise of exclusion is left (A2), all
//! others are.

use std::time::{Duration, Instant};

use redlatch::{
    Client, ErrorKind, LossCause, Released, Token,
    once::{JobRun, Once},
};
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    fixture::{SECOND, assert_nothing_left, held_until, registered, waiting},
    server::{Server, ServerBinary, ServerOptions},
    wait::{GENEROUS, eventually},
};
use tokio::time::timeout;

redlatch_tests::on_servers_with!(
    "a clock that can be set", ServerBinary::has_settable_clock;
    holders_learn_of_loss_when_the_clock_is_set_forward,
    clock_set_back_prolongs_the_hold_of_a_dead_client,
    requests_after_the_servers_clock_was_set_are_accepted,
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
    eventually("the waiters to look", GENEROUS, async || {
        backend.script_calls() >= asked + 4
    })
    .await;
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

/// A request says until when by the server's clock it may act. One that comes too late is refused,
/// and tells the time for the next.
async fn requests_after_the_servers_clock_was_set_are_accepted(binary: ServerBinary) {
    let backend = with_own_clock(&binary);
    let server = backend.server();
    let client = backend.client().await;
    backend.preload();
    client.semaphore("s").set_permits(3).await.unwrap();
    client
        .permit_expirable_semaphore("p")
        .set_permits(3)
        .await
        .unwrap();
    for kind in KINDS {
        let mut seen = Vec::new();
        for ahead in [0, FORWARD, 0, BACK, 0] {
            server.set_clock(ahead);
            let before = backend.script_calls();
            timeout(GENEROUS, once(&client, kind)).await.unwrap();
            client.settled().await;
            seen.push(backend.script_calls() - before);
        }
        let calls = seen[0];
        // A run of a job begins with a look, whose answer has the time.
        let step = if kind == "job" { 0 } else { 1 };
        let expected = [calls, calls + step, calls, calls, calls + step];
        assert_eq!(
            seen, expected,
            "{kind}: {step} refused after each step forward"
        );
    }
    println!("{binary}: one request refused after each step forward, none after one back");
    assert_tables_empty(&client).await;
}

/// Takes and gives back, or sets and opens, one of a kind, extending what can be extended.
async fn once(client: &Client, kind: &str) {
    match kind {
        "lock" => {
            let guard = client.lock("l").lock().await.unwrap();
            guard.extend(LEASE).await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Released::Free);
        }
        "fair" => {
            let guard = client.fair_lock("f").lock().await.unwrap();
            guard.extend(LEASE).await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Released::Free);
        }
        "read" => {
            let guard = client.read_write_lock("rw").read().await.unwrap();
            guard.extend(LEASE).await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Released::Free);
        }
        "write" => {
            let guard = client.read_write_lock("rw").write().await.unwrap();
            guard.extend(LEASE).await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Released::Free);
        }
        "semaphore" => {
            let guard = client.semaphore("s").acquire_many(2).await.unwrap();
            guard.extend(LEASE).await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Released::Free);
        }
        "permits" => {
            let permits = client.permit_expirable_semaphore("p");
            let id = permits.acquire().lease(LEASE).await.unwrap();
            permits.extend(&id, LEASE).await.unwrap();
            permits.release(&id).await.unwrap();
        }
        "latch" => {
            let latch = client.count_down_latch("latch");
            latch.try_set_count(1).await.unwrap();
            assert_eq!(latch.count_down(1).await.unwrap(), 0);
            latch.wait().await.unwrap();
            latch.delete().await.unwrap();
        }
        "job" => {
            // Each time shows another slot.
            let slot = format!("{:?}", Instant::now());
            let job = client.once("job").slot(&slot).lease(LEASE);
            let ran = job.run(async |_: &JobRun| Ok::<_, String>(())).await;
            assert!(matches!(ran.unwrap(), Once::Ran(())));
        }
        "fence" => {
            let fence = client.fence("redlatch:fence");
            let written = fence.set(Token::from_u64(1), "value").await.unwrap();
            assert!(written.is_written());
        }
        kind => panic!("nobody knows {kind}"),
    }
}

const KINDS: [&str; 9] = [
    "lock",
    "fair",
    "read",
    "write",
    "semaphore",
    "permits",
    "latch",
    "job",
    "fence",
];

/// How many seconds the clock is set forward, and back.
const FORWARD: i64 = 60;
const BACK: i64 = -120;

const LEASE: Duration = Duration::from_secs(30);
