//! What the lock tells about itself: metrics by kind and class, spans and events by name.

use std::{collections::BTreeMap, io, sync::mpsc, thread};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tracing::{Dispatch, Level, subscriber::DefaultGuard};
use tracing_subscriber::fmt::format::FmtSpan;

use crate::prelude::*;

/// A workload that makes every metric of the table move.
async fn everything_happens(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.lock("x").class("tests");
    let guard = lock.lock().renewed_lease(1_000 * MS).await.unwrap();
    assert!(lock.try_lock_for(10 * MS).await.unwrap().is_none());
    let waiter = tokio::spawn(lock.lock().into_future());
    backend.pass(1_500 * MS).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();

    let expired = lock.lock().lease(50 * MS).await.unwrap();
    expired.lost().await;
    drop(expired);
    client.settled().await;
    backend.embedded_server().drop_replies(1, LostReply::Cuts);
    let late = lock.try_lock_for(500 * MS).await.unwrap().unwrap();
    late.release().await.unwrap();
    let mut abandoned = Box::pin(lock.lock().into_future());
    assert!(futures_util::poll!(abandoned.as_mut()).is_pending());
    drop(abandoned);
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn metrics_are_labelled_by_kind_and_class_and_never_by_name() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let guard = metrics::set_default_local_recorder(&recorder);
    everything_happens(&Backend::embedded()).await;
    drop(guard);

    let mut counters = BTreeMap::new();
    let mut histograms = BTreeMap::new();
    let mut gauges = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let (name, labels) = key.key().clone().into_parts();
        for label in &labels {
            let known = ["kind", "class", "cause", "outcome"];
            assert!(known.contains(&label.key()), "{label:?}");
            assert!(label.key() != "class" || label.value() == "tests");
        }
        let name = name.as_str().to_owned();
        match value {
            DebugValue::Counter(count) => *counters.entry(name).or_insert(0) += count,
            DebugValue::Histogram(values) => _ = histograms.insert(name, values.len()),
            DebugValue::Gauge(value) => _ = gauges.insert(name, value.into_inner()),
        }
    }
    assert_eq!(counters["redlatch_acquired_total"], 4);
    assert_eq!(counters["redlatch_contended_total"], 1);
    assert_eq!(counters["redlatch_refused_total"], 1);
    assert_eq!(counters["redlatch_lost_total"], 1);
    assert!(counters["redlatch_renewals_total"] >= 3);
    assert!(counters["redlatch_undone_total"] >= 1);
    assert!(counters["redlatch_reconnects_total"] >= 1);
    let over = ["redlatch_held", "redlatch_waiting"].map(|name| (name.to_owned(), 0.0));
    assert_eq!(gauges, BTreeMap::from(over), "all that began has ended");
    for name in ["wait_seconds", "hold_seconds", "attempts"] {
        assert_eq!(histograms[&format!("redlatch_{name}")], 4, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn gauges_show_what_is_held_and_waited_for() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let guard = metrics::set_default_local_recorder(&recorder);
    // A snapshot of this recorder sets all values to zero.
    let mut sums = BTreeMap::new();
    let mut gauges = || {
        for (key, _, text, value) in snapshotter.snapshot().into_vec() {
            if let DebugValue::Gauge(value) = value {
                assert!(text.is_some(), "{key:?} is described");
                let name = key.key().name().to_owned();
                *sums.entry(name).or_insert(0.0) += value.into_inner();
            }
        }
        let gauge = |name: &str| sums.get(name).copied().unwrap_or_default();
        (gauge("redlatch_held"), gauge("redlatch_waiting"))
    };
    let (backend, [holder, waiter]) = embedded().await;
    let held = holder.lock("x").lock().await.unwrap();
    // A call that is granted at once has not waited.
    assert_eq!(gauges(), (1.0, 0.0));
    let first = waiter.lock("x");
    let waits = tokio::spawn(first.lock().into_future());
    let abandoned = tokio::spawn(first.lock().into_future());
    backend.pass(100 * MS).await;
    assert_eq!(gauges(), (1.0, 2.0));
    abandoned.abort();
    backend.pass(100 * MS).await;
    assert_eq!(gauges(), (1.0, 1.0));
    held.release().await.unwrap();
    let second = waits.await.unwrap().unwrap();
    assert_eq!(gauges(), (1.0, 0.0));
    second.release().await.unwrap();
    assert_eq!(gauges(), (0.0, 0.0));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn long_wait_names_its_holder() {
    let (log, listening) = Log::listen(Level::DEBUG, FmtSpan::CLOSE);
    let backend = Backend::embedded();
    let holder = backend.builder().application("importer").connect();
    let holder = holder.await.unwrap();
    let waiter = backend.builder().long_wait(1_000 * MS).connect();
    let waiter = waiter.await.unwrap();
    let held = holder.lock("x").lock().note("db upgrade").await.unwrap();
    let other = waiter.lock("x");
    assert!(other.try_lock_for(900 * MS).await.unwrap().is_none());
    assert!(!log.text().contains("long_wait"), "{}", log.text());
    assert!(other.try_lock_for(4_000 * MS).await.unwrap().is_none());
    backend.pass(100 * MS).await;
    drop(listening);
    let text = log.text();
    let owner = held.owner();
    assert!(text.contains(&format!("blocked_by=\"{owner}\"")), "{text}");
    let pid = std::process::id();
    let event = format!(
        "event=\"long_wait\" kind=\"lock\" class=\"\" name=x holder=\"{owner}\" application=\"importer\""
    );
    assert_eq!(text.matches(&event).count(), 1, "{text}");
    let of = format!("pid={pid} note=\"db upgrade\" seconds=");
    assert_eq!(text.matches(&of).count(), 1, "{text}");
}

#[tokio::test(start_paused = true)]
async fn spans_and_events_have_stable_names_and_fields() {
    let (log, listening) = Log::listen(Level::DEBUG, FmtSpan::CLOSE);
    everything_happens(&Backend::embedded()).await;
    drop(listening);

    let text = log.text();
    for expected in [
        "wait{kind=\"lock\" class=\"tests\" name=x owner=",
        "outcome=\"granted\"",
        "outcome=\"busy\"",
        "hold{kind=\"lock\" class=\"tests\" name=x owner=",
        "outcome=\"released\"",
        "outcome=\"expired\"",
        "event=\"lost\" kind=\"lock\" class=\"tests\" name=x owner=",
        "cause=\"expired\"",
        "event=\"disconnected\"",
    ] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
}

/// What was logged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Notes the events of this thread until what it returns beside is dropped.
    pub(crate) fn listen(level: Level, spans: FmtSpan) -> (Self, (DefaultGuard, Dispatch)) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_span_events(spans)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        // With a single subscriber, tracing asks the one of the thread that comes to a call site
        // first, which is that of another test. With two it asks all.
        let second = Dispatch::new(tracing_subscriber::registry());
        let guard = tracing::subscriber::set_default(subscriber);
        tracing::callsite::rebuild_interest_cache();
        (log, (guard, second))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Returns the lines with this word.
    pub(crate) fn lines(&self, word: &str) -> Vec<String> {
        let text = self.text();
        let lines = text.lines().filter(|line| line.contains(word));
        lines.map(str::to_owned).collect()
    }

    /// Returns what was logged since the last call.
    pub(crate) fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A subscriber of `tracing` that asks the client does so under no lock of the client. Otherwise
/// the thread would wait for itself.
#[test]
fn subscriber_may_ask_the_client() {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (backend, [client]) = embedded().await;
            let asked = client.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_max_level(Level::TRACE)
                .with_span_events(FmtSpan::FULL)
                .with_writer(move || {
                    asked.tables();
                    io::sink()
                });
            let _listening = tracing::subscriber::set_default(subscriber.finish());
            let lost = client.lock("x").lock().lease(50 * MS).await.unwrap();
            let waiter = tokio::spawn(client.lock("x").lock().into_future());
            lost.lost().await;
            backend.pass(SECOND).await;
            let guard = waiter.await.unwrap().unwrap();
            assert!(client.lock("x").force_release().await.unwrap());
            guard.release().await.unwrap();
        });
        done.send(()).unwrap();
    });
    let returned = is_done.recv_timeout(30 * SECOND);
    returned.expect("the subscriber returns");
}

