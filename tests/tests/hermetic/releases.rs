//! Releases and undos in the background: what is refused for a while, and what asks behind them.

use std::{
    sync::atomic::Ordering::Relaxed,
    task::{Context, Wake, Waker},
};

use redlatch::{
    NodeOutcomes,
    runtime::{Command, ServerError},
};
use redlatch_behaviours::{
    multi::{Fleet, red_lock::red},
    releases::{WAYS, guarded},
};
use redlatch_embedded::calls;

use crate::{prelude::*, spawning::lingering_client};

/// Whoever had the right to ask has it again: nothing of the time between may last longer.
#[tokio::test(start_paused = true)]
async fn releases_refused_for_half_a_second_are_sent_again() {
    for way in WAYS {
        let (backend, [client, other]) = embedded().await;
        let server = backend.embedded_server();
        let holder = (way.lock)(&client, "x").await.unwrap();
        let wait = |client: &Client| {
            let acquiring = (way.lock)(client, "x");
            tokio::spawn(async move { acquiring.await.map(drop) })
        };
        let cancelled: Vec<_> = (0..10).map(|_| wait(&client)).collect();
        backend.pass(100 * MS).await;
        let waiters: Vec<_> = (0..10).map(|_| wait(&other)).collect();
        backend.pass(100 * MS).await;

        // Its scripts alone are refused, so that those who wait go on waiting.
        refuse(&backend);
        drop(holder);
        cancelled.iter().for_each(JoinHandle::abort);
        backend.pass(500 * MS).await;
        server.clear_trouble();

        let served = async {
            for served in join_all(waiters).await {
                // One that asked meanwhile was told that it may not.
                drop(served.unwrap());
            }
            client.settled().await;
            other.settled().await;
        };
        let served = timeout(3 * SECOND, served).await;
        assert!(served.is_ok(), "{}: somebody still waits", way.kind);
        // A permit with an id goes back by a task of its own.
        backend.pass(100 * MS).await;
        let again = timeout(SECOND, (way.try_lock)(&other, "x"));
        assert!(again.await.unwrap().unwrap().is_some(), "{}", way.kind);
    }
}

/// An acquisition whose request is refused ends with the error; what an earlier request of it may
/// have taken is given back all the same.
#[tokio::test(start_paused = true)]
async fn refused_acquisition_is_undone_once_the_server_allows_it() {
    for way in WAYS {
        let (backend, [client, other]) = preloaded().await;
        let server = backend.embedded_server();
        // Granted, and nobody knows.
        let on = Arc::new(AtomicBool::new(false));
        refuse_if(&backend, &on);
        let of_script = calls::of_scripts();
        let lost = move |command: &Command| {
            let lost = of_script(command);
            on.fetch_or(lost, Relaxed);
            lost
        };
        server.drop_reply(lost, LostReply::Cuts);
        let refused = (way.lock)(&client, "x").await;
        assert!(refused.is_err(), "{}: {:?}", way.kind, refused.map(drop));
        backend.pass(500 * MS).await;
        server.clear_trouble();
        backend.pass(3 * SECOND).await;
        assert_eq!(client.tables().pending_releases, 0, "{}", way.kind);
        let free = (way.try_lock)(&other, "x").await.unwrap();
        assert!(free.is_some(), "{}: it stays taken", way.kind);
    }
}

/// A caller of `release` learns that it was refused, and the release goes on in the background.
#[tokio::test(start_paused = true)]
async fn refused_release_is_an_error_and_goes_on_in_the_background() {
    let (backend, [client]) = embedded().await;
    let guard = client.lock("x").lock().await.unwrap();
    refuse(&backend);
    assert_fails(guard.release().await, ErrorKind::Permission);
    assert!(client.lock("x").try_lock().await.is_err());
    backend.embedded_server().clear_trouble();
    backend.pass(3 * SECOND).await;
    assert!(client.lock("x").try_lock().await.unwrap().is_some());
}

/// The error of several members names those that may be held still. The others are released.
#[tokio::test(start_paused = true)]
async fn refused_release_of_several_names_those_that_were_refused() {
    let backends = [Backend::embedded(), Backend::embedded()];
    let (one, two) = (backends[0].client().await, backends[1].client().await);
    let all = one.multi_lock(&[&one.lock("a"), &one.fair_lock("b"), &two.lock("c")]);
    let guard = all.lock().await.unwrap();
    refuse(&backends[0]);
    let refused = guard.release().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Permission);
    let text = refused.to_string();
    let expected = "2 of 3 members (\"b\", \"a\") may be held until their leases end: ";
    assert!(text.starts_with(expected), "{text}");
    assert!(two.lock("c").try_lock().await.unwrap().is_some());

    // One that fails is named by its own error.
    backends[0].embedded_server().clear_trouble();
    backends[0].pass(3 * SECOND).await;
    let guard = all.lock().await.unwrap();
    refuse(&backends[1]);
    let refused = guard.release().await.unwrap_err();
    assert!(refused.to_string().starts_with("lock \"c\": "), "{refused}");
    assert!(one.lock("a").try_lock().await.unwrap().is_some());
}

