//! Cron expressions: wrong ones, and changes of local time on the server's clock.

use redlatch::{
    ErrorKind::{InvalidOption, OutOfRange},
    runtime::Runtime,
};
use redlatch_embedded::{
    EmbeddedServer, SteppedRuntime,
    engine::{Model, ServerTime},
};

use super::{HOUR, Log, serving, taken};
use crate::prelude::*;

/// Serves an expression in Berlin from an instant on, in ms since 1970, on three replicas. Returns
/// the minutes after that instant at which slots began.
async fn minutes(name: &str, expression: &str, from: u64, hours: u32) -> Vec<u64> {
    let runtime: Arc<dyn Runtime> = Arc::new(SteppedRuntime::new());
    let start = ServerTime::from_millis(from);
    let backend = Backend::Embedded {
        server: EmbeddedServer::starting_at(Arc::clone(&runtime), Model::default(), start),
        runtime,
        name: format!("summer-time-{name}"),
    };
    let log = Log::default();
    let tasks = clients::<3>(&backend).await.map(|client| {
        let job = client.once("x").cron(expression, "Europe/Berlin");
        serving(job, &log, Duration::ZERO)
    });
    backend.pass(HOUR * hours).await;
    for task in tasks {
        task.abort();
    }
    let millis = |slot: SystemTime| slot.duration_since(UNIX_EPOCH).unwrap().as_millis();
    let slots = taken(&log).into_iter().map(millis);
    let slots: Vec<_> = slots.map(|slot| u64::try_from(slot).unwrap()).collect();
    assert_eq!(slots[0] + 60_000, from, "the slot that is under way");
    let later = slots[1..].iter();
    later.map(|slot| (slot - from) / 60_000).collect()
}

/// 28 March 2026, 23:01 UTC, is 0:01 in Berlin; at 2:00 it is 3:00.
#[tokio::test(start_paused = true)]
async fn skipped_hour_is_one_slot() {
    let from = 1_774_738_860_000;
    let ran = minutes("skipped", "*/30 * * * *", from, 5).await;
    // 0:30, 1:00, 1:30, 3:00 (as 2:00 and 2:30 too), 3:30 …
    assert_eq!(ran, [29, 59, 89, 119, 149, 179, 209, 239, 269, 299]);
}

/// 24 October 2026, 22:01 UTC, is 0:01 in Berlin; at 3:00 it is 2:00.
#[tokio::test(start_paused = true)]
async fn doubled_hour_is_one_slot_for_a_job_of_some_hours() {
    let from = 1_792_879_260_000;
    let ran = minutes("some", "*/30 0-22 * * *", from, 5).await;
    // 0:30, 1:00, 1:30, 2:00, 2:30, and after the second 2:00 to 3:00: 3:00, 3:30, 4:00
    assert_eq!(ran, [29, 59, 89, 119, 149, 239, 269, 299]);
    let ran = minutes("all", "*/30 * * * *", from, 5).await;
    assert_eq!(ran, (0..10).map(|n| 29 + 30 * n).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn expressions_without_a_time_are_refused() {
    let client = Backend::embedded().client().await;
    for (expression, zone, kind, said) in [
        ("whenever", "UTC", InvalidOption, "\"whenever\" is invalid"),
        (
            "0 3 * * *",
            "Berlin",
            InvalidOption,
            "\"Berlin\" is no time zone",
        ),
        ("0 0 30 2 *", "UTC", InvalidOption, "has no time"),
        ("0 0 0 1 1 * 2007", "UTC", OutOfRange, "no further time"),
    ] {
        let job = client.once("x").cron(expression, zone).retries(1);
        let served = job.serve(async |_: &JobRun| Ok::<_, String>(())).await;
        let error = served.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}
