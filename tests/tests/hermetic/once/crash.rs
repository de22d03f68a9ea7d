//! Processes that die during a run, and requests that nobody hears the answer of.

use redlatch::{
    once::{JobOutcome, Slot},
    runtime::Command,
};
use redlatch_behaviours::once::{DAY, daily, day, succeed};
use redlatch_lua::ONCE;

use crate::prelude::*;

/// Claims a slot of `x` for a process that dies at once.
pub(super) fn claimed_by_a_dead_process(backend: &Backend, slot: SystemTime, lease: Duration) {
    let slot = slot.duration_since(day(0)).unwrap().as_millis();
    claim_and_die(backend, &slot.to_string(), lease, "");
}

/// Claims a slot of `x`, as the server stores it, for a process that dies at once. A keyed slot is
/// remembered for `keep` ms.
fn claim_and_die(backend: &Backend, slot: &str, lease: Duration, keep: &str) {
    let server = backend.embedded_server();
    let token = backend.hash("redlatch:{x}").get("t").cloned();
    let (token, lease) = (token.unwrap_or_default(), lease.as_millis());
    // A `~` stands for a space.
    let args = format!(
        "9999999999999 dead:1 dead:2 {lease} 600000 {slot} {token}~0   9 dead-host:42 {keep}"
    );
    let args = args.split(' ').map(|word| word.replace('~', " "));
    let script = Command::new("EVAL").arg(ONCE.claim.text).arg("1");
    let call = args.fold(script.arg("redlatch:{x}"), Command::arg);
    let reply = server.execute(&call).unwrap();
    let verdict = reply.as_array().unwrap()[1].as_str().unwrap().to_owned();
    assert_eq!(verdict, "granted");
}

#[tokio::test(start_paused = true)]
async fn dead_process_costs_its_lease_and_an_attempt() {
    let (backend, [client]) = embedded().await;
    claimed_by_a_dead_process(&backend, day(20_000), 10 * SECOND);
    let job = daily(&client, 20_000);
    let Once::UnderWay(holder) = succeed(&job).await else {
        panic!("it has run");
    };
    assert_eq!((holder.host.as_str(), holder.pid), ("dead-host", 42));
    backend.pass(10 * SECOND).await;
    let Once::Exhausted(record) = succeed(&job).await else {
        panic!("it has run without a retry");
    };
    assert_eq!((record.outcome, record.attempt), (JobOutcome::Lost, 1));
    assert_eq!((record.host.as_str(), record.pid), ("dead-host", 42));
    assert_eq!(record.duration(), 10 * SECOND);
    assert_eq!(job.last().await.unwrap(), Some(record));
    let work = async |run: &JobRun| Ok::<_, String>((run.attempt(), run.is_after_loss()));
    let ran = job.clone().retries(1).run(work).await.unwrap();
    assert_eq!(ran.ran(), Some((2, true)));
}

#[tokio::test(start_paused = true)]
async fn dead_process_costs_an_attempt_at_a_keyed_slot_with_a_short_memory() {
    let (backend, [client]) = embedded().await;
    claim_and_die(&backend, "=a", 10 * SECOND, "1000");
    backend.pass(10 * SECOND + SECOND / 10).await;
    let job = client.once("x").slot("a").keep(SECOND).retries(0);
    let Once::Exhausted(record) = succeed(&job).await else {
        panic!("it has run without a retry");
    };
    assert_eq!((record.outcome, record.attempt), (JobOutcome::Lost, 1));
    backend.pass(SECOND).await;
    assert!(succeed(&job).await.ran().is_some(), "it is forgotten");
}

/// The records live as long as a keyed slot is remembered, even if its process dies now.
#[tokio::test(start_paused = true)]
async fn records_of_a_keyed_slot_outlive_its_claim() {
    let (backend, [client]) = embedded().await;
    let (lease, keep) = (3_600 * SECOND, 30 * DAY);
    let job = client.once("x").slot("a").lease(lease).keep(keep);
    let work = async |_: &JobRun| {
        let ttl = backend.ttl("redlatch:{x}").unwrap();
        assert!(ttl > keep + lease - SECOND, "{ttl:?}");
        Ok::<_, String>(())
    };
    assert!(job.run(work).await.unwrap().is_done());
}

#[tokio::test(start_paused = true)]
async fn dead_process_does_not_hold_up_the_next_slot() {
    let (backend, [client]) = embedded().await;
    claimed_by_a_dead_process(&backend, day(20_000), SECOND);
    backend.pass(SECOND).await;
    let (slot, _) = succeed(&daily(&client, 20_001)).await.ran().unwrap();
    assert_eq!(slot, Slot::Time(day(20_001)));
}

/// The effect was made, and its record was lost: the slot runs again, with the same slot and a
/// greater token.
#[tokio::test(start_paused = true)]
async fn lost_record_of_a_success_runs_the_slot_again() {
    let backend = Backend::embedded();
    let client = backend.builder().patience(SECOND).connect().await.unwrap();
    let job = daily(&client, 20_000).lease(2 * SECOND).retries(1);
    let server = backend.embedded_server();
    let mut effects = Vec::new();
    let work = async |run: &JobRun| {
        effects.push((run.slot().clone(), run.token()));
        // The server goes away with the claim, and comes back without the record.
        server.refuse_connections(true);
        server.cut_connections();
        Ok::<_, String>(())
    };
    let error = job.run(work).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    let text = error.to_string();
    for word in ["has succeeded", "unknown"] {
        assert!(text.contains(word), "{text}");
    }
    backend.pass(20 * SECOND).await;
    server.refuse_connections(false);
    let (slot, token) = succeed(&job).await.ran().unwrap();
    assert_eq!(slot, effects[0].0);
    assert!(token > effects[0].1.as_u64());
}

#[tokio::test(start_paused = true)]
async fn record_of_a_success_is_sent_until_the_lease_ends() {
    let backend = Backend::embedded();
    let client = backend.builder().patience(SECOND).connect().await.unwrap();
    let job = daily(&client, 20_000);
    let server = backend.embedded_server();
    let work = async |_: &JobRun| {
        server.stop();
        Ok::<_, String>(())
    };
    assert_fails(job.run(work).await, ErrorKind::OutcomeUnknown);
    server.resume();
    backend.pass(5 * SECOND).await;
    assert!(matches!(succeed(&job).await, Once::Done(_)));
}