/// A minority of nodes that do not answer keeps nobody out.
#[tokio::test(start_paused = true)]
async fn release_of_a_red_lock_fails_if_no_quorum_is_free() {
    let fleet = Fleet::embedded(5);
    let clients = fleet.clients().await;
    let guard = red(&clients).lock().await.unwrap();
    fleet.0[..2].iter().for_each(refuse);
    let released = guard.release().await.unwrap();
    assert_eq!(released.len(), 3, "those that have answered");
    for backend in &fleet.0 {
        backend.embedded_server().clear_trouble();
    }
    fleet.pass(3 * SECOND).await;

    let guard = red(&clients).lock().await.unwrap();
    fleet.0[..3].iter().for_each(refuse);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permission);
    let expected = "red lock \"x\": it may be held on 3 of 5 nodes";
    assert!(error.to_string().starts_with(expected), "{error}");
    let nodes = error.reason().unwrap().downcast_ref::<NodeOutcomes>();
    assert_eq!(nodes.unwrap().iter().count(), 3);
}

/// What is refused for good ends with the lease and not before, and is asked for seldom.
#[tokio::test(start_paused = true)]
async fn release_refused_for_good_ends_with_its_lease() {
    let (backend, [client]) = embedded().await;
    let guard = client.lock("x").lock().lease(10 * SECOND).await.unwrap();
    refuse(&backend);
    drop(guard);
    backend.pass(9 * SECOND).await;
    assert_eq!(client.tables().pending_releases, 1);
    backend.pass(10 * SECOND).await;
    assert_eq!(client.tables().pending_releases, 0);
}

/// Refuses scripts until the trouble is cleared.
fn refuse(backend: &Backend) {
    refuse_if(backend, &Arc::new(AtomicBool::new(true)));
}

fn refuse_if(backend: &Backend, on: &Arc<AtomicBool>) {
    for _ in 0..2_000 {
        let (on, of_script) = (Arc::clone(on), calls::of_scripts());
        let refused = move |command: &Command| on.load(Relaxed) && of_script(command);
        let error = "NOPERM this user has no permissions to run the 'evalsha' command";
        let server = backend.embedded_server();
        server.fail_next(refused, ServerError::parse(error));
    }
}

/// A red-lock asks each server over a client of its own.
#[tokio::test(start_paused = true)]
async fn dropped_red_lock_guard_frees_the_name_for_the_next_try() {
    let backends: Vec<_> = (0..3).map(|_| Backend::embedded()).collect();
    let clients = join_all(backends.iter().map(Backend::client)).await;
    // A server that has just started may have forgotten what it granted.
    backends[0].pass(60 * SECOND).await;
    let lock = clients[0].red_lock("x", &clients[1..]);
    for round in 0..1000 {
        let guard = lock.try_lock().await.unwrap();
        assert!(guard.is_some(), "busy in round {round}");
    }
}

/// A durable request has a link of its own, so that it waits for the answer to the release.
#[tokio::test(start_paused = true)]
async fn dropped_guard_frees_the_name_for_a_durable_try() {
    let backend = Backend::embedded();
    backend.embedded_server().set_replicas(1);
    let client = backend.client().await;
    let lock = client.lock("x");
    for round in 0..200 {
        let durable = lock.try_lock().durability(Durability::Replicas(1));
        assert!(durable.await.unwrap().is_some(), "busy in round {round}");
        assert!(lock.try_lock().await.unwrap().is_some(), "round {round}");
    }
}

/// One that gave up may be in the queue, or hold, until its undo has run.
#[tokio::test(start_paused = true)]
async fn cancelled_acquisition_does_not_block_the_next() {
    for way in guarded() {
        let (_backend, [client]) = embedded().await;
        for polls in (0..8).cycle().take(200) {
            let mut acquiring = (way.lock)(&client, "x");
            for _ in 0..polls {
                if futures_util::poll!(&mut acquiring).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(acquiring);
            let tried = (way.try_lock)(&client, "x").await.unwrap();
            assert!(tried.is_some(), "{}: busy after {polls} polls", way.kind);
        }
    }
}

/// A request does not wait for longer than it has time, nor for releases of other names.
#[tokio::test(start_paused = true)]
async fn bounded_try_ends_at_its_time_behind_pending_releases() {
    let (backend, [client]) = embedded().await;
    let guard = client.lock("x").lock().await.unwrap();
    let other = client.lock("y").lock().await.unwrap();
    backend.embedded_server().stop();
    drop(guard);
    backend.pass(MS).await;
    let begun = Instant::now();
    let tried = client.lock("x").try_lock_for(300 * MS);
    assert!(tried.await.is_err());
    assert_eq!(begun.elapsed().as_millis(), 300);
    backend.embedded_server().resume();
    assert!(other.check().is_ok());
}

/// Looks at the client's tables at the moment of the wake, as a thread on another core may.
struct Looking {
    client: Client,
    seen: Mutex<Option<usize>>,
}

impl Wake for Looking {
    fn wake(self: Arc<Self>) {
        let pending = self.client.tables().pending_releases;
        self.seen.lock().unwrap().get_or_insert(pending);
    }
}

#[tokio::test(start_paused = true)]
async fn release_is_counted_off_before_the_thread_that_waits_for_it_is_woken() {
    let backend = Backend::embedded();
    let (ended, client) = lingering_client(&backend).await;
    drop(client.lock("x").lock().await.unwrap());
    let mut end = ended.try_recv().expect("a drop waits");
    let looking = Arc::new(Looking {
        client: client.clone(),
        seen: Mutex::default(),
    });
    let waker = Waker::from(Arc::clone(&looking));
    let polled = end.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    backend.pass(MS).await;
    assert_eq!(*looking.seen.lock().unwrap(), Some(0));
}
