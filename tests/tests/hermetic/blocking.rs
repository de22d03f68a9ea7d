//! The blocking family: from plain threads, from many of them, and in async code.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use redlatch::{
    ClientBuilder, ErrorKind, HoldState, LossCause, Released,
    blocking::{Client, Election, Job, RedLock, Stop},
    embedded::{EmbeddedServer, EmbeddedTransport, Server, SteppedRuntime},
    fence::Fenced,
    once::{JobRun, Once},
    permits::PermitRelease,
    runtime::{Address, Login},
};

fn client(server: &Server) -> Client {
    Client::connect_with(server.builder()).unwrap()
}

fn embedded() -> Client {
    Client::embedded().unwrap()
}

/// Returns the message of the panic of `work`.
fn panic_of<T>(work: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).err().expect("a panic");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .expect("a text")
}

#[test]
fn lock_excludes_and_is_free_when_its_guard_has_been_dropped() {
    let server = Server::start();
    let (ada, bob) = (client(&server), client(&server));
    let guard = ada.lock("a").lock().unwrap();
    assert!(bob.lock("a").try_lock().unwrap().is_none());
    assert_eq!(guard.state(), HoldState::Held);
    let first = guard.token();
    drop(guard);
    // The drop has waited for the answer, so one try is enough.
    let guard = bob.lock("a").try_lock().unwrap().expect("free");
    assert!(guard.token() > first);
    assert_eq!(guard.release().unwrap(), Released::Free);
    assert_eq!(ada.tables(), redlatch::Tables::default());
}

#[test]
fn options_of_a_handle_apply_to_its_acquisitions() {
    let client = embedded();
    let owner = client.owner();
    let lock = client.lock("a").owner(&owner).lease(Duration::from_secs(7));
    let outer = lock.lock().unwrap();
    let inner = lock.try_lock().unwrap().expect("the owner re-enters");
    assert_eq!((inner.hold_count(), inner.token()), (2, outer.token()));
    assert!(outer.remaining() < Duration::from_secs(7));
    assert_eq!(lock.hold_count(&owner).unwrap(), 2);
    outer.extend(Duration::from_secs(60)).unwrap();
    assert!(inner.remaining() > Duration::from_secs(30));
    let short = client.lock("b").lease(Duration::from_millis(1));
    assert_eq!(short.lock().unwrap_err().kind(), ErrorKind::InvalidLease);
}

#[test]
fn threads_take_turns() {
    let client = embedded();
    let (inside, total) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let guard = client.lock("a").lock().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    thread::yield_now();
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                    total.fetch_add(1, Ordering::Relaxed);
                    drop(guard);
                }
            });
        }
    });
    assert_eq!(total.into_inner(), 320);
    assert_eq!(client.tables(), redlatch::Tables::default());
}

#[test]
fn threads_with_a_client_each_take_turns() {
    let server = Server::start();
    let inside = AtomicU32::new(0);
    thread::scope(|scope| {
        for number in 0..16 {
            let (server, inside) = (&server, &inside);
            scope.spawn(move || {
                let client = client(server);
                for _ in 0..5 {
                    let guard = client.fair_lock("a").lock().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{number}");
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().unwrap();
                }
            });
        }
    });
    let left = client(&server);
    assert!(!left.fair_lock("a").is_locked().unwrap());
}

#[test]
fn stop_tells_work_and_its_threads_that_the_hold_is_lost() {
    let client = embedded();
    let lock = client.lock("a").lease(Duration::from_secs(2));
    let guard = lock.lock().unwrap();
    let ran = guard.run(|stop: Stop<'_>| {
        assert!(!stop.is_stopped());
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    while !stop.is_stopped() {
                        thread::yield_now();
                    }
                    let error = stop.check().unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Lost(LossCause::Expired));
                    assert_eq!(stop.remaining(), Duration::ZERO);
                });
            }
        });
    });
    let cause = ErrorKind::Lost(LossCause::Expired);
    assert_eq!(ran.unwrap_err().kind(), cause);
    // Work does not begin under a hold that is lost.
    let late: Result<(), _> = guard.run(|_| panic!("it must not run"));
    let error = late.unwrap_err();
    assert_eq!(error.kind(), cause);
}

