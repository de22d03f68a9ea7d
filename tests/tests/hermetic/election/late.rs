//! A leader that was stopped, or is cut off from its server: its work ends in time.

use futures_util::{future::pending, poll};
use redlatch::runtime::BoxFuture;
use redlatch_behaviours::election::Working;
use tokio::time::advance;

use super::beside;
use crate::{prelude::*, spawning::client_with};

/// Tasks of terms, which the test polls when it likes.
type Parked = Arc<Mutex<Vec<BoxFuture<()>>>>;

/// Connects a client whose terms' tasks are polled by hand.
async fn by_hand(backend: &Backend) -> (Client, Parked) {
    let parked = Parked::default();
    let tasks = Arc::clone(&parked);
    let client = client_with(backend, move |inner, task, future| match task {
        "term" => tasks.lock().unwrap().push(future),
        _ => inner.spawn(task, future),
    });
    (client.await, parked)
}

#[tokio::test(start_paused = true)]
async fn work_of_a_stopped_leader_is_dropped_before_any_poll() {
    let (backend, [client]) = embedded().await;
    let election = client.election("x").lease(2 * SECOND);
    let (tick, ticks) = (Notify::new(), AtomicU32::new(0));
    let mut lead = Box::pin(election.lead(async |_: &Term| {
        loop {
            tick.notified().await;
            ticks.fetch_add(1, Ordering::SeqCst);
        }
    }));
    assert!(polled(&backend, &mut lead, 40).await.is_none());
    tick.notify_one();
    assert!(poll!(lead.as_mut()).is_pending());
    assert_eq!(ticks.load(Ordering::SeqCst), 1, "it leads");
    // The process is stopped beyond its lease: nothing is renewed, and nothing is polled.
    backend.embedded_server().stop_for(10 * SECOND);
    advance(3 * SECOND).await;
    tick.notify_one();
    assert!(poll!(lead.as_mut()).is_pending());
    backend.pass(MS).await;
    assert!(poll!(lead.as_mut()).is_pending());
    let late = ticks.load(Ordering::SeqCst) - 1;
    assert_eq!(late, 0, "no poll after the deadline");
}

#[tokio::test(start_paused = true)]
async fn task_that_is_polled_late_is_dropped_before_its_poll() {
    let backend = Backend::embedded();
    let (client, tasks) = by_hand(&backend).await;
    let election = client.election("x").lease(2 * SECOND);
    let ticks = Arc::new(AtomicU32::new(0));
    let mut lead = Box::pin(election.lead(async |term: &Term| {
        let ticks = Arc::clone(&ticks);
        term.spawn(async move {
            loop {
                ticks.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        });
        pending::<()>().await;
    }));
    assert!(polled(&backend, &mut lead, 40).await.is_none());
    let mut task = tasks.lock().unwrap().pop().unwrap();
    assert!(poll!(task.as_mut()).is_pending());
    assert_eq!(ticks.load(Ordering::SeqCst), 1);
    backend.embedded_server().stop_for(3 * SECOND);
    advance(3 * SECOND).await;
    assert!(poll!(task.as_mut()).is_ready(), "it is over");
    let late = ticks.load(Ordering::SeqCst) - 1;
    assert_eq!(late, 0, "no poll after the deadline");
    // Leads again, in a new term.
    assert!(polled(&backend, &mut lead, 8_000).await.is_none());
    assert_eq!(tasks.lock().unwrap().len(), 1);
}

/// Cilium#42920, kubernetes#139991: a name is given away while the work of its leader goes on.
#[tokio::test(start_paused = true)]
async fn name_is_kept_while_a_task_has_not_ended() {
    let backend = Backend::embedded();
    let ((client, tasks), other) = (by_hand(&backend).await, backend.client().await);
    let election = client.election("x").lease(2 * SECOND);
    let mut lead = Box::pin(election.lead(async |term: &Term| {
        term.spawn(pending::<()>());
    }));
    for _ in 0..100 {
        assert!(poll!(lead.as_mut()).is_pending());
        backend.pass(100 * MS).await;
    }
    let leader = other.election("x").leader().await.unwrap();
    assert!(leader.is_some(), "a task that nobody polls has not ended");
    tasks.lock().unwrap().clear();
    lead.await.unwrap();
    assert_eq!(other.election("x").leader().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn dropped_call_keeps_the_name_while_a_task_has_not_ended() {
    let backend = Backend::embedded();
    let ((client, tasks), other) = (by_hand(&backend).await, backend.client().await);
    let election = client.election("x").lease(2 * SECOND);
    let mut lead = Box::pin(election.lead(async |term: &Term| {
        term.spawn(pending::<()>());
        pending::<()>().await;
    }));
    assert!(polled(&backend, &mut lead, 40).await.is_none());
    drop(lead);
    backend.pass(5 * SECOND).await;
    assert!(other.election("x").leader().await.unwrap().is_some());
    let mut task = tasks.lock().unwrap().pop().unwrap();
    assert!(poll!(task.as_mut()).is_ready(), "it is told to stop");
    backend.pass(MS).await;
    assert_eq!(other.election("x").leader().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn ending_comes_when_renewals_are_not_answered() {
    let (backend, [client]) = embedded().await;
    let election = client.election("x").lease(10 * SECOND).grace(2 * SECOND);
    let lead = election.lead(async |term: &Term| {
        let early = timeout(30 * SECOND, term.ending()).await;
        early.expect_err("renewals move the deadline");
        backend.embedded_server().stop_for(60 * SECOND);
        let start = Instant::now();
        term.ending().await;
        let waited = start.elapsed();
        assert!((3 * SECOND..8 * SECOND).contains(&waited), "{waited:?}");
        term.check().unwrap();
        sleep(SECOND).await;
        term.check().unwrap();
        term.resign();
    });
    lead.await.unwrap();
}

/// Etcd: `Campaign` that succeeds without a lease, and an outage of 12 hours.
#[tokio::test(start_paused = true)]
async fn campaign_goes_on_through_an_outage() {
    let (backend, [client]) = embedded().await;
    backend.embedded_server().stop_for(3_600 * SECOND);
    let start = Instant::now();
    let election = client.election("x");
    let lead = election.lead(async |term: &Term| {
        let waited = start.elapsed();
        assert!(waited >= 3_600 * SECOND, "no term without an answer");
        term.check().unwrap();
    });
    lead.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn split_leader_has_ended_before_the_next_begins() {
    let (backend, [client, other]) = embedded().await;
    let at_work = Arc::<AtomicU32>::default();
    let [first, second] = [&client, &other].map(|client| client.election("x").lease(5 * SECOND));
    let begun = Notify::new();
    let lead = first.lead(async |_: &Term| {
        let _alive = Working::begin(&at_work);
        begun.notify_one();
        pending::<()>().await;
    });
    let follow = async {
        begun.notified().await;
        // No renewal gets through, and both candidates are cut off.
        backend.embedded_server().stop_for(5 * SECOND);
        let work = async |_: &Term| assert_eq!(at_work.load(Ordering::SeqCst), 0);
        second.lead(work).await.unwrap();
    };
    beside(lead, follow).await;
}
