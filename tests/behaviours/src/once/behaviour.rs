//! What a single call does, and what is refused.

use std::{sync::Arc, time::UNIX_EPOCH};

use redlatch::{
    Error, ErrorKind, LossCause,
    once::{Job, JobError, JobOutcome, JobRun, Once, Slot},
};
use tokio::sync::Notify;

use super::{DAY, daily, day, fail, succeed};
use crate::prelude::*;

behaviours! {
    Everywhere:
        many_processes_run_a_slot_once;
    Cluster:
        run_leaves_one_key_with_an_end;
    Single:
        slot_runs_once_and_is_done_for_all,
        change_of_the_period_neither_blocks_nor_repeats,
        other_process_is_told_of_the_run_under_way,
        failed_slot_is_open_while_retries_remain,
        job_has_three_retries_by_default,
        closing_client_lets_a_run_finish,
        closing_client_drops_a_run_that_does_not_finish,
        tokens_rise_from_attempt_to_attempt,
        each_key_is_a_slot,
        gap_begins_at_the_end_of_a_run,
        run_that_takes_too_long_is_dropped_and_has_failed,
        dropped_run_uses_up_its_attempt,
        panic_of_the_work_uses_up_its_attempt,
        reset_opens_all_slots,
        run_during_a_reset_records_its_outcome,
        run_may_be_spawned_and_may_borrow,
        nothing_is_on_record_at_first,
        slot_far_ahead_of_the_server_is_refused,
        further_keyed_slot_than_a_thousand_is_refused,
        closed_client_refuses_jobs;
}

/// Runs work that succeeds, and tells whether it has run.
async fn runs(job: &Job) -> bool {
    succeed(job).await.ran().is_some()
}

async fn slot_runs_once_and_is_done_for_all(backend: &Backend) {
    let clients = [backend.client().await, backend.client().await];
    let job = daily(&clients[0], 20_000);
    let Once::Ran((slot, token)) = succeed(&job).await else {
        panic!("it has not run");
    };
    assert_eq!(slot, Slot::Time(day(20_000)));
    for client in &clients {
        let Once::Done(record) = succeed(&daily(client, 20_000)).await else {
            panic!("it has run twice");
        };
        assert_eq!(record.slot, slot);
        assert_eq!(record.outcome, JobOutcome::Done);
        assert_eq!((record.attempt, record.token.as_u64()), (1, token));
        assert_eq!(record.pid, std::process::id());
        assert!(!record.host.is_empty() && record.ended >= record.began);
        assert_eq!(client.once("x").last().await.unwrap(), Some(record));
        assert_eq!(client.once("x").holder().await.unwrap(), None);
    }
    assert_tables_empty(&clients[0]).await;
}

async fn change_of_the_period_neither_blocks_nor_repeats(backend: &Backend) {
    let client = backend.client().await;
    let hour = 3600 * SECOND;
    let hourly = |at| client.once("x").every(hour).at(at);
    assert!(runs(&hourly(day(20_000) + 13 * hour)).await);
    let same_day = succeed(&daily(&client, 20_000)).await;
    assert!(matches!(same_day, Once::Done(_)));
    assert!(runs(&daily(&client, 20_001)).await);
    assert!(matches!(succeed(&hourly(day(20_001))).await, Once::Done(_)));
    assert!(runs(&hourly(day(20_001) + hour)).await);
}