#[test]
fn watcher_learns_of_a_forced_release() {
    let server = Server::start();
    let (ada, bob) = (client(&server), client(&server));
    let lock = ada.lock("a").renewed_lease(Duration::from_secs(1));
    let guard = lock.lock().unwrap();
    thread::scope(|scope| {
        let watcher = scope.spawn(|| guard.wait_lost());
        assert!(bob.lock("a").force_release(Some(guard.token())).unwrap());
        assert_eq!(watcher.join().unwrap(), LossCause::Revoked);
    });
    assert_eq!(guard.release().unwrap(), Released::Revoked);
}

#[test]
fn with_lock_runs_the_work_and_releases() {
    let client = embedded();
    let value = client.with_lock("a", |guard, stop| {
        stop.check()?;
        Ok::<_, redlatch::Error>(guard.token())
    });
    let token = value.unwrap().unwrap();
    let guard = client.lock("a").try_lock().unwrap().expect("free");
    assert!(guard.token() > token);
}

#[test]
fn whole_family_works_from_a_plain_thread() {
    let server = Server::start();
    let client = client(&server);
    assert!(client.ping().unwrap() < Duration::from_secs(60));

    let lock = client.read_write_lock("rw");
    let (one, two) = (lock.read().unwrap(), lock.try_read().unwrap().unwrap());
    assert!(lock.try_write().unwrap().is_none());
    assert_eq!(lock.holders().unwrap().len(), 2);
    drop((one, two));
    let upgradable = lock.upgradable_read().unwrap();
    let write = upgradable.upgrade().unwrap();
    assert!(
        lock.try_read_for(Duration::from_millis(10))
            .unwrap()
            .is_none()
    );
    let read = write.downgrade().unwrap();
    assert_eq!(read.release().unwrap(), Released::StillHeld(1));
    drop(upgradable);

    let semaphore = client.semaphore("s").permits_if_unset(3);
    let mut permits = semaphore.acquire_many(3).unwrap();
    assert!(semaphore.try_acquire().unwrap().is_none());
    let one = permits.split(1).unwrap();
    drop(permits);
    assert_eq!(semaphore.available_permits().unwrap(), 2);
    one.forget().unwrap();
    assert_eq!(semaphore.permits().unwrap(), 2);

    let semaphore = client.permit_expirable_semaphore("p").permits_if_unset(1);
    let id = semaphore.lease(Duration::from_secs(5));
    let (semaphore, id) = (id.clone(), id.acquire().unwrap());
    assert!(semaphore.try_acquire_for(Duration::ZERO).unwrap().is_none());
    assert_eq!(semaphore.release(&id).unwrap(), PermitRelease::Released);

    let latch = client.count_down_latch("l");
    assert!(latch.try_set_count(2, None).unwrap());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| latch.wait());
        assert_eq!(latch.count_down(1).unwrap(), 1);
        latch.count_down_and_wait(1).unwrap();
        waiter.join().unwrap().unwrap();
    });

    let (a, b) = (client.lock("{m}a"), client.fair_lock("{m}b"));
    let both = client.multi_lock(&[&a, &b]);
    let guard = both.lock().unwrap();
    assert!(a.try_lock().unwrap().is_none() && b.try_lock().unwrap().is_none());
    assert!(guard.token("{m}a").is_some());
    drop(guard);
    assert!(a.try_lock().unwrap().is_some());

    let striped = client.striped_lock("keys", 8).unwrap();
    let guard = striped.of("key").lock().unwrap();
    assert!(striped.of("key").try_lock().unwrap().is_none());
    drop(guard);

    let held = client.lock("found").lock().unwrap();
    let names: Vec<_> = client
        .locks("f*")
        .map(|holder| holder.unwrap().info.name)
        .collect();
    assert_eq!(names, ["found"]);
    drop(held);

    let fence = client.fence("data");
    let token = || client.with_lock("f", |guard, _| guard.token()).unwrap();
    let (old, new) = (token(), token());
    assert!(fence.set(new, "new").unwrap().is_written());
    assert!(matches!(
        fence.set(old, "old").unwrap(),
        Fenced::Refused { .. }
    ));
}

