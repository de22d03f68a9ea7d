//! The dashboard and the rules for operators name metrics that an exporter has.

use std::collections::BTreeSet;

use metrics_exporter_prometheus::PrometheusBuilder;

use crate::prelude::*;

const DASHBOARD: &str = include_str!("../../../docs/book/src/operate/grafana.json");
const RULES: &str = include_str!("../../../docs/book/src/operate/alerts.yaml");
const RUNBOOK: &str = include_str!("../../../docs/book/src/operate/runbook.md");

/// What makes each metric appear that dashboard and rules name.
async fn trouble(backend: &Backend) {
    let client = backend.client().await;
    let server = backend.embedded_server();
    let lock = client.lock("x").class("tests");

    // A hold that is renewed in time, then late, then given back.
    let held = lock.lock().renewed_lease(30 * SECOND).await.unwrap();
    backend.pass(8 * SECOND).await;
    while held.remaining() < 28 * SECOND {
        backend.pass(SECOND / 10).await;
    }
    // Less than a third of the lease is left then, and enough to connect again.
    server.stop_for(21 * SECOND);
    backend.pass(26 * SECOND).await;
    held.check().unwrap();
    let waiter = tokio::spawn(lock.lock().into_future());
    backend.pass(SECOND).await;
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();

    // A loss, and refusals of both sorts.
    let expired = lock.lock().lease(SECOND).await.unwrap();
    expired.lost().await;
    drop(expired);
    client.settled().await;
    let other = lock.lock().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_none());
    let wrong = client.fair_lock("x").try_lock().await.map(drop);
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::WrongKind);

    // A release without an answer.
    server.stop();
    drop(other);
    backend.pass(120 * SECOND).await;
    server.resume();
    backend.pass(SECOND).await;

    let job = client.once("job").slot("1");
    let failed = job.run(async |_| Err::<(), _>("no")).await.unwrap();
    assert!(!failed.is_done());
    client.close(SECOND).await;
}

/// Returns the names of redlatch's metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c: char| !is_part(c));
    words.filter(|word| word.starts_with("redlatch_")).collect()
}

#[tokio::test(start_paused = true)]
async fn dashboard_and_rules_name_metrics_that_an_exporter_has() {
    let builder = PrometheusBuilder::new().set_buckets(&[0.1, 1.0, 10.0]);
    let exporter = builder.unwrap().build_recorder();
    let handle = exporter.handle();
    let guard = metrics::set_default_local_recorder(&exporter);
    trouble(&Backend::embedded()).await;
    drop(guard);
    let exported = handle.render();
    let there: BTreeSet<_> = exported
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    for (file, text) in [("grafana.json", DASHBOARD), ("alerts.yaml", RULES)] {
        let wanted = names(text);
        assert!(wanted.len() > 5, "{file} names {wanted:?}");
        for name in wanted {
            let is_there = there.contains(name);
            assert!(is_there, "{file} names {name}, there are {there:#?}");
        }
    }
    for name in names(RULES) {
        let base = name.trim_end_matches("_bucket");
        let is_described = exported.contains(&format!("# HELP {base} "));
        assert!(is_described, "{base}");
    }
}

#[test]
fn each_alert_has_a_section_of_the_runbook() {
    let alerts: Vec<_> = RULES
        .lines()
        .filter_map(|line| line.split("- alert: ").nth(1))
        .collect();
    assert!(alerts.len() > 5);
    let sections: Vec<_> = RUNBOOK
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .filter(|section| section.starts_with("Redlatch"))
        .collect();
    assert_eq!(alerts, sections);
    for alert in alerts {
        let link = format!("runbook: runbook.md#{}", alert.to_lowercase());
        assert!(RULES.contains(&link), "{link}");
    }
}

#[test]
fn dashboard_is_whole() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let query = target["expr"].as_str().unwrap();
            let count = |c| query.chars().filter(|&other| other == c).count();
            assert_eq!(count('('), count(')'), "{query}");
            assert_eq!(count('{'), count('}'), "{query}");
        }
    }
}