async fn other_process_is_told_of_the_run_under_way(backend: &Backend) {
    let clients = [backend.client().await, backend.client().await];
    let (begun, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let running = tokio::spawn({
        let (job, begun, end) = (daily(&clients[0], 20_000), begun.clone(), end.clone());
        async move {
            let work = async |run: &JobRun| {
                begun.notify_one();
                end.notified().await;
                run.check()
            };
            job.run(work).await.unwrap()
        }
    });
    begun.notified().await;
    for number in [20_000, 20_005] {
        let Once::UnderWay(holder) = succeed(&daily(&clients[1], number)).await else {
            panic!("it does not wait its turn");
        };
        assert_eq!(holder.slot, Slot::Time(day(20_000)));
        assert_eq!((holder.attempt, holder.pid), (1, std::process::id()));
        assert!(!holder.remaining.is_zero());
        let seen = clients[1].once("x").holder().await.unwrap().unwrap();
        assert_eq!((seen.token, seen.owner), (holder.token, holder.owner));
    }
    end.notify_one();
    assert!(matches!(running.await.unwrap(), Once::Ran(())));
    assert!(runs(&daily(&clients[1], 20_005)).await);
}

async fn failed_slot_is_open_while_retries_remain(backend: &Backend) {
    let client = backend.client().await;
    let job = daily(&client, 20_000).retries(2);
    for attempt in 1..=3 {
        let failed = fail(&job).await;
        assert!(matches!(failed, Once::Failed(JobError::Work("no luck"))));
        let record = job.last().await.unwrap().unwrap();
        assert_eq!(
            (record.outcome, record.attempt),
            (JobOutcome::Failed, attempt)
        );
        assert_eq!(record.error.as_deref(), Some("no luck"));
    }
    let Once::Exhausted(record) = succeed(&job).await else {
        panic!("it has run a fourth time");
    };
    assert_eq!(
        (record.attempt, record.error.as_deref()),
        (3, Some("no luck"))
    );
    // More retries open it again, and the next slot is open anyway.
    assert!(runs(&daily(&client, 20_000).retries(3)).await);
    assert!(matches!(succeed(&job).await, Once::Done(_)));
    assert!(runs(&daily(&client, 20_001)).await);
}

async fn job_has_three_retries_by_default(backend: &Backend) {
    let client = backend.client().await;
    let job = client.once("x").every(DAY).at(day(20_000));
    for _ in 0..4 {
        assert!(matches!(fail(&job).await, Once::Failed(_)));
    }
    assert!(matches!(succeed(&job).await, Once::Exhausted(_)));
}

async fn closing_client_lets_a_run_finish(backend: &Backend) {
    let (client, other) = (backend.client().await, backend.client().await);
    let job = daily(&client, 20_000);
    let begun = Notify::new();
    let work = async |run: &JobRun| {
        begun.notify_one();
        run.ending(Duration::ZERO).await;
        assert!(run.check().is_err(), "the work is told");
        tokio::task::yield_now().await;
        Ok::<_, String>(run.token())
    };
    let close = async {
        begun.notified().await;
        client.close(GENEROUS).await;
    };
    let (ran, ()) = tokio::join!(job.run(work), close);
    let token = ran.unwrap().ran().unwrap();
    let Once::Done(record) = succeed(&daily(&other, 20_000)).await else {
        panic!("it has run twice");
    };
    assert_eq!((record.outcome, record.token), (JobOutcome::Done, token));
}

async fn closing_client_drops_a_run_that_does_not_finish(backend: &Backend) {
    let (client, other) = (backend.client().await, backend.client().await);
    let job = daily(&client, 20_000);
    let begun = Notify::new();
    let work = async |_: &JobRun| {
        begun.notify_one();
        std::future::pending::<Result<(), String>>().await
    };
    let close = async {
        begun.notified().await;
        client.close(Duration::from_millis(200)).await;
    };
    let (ran, ()) = tokio::join!(job.run(work), close);
    assert!(matches!(ran.unwrap(), Once::Lost(LossCause::Closed)));
    let record = daily(&other, 20_000).last().await.unwrap().unwrap();
    assert_eq!(record.outcome, JobOutcome::Dropped);
}

async fn tokens_rise_from_attempt_to_attempt(backend: &Backend) {
    let client = backend.client().await;
    let mut seen = Vec::new();
    for number in [20_000, 20_000, 20_001] {
        let job = daily(&client, number).retries(1);
        let work = async |run: &JobRun| {
            seen.push((run.token(), run.slot().clone(), run.attempt()));
            Err::<(), _>("no luck")
        };
        assert!(matches!(job.run(work).await.unwrap(), Once::Failed(_)));
    }
    assert!(seen.is_sorted_by(|one, other| one.0 < other.0), "{seen:?}");
    assert_eq!(seen[0].1, seen[1].1);
    let attempts: Vec<_> = seen.iter().map(|it| it.2).collect();
    assert_eq!(attempts, [1, 2, 1]);
}

async fn each_key_is_a_slot(backend: &Backend) {
    let client = backend.client().await;
    for key in ["v1", "", "=a b\n", "v2"] {
        let job = client.once("x").slot(key).retries(0);
        assert!(matches!(fail(&job).await, Once::Failed(_)));
        assert!(matches!(succeed(&job).await, Once::Exhausted(_)), "{key:?}");
        let job = job.retries(1);
        let (slot, _) = succeed(&job).await.ran().unwrap();
        assert_eq!(slot.key(), Some(key));
    }
    for key in ["v1", "", "=a b\n", "v2"] {
        let Once::Done(record) = succeed(&client.once("x").slot(key)).await else {
            panic!("{key:?} has run again");
        };
        assert_eq!((record.slot.key(), record.attempt), (Some(key), 2));
    }
}

async fn gap_begins_at_the_end_of_a_run(backend: &Backend) {
    let client = backend.client().await;
    let gap = 2 * SECOND;
    let job = client.once("x").gap(gap).retries(0);
    let (first, _) = succeed(&job).await.ran().unwrap();
    assert!(matches!(succeed(&job).await, Once::Done(_)));
    let ended = job.last().await.unwrap().unwrap().ended;
    backend.pass(gap + 10 * MS).await;
    let (second, _) = succeed(&job).await.ran().unwrap();
    assert_eq!(second, Slot::Time(ended + gap));
    assert!(second > first);
    // The gap follows the end of the last attempt, too.
    backend.pass(gap + 10 * MS).await;
    assert!(matches!(fail(&job).await, Once::Failed(_)));
    assert!(matches!(succeed(&job).await, Once::Exhausted(_)));
    backend.pass(gap + 10 * MS).await;
    assert!(runs(&job).await);
}

async fn run_that_takes_too_long_is_dropped_and_has_failed(backend: &Backend) {
    let client = backend.client().await;
    let limit = Duration::from_millis(200);
    let job = daily(&client, 20_000).max_run(limit);
    let ran = job.run(async |_: &JobRun| std::future::pending::<Result<(), String>>().await);
    let Once::Failed(error) = ran.await.unwrap() else {
        panic!("it has not failed");
    };
    assert_eq!(error, JobError::Overran(limit));
    let record = job.last().await.unwrap().unwrap();
    assert_eq!(record.outcome, JobOutcome::Overran);
    assert!(record.error.unwrap().contains("longer than 200ms"));
    assert!(matches!(succeed(&job).await, Once::Exhausted(_)));
}

async fn dropped_run_uses_up_its_attempt(backend: &Backend) {
    let client = backend.client().await;
    let job = daily(&client, 20_000);
    let begun = Notify::new();
    let work = async |_: &JobRun| {
        begun.notify_one();
        std::future::pending::<Result<(), String>>().await
    };
    tokio::select! {
        ended = job.run(work) => panic!("{ended:?}"),
        () = begun.notified() => {}
    }
    assert_tables_empty(&client).await;
    let record = job.last().await.unwrap().unwrap();
    assert_eq!((record.outcome, record.attempt), (JobOutcome::Dropped, 1));
    assert!(matches!(succeed(&job).await, Once::Exhausted(_)));
    assert!(runs(&job.retries(1)).await);
}

async fn panic_of_the_work_uses_up_its_attempt(backend: &Backend) {
    let client = backend.client().await;
    let job = daily(&client, 20_000).retries(1);
    let panics = tokio::spawn({
        let job = job.clone();
        async move {
            let work = async |_: &JobRun| -> Result<(), String> {
                std::panic::resume_unwind(Box::new("the work panics"))
            };
            let _ = job.run(work).await;
        }
    });
    assert!(panics.await.unwrap_err().is_panic());
    assert_tables_empty(&client).await;
    let record = job.last().await.unwrap().unwrap();
    assert_eq!(record.outcome, JobOutcome::Dropped);
    assert!(runs(&job).await);
}

async fn reset_opens_all_slots(backend: &Backend) {
    let client = backend.client().await;
    let job = daily(&client, 20_000);
    assert!(!job.reset().await.unwrap());
    assert!(runs(&job).await);
    let keyed = client.once("x").slot("v1");
    assert!(matches!(fail(&keyed).await, Once::Failed(_)));
    assert!(job.reset().await.unwrap());
    assert_eq!(job.last().await.unwrap(), None);
    assert!(runs(&daily(&client, 19_000)).await);
    assert!(runs(&keyed).await);
    assert!(job.reset().await.unwrap());
    assert!(job.reset().await.unwrap());
    assert!(runs(&job).await);
}

async fn run_during_a_reset_records_its_outcome(backend: &Backend) {
    let clients = [backend.client().await, backend.client().await];
    for job in [daily(&clients[0], 20_000), clients[0].once("y").slot("v1")] {
        let other = clients[1].once(job.name().unwrap());
        let work = async |_: &JobRun| {
            assert!(other.reset().await.unwrap());
            Err::<(), _>("no luck")
        };
        assert!(matches!(job.run(work).await.unwrap(), Once::Failed(_)));
        let record = other.last().await.unwrap().unwrap();
        assert_eq!(record.outcome, JobOutcome::Failed);
        let work = async |_: &JobRun| {
            assert!(other.reset().await.unwrap());
            Ok::<_, String>(())
        };
        let job = job.retries(1);
        assert!(matches!(job.run(work).await.unwrap(), Once::Ran(())));
        assert!(matches!(succeed(&job).await, Once::Done(_)));
    }
}

async fn many_processes_run_a_slot_once(backend: &Backend) {
    let mut tasks = Vec::new();
    for number in 0..12_u32 {
        let client = backend.client().await;
        tasks.push(tokio::spawn(async move {
            let mut ran = Vec::new();
            for slot in 20_000..20_010 {
                loop {
                    let job = daily(&client, slot).retries(1_000);
                    let work = async |run: &JobRun| {
                        // Some attempts fail.
                        match (run.attempt() + number + slot) % 3 {
                            0 => Err("no luck"),
                            _ => Ok(()),
                        }
                    };
                    match job.run(work).await.unwrap() {
                        Once::Ran(()) => ran.push(slot),
                        Once::Done(_) => break,
                        Once::UnderWay(_) | Once::Failed(_) => tokio::task::yield_now().await,
                        other => panic!("{other:?}"),
                    }
                }
            }
            ran
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all.sort_unstable();
    // A process that comes late finds earlier slots done by a later success.
    assert!(all.is_sorted_by(|one, other| one < other), "{all:?}");
    assert_eq!(all.last(), Some(&20_009));
}

/// Closures borrow from the task that runs them, also in a task of its own.
async fn run_may_be_spawned_and_may_borrow(backend: &Backend) {
    let client = backend.client().await;
    let names = vec!["a".to_owned(), "b".to_owned()];
    let job = daily(&client, 20_000);
    let spawned = tokio::spawn(async move {
        let mut seen = Vec::new();
        let ran = job
            .run(async |run: &JobRun| {
                for name in &names {
                    tokio::task::yield_now().await;
                    run.check()?;
                    seen.push(name.clone());
                }
                Ok::<_, Error>(())
            })
            .await
            .unwrap();
        (ran.is_done(), seen)
    });
    let (done, seen) = spawned.await.unwrap();
    assert!(done && seen == ["a", "b"]);
    let spawned = tokio::spawn(borrowing(daily(&client, 20_001), 7));
    assert_eq!(spawned.await.unwrap().ran(), Some(14));
}

async fn borrowing(job: Job, number: u32) -> Once<u32, Error> {
    let doubled = &(number * 2);
    job.run(async |_: &JobRun| Ok(*doubled)).await.unwrap()
}

async fn run_leaves_one_key_with_an_end(backend: &Backend) {
    let client = backend.client().await;
    for number in 20_000..20_005 {
        assert!(runs(&daily(&client, number)).await);
    }
    let fortnight = 14 * DAY;
    let job = client.once("x").every(fortnight).at(day(20_100));
    assert!(runs(&job).await);
    let keys = backend.keys();
    assert_eq!(keys, ["redlatch:{x}"]);
    let ttl = backend.ttl(&keys[0]).unwrap();
    assert!(ttl > 2 * fortnight - DAY && ttl <= 2 * fortnight, "{ttl:?}");
    // A shorter period does not shorten it.
    let job = client.once("x").every(SECOND).at(day(20_200));
    assert!(runs(&job).await);
    assert!(backend.ttl(&keys[0]).unwrap() > 2 * fortnight - DAY);
}

async fn nothing_is_on_record_at_first(backend: &Backend) {
    let client = backend.client().await;
    let job = client.once("x");
    assert_eq!(job.last().await.unwrap(), None);
    assert_eq!(job.holder().await.unwrap(), None);
    wait_for("no key", async || backend.keys().is_empty()).await;
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
        assert!(runs(&job).await);
    }
    let error = error_of(&client.once("x").slot("order-1000")).await;
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    let text = error.to_string();
    for said in ["\"x\"", "1000 keyed slots", "reset"] {
        assert!(text.contains(said), "{text}");
    }
    let known = client.once("x").slot("order-7");
    assert!(!runs(&known).await);
    assert!(client.once("x").reset().await.unwrap());
    assert!(runs(&client.once("x").slot("order-1000")).await);
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