/// A client of a server with a name of its own, and the server.
fn named(name: &str) -> (Client, EmbeddedServer) {
    let engine = EmbeddedServer::new(Arc::new(SteppedRuntime::new()));
    let transport = EmbeddedTransport::new().serve(name, engine.clone());
    let builder = ClientBuilder::at(Address::Embedded(name.to_owned()), Login::default());
    let client = Client::connect_with(builder.transport(Arc::new(transport)));
    (client.unwrap(), engine)
}

#[test]
fn guard_of_a_multi_lock_keeps_the_threads_of_all_its_clients() {
    let (ada, _engine) = named("ada");
    let (bob, engine) = named("bob");
    let (a, b) = (ada.lock("a"), bob.lock("a"));
    let both = ada.multi_lock(&[&a, &b]);
    let guard = both.lock().unwrap();
    drop((ada, bob, a, b, both));
    guard.extend(Duration::from_secs(60)).unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    assert!(engine.connection_count() > 0);
    drop(guard);
    // The last guard has waited for the thread, and that for its connections.
    assert_eq!(engine.connection_count(), 0);
}

#[test]
fn red_lock_needs_a_majority() {
    let nodes = ["a", "b", "c"].map(named);
    let [a, b, c] = nodes.each_ref().map(|(client, _)| client.lock("x"));
    let red = RedLock::of(&[&a, &b, &c], |red| red.quorum(2).durable_nodes()).unwrap();
    nodes[2].1.stop();
    let guard = red.lock().unwrap();
    assert_eq!(guard.nodes_held(), 2);
    assert!(a.is_locked().unwrap() && b.is_locked().unwrap());
    let released = guard.release().unwrap();
    assert!(released.iter().all(|(_, released)| released.is_clean()));
    assert_eq!(released.len(), 2);
    assert!(!a.is_locked().unwrap() && !b.is_locked().unwrap());
    // Nodes that have just started do not count by default, since they may have forgotten.
    let others = [nodes[1].0.clone(), nodes[2].0.clone()];
    let young = nodes[0].0.red_lock("x", &others).try_lock().unwrap_err();
    assert_eq!(young.kind(), ErrorKind::Unavailable);
    let few = RedLock::of(&[&a, &b], |red| red).unwrap_err();
    assert_eq!(few.kind(), ErrorKind::InvalidOption);
}

#[test]
fn job_runs_on_a_thread_where_all_calls_work() {
    let client = embedded();
    let job: Job = client.once("nightly").slot("2026-11-24");
    let ran = job.run(|run: &JobRun, stop| {
        stop.check()?;
        let inner = client.lock("inner").lock()?;
        assert!(inner.token().as_u64() > 0 && run.attempt() == 1);
        Ok::<_, redlatch::Error>(7)
    });
    assert!(matches!(ran.unwrap(), Once::Ran(7)));
    let again = job.run(|_, _| Ok::<_, redlatch::Error>(8)).unwrap();
    assert!(matches!(again, Once::Done(_)));
    assert!(job.last().unwrap().unwrap().ended <= SystemTime::now());
    let panicking = client.once("nightly").slot("2026-11-25");
    let text = panic_of(|| panicking.run(|_, _| -> Result<(), String> { panic!("of the work") }));
    assert_eq!(text, "of the work");
}

#[test]
fn leader_works_on_a_thread_and_steps_down() {
    let client = embedded();
    let election: Election = client.election("e").value("here");
    let terms = AtomicU32::new(0);
    let led = election.lead(|term, stop| {
        assert!(!stop.is_stopped() && stop.remaining() > Duration::ZERO);
        assert_eq!(election.leader().unwrap().unwrap().token, term.token());
        if terms.fetch_add(1, Ordering::Relaxed) == 0 {
            term.step_down();
        }
    });
    led.unwrap();
    assert_eq!(terms.into_inner(), 2);
    assert!(election.leader().unwrap().is_none());
}

