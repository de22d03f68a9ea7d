//! What a single call does, and what is refused.

use std::future::pending;

use redlatch::once::{JobError, JobOutcome, Slot};

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
        further_keyed_slot_than_a_thousand_is_refused;
}

/// Runs work that succeeds, and tells whether it has run.
async fn runs(job: &Job) -> bool {
    succeed(job).await.ran().is_some()
}

/// Tells whether the slot is done.
async fn is_done(job: &Job) -> bool {
    matches!(succeed(job).await, Once::Done(_))
}

async fn slot_runs_once_and_is_done_for_all(clients: [Client; 2]) {
    let Once::Ran((slot, token)) = succeed(&daily(&clients[0], 20_000)).await else {
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
}

async fn change_of_the_period_neither_blocks_nor_repeats(client: Client) {
    let hour = 3600 * SECOND;
    let hourly = |at| client.once("x").every(hour).at(at);
    assert!(runs(&hourly(day(20_000) + 13 * hour)).await);
    assert!(is_done(&daily(&client, 20_000)).await);
    assert!(runs(&daily(&client, 20_001)).await);
    assert!(is_done(&hourly(day(20_001))).await);
    assert!(runs(&hourly(day(20_001) + hour)).await);
}

async fn other_process_is_told_of_the_run_under_way(clients: [Client; 2]) {
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

async fn failed_slot_is_open_while_retries_remain(client: Client) {
    let job = daily(&client, 20_000).retries(2);
    for attempt in 1..=3 {
        let failed = fail(&job).await;
        assert!(matches!(failed, Once::Failed(JobError::Work("no luck"))));
        let record = job.last().await.unwrap().unwrap();
        let ended = (record.outcome, record.attempt);
        assert_eq!(ended, (JobOutcome::Failed, attempt));
        assert_eq!(record.error.as_deref(), Some("no luck"));
    }
    let Once::Exhausted(record) = succeed(&job).await else {
        panic!("it has run a fourth time");
    };
    let ended = (record.attempt, record.error.as_deref());
    assert_eq!(ended, (3, Some("no luck")));
    // More retries open it again, and the next slot is open anyway.
    assert!(runs(&daily(&client, 20_000).retries(3)).await);
    assert!(is_done(&job).await);
    assert!(runs(&daily(&client, 20_001)).await);
}

async fn job_has_three_retries_by_default(client: Client) {
    let job = client.once("x").every(DAY).at(day(20_000));
    for _ in 0..4 {
        assert!(matches!(fail(&job).await, Once::Failed(_)));
    }
    assert!(matches!(succeed(&job).await, Once::Exhausted(_)));
}

async fn closing_client_lets_a_run_finish([client, other]: [Client; 2]) {
    let job = daily(&client, 20_000);
    let begun = Notify::new();
    let work = async |run: &JobRun| {
        begun.notify_one();
        run.ending(Duration::ZERO).await;
        assert!(run.check().is_err(), "the work is told");
        tokio::task::yield_now().await;
        Ok::<_, String>(run.token())
    };
    let ran = closed_beside(&client, GENEROUS, &begun, job.run(work)).await;
    let token = ran.unwrap().ran().unwrap();
    let Once::Done(record) = succeed(&daily(&other, 20_000)).await else {
        panic!("it has run twice");
    };
    assert_eq!((record.outcome, record.token), (JobOutcome::Done, token));
}

async fn closing_client_drops_a_run_that_does_not_finish([client, other]: [Client; 2]) {
    let job = daily(&client, 20_000);
    let begun = Notify::new();
    let work = async |_: &JobRun| {
        begun.notify_one();
        pending::<Result<(), String>>().await
    };
    let ran = closed_beside(&client, 200 * MS, &begun, job.run(work)).await;
    assert!(matches!(ran.unwrap(), Once::Lost(LossCause::Closed)));
    let record = daily(&other, 20_000).last().await.unwrap().unwrap();
    assert_eq!(record.outcome, JobOutcome::Dropped);
}

async fn tokens_rise_from_attempt_to_attempt(client: Client) {
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

async fn each_key_is_a_slot(client: Client) {
    for key in ["v1", "", "=a b\n", "v2"] {
        let job = client.once("x").slot(key).retries(0);
        assert!(matches!(fail(&job).await, Once::Failed(_)));
        assert!(matches!(succeed(&job).await, Once::Exhausted(_)), "{key:?}");
        let (slot, _) = succeed(&job.retries(1)).await.ran().unwrap();
        assert_eq!(slot.key(), Some(key));
    }
    for key in ["v1", "", "=a b\n", "v2"] {
        let Once::Done(record) = succeed(&client.once("x").slot(key)).await else {
            panic!("{key:?} has run again");
        };
        assert_eq!((record.slot.key(), record.attempt), (Some(key), 2));
    }
}

async fn gap_begins_at_the_end_of_a_run(backend: &Backend, client: Client) {
    let gap = 2 * SECOND;
    let job = client.once("x").gap(gap).retries(0);
    let (first, _) = succeed(&job).await.ran().unwrap();
    assert!(is_done(&job).await);
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

async fn run_that_takes_too_long_is_dropped_and_has_failed(client: Client) {
    let limit = 200 * MS;
    let job = daily(&client, 20_000).max_run(limit);
    let ran = job.run(async |_: &JobRun| pending::<Result<(), String>>().await);
    assert!(matches!(ran.await.unwrap(), Once::Failed(JobError::Overran(most)) if most == limit));
    let record = job.last().await.unwrap().unwrap();
    assert_eq!(record.outcome, JobOutcome::Overran);
    assert!(record.error.unwrap().contains("longer than 200ms"));
    assert!(matches!(succeed(&job).await, Once::Exhausted(_)));
}

async fn dropped_run_uses_up_its_attempt(client: Client) {
    let job = daily(&client, 20_000);
    let begun = Notify::new();
    let work = async |_: &JobRun| {
        begun.notify_one();
        pending::<Result<(), String>>().await
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

async fn panic_of_the_work_uses_up_its_attempt(client: Client) {
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

async fn reset_opens_all_slots(client: Client) {
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

async fn run_during_a_reset_records_its_outcome(clients: [Client; 2]) {
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
        assert!(is_done(&job).await);
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
                    // Some attempts fail.
                    let work = async |run: &JobRun| match (run.attempt() + number + slot) % 3 {
                        0 => Err("no luck"),
                        _ => Ok(()),
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
    let mut all = finished(tasks).await.concat();
    all.sort_unstable();
    // A process that comes late finds earlier slots done by a later success.
    assert!(all.is_sorted_by(|one, other| one < other), "{all:?}");
    assert_eq!(all.last(), Some(&20_009));
}

/// Closures borrow from the task that runs them, also in a task of its own.
async fn run_may_be_spawned_and_may_borrow(client: Client) {
    let names = vec!["a".to_owned(), "b".to_owned()];
    let job = daily(&client, 20_000);
    let spawned = tokio::spawn(async move {
        let mut seen = Vec::new();
        let work = async |run: &JobRun| {
            for name in &names {
                tokio::task::yield_now().await;
                run.check()?;
                seen.push(name.clone());
            }
            Ok::<_, Error>(())
        };
        (job.run(work).await.unwrap().is_done(), seen)
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

async fn run_leaves_one_key_with_an_end(backend: &Backend, client: Client) {
    for number in 20_000..20_005 {
        assert!(runs(&daily(&client, number)).await);
    }
    let fortnight = 14 * DAY;
    assert!(runs(&client.once("x").every(fortnight).at(day(20_100))).await);
    let keys = backend.keys();
    assert_eq!(keys, ["redlatch:{x}"]);
    let ttl = backend.ttl(&keys[0]).unwrap();
    assert!(ttl > 2 * fortnight - DAY && ttl <= 2 * fortnight, "{ttl:?}");
    // A shorter period does not shorten it.
    assert!(runs(&client.once("x").every(SECOND).at(day(20_200))).await);
    assert!(backend.ttl(&keys[0]).unwrap() > 2 * fortnight - DAY);
}

async fn nothing_is_on_record_at_first(backend: &Backend, client: Client) {
    let job = client.once("x");
    assert_eq!(job.last().await.unwrap(), None);
    assert_eq!(job.holder().await.unwrap(), None);
    wait_for("no key", async || backend.keys().is_empty()).await;
}

/// Checks that the job is refused, and what is said.
async fn assert_out_of_range(job: &Job, words: &[&str]) {
    let ran = job.run(async |_: &JobRun| Ok::<_, String>(())).await;
    let error = ran.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    for said in words {
        assert!(error.to_string().contains(said), "{error}");
    }
}

async fn slot_far_ahead_of_the_server_is_refused(backend: &Backend, client: Client) {
    let job = client.once("x").every(DAY).at(day(80_000));
    assert_out_of_range(&job, &["over an hour after", "2189-01-12"]).await;
    let job = client.once("x").every(DAY).offset(DAY / 2).at(UNIX_EPOCH);
    assert_out_of_range(&job, &[]).await;
    assert!(backend.keys().is_empty());
}

async fn further_keyed_slot_than_a_thousand_is_refused(client: Client) {
    for n in 0..1_000 {
        assert!(runs(&client.once("x").slot(&format!("order-{n}"))).await);
    }
    let one_more = client.once("x").slot("order-1000");
    assert_out_of_range(&one_more, &["\"x\"", "1000 keyed slots", "reset"]).await;
    assert!(!runs(&client.once("x").slot("order-7")).await);
    assert!(client.once("x").reset().await.unwrap());
    assert!(runs(&one_more).await);
}
