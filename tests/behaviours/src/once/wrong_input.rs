//! Wrong input gets a typed error that names the job, and nothing is half done.

use std::time::UNIX_EPOCH;

use redlatch::{
    Error, ErrorKind,
    once::{Job, JobRun},
};

use super::{DAY, day, succeed};
use crate::prelude::*;

behaviours! {
    Single:
        slot_far_ahead_of_the_server_is_refused,
        further_keyed_slot_than_a_thousand_is_refused,
        closed_client_refuses_jobs;
}

async fn error_of(job: &Job) -> Error {
    let ran = job.run(async |_: &JobRun| Ok::<_, String>(())).await;
    ran.unwrap_err()
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
    assert_fails(served, ErrorKind::Closed);
    assert_eq!(error_of(&job).await.kind(), ErrorKind::Closed);
    assert_fails(job.last().await, ErrorKind::Closed);
    assert_fails(job.reset().await, ErrorKind::Closed);
}
