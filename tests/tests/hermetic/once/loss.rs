//! Runs that lose their claim.

use redlatch::once::JobOutcome;
use redlatch_behaviours::once::{daily, succeed};

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn work_is_dropped_before_the_lease_ends_on_a_silent_server() {
    let (backend, [client]) = embedded().await;
    let job = daily(&client, 20_000).lease(2 * SECOND).retries(1);
    let alive = Arc::new(());
    let server = backend.embedded_server();
    let start = Instant::now();
    let work = async |_: &JobRun| {
        let _alive = Arc::clone(&alive);
        server.stop();
        std::future::pending::<Result<(), String>>().await
    };
    let ran = job.run(work).await.unwrap();
    assert!(matches!(ran, Once::Lost(LossCause::Unreachable)), "{ran:?}");
    assert_eq!(Arc::strong_count(&alive), 1, "the work was dropped");
    assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
    backend.pass(3 * SECOND).await;
    server.resume();
    backend.pass(5 * SECOND).await;
    let record = job.last().await.unwrap().unwrap();
    assert_eq!((record.outcome, record.attempt), (JobOutcome::Lost, 1));
    assert!(succeed(&job).await.ran().is_some());
    assert_tables_empty(&client).await;
}

/// Nobody can say that a success was recorded.
#[tokio::test(start_paused = true)]
async fn run_of_a_deleted_job_is_lost_even_if_it_succeeds() {
    for succeeds in [false, true] {
        let (backend, [client]) = embedded().await;
        let job = daily(&client, 20_000).lease(3 * SECOND);
        let work = async |_: &JobRun| {
            backend.embedded_server().delete_key("redlatch:{x}");
            if !succeeds {
                std::future::pending::<()>().await;
            }
            Ok::<_, String>(())
        };
        let ran = job.run(work).await.unwrap();
        let lost = matches!(ran, Once::Lost(LossCause::Forgotten));
        assert!(lost, "succeeds: {succeeds}, {ran:?}");
        assert!(succeed(&job).await.ran().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn long_run_is_renewed() {
    let (_backend, [client]) = embedded().await;
    let job = daily(&client, 20_000).lease(SECOND);
    let work = async |run: &JobRun| {
        for _ in 0..3600 {
            sleep(SECOND).await;
            run.check()?;
        }
        Ok::<_, Error>(())
    };
    assert!(matches!(job.run(work).await.unwrap(), Once::Ran(())));
    let record = job.last().await.unwrap().unwrap();
    assert!(record.duration() >= 3600 * SECOND);
}
