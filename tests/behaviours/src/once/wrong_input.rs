//! Wrong input gets a typed error that names the job, and nothing is half done.

use std::time::{Duration, UNIX_EPOCH};

use redlatch::{
    Error, ErrorKind,
    once::{Job, JobRun},
};
use redlatch_tests::backend::{Backend, assert_tables_empty};

use super::{DAY, daily, day, succeed};

behaviours! {
    Single:
        options_out_of_bounds_are_refused,
        names_out_of_bounds_are_refused,
        slot_far_ahead_of_the_server_is_refused,
        job_that_cannot_be_served_says_so,
        name_of_another_kind_is_a_typed_error,
        job_and_lock_of_one_name_are_typed_errors,
        further_keyed_slot_than_a_thousand_is_refused,
        closed_client_refuses_jobs;
}

async fn error_of(job: &Job) -> Error {
    let ran = job.run(async |_: &JobRun| Ok::<_, String>(())).await;
    ran.unwrap_err()
}

async fn options_out_of_bounds_are_refused(backend: &Backend) {
    let client = backend.client().await;
    let job = || client.once("nightly");
    let (ms, long) = (Duration::from_millis(1), Duration::MAX);
    let key = "k".repeat(10_240);
    for (job, said) in [
        (job(), "has no schedule"),
        (job().every(Duration::ZERO), "a period of 0ns"),
        (job().every(ms / 2), "1 ms to ten years"),
        (job().every(long), "1 ms to ten years"),
        (
            job().every(DAY).offset(DAY),
            "not below its period of 86400s",
        ),
        (job().gap(ms).offset(ms), "goes with `every` only"),
        (job().gap(Duration::ZERO), "a gap of 0ns"),
        (job().every(DAY).gap(DAY), "has `every` and `gap`"),
        (job().slot("a").slot("b"), "has `slot` and `slot`"),
        (job().slot(&key), "a slot of 10240 bytes"),
        (job().gap(DAY).at(UNIX_EPOCH), "`at`, which goes with"),
        (job().slot("a").catch_up(1), "`catch_up`, which goes with"),
        (job().every(DAY).catch_up(65), "at most 64"),
        (
            job().every(DAY).catch_up(1).at(day(20_000)),
            "`catch_up` beside `at`",
        ),
        (job().every(DAY).keep(DAY), "`keep`, which goes with `slot`"),
        (
            job().every(DAY).at(UNIX_EPOCH - DAY),
            "has `at` before 1970",
        ),
        (job().every(DAY).max_run(Duration::ZERO), "a max_run of 0ns"),
        (job().slot("a").keep(Duration::ZERO), "a keep of 0ns"),
        (job().every(DAY).retry_pause(long), "at most ten years"),
    ] {
        let error = error_of(&job).await;
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
        let text = error.to_string();
        assert!(
            text.contains(said) && text.contains("\"nightly\""),
            "{text}"
        );
    }
    let error = error_of(&job().every(DAY).lease(ms)).await;
    assert_eq!(error.kind(), ErrorKind::InvalidLease);
    assert!(backend.keys().is_empty());
    assert_tables_empty(&client).await;
    let longest = job()
        .every(3653 * DAY)
        .offset(3653 * DAY - ms)
        .at(day(9000));
    assert!(succeed(&longest).await.ran().is_some());
}

async fn names_out_of_bounds_are_refused(backend: &Backend) {
    let client = backend.client().await;
    for name in ["", &"x".repeat(513)] {
        let job = client.once(name).every(DAY);
        assert_eq!(job.name(), None);
        let serve = job.serve(async |_: &JobRun| Ok::<_, String>(())).await;
        let errors = [
            error_of(&job).await,
            serve.unwrap_err(),
            job.last().await.unwrap_err(),
            job.holder().await.unwrap_err(),
            job.reset().await.unwrap_err(),
        ];
        assert_eq!(
            errors.map(|error| error.kind()),
            [ErrorKind::InvalidName; 5]
        );
    }
    assert!(backend.keys().is_empty());
}

async fn slot_far_ahead_of_the_server_is_refused(backend: &Backend) {
    let client = backend.client().await;
    let job = client.once("x").every(DAY).at(day(80_000));
    let error = error_of(&job).await;
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    let text = error.to_string();
    assert!(
        text.contains("over an hour after") && text.contains("2189-01-12"),
        "{text}"
    );
    let job = client.once("x").every(DAY).offset(DAY / 2).at(UNIX_EPOCH);
    assert_eq!(error_of(&job).await.kind(), ErrorKind::OutOfRange);
    assert!(backend.keys().is_empty());
}

async fn job_that_cannot_be_served_says_so(backend: &Backend) {
    let client = backend.client().await;
    for (job, kind, said) in [
        (
            client.once("x").slot("a"),
            ErrorKind::InvalidOption,
            "keyed slot",
        ),
        (daily(&client, 20_000), ErrorKind::InvalidOption, "has `at`"),
        (client.once("x"), ErrorKind::InvalidOption, "no schedule"),
    ] {
        let served = job.serve(async |_: &JobRun| Ok::<_, String>(())).await;
        let error = served.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

async fn name_of_another_kind_is_a_typed_error(backend: &Backend) {
    let client = backend.client().await;
    for set in [
        ["HSET", "redlatch:{x}", "k", "once:2"].as_slice(),
        ["SET", "redlatch:{x}", "mine"].as_slice(),
    ] {
        backend.command(&["DEL", "redlatch:{x}"]);
        backend.command(set);
        let job = daily(&client, 20_000);
        let errors = [
            error_of(&job).await,
            job.last().await.unwrap_err(),
            job.reset().await.unwrap_err(),
        ];
        assert_eq!(errors.map(|error| error.kind()), [ErrorKind::WrongKind; 3]);
    }
    assert_eq!(backend.keys(), ["redlatch:{x}"]);
    assert_tables_empty(&client).await;
}

async fn job_and_lock_of_one_name_are_typed_errors(backend: &Backend) {
    let client = backend.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    assert_eq!(
        error_of(&daily(&client, 20_000)).await.kind(),
        ErrorKind::WrongKind
    );
    guard.release().await.unwrap();
    assert!(succeed(&client.once("y").slot("a")).await.ran().is_some());
    let error = client.lock("y").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKind);
}

async fn further_keyed_slot_than_a_thousand_is_refused(backend: &Backend) {
    let client = backend.client().await;
    for n in 0..1_000 {
        let job = client.once("x").slot(&format!("order-{n}"));
        assert!(succeed(&job).await.ran().is_some());
    }
    let error = error_of(&client.once("x").slot("order-1000")).await;
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    let text = error.to_string();
    for said in ["\"x\"", "1000 keyed slots", "reset"] {
        assert!(text.contains(said), "{text}");
    }
    let known = client.once("x").slot("order-7");
    assert!(succeed(&known).await.ran().is_none());
    assert!(client.once("x").reset().await.unwrap());
    assert!(
        succeed(&client.once("x").slot("order-1000"))
            .await
            .ran()
            .is_some()
    );
}

async fn closed_client_refuses_jobs(backend: &Backend) {
    let client = backend.client().await;
    let job = client.once("x").every(DAY);
    client.close(Duration::ZERO).await;
    let served = job.serve(async |_: &JobRun| Ok::<_, String>(())).await;
    assert_eq!(served.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(error_of(&job).await.kind(), ErrorKind::Closed);
    assert_eq!(job.last().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(job.reset().await.unwrap_err().kind(), ErrorKind::Closed);
}
