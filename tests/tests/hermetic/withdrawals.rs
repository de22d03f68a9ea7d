//! Queue entries that come back although their waiters have gone: after a failover that loses
//! writes, or a restart from an old snapshot.

use redlatch_behaviours::releases::{Acquiring, Guard, WAYS};

use crate::prelude::*;

/// What is waited for.
#[derive(Clone, Copy)]
struct Kind {
    what: &'static str,
    acquire: fn(&Client, &str) -> Acquiring,
    /// Acquires what keeps the waiters waiting.
    hold: fn(&Client, &str) -> Acquiring,
}

/// The ways to hold one name, and a read behind a write.
fn kinds() -> impl Iterator<Item = Kind> {
    let ways = WAYS.into_iter().filter(|way| way.kind != "multi");
    let ways = ways.map(|way| Kind {
        what: way.kind,
        acquire: way.lock,
        hold: way.lock,
    });
    let read = Kind {
        what: "read",
        acquire: |client, name| {
            let read = client.read_write_lock(name).read();
            Box::pin(async move { read.await.map(|guard| Some(Box::new(guard) as Guard)) })
        },
        hold: |client, name| {
            let write = client.read_write_lock(name).write();
            Box::pin(async move { write.await.map(|guard| Some(Box::new(guard) as Guard)) })
        },
    };
    ways.chain([read])
}

fn kind(what: &str) -> Kind {
    kinds().find(|kind| kind.what == what).unwrap()
}

/// Returns how many entries all queues of `x` have.
fn entries(backend: &Backend) -> u64 {
    backend.members("redlatch:{x}:q") + backend.members("redlatch:{x}:r")
}

type Waiter = JoinHandle<<Acquiring as Future>::Output>;

async fn waiters(kind: Kind, client: &Client, n: usize) -> Vec<Waiter> {
    let acquires = (0..n).map(|_| tokio::spawn((kind.acquire)(client, "x")));
    let tasks: Vec<_> = acquires.collect();
    let wait = async || client.tables().waiters == n;
    eventually("waiters to wait", GENEROUS, wait).await;
    sleep(20 * MS).await;
    tasks
}

/// Makes a client wait for objects of every kind, each of another name.
async fn wait_for_every_kind(holder: &Client, client: &Client) {
    for kind in kinds() {
        let held = (kind.hold)(holder, kind.what).await.unwrap();
        let waited = timeout(10 * MS, (kind.acquire)(client, kind.what)).await;
        assert!(waited.is_err(), "{}", kind.what);
        drop(held);
    }
    holder.settled().await;
    client.settled().await;
}

/// Twenty entries of waiters that have gone come back in front of one that waits.
async fn entries_come_back(kind: Kind, same_client: bool) -> Duration {
    let (backend, [holder, ghosts, other]) = embedded().await;
    wait_for_every_kind(&holder, &ghosts).await;
    let guard = (kind.hold)(&holder, "x").await.unwrap();
    let gone = waiters(kind, &ghosts, 20).await;
    let before = backend.embedded_server().snapshot();
    assert!(entries(&backend) >= 1, "{} queues nowhere", kind.what);
    gone.iter().for_each(JoinHandle::abort);
    ghosts.settled().await;
    sleep(20 * MS).await;
    backend.embedded_server().restore(&before);

    let waiting = if same_client { &ghosts } else { &other };
    let alive = waiters(kind, waiting, 1).await;
    let start = Instant::now();
    drop(guard);
    for waiter in alive {
        drop(waiter.await.unwrap().unwrap());
    }
    let took = start.elapsed();
    assert_all_empty([&holder, &ghosts, &other]).await;
    took
}

#[tokio::test(start_paused = true)]
async fn restored_entries_are_withdrawn_at_once() {
    for kind in kinds() {
        for same_client in [false, true] {
            let took = entries_come_back(kind, same_client).await;
            assert!(took < 3 * SECOND, "{}, {same_client}: {took:?}", kind.what);
        }
    }
}

/// The readers of a batch hold back the next writer. Those that are not there any more hold it back
/// for a re-check at most.
#[tokio::test(start_paused = true)]
async fn restored_readers_do_not_block_a_writer() {
    let (backend, [holder, ghosts, others, writer]) = embedded().await;
    let guard = (kind("write").hold)(&holder, "x").await.unwrap();
    let first = waiters(kind("read"), &ghosts, 10).await;
    let second = waiters(kind("read"), &others, 10).await;
    let writing = waiters(kind("write"), &writer, 1).await;
    let before = backend.embedded_server().snapshot();
    first.iter().chain(&second).for_each(JoinHandle::abort);
    ghosts.settled().await;
    others.settled().await;
    sleep(20 * MS).await;
    backend.embedded_server().restore(&before);
    let start = Instant::now();
    drop(guard);
    for waiter in writing {
        drop(waiter.await.unwrap().unwrap());
    }
    assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
}