#[tokio::test(start_paused = true)]
async fn long_wait_is_told_where_several_hold() {
    let (log, listening) = Log::listen(Level::INFO, FmtSpan::NONE);
    let (backend, [holder, waiter]) = embedded().await;
    let _reader = holder.read_write_lock("a").read().await.unwrap();
    let _permit = holder.semaphore("b").permits_if_unset(1).acquire().await;
    let permits = holder.permit_expirable_semaphore("c").permits_if_unset(1);
    permits.acquire().lease(600_000 * MS).await.unwrap();
    let wait = 8_000 * MS;
    let (locks, semaphore) = (waiter.read_write_lock("a"), waiter.semaphore("b"));
    let permits = waiter.permit_expirable_semaphore("c");
    let waited = tokio::join!(
        locks.try_write_for(wait).into_future(),
        semaphore.try_acquire_for(wait).into_future(),
        permits.try_acquire_for(wait).into_future(),
    );
    assert!(waited.0.unwrap().is_none() && waited.1.unwrap().is_none());
    assert!(waited.2.unwrap().is_none());
    backend.pass(100 * MS).await;
    drop(listening);
    let text = log.text();
    for name in ["a", "b", "c"] {
        let told = text.lines().filter(|line| {
            line.contains("event=\"long_wait\"") && line.contains(&format!("name={name} "))
        });
        assert_eq!(told.count(), 1, "{name}: {text}");
    }
}

