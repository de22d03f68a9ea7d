//! Clients that outlive the tokio runtime they were made in, and clients with a background task
//! that panics.

use std::{
    cell::RefCell,
    future::IntoFuture,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redlatch::{
    Client, Error, ErrorKind, HoldState, Lockable, LossCause, Moment, RedLock,
    runtime::{Runtime as Outside, TokioRuntime},
};
use redlatch_embedded::{EmbeddedServer, Listening};
use redlatch_tests::{backend::Backend, saboteur::Saboteur};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

const WORDS: &str = "the tokio runtime in which this client was made has ended";

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// An embedded server whose runtime outlives those of its clients.
fn served() -> (Runtime, EmbeddedServer, Listening) {
    let runtime = multi_thread();
    let server = EmbeddedServer::new(Arc::new(TokioRuntime::new(runtime.handle().clone())));
    let listening = runtime.block_on(server.listen("127.0.0.1:0")).unwrap();
    (runtime, server, listening)
}

std::thread_local! {
    /// What was not as it should be.
    static WRONG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes unless `future` ends within a second with the error of an ended runtime.
async fn refused<T>(what: &str, future: impl IntoFuture<Output = Result<T, Error>>) {
    let wrong = match timeout(Duration::from_secs(1), future.into_future()).await {
        Err(_) => format!("{what} hangs"),
        Ok(Ok(_)) => format!("{what} succeeds"),
        Ok(Err(error)) if error.kind() != ErrorKind::Closed => format!("{what}: {error:?}"),
        Ok(Err(error)) if !error.to_string().contains(WORDS) => format!("{what}: {error:?}"),
        Ok(Err(_)) => return,
    };
    WRONG.with_borrow_mut(|all| all.push(wrong));
}

/// Fails unless `future` ends within a second.
async fn ends<T>(what: &str, future: impl IntoFuture<Output = T>) -> T {
    let ended = timeout(Duration::from_secs(1), future.into_future()).await;
    ended.unwrap_or_else(|_| panic!("{what} hangs"))
}

#[test]
fn every_call_of_a_client_of_an_ended_runtime_is_refused() {
    for made_in in [current_thread, multi_thread] {
        for used_in in [current_thread, multi_thread] {
            every_call_is_refused(made_in(), used_in());
        }
    }
}

#[expect(clippy::too_many_lines, reason = "a list of all calls")]
fn every_call_is_refused(made_in: Runtime, used_in: Runtime) {
    let (_serving, _server, listening) = served();
    let url = listening.url();
    let client = made_in.block_on(Client::connect(&url)).unwrap();
    let others: Vec<_> = (0..2).map(|_| served()).collect();
    let mut nodes = vec![client.lock("r")];
    for (_, _, listening) in &others {
        let other = made_in.block_on(Client::connect(&listening.url())).unwrap();
        nodes.push(other.lock("r"));
    }
    let nodes: Vec<_> = nodes.iter().map(|node| node as &dyn Lockable).collect();
    let (a, b) = (client.lock("a"), client.fair_lock("b"));
    let rw = client.read_write_lock("rw");
    let semaphore = client.semaphore("s");
    let permits = client.permit_expirable_semaphore("p");
    let latch = client.countdown_latch("l");
    let multi = client.multi_lock(&[&client.lock("m1"), &client.lock("m2")]);
    let red = RedLock::builder(&nodes).durable_nodes().build().unwrap();
    let (held, kept, fair, upgradable, write, permit, id, several, reds) =
        made_in.block_on(async {
            semaphore.set_permits(9).await.unwrap();
            permits.set_permits(9).await.unwrap();
            latch.try_set_count(3).await.unwrap();
            (
                a.lock().await.unwrap(),
                client.lock("kept").lock().await.unwrap(),
                b.lock().await.unwrap(),
                rw.upgradable_read().await.unwrap(),
                client.read_write_lock("w").write().await.unwrap(),
                semaphore.acquire_many(2).await.unwrap(),
                permits.acquire().await.unwrap(),
                multi.lock().await.unwrap(),
                red.lock().await.unwrap(),
            )
        });
    drop(made_in);
    let wait = Duration::from_millis(200);
    used_in.block_on(async {
        let owner = client.owner();
        assert!(client.is_closed());
        for guard in [&held, &kept] {
            assert_eq!(guard.state(), HoldState::Lost(LossCause::Closed));
            assert_eq!(
                guard.check().unwrap_err().kind(),
                ErrorKind::Lost(LossCause::Closed)
            );
            assert_eq!(ends("lost", guard.lost()).await, LossCause::Closed);
            assert!(
                ends("run", guard.run(std::future::pending::<()>()))
                    .await
                    .is_err()
            );
            assert_eq!(guard.remaining(), Duration::ZERO);
            refused("extend", guard.extend(wait)).await;
        }
        refused("lock", a.lock()).await;
        refused("try_lock", a.try_lock()).await;
        refused("try_lock_for", a.try_lock_for(wait)).await;
        refused("is_locked", a.is_locked()).await;
        refused("is_held_by", a.is_held_by(&owner)).await;
        refused("hold_count", a.hold_count(&owner)).await;
        refused("remaining", a.remaining()).await;
        refused("info", a.info()).await;
        refused("holders", a.holders()).await;
        refused("force_release", a.force_release()).await;
        refused("locks", async { client.locks("*").next().await.unwrap() }).await;
        refused("release", held.release()).await;
        refused("fair lock", b.lock()).await;
        refused("fair try_lock", b.try_lock()).await;
        refused("fair try_lock_for", b.try_lock_for(wait)).await;
        refused("fair position", b.position(&owner)).await;
        refused("fair waiters", async { b.waiters().next().await.unwrap() }).await;
        refused("fair release", fair.release()).await;
        refused("read", rw.read()).await;
        refused("try_read_for", rw.try_read_for(wait)).await;
        refused("write", rw.write()).await;
        refused("try_write", rw.try_write()).await;
        refused("upgradable_read", rw.upgradable_read()).await;
        refused("read_count", rw.read_count(&owner)).await;
        refused("write_count", rw.write_count(&owner)).await;
        refused("rw info", rw.info()).await;
        refused("rw holders", rw.holders()).await;
        refused("rw force_release", rw.force_release()).await;
        assert!(ends("upgrade", upgradable.upgrade()).await.is_err());
        assert!(ends("downgrade", write.downgrade()).await.is_err());
        refused("acquire", semaphore.acquire()).await;
        refused("try_acquire", semaphore.try_acquire()).await;
        refused("try_acquire_for", semaphore.try_acquire_for(wait)).await;
        refused("set_permits", semaphore.set_permits(1)).await;
        refused("try_set_permits", semaphore.try_set_permits(1)).await;
        refused("add_permits", semaphore.add_permits(1)).await;
        refused("drain_permits", semaphore.drain_permits()).await;
        refused("available_permits", semaphore.available_permits()).await;
        refused("permits", semaphore.permits()).await;
        refused("totals", semaphore.totals()).await;
        refused("semaphore holders", semaphore.holders()).await;
        refused("semaphore delete", semaphore.delete()).await;
        refused("permit extend", permit.extend(wait)).await;
        refused("permit release", permit.release()).await;
        refused("id acquire", permits.acquire()).await;
        refused("id acquire_many", permits.acquire_many(2)).await;
        refused("id extend", permits.extend(&id, wait)).await;
        refused("id remaining", permits.remaining(&id)).await;
        refused("id release", permits.release(&id)).await;
        refused("id holders", permits.holders()).await;
        refused("try_set_count", latch.try_set_count(1)).await;
        refused("count_down", latch.count_down(1)).await;
        refused("count_down_and_wait", latch.count_down_and_wait(1)).await;
        refused("latch wait", latch.wait()).await;
        refused("latch wait_for", latch.wait_for(wait)).await;
        refused("latch count", latch.count()).await;
        refused("latch info", latch.info()).await;
        refused("latch delete", latch.delete()).await;
        refused("multi lock", multi.lock()).await;
        refused("multi try_lock", multi.try_lock()).await;
        refused("multi try_lock_for", multi.try_lock_for(wait)).await;
        refused("multi extend", several.extend(wait)).await;
        for (name, released) in ends("multi release", several.release()).await {
            refused(&name, async { released }).await;
        }
        refused("red lock", red.lock()).await;
        refused("red try_lock", red.try_lock()).await;
        refused("red try_lock_for", red.try_lock_for(wait)).await;
        refused("red extend", reds.extend(wait)).await;
        ends("red release", reds.release()).await;
        ends("settled", client.settled()).await;
        drop(kept);
        ends("settled again", client.settled()).await;
        ends("close", client.close(Duration::from_secs(30))).await;
        ends("close_now", client.close_now()).await;
    });
    let wrong = WRONG.take();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn calls_under_way_end_with_the_runtime_of_their_client() {
    let (_serving, _server, listening) = served();
    let made_in = multi_thread();
    let client = made_in.block_on(Client::connect(&listening.url())).unwrap();
    let lock = client.lock("x");
    let guard = made_in.block_on(lock.lock().into_future()).unwrap();
    let latch = client.countdown_latch("l");
    made_in
        .block_on(latch.try_set_count(1).into_future())
        .unwrap();
    let used_in = current_thread();
    used_in.block_on(async {
        let lost = guard.lost();
        let tried = lock.try_lock_for(Duration::from_secs(60));
        let mut waiting = pin!(async {
            tokio::join!(
                lock.lock().into_future(),
                latch.wait().into_future(),
                lost,
                tried.into_future()
            )
        });
        assert!(
            timeout(Duration::from_millis(100), &mut waiting)
                .await
                .is_err()
        );
        made_in.shutdown_background();
        let (locked, passed, lost, tried) = ends("what was under way", waiting).await;
        for error in [locked.err(), passed.err(), tried.err()] {
            assert!(error.unwrap().to_string().contains(WORDS));
        }
        assert_eq!(lost, LossCause::Closed);
    });
}

#[test]
fn sleep_that_outlives_its_runtime_does_not_panic() {
    for made_in in [current_thread, multi_thread] {
        let inner = made_in();
        let runtime = TokioRuntime::new(inner.handle().clone());
        let mut before = runtime.sleep_until(runtime.now() + Duration::from_secs(600));
        current_thread().block_on(async {
            assert!(
                timeout(Duration::from_millis(20), &mut before)
                    .await
                    .is_err()
            );
            inner.shutdown_background();
            ends("a sleep under way", before).await;
            ends(
                "a sleep begun later",
                runtime.sleep_until(Moment::FAR_FUTURE),
            )
            .await;
        });
        runtime.spawn("nothing", Box::pin(async {}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_background_task_that_panics_closes_the_client() {
    for task in [
        "watchdog",
        "releaser",
        "alarms",
        "client record",
        "link",
        "hub",
        "withdrawals",
    ] {
        let backend = Backend::embedded();
        let Backend::Embedded {
            runtime, server, ..
        } = &backend
        else {
            unreachable!("it is embedded")
        };
        let armed = Arc::new(AtomicBool::new(false));
        let runtime = Arc::new(Saboteur {
            inner: Arc::clone(runtime),
            task,
            armed: Arc::clone(&armed),
        });
        let client = backend.builder().runtime(runtime).connect().await.unwrap();
        let (held, lock) = (client.lock("x").lock().await.unwrap(), client.lock("x"));
        let mut waiting = Box::pin(lock.lock().into_future());
        assert!(
            timeout(Duration::from_millis(100), &mut waiting)
                .await
                .is_err()
        );
        armed.store(true, Ordering::Relaxed);
        // Makes each of them run.
        drop(client.lock("y").try_lock().await);
        server.cut_connections();
        let error = timeout(Duration::from_secs(7200), waiting).await;
        let error = error
            .unwrap_or_else(|_| panic!("{task}: the waiter hangs"))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{task}");
        assert!(error.to_string().contains(task), "{task}: {error}");
        assert!(client.is_closed(), "{task}");
        assert_eq!(held.state(), HoldState::Lost(LossCause::Closed), "{task}");
        let error = client.lock("z").try_lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{task}");
        drop(held);
        client.close_now().await;
        client.settled().await;
    }
}