/// A writer that gave up holds back readers that come later, and nobody calls it while others read.
#[tokio::test(start_paused = true)]
async fn restored_writer_does_not_block_readers() {
    let (backend, [holder, client]) = embedded().await;
    let reading = holder.read_write_lock("x").read().await.unwrap();
    let gone = waiters(kind("write"), &client, 1).await;
    let before = backend.embedded_server().snapshot();
    gone.iter().for_each(JoinHandle::abort);
    client.settled().await;
    backend.embedded_server().restore(&before);
    // As a server does that takes over.
    backend.embedded_server().cut_connections();
    let start = Instant::now();
    for reader in waiters(kind("read"), &client, 3).await {
        drop(reader.await.unwrap().unwrap());
    }
    assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
    reading.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn forged_notifications_cost_one_request() {
    for kind in kinds() {
        let (backend, [holder, client]) = embedded().await;
        let guard = (kind.hold)(&holder, "x").await.unwrap();
        let waiting = waiters(kind, &client, 2).await;
        let calls = backend.script_calls();
        for says in [
            "redlatch:{x}",
            "redlatch:{x} 7",
            "redlatch:{y} 7",
            "nonsense",
            "{}",
        ] {
            let channel = format!("redlatch:w:{}", client.id());
            backend.command(&["PUBLISH", &channel, says]);
        }
        sleep(100 * MS).await;
        let served = waiting.iter().any(JoinHandle::is_finished);
        assert!(!served, "{}", kind.what);
        assert!(backend.script_calls() - calls < 20);
        drop(guard);
        for waiter in waiting {
            drop(waiter.await.unwrap().unwrap());
        }
    }
}

/// A hold that another client ends by force, or whose renewal it forbids, is lost within a round
/// trip, and not with the next renewal.
#[tokio::test(start_paused = true)]
async fn holder_learns_at_once_that_its_hold_was_forced() {
    for (what, lock) in LOCKS.into_iter().take(4) {
        for now in [true, false] {
            let (_backend, [holder, other]) = embedded().await;
            let guard = lock(&holder, "x").lock().await.unwrap();
            let start = Instant::now();
            assert!(forced(what, &other, now).await.unwrap(), "{what}");
            assert_eq!(guard.lost().await, LossCause::Revoked, "{what}");
            let took = start.elapsed();
            assert!(took < 100 * MS, "{what}, now {now}: {took:?}");
        }
    }
}

/// Ends the hold of `x`, or forbids its renewal.
async fn forced(what: &str, client: &Client, now: bool) -> Result<bool, Error> {
    let force = match what {
        "lock" => client.lock("x").force_release(),
        "fair" => client.fair_lock("x").force_release(),
        _ => {
            let force = client.read_write_lock("x").force_release();
            let ended = match now {
                true => force.await,
                false => force.after_lease().await,
            };
            return Ok(ended? == 1);
        }
    };
    match now {
        true => force.await,
        false => force.after_lease().await,
    }
}

/// Forged messages about holds cause a bounded number of renewals, and postpone none.
#[tokio::test(start_paused = true)]
async fn forged_messages_about_holds_keep_them() {
    let (backend, [client]) = embedded().await;
    let guard = client.lock("x").lock().await.unwrap();
    let channel = format!("redlatch:w:{}", client.id());
    let before = backend.script_calls();
    let start = Instant::now();
    while start.elapsed() < 60 * SECOND {
        for _ in 0..20 {
            backend.command(&["PUBLISH", &channel, "redlatch:{x} 0"]);
        }
        backend.pass(5 * MS).await;
    }
    let renewals = backend.script_calls() - before;
    assert!((6..=60_000).contains(&renewals), "{renewals}");
    guard.check().unwrap();
    assert!(guard.remaining() > 15 * SECOND, "{:?}", guard.remaining());
}

/// Whoever may publish can forge calls to waiters that have gone, and no more than that.
#[tokio::test(start_paused = true)]
async fn forged_calls_cause_a_bounded_number_of_requests() {
    let (backend, [client]) = embedded().await;
    // The client has waited for each kind.
    for kind in kinds() {
        let other = backend.client().await;
        let hold = (kind.hold)(&other, "x").await.unwrap();
        let waited = timeout(SECOND, (kind.acquire)(&client, "x")).await;
        assert!(waited.is_err(), "{}", kind.what);
        drop(hold);
        other.close_now().await;
        client.settled().await;
        for key in backend.keys() {
            backend.embedded_server().delete_key(key);
        }
    }
    let channel = format!("redlatch:w:{}", client.id());
    let before = backend.script_calls();
    let start = Instant::now();
    for n in 0.. {
        if start.elapsed() >= 4 * SECOND {
            break;
        }
        for m in 0..100 {
            let call = format!("redlatch:{{x{}}} {n}", m * 7 + n % 7);
            backend.command(&["PUBLISH", &channel, &call]);
        }
        backend.pass(MS).await;
    }
    let requests = backend.script_calls() - before;
    assert!((1_000..=4_500).contains(&requests), "{requests}");
}