/// A task that has acquired a name waits for the name with another owner. Others only wait long.
#[tokio::test(start_paused = true)]
async fn only_the_task_that_has_acquired_a_name_is_warned_that_it_waits_for_itself() {
    let (log, listening) = Log::listen(Level::INFO, FmtSpan::NONE);
    let (backend, [client]) = embedded().await;
    let wait = 8_000 * MS;
    let twice = || {
        let (plain, fair) = (client.lock("a"), client.fair_lock("b"));
        async move {
            let _held = (plain.lock().await.unwrap(), fair.lock().await.unwrap());
            assert!(plain.try_lock_for(wait).await.unwrap().is_none());
            assert!(fair.try_lock_for(wait).await.unwrap().is_none());
        }
    };
    let of_this_task = |text: &str, name: &str, kind: &str| {
        let event = format!("event=\"waits_for_itself\" kind=\"{kind}\" name={name} holder=");
        text.matches(&event).count()
    };
    // The main future of a runtime is in no task.
    twice().await;
    let text = log.take();
    assert_eq!(of_this_task(&text, "a", "lock"), 1, "{text}");
    assert_eq!(of_this_task(&text, "b", "fair_lock"), 1, "{text}");
    assert!(!text.contains("long_wait"), "{text}");
    tokio::spawn(twice()).await.unwrap();
    assert_eq!(log.take().matches("waits_for_itself").count(), 2);
    let held = client.lock("c").lock().await.unwrap();
    let other = client.lock("c");
    let other = tokio::spawn(async move { other.try_lock_for(wait).await });
    assert!(other.await.unwrap().unwrap().is_none());
    backend.pass(100 * MS).await;
    drop((held, listening));
    let text = log.take();
    assert_eq!(text.matches("event=\"long_wait\"").count(), 1, "{text}");
    assert!(!text.contains("waits_for_itself"), "{text}");
}