#[test]
fn value_of_a_leader_is_shown_while_its_work_blocks() {
    let client = embedded();
    let election: Election = client.election("e").value("10.0.0.7:9000");
    let limit = Instant::now() + Duration::from_secs(60);
    let led = election.lead(|_, _| {
        while election.leader().unwrap().unwrap().value.is_none() {
            assert!(Instant::now() < limit, "the value is not shown");
            thread::yield_now();
        }
    });
    led.unwrap();
}

#[test]
fn calls_in_async_code_panic_and_name_the_remedies() {
    let client = embedded();
    let lock = client.lock("a");
    let check = |text: String| {
        for part in ["async code", "redlatch::Client", "spawn_blocking"] {
            assert!(text.contains(part), "{text}");
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread();
    for mut builder in [runtime, tokio::runtime::Builder::new_multi_thread()] {
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            check(panic_of(|| lock.lock()));
            check(panic_of(|| Client::connect("redis://localhost")));
            check(panic_of(|| client.locks("*").next()));
            let lock = lock.clone();
            let inside = tokio::spawn(async move { check(panic_of(|| lock.try_lock())) });
            inside.await.unwrap();
        });
        drop(runtime);
    }
    assert!(lock.try_lock().unwrap().is_some(), "nothing was acquired");
}

#[test]
fn calls_work_where_a_runtime_allows_to_block() {
    let client = embedded();
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let _context = runtime.enter();
    assert!(client.lock("a").try_lock().unwrap().is_some());
    let inside = client.clone();
    let blocking = runtime.spawn_blocking(move || inside.lock("a").lock().unwrap().token());
    runtime.block_on(blocking).unwrap();
    let in_place = runtime.spawn(async move {
        tokio::task::block_in_place(|| client.lock("a").lock().unwrap().token())
    });
    runtime.block_on(in_place).unwrap();
}

#[test]
fn guard_and_client_may_be_dropped_in_async_code() {
    let server = Server::start();
    let (ada, bob) = (client(&server), client(&server));
    let guard = ada.lock("a").lock().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async move {
        drop(guard);
        drop(ada);
    });
    // The release goes on in the background.
    let wait = Duration::from_secs(20);
    assert!(bob.lock("a").try_lock_for(wait).unwrap().is_some());
}

#[test]
fn last_drop_returns_although_the_server_is_gone() {
    let server = Server::start();
    let client = client(&server);
    let guard = client.lock("a").lock().unwrap();
    server.engine().stop();
    drop(client);
    drop(guard);
}

#[test]
fn close_tells_the_guards_of_other_threads() {
    let client = embedded();
    let (tell, held) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = client.lock("a").lock().unwrap();
            tell.send(()).unwrap();
            assert_eq!(guard.wait_lost(), LossCause::Closed);
        });
        held.recv().unwrap();
        client.close(Duration::from_secs(20));
    });
    assert_eq!(
        client.lock("a").lock().unwrap_err().kind(),
        ErrorKind::Closed
    );
}

#[test]
fn guards_are_shared_between_threads() {
    fn is_shared<T: Send + Sync + 'static>(_: &T) {}
    let client = embedded();
    is_shared(&client);
    let guard = Arc::new(client.lock("a").lock().unwrap());
    is_shared(&guard);
    let stopped = Arc::new(AtomicBool::new(false));
    let (inside, told) = (Arc::clone(&guard), Arc::clone(&stopped));
    let worker = thread::spawn(move || {
        while inside.check().is_ok() {
            thread::yield_now();
        }
        told.store(true, Ordering::Relaxed);
    });
    client.close(Duration::ZERO);
    worker.join().unwrap();
    assert!(stopped.load(Ordering::Relaxed));
}
