//! Every future of a job may be dropped at every await: poll it k times, drop it, look what is
//! left (L2).

use redlatch::once::JobOutcome;
use redlatch_behaviours::once::{daily, succeed};
use redlatch_lua::ONCE;

use crate::prelude::*;

/// Runs the slot of a day, with work that takes 2 ms and counts how often it has begun.
fn run(client: &Client, begun: &Arc<AtomicU32>) -> Task {
    let (job, begun) = (daily(client, 20_000), Arc::clone(begun));
    task(async move {
        let work = async |_: &JobRun| {
            begun.fetch_add(1, Ordering::Relaxed);
            sleep(2 * MS).await;
            Ok::<_, String>(())
        };
        job.run(work).await.unwrap()
    })
}

/// After each drop nobody runs the job, nothing is left in the client, and the slot has had as many
/// attempts as work has begun, also if a reply was lost.
#[tokio::test(start_paused = true)]
async fn cancelled_run_counts_only_if_its_work_has_begun() {
    let scripts = [&ONCE.look, &ONCE.claim, &ONCE.release].map(Some);
    for lost in scripts.into_iter().chain([None]) {
        let polls = after_each_poll(async |polls| {
            let (backend, [client]) = preloaded().await;
            if let Some(script) = lost {
                lose_reply(&backend, script.text, LostReply::Cuts);
            }
            let begun = Arc::<AtomicU32>::default();
            let done = polled(&backend, run(&client, &begun), polls).await;
            // Copies of a request whose reply was lost come later.
            backend.pass(Duration::from_secs(8)).await;
            assert_tables_empty(&client).await;
            let job = daily(&client, 20_000).retries(1);
            assert_eq!(job.holder().await.unwrap(), None);
            let begun = begun.load(Ordering::Relaxed);
            assert!(begun <= 1);
            if let Some(record) = job.last().await.unwrap() {
                assert_eq!(record.attempt, 1);
            } else {
                assert_eq!(begun, 0, "after {polls} polls");
            }
            let work = async |run: &JobRun| Ok::<_, String>(run.attempt());
            match job.run(work).await.unwrap() {
                Once::Ran(attempt) => {
                    assert_eq!(attempt, begun + 1, "after {polls} polls");
                    assert!(done.is_none(), "it was done");
                }
                Once::Done(record) => assert_eq!((record.attempt, begun), (1, 1)),
                other => panic!("after {polls} polls: {other:?}"),
            }
            assert_eq!(backend.keys(), ["redlatch:{x}"]);
            done.is_some()
        });
        assert!(polls.await > 3);
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_serve_leaves_no_claim() {
    for polls in 1..60 {
        let (backend, [client]) = embedded().await;
        let job = client.once("x").every(Duration::from_secs(3600)).retries(9);
        let served = job.clone();
        let serving = task(async move {
            let work = async |_: &JobRun| {
                sleep(2 * MS).await;
                Err("no luck")
            };
            served.retry_pause(5 * MS).serve(work).await.unwrap();
        });
        assert!(polled(&backend, serving, polls).await.is_none());
        backend.pass(10 * MS).await;
        assert_tables_empty(&client).await;
        assert_eq!(job.holder().await.unwrap(), None);
        let record = job.last().await.unwrap();
        let outcome = record.map(|record| record.outcome);
        let expected = [None, Some(JobOutcome::Failed), Some(JobOutcome::Dropped)];
        assert!(expected.contains(&outcome), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_looks_and_resets_leave_nothing() {
    let polls = after_each_poll(async |polls| {
        let (backend, [client]) = embedded().await;
        assert!(succeed(&daily(&client, 20_000)).await.ran().is_some());
        let job = client.once("x");
        let calls = task(async move {
            job.last().await.unwrap();
            job.holder().await.unwrap();
            job.reset().await.unwrap();
        });
        let done = polled(&backend, calls, polls).await.is_some();
        backend.pass(Duration::from_secs(8)).await;
        assert_tables_empty(&client).await;
        let again = succeed(&daily(&client, 20_000)).await;
        assert!(again.is_done());
        assert!(!done || again.ran().is_some(), "it was reset");
        done
    });
    assert!(polls.await > 3);
}
