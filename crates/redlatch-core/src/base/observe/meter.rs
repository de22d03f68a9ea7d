//! The metrics: what there is, and how it is counted. Without the feature `metrics` nothing is.

#[cfg(feature = "metrics")]
mod on {
    use std::sync::Arc;

    use metrics::{
        SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
        histogram,
    };

    use super::super::Labels;

    /// The type of a metric.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Type {
        Counter,
        Gauge,
        Histogram,
    }

    use Type::{Counter, Gauge, Histogram};

    /// All metrics: name, type, unit, and what it counts. `docs/book/src/operate/observability.md`
    /// says more.
    pub(super) const METRICS: [(&str, Type, Unit, &str); 21] = [
        ("redlatch_held", Gauge, Unit::Count, "Holds of this process"),
        (
            "redlatch_waiting",
            Gauge,
            Unit::Count,
            "Acquisitions of this process that wait",
        ),
        (
            "redlatch_server_clock_difference_seconds",
            Gauge,
            Unit::Seconds,
            "Largest difference between the clocks of two servers",
        ),
        (
            "redlatch_acquired_total",
            Counter,
            Unit::Count,
            "Acquisitions granted",
        ),
        (
            "redlatch_contended_total",
            Counter,
            Unit::Count,
            "Acquisitions granted after a wait for another holder",
        ),
        (
            "redlatch_refused_total",
            Counter,
            Unit::Count,
            "Acquisitions that ended without a grant, by outcome: busy or failed",
        ),
        (
            "redlatch_wait_seconds",
            Histogram,
            Unit::Seconds,
            "Time from the call to the grant, of acquisitions granted",
        ),
        (
            "redlatch_attempts",
            Histogram,
            Unit::Count,
            "Requests that an acquisition took, of acquisitions granted",
        ),
        (
            "redlatch_hold_seconds",
            Histogram,
            Unit::Seconds,
            "Time that a hold lasted",
        ),
        (
            "redlatch_lost_total",
            Counter,
            Unit::Count,
            "Holds that were lost, by cause",
        ),
        (
            "redlatch_renewals_total",
            Counter,
            Unit::Count,
            "Renewals that succeeded",
        ),
        (
            "redlatch_late_renewals_total",
            Counter,
            Unit::Count,
            "Renewals that came when less than a third of the lease was left",
        ),
        (
            "redlatch_failed_renewals_total",
            Counter,
            Unit::Count,
            "Renewals without a clear answer, each try",
        ),
        (
            "redlatch_undone_total",
            Counter,
            Unit::Count,
            "Acquisitions given up or dropped whose undo was answered",
        ),
        (
            "redlatch_releases_given_up_total",
            Counter,
            Unit::Count,
            "Releases that the server has not confirmed",
        ),
        (
            "redlatch_runs_total",
            Counter,
            Unit::Count,
            "Runs of jobs, by outcome",
        ),
        (
            "redlatch_run_seconds",
            Histogram,
            Unit::Seconds,
            "Time that a run of a job took",
        ),
        (
            "redlatch_failed_work_total",
            Counter,
            Unit::Count,
            "Work of leaders that ended with an error",
        ),
        (
            "redlatch_fenced_total",
            Counter,
            Unit::Count,
            "Writes with an outdated token that were refused",
        ),
        (
            "redlatch_reconnects_total",
            Counter,
            Unit::Count,
            "Connections that ended, and tries that failed",
        ),
        (
            "redlatch_panicked_tasks_total",
            Counter,
            Unit::Count,
            "Background tasks that have panicked, each a defect",
        ),
    ];

    pub(in super::super) fn describe() {
        for (name, is, unit, text) in METRICS {
            match is {
                Counter => describe_counter!(name, unit, text),
                Gauge => describe_gauge!(name, unit, text),
                Histogram => describe_histogram!(name, unit, text),
            }
        }
        // A counter that appears with its first event has no increase for rules to see.
        for name in ["redlatch_reconnects_total", "redlatch_panicked_tasks_total"] {
            counter!(name).increment(0);
        }
    }

    /// Shares the text of the class, which a label would otherwise copy for each event.
    fn class(labels: &Labels) -> SharedString {
        SharedString::from_shared(Arc::clone(&labels.class))
    }

    pub(in super::super) fn count(name: &'static str, labels: &Labels) {
        counter!(name, "kind" => labels.kind, "class" => class(labels)).increment(1);
    }

    pub(in super::super) fn count_with(
        name: &'static str,
        labels: &Labels,
        key: &'static str,
        value: &'static str,
    ) {
        counter!(name, "kind" => labels.kind, "class" => class(labels), key => value).increment(1);
    }

    pub(in super::super) fn count_bare(name: &'static str) {
        counter!(name).increment(1);
    }

    pub(in super::super) fn change(name: &'static str, labels: &Labels, by: f64) {
        gauge!(name, "kind" => labels.kind, "class" => class(labels)).increment(by);
    }

    pub(in super::super) fn set_bare(name: &'static str, value: f64) {
        gauge!(name).set(value);
    }

    pub(in super::super) fn record(name: &'static str, labels: &Labels, value: f64) {
        histogram!(name, "kind" => labels.kind, "class" => class(labels)).record(value);
    }

    #[cfg(test)]
    mod tests {
        use super::{METRICS, Type};

        #[test]
        fn the_table_of_the_documentation_has_all_metrics_and_no_other() {
            let page = include_str!("../../../../../docs/book/src/operate/observability.md");
            let documented = page.lines().filter_map(|line| {
                let mut cells = line.strip_prefix("| `redlatch_")?.split(" | ");
                let name = cells.next()?.trim_end_matches('`').to_owned();
                Some((name, cells.next()?.split(',').next()?.to_owned()))
            });
            let mut documented: Vec<_> = documented.collect();
            let mut ours: Vec<_> = METRICS
                .iter()
                .map(|(name, is, _, text)| {
                    assert!(!text.is_empty(), "{name}");
                    let is = match is {
                        Type::Counter => "counter",
                        Type::Gauge => "gauge",
                        Type::Histogram => "histogram",
                    };
                    (
                        name.trim_start_matches("redlatch_").to_owned(),
                        is.to_owned(),
                    )
                })
                .collect();
            documented.sort();
            ours.sort();
            assert_eq!(documented, ours);
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod on {
    use super::super::Labels;

    pub(in super::super) const fn describe() {}
    pub(in super::super) const fn count(_: &'static str, _: &Labels) {}
    pub(in super::super) const fn count_with(
        _: &'static str,
        _: &Labels,
        _: &'static str,
        _: &'static str,
    ) {
    }
    pub(in super::super) const fn count_bare(_: &'static str) {}
    pub(in super::super) const fn change(_: &'static str, _: &Labels, _: f64) {}
    pub(in super::super) const fn set_bare(_: &'static str, _: f64) {}
    pub(in super::super) const fn record(_: &'static str, _: &Labels, _: f64) {}
}

pub(super) use on::{change, count, count_bare, count_with, describe, record, set_bare};
