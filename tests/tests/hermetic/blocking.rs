//! The blocking family: from plain threads, from many of them, and in async code.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::Instant,
};

use redlatch::{
    ClientBuilder,
    blocking::{Client, Stop, Wait, WaitIter, work},
    embedded::{EmbeddedServer, EmbeddedTransport, Server, SteppedRuntime},
    once::JobOutcome,
    runtime::{Address, Login},
};

use crate::prelude::*;

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
    let guard = ada.lock("a").lock().wait().unwrap();
    assert!(bob.lock("a").try_lock().wait().unwrap().is_none());
    assert_eq!(guard.state(), HoldState::Held);
    let first = guard.token();
    drop(guard);
    // The drop has waited for the answer, so one try is enough.
    let guard = bob.lock("a").try_lock().wait().unwrap().expect("free");
    assert!(guard.token() > first);
    assert_eq!(guard.release().wait().unwrap(), Released::Free);
    assert_eq!(ada.tables(), redlatch::Tables::default());
}

#[test]
fn threads_take_turns() {
    let client = embedded();
    let (inside, total) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let guard = client.lock("a").lock().wait().unwrap();
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
fn stop_tells_work_and_its_threads_that_the_hold_is_lost() {
    let client = embedded();
    let guard = client.lock("a").lock().lease(Duration::from_millis(500));
    let guard = guard.wait().unwrap();
    let ran = guard.run(work(&guard, |stop: Stop<'_>| {
        assert!(!stop.is_stopped());
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    while !stop.is_stopped() {
                        thread::park_timeout(Duration::from_millis(10));
                    }
                    let error = stop.check().unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Lost(LossCause::Expired));
                    assert_eq!(stop.remaining(), Duration::ZERO);
                });
            }
        });
    }));
    let cause = ErrorKind::Lost(LossCause::Expired);
    assert_eq!(ran.wait().unwrap_err().kind(), cause);
    // Work does not begin under a hold that is lost.
    let late = guard.run(work(&guard, |_| panic!("it must not run")));
    let late: Result<(), _> = late.wait();
    assert_eq!(late.unwrap_err().kind(), cause);
}

#[test]
fn builders_options_and_streams_work_from_a_plain_thread() {
    let client = embedded();
    let owner = client.owner();
    let lock = client.lock("a");
    let outer = lock.lock().owner(&owner).wait().unwrap();
    let inner = lock.try_lock().owner(&owner).wait().unwrap();
    assert_eq!(inner.expect("the owner re-enters").hold_count(), 2);
    let lock = client.read_write_lock("rw");
    let upgradable = lock.upgradable_read().wait().unwrap();
    let write = upgradable.upgrade().wait().unwrap();
    let busy = lock.try_read_for(Duration::from_millis(10)).wait();
    assert!(busy.unwrap().is_none());
    drop(write.downgrade().wait().unwrap());
    let latch = client.count_down_latch("l");
    assert!(latch.try_set_count(2).wait().unwrap());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| latch.wait().wait());
        assert_eq!(latch.count_down(1).wait().unwrap(), 1);
        latch.count_down_and_wait(1).wait().unwrap();
        waiter.join().unwrap().unwrap();
    });
    let found = client.locks("a*").wait_iter();
    let names: Vec<_> = found.map(|holder| holder.unwrap().info.name).collect();
    assert_eq!(names, ["a"]);
    drop(outer);
    let value = client.with_lock("a", async |guard| {
        work(guard, |stop| stop.check().map(|()| guard.token())).await
    });
    assert!(value.wait().unwrap().unwrap().as_u64() > 0);
}

#[test]
fn drop_of_permits_and_of_several_locks_waits_for_the_answer() {
    let server = Server::start();
    let (ada, bob) = (client(&server), client(&server));
    let permits = ada.semaphore("s").permits_if_unset(3);
    drop(permits.acquire_many(3).wait().unwrap());
    let all = bob.semaphore("s").try_acquire_many(3).wait().unwrap();
    assert!(all.is_some());
    let (a, b) = (ada.lock("{m}a"), ada.fair_lock("{m}b"));
    drop(ada.multi_lock(&[&a, &b]).lock().wait().unwrap());
    assert!(bob.lock("{m}a").try_lock().wait().unwrap().is_some());
    assert!(bob.fair_lock("{m}b").try_lock().wait().unwrap().is_some());
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
    let guard = both.lock().wait().unwrap();
    drop((ada, bob, a, b, both));
    guard.extend(Duration::from_secs(60)).wait().unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    assert!(engine.connection_count() > 0);
    drop(guard);
    let ended = || (engine.connection_count() == 0).then_some(());
    eventually_blocking("the threads and their connections to end", GENEROUS, ended);
}

#[test]
fn work_of_a_job_may_use_the_client_and_may_panic() {
    let client = embedded();
    let job = client.once("nightly").slot("2026-11-24");
    let ran = job.run(async |run: &JobRun| {
        work(run, |stop| {
            stop.check()?;
            let inner = client.lock("inner").lock().wait()?;
            assert!(inner.token().as_u64() > 0 && run.attempt() == 1);
            Ok::<_, Error>(7)
        })
        .await
    });
    assert!(matches!(ran.wait().unwrap(), Once::Ran(7)));
    let again = job.run(async |_| Ok::<_, Error>(8));
    assert!(matches!(again.wait().unwrap(), Once::Done(_)));
    let panicking = client.once("nightly").slot("2026-11-25");
    let work = async |_: &JobRun| -> Result<(), String> { panic!("of the work") };
    let text = panic_of(|| panicking.run(work).wait());
    assert_eq!(text, "of the work");
}

