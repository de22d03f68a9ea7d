//! Serving over hours of stepped time.

use super::{HOUR, Log, crash::claimed_by_a_dead_process, serving, taken};
use crate::prelude::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Checks that these are slots `period` apart, and returns their number.
#[track_caller]
fn assert_apart(slots: &[SystemTime], period: Duration) -> usize {
    for two in slots.windows(2) {
        assert_eq!(two[1].duration_since(two[0]).unwrap(), period, "{slots:?}");
    }
    slots.len()
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_slot_costs_few_commands() {
    let (backend, [client]) = embedded().await;
    let log = Log::default();
    let task = serving(client.once("x").every(24 * HOUR), &log, SECOND);
    backend.pass(24 * HOUR).await;
    let before = backend.script_calls();
    backend.pass(2 * 24 * HOUR).await;
    let calls = backend.script_calls() - before;
    assert!(calls <= 2 * 10, "{calls}");
    assert_eq!(assert_apart(&taken(&log)[1..], 24 * HOUR), 3);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn run_that_overlaps_slots_delays_the_next_and_skips_the_others() {
    let (backend, [one, two]) = embedded().await;
    let log = Log::default();
    let job = |client: &Client| client.once("x").every(MINUTE);
    let tasks = [&one, &two].map(|client| serving(job(client), &log, MINUTE * 5 / 2));
    backend.pass(30 * MINUTE).await;
    let ran = taken(&log);
    let gap = |two: &[SystemTime]| two[1].duration_since(two[0]).unwrap();
    let gaps: Vec<_> = ran[1..].windows(2).map(gap).collect();
    // Work of two and a half minutes runs in every second or third slot.
    let fits = |gap| [2 * MINUTE, 3 * MINUTE].contains(gap);
    assert!(gaps.iter().all(fits), "{gaps:?}");
    assert!(ran.len() >= 11, "{ran:?}");
    for task in tasks {
        task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn missed_slots_are_caught_up_on_as_asked() {
    for (catch_up, expected) in [(0, 1), (3, 4), (64, 10)] {
        let (backend, [client]) = embedded().await;
        let log = Log::default();
        let job = client.once("x").every(HOUR).catch_up(catch_up);
        let task = serving(job.clone(), &log, SECOND);
        backend.pass(2 * HOUR).await;
        task.abort();
        let before = taken(&log).pop().unwrap();
        backend.pass(10 * HOUR).await;
        let task = serving(job, &log, SECOND);
        backend.pass(60 * SECOND).await;
        let ran = taken(&log);
        assert_eq!(assert_apart(&ran, HOUR), expected, "{catch_up}");
        let last = ran.last().unwrap().duration_since(before).unwrap();
        assert_eq!(last, 10 * HOUR);
        task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_is_away_misses_slots_and_serving_goes_on() {
    let (backend, [client]) = embedded().await;
    let log = Log::default();
    let task = serving(client.once("x").every(HOUR), &log, SECOND);
    backend.pass(3 * HOUR).await;
    backend.embedded_server().stop();
    backend.pass(5 * HOUR).await;
    taken(&log);
    backend.embedded_server().resume();
    backend.pass(5 * HOUR).await;
    let ran = taken(&log);
    assert!((5..=6).contains(&assert_apart(&ran, HOUR)), "{ran:?}");
    task.abort();
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn served_slot_of_a_dead_process_runs_when_its_lease_ends() {
    let (backend, [client]) = embedded().await;
    let log = Log::default();
    let job = client.once("x").every(HOUR).retries(1);
    let task = serving(job.clone(), &log, SECOND);
    backend.pass(SECOND).await;
    let slot = taken(&log)[0] + HOUR;
    task.abort();
    backend.pass(HOUR).await;
    claimed_by_a_dead_process(&backend, slot, 10 * SECOND);
    let task = serving(job, &log, SECOND);
    backend.pass(9 * SECOND).await;
    assert!(taken(&log).is_empty());
    backend.pass(SECOND + SECOND / 2).await;
    assert_eq!(taken(&log), [slot]);
    task.abort();
}

/// Calls the job once for each of `slots` hours, when the hour begins by a clock that is so far
/// ahead of the server's, and passes the instant. Returns the slots that it ran.
async fn scheduled(backend: &Backend, client: Client, ahead: Duration, slots: u32) -> Log {
    let log = Log::default();
    let server = backend.embedded_server();
    let clock = || UNIX_EPOCH + Duration::from_millis(server.now().millis()) + ahead;
    for _ in 0..slots {
        let since = clock().duration_since(UNIX_EPOCH).unwrap();
        let left = HOUR.as_millis() - since.as_millis() % HOUR.as_millis();
        sleep(Duration::from_millis(u64::try_from(left).unwrap())).await;
        let work = async |run: &JobRun| {
            log.lock().unwrap().push(run.slot().instant().unwrap());
            Ok::<_, String>(())
        };
        let job = client.once("x").every(HOUR).at(clock());
        assert!(job.run(work).await.unwrap().is_done());
    }
    log
}

#[tokio::test(start_paused = true)]
async fn schedulers_that_are_ahead_or_behind_miss_no_slot_and_repeat_none() {
    let ms = Duration::from_millis;
    for ahead in [[50, 50, 50], [300_000; 3], [0, 50, 600_000]] {
        let backend = Backend::embedded();
        let mut calls = Vec::new();
        for ahead in ahead {
            let client = backend.client().await;
            calls.push(scheduled(&backend, client, ms(ahead), 10));
        }
        let logs = join_all(calls).await;
        let mut ran: Vec<_> = logs.iter().flat_map(taken).collect();
        ran.sort_unstable();
        // Their clocks may show different hours at the beginning.
        assert!((10..=11).contains(&assert_apart(&ran, HOUR)), "{ahead:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_slot_waits_for_its_pause() {
    let backend = Backend::embedded();
    // No slot of a whole day begins in the hour after noon.
    let server = backend.embedded_server();
    let day = 24 * 3_600_000;
    let noon = (day + day / 2 - server.now().millis() % day) % day;
    server.advance(Duration::from_millis(noon));
    let client = backend.client().await;
    let times = Arc::new(Mutex::new(Vec::new()));
    let job = client.once("x").every(24 * HOUR);
    let job = job.retries(2).retry_pause(60 * SECOND);
    let task = tokio::spawn({
        let times = Arc::clone(&times);
        async move {
            let work = async move |_: &JobRun| {
                times.lock().unwrap().push(Instant::now());
                Err::<(), _>("no luck")
            };
            job.serve(work).await
        }
    });
    backend.pass(HOUR).await;
    let times = times.lock().unwrap().clone();
    assert_eq!(times.len(), 3);
    for two in times.windows(2) {
        let pause = two[1] - two[0];
        assert!(pause >= 60 * SECOND && pause < 62 * SECOND, "{pause:?}");
    }
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn serving_ends_when_the_client_closes_or_the_name_is_of_another_kind() {
    let (backend, [client, other]) = embedded().await;
    let log = Log::default();
    let closing = serving(client.once("x").every(HOUR), &log, SECOND);
    let refused = serving(other.once("x").every(HOUR), &log, SECOND);
    backend.pass(10 * SECOND).await;
    client.close(SECOND).await;
    assert_eq!(closing.await.unwrap(), ErrorKind::Closed);
    backend.command(&["DEL", "redlatch:{x}"]);
    backend.command(&["SET", "redlatch:{x}", "mine"]);
    assert_eq!(refused.await.unwrap(), ErrorKind::WrongKind);
}

/// What the work of a served job uses in a spawned future belongs to its closure, and has no
/// references in it.
#[tokio::test(start_paused = true)]
async fn served_work_owns_what_it_uses_in_a_spawned_future() {
    let (_backend, [client]) = embedded().await;
    let task = tokio::spawn(async move {
        let names = ["a".to_owned(), "b".to_owned()];
        let (mut count, total) = (0, Arc::new(Mutex::new(0)));
        let counted = Arc::clone(&total);
        let work = async move |run: &JobRun| {
            run.check()?;
            tokio::task::yield_now().await;
            count += names.len();
            *counted.lock().unwrap() = count;
            Ok::<_, Error>(())
        };
        let job = client.once("x").every(HOUR);
        let served = timeout(10 * HOUR, job.serve(work)).await;
        assert!(served.is_err());
        *total.lock().unwrap()
    });
    assert!(task.await.unwrap() >= 20);
}

/// In the task itself, it may borrow.
#[tokio::test(start_paused = true)]
async fn served_work_may_borrow_outside_of_a_spawned_task() {
    let (_backend, [client]) = embedded().await;
    let (names, mut count) = (["a", "b"], 0);
    let job = client.once("x").every(HOUR);
    let work = async |_: &JobRun| {
        count += names.len();
        Ok::<_, String>(())
    };
    let served = timeout(10 * HOUR, job.serve(work)).await;
    assert!(served.is_err() && count >= 20, "{count}");
}
