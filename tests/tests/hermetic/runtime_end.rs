//! Clients that outlive the tokio runtime they were made in, and clients with a background task
//! that panics.

use std::{cell::RefCell, pin::pin};

use redlatch::{
    Moment,
    runtime::{Runtime as Outside, TokioRuntime},
};
use redlatch_embedded::{EmbeddedServer, Listening};
use redlatch_tests::{
    calls::{self, Call, Kind},
    saboteur::Saboteur,
};
use tokio::runtime::{Builder, Runtime};

use crate::{prelude::*, spawning::runtime_of};

const WORDS: &str = "the tokio runtime in which this client was made has ended";

/// What a guard says whose client is closed.
const LOST: ErrorKind = ErrorKind::Lost(LossCause::Closed);

pub(crate) fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// An embedded server whose runtime outlives those of its clients.
pub(crate) fn served() -> (Runtime, EmbeddedServer, Listening) {
    let runtime = multi_thread();
    let server = EmbeddedServer::new(Arc::new(TokioRuntime::new(runtime.handle().clone())));
    let listening = runtime.block_on(server.listen("127.0.0.1:0")).unwrap();
    (runtime, server, listening)
}

std::thread_local! {
    /// What was not as it should be.
    static WRONG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes unless the call ends within a second with the error of an ended runtime.
async fn refused(kind: &dyn Kind, call: Call) {
    let what = format!("{kind:?}: {}", call.what);
    let wrong = match timeout(Duration::from_secs(1), call.run).await {
        Err(_) => format!("{what} hangs"),
        Ok(Ok(())) => format!("{what} succeeds"),
        Ok(Err(error)) if call.checks_hold && error.kind() == LOST => return,
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

/// Fails if `future` ends within a tenth of a second.
async fn waits(future: impl Future) {
    let early = timeout(100 * MS, future).await;
    assert!(early.is_err(), "it does not wait");
}

#[test]
fn every_call_of_a_client_of_an_ended_runtime_is_refused() {
    for made_in in [current_thread, multi_thread] {
        for used_in in [current_thread, multi_thread] {
            every_call_is_refused(made_in(), used_in());
        }
    }
}

fn every_call_is_refused(made_in: Runtime, used_in: Runtime) {
    let servers: Vec<_> = (0..3).map(|_| served()).collect();
    let clients: Vec<_> = servers
        .iter()
        .map(|(_, _, listening)| made_in.block_on(Client::connect(&listening.url())).unwrap())
        .collect();
    let client = &clients[0];
    let (held, calls) = made_in.block_on(async {
        let mut calls = Vec::new();
        for kind in calls::KINDS {
            let all = kind.calls(&clients[..kind.servers()]).await;
            calls.extend(all.into_iter().map(|call| (*kind, call)));
        }
        (client.lock("x").lock().await.unwrap(), calls)
    });
    drop(made_in);
    used_in.block_on(async {
        assert!(client.is_closed());
        assert_eq!(held.state(), HoldState::Lost(LossCause::Closed));
        assert_eq!(held.check().unwrap_err().kind(), LOST);
        assert_eq!(ends("lost", held.lost()).await, LossCause::Closed);
        let run = held.run(std::future::pending::<()>());
        assert!(ends("run", run).await.is_err());
        assert_eq!(held.remaining(), Duration::ZERO);
        println!("{} calls", calls.len());
        for (kind, call) in calls {
            refused(kind, call).await;
        }
        let found = client.clone();
        let locks = async move { found.locks("*").next().await.unwrap() };
        refused(calls::KINDS[0], Call::new("locks", locks)).await;
        ends("settled", client.settled()).await;
        drop(held);
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
    let latch = client.count_down_latch("l");
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
        waits(&mut waiting).await;
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
            waits(&mut before).await;
            inner.shutdown_background();
            ends("a sleep under way", before).await;
            let later = runtime.sleep_until(Moment::FAR_FUTURE);
            ends("a sleep begun later", later).await;
        });
        runtime.spawn("nothing", Box::pin(async {}));
    }
}

/// Connects a client of which a task panics when `armed` is true.
async fn sabotaged(
    backend: &Backend,
    task: &'static str,
    armed: &Arc<AtomicBool>,
) -> Result<Client, Error> {
    let saboteur = Saboteur {
        inner: runtime_of(backend),
        task,
        armed: Arc::clone(armed),
    };
    let builder = backend.builder().runtime(Arc::new(saboteur));
    builder.connect().await
}

fn assert_closed_by(task: &str, error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Closed, "{task}: {error}");
    assert!(error.to_string().contains(task), "{task}: {error}");
}

/// A task that panics while the client connects ends the attempt at once.
#[tokio::test(start_paused = true)]
async fn connect_names_a_task_that_panics_meanwhile() {
    for task in ["alarms", "client record", "hub", "link", "watchdog"] {
        let (backend, armed) = (Backend::embedded(), Arc::new(AtomicBool::new(true)));
        let connecting = within(SECOND, task, sabotaged(&backend, task, &armed));
        assert_closed_by(task, &connecting.await.unwrap_err());
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
        let (backend, armed) = (Backend::embedded(), Arc::default());
        let client = sabotaged(&backend, task, &armed).await.unwrap();
        let (held, lock) = (client.lock("x").lock().await.unwrap(), client.lock("x"));
        let mut waiting = Box::pin(lock.lock().into_future());
        waits(&mut waiting).await;
        armed.store(true, Ordering::Relaxed);
        // Makes each of them run.
        drop(client.lock("y").try_lock().await);
        backend.embedded_server().cut_connections();
        let ended = timeout(Duration::from_secs(7200), waiting).await;
        let ended = ended.unwrap_or_else(|_| panic!("{task}: the waiter hangs"));
        assert_closed_by(task, &ended.unwrap_err());
        assert!(client.is_closed(), "{task}");
        assert_eq!(held.state(), HoldState::Lost(LossCause::Closed), "{task}");
        assert_closed_by(task, &client.lock("z").try_lock().await.unwrap_err());
        drop(held);
        client.close_now().await;
        client.settled().await;
    }
}