#[test]
fn leader_works_on_the_calling_thread_and_steps_down() {
    let client = embedded();
    let election = client.election("e").value("10.0.0.7:9000");
    let terms = AtomicU32::new(0);
    let led = election.lead(async |term| {
        work(term, |stop| {
            assert!(!stop.is_stopped() && stop.remaining() > Duration::ZERO);
            let leader = || election.leader().wait().unwrap().unwrap();
            assert_eq!(leader().token, term.token());
            // The value is shown while the work blocks.
            eventually_blocking("the value", GENEROUS, || leader().value);
            if terms.fetch_add(1, Ordering::Relaxed) == 0 {
                term.step_down();
            }
        })
        .await;
    });
    led.wait().unwrap();
    assert_eq!(terms.into_inner(), 2);
    assert!(election.leader().wait().unwrap().is_none());
}

#[test]
fn work_that_returns_after_its_term_does_not_end_the_campaign() {
    let client = embedded();
    let other = client.clone();
    let election = client.election("e");
    let terms = AtomicU32::new(0);
    let led = election.lead(async |term| {
        work(term, |stop| {
            if terms.fetch_add(1, Ordering::Relaxed) == 0 {
                assert!(other.election("e").force_release().wait().unwrap());
                while !stop.is_stopped() {
                    thread::yield_now();
                }
            }
        })
        .await;
    });
    led.wait().unwrap();
    assert_eq!(terms.into_inner(), 2);
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
            check(panic_of(|| lock.lock().wait()));
            check(panic_of(|| Client::connect("redis://localhost")));
            check(panic_of(|| client.locks("*").wait_iter().next()));
            let lock = lock.clone();
            let inside = tokio::spawn(async move { check(panic_of(|| lock.try_lock().wait())) });
            inside.await.unwrap();
        });
        drop(runtime);
    }
    let taken = lock.try_lock().wait().unwrap();
    assert!(taken.is_some(), "nothing was acquired");
}

#[test]
fn calls_work_where_a_runtime_allows_to_block() {
    let client = embedded();
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let _context = runtime.enter();
    assert!(client.lock("a").try_lock().wait().unwrap().is_some());
    let inside = client.clone();
    let blocking = runtime.spawn_blocking(move || inside.lock("a").lock().wait().unwrap().token());
    runtime.block_on(blocking).unwrap();
    let in_place = runtime.spawn(async move {
        tokio::task::block_in_place(|| client.lock("a").lock().wait().unwrap().token())
    });
    runtime.block_on(in_place).unwrap();
}

#[test]
fn guard_and_client_may_be_dropped_in_async_code() {
    let server = Server::start();
    let (ada, bob) = (client(&server), client(&server));
    let guard = ada.lock("a").lock().wait().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async move { drop((guard, ada)) });
    // The release goes on in the background.
    let wait = Duration::from_secs(20);
    assert!(bob.lock("a").try_lock_for(wait).wait().unwrap().is_some());
}

#[test]
fn last_drop_returns_although_the_server_is_gone() {
    let server = Server::start();
    let client = client(&server);
    let guard = client.lock("a").lock().wait().unwrap();
    server.engine().stop();
    drop(client);
    drop(guard);
}

/// One after the other, twenty members would take twenty seconds.
#[test]
fn drop_of_many_members_waits_once_although_the_server_is_gone() {
    let server = Server::start();
    let client = client(&server);
    let locks: Vec<_> = (0..20).map(|n| client.lock(format!("{{m}}{n}"))).collect();
    let members: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    let guard = client.multi_lock(&members).lock().wait().unwrap();
    server.engine().stop();
    let began = Instant::now();
    drop(guard);
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn outcome_of_a_job_that_ends_while_its_client_closes_is_recorded() {
    let server = Server::start();
    let (client, other) = (client(&server), client(&server));
    let job = client.once("nightly").slot("2026-11-28");
    let (tell, began) = mpsc::channel();
    let ran = thread::scope(|scope| {
        let closing = client.clone();
        scope.spawn(move || {
            began.recv().unwrap();
            closing.close(Duration::from_secs(60)).wait();
        });
        let run = job.run(async |run: &JobRun| {
            work(run, |stop| {
                tell.send(()).unwrap();
                while !stop.is_stopped() {
                    thread::yield_now();
                }
                Ok::<_, String>(7)
            })
            .await
        });
        run.wait()
    });
    assert!(matches!(ran.unwrap(), Once::Ran(7)));
    let record = other.once("nightly").slot("2026-11-28").last().wait();
    assert_eq!(record.unwrap().unwrap().outcome, JobOutcome::Done);
}

#[test]
fn close_tells_the_guards_of_other_threads() {
    fn is_shared<T: Send + Sync + 'static>(_: &T) {}
    let client = embedded();
    is_shared(&client);
    let guard = Arc::new(client.lock("a").lock().wait().unwrap());
    is_shared(&guard);
    let (lost, checked) = (Arc::clone(&guard), Arc::clone(&guard));
    let lost = thread::spawn(move || lost.lost().wait());
    let checked = thread::spawn(move || {
        while checked.check().is_ok() {
            thread::yield_now();
        }
    });
    client.close(Duration::ZERO).wait();
    assert_eq!(lost.join().unwrap(), LossCause::Closed);
    checked.join().unwrap();
    let error = client.lock("a").lock().wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}
