//! The metrics: what there is, and how it is counted. Without the feature `metrics` nothing is.

#[cfg(feature = "metrics")]
mod on {
    use std::sync::Arc;

    use metrics::{
        SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
        histogram,
    };

    use super::super::Labels;

    /// The counters: a name, and what it counts. You find more in
    /// `docs/book/src/operate/observability.md`.
    const COUNTERS: &str = "
    redlatch_acquired_total Acquisitions granted
    redlatch_contended_total Acquisitions granted after a wait for another holder
    redlatch_refused_total Acquisitions that ended without a grant, by outcome: busy or failed
    redlatch_lost_total Holds that were lost, by cause
    redlatch_renewals_total Renewals that succeeded
    redlatch_late_renewals_total Renewals that came when less than a third of the lease was left
    redlatch_failed_renewals_total Renewals without a clear answer, each try
    redlatch_undone_total Acquisitions given up or dropped whose undo was answered
    redlatch_releases_given_up_total Releases that the server has not confirmed
    redlatch_runs_total Runs of jobs, by outcome
    redlatch_failed_work_total Work of leaders that ended with an error
    redlatch_fenced_total Writes with an outdated token that were refused
    redlatch_reconnects_total Connections that ended, and tries that failed
    redlatch_panicked_tasks_total Background tasks that have panicked, each a defect
";

    const GAUGES: &str = "
    redlatch_held Holds of this process
    redlatch_waiting Acquisitions of this process that wait
    redlatch_server_clock_difference_seconds Largest difference between the clocks of two servers
";

    const HISTOGRAMS: &str = "
    redlatch_wait_seconds Time from the call to the grant, of acquisitions granted
    redlatch_attempts Requests that an acquisition took, of acquisitions granted
    redlatch_hold_seconds Time that a hold lasted
    redlatch_run_seconds Time that a run of a job took
";

    /// Returns the name and the text of each row.
    fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
        table.lines().filter_map(|row| row.trim().split_once(' '))
    }

    fn unit(name: &str) -> Unit {
        if name.ends_with("_seconds") {
            Unit::Seconds
        } else {
            Unit::Count
        }
    }

    pub(crate) fn describe() {
        rows(COUNTERS).for_each(|(name, text)| describe_counter!(name, unit(name), text));
        rows(GAUGES).for_each(|(name, text)| describe_gauge!(name, unit(name), text));
        rows(HISTOGRAMS).for_each(|(name, text)| describe_histogram!(name, unit(name), text));
        // A counter that appears with its first event has no increase for rules to see.
        for name in ["redlatch_reconnects_total", "redlatch_panicked_tasks_total"] {
            counter!(name).increment(0);
        }
    }

    /// Shares the text of the class, which a label would otherwise copy for each event.
    fn class(labels: &Labels) -> SharedString {
        SharedString::from_shared(Arc::clone(&labels.class))
    }

    pub(crate) fn count(name: &'static str, labels: &Labels) {
        counter!(name, "kind" => labels.kind, "class" => class(labels)).increment(1);
    }

    pub(crate) fn count_with(
        name: &'static str,
        labels: &Labels,
        key: &'static str,
        value: &'static str,
    ) {
        counter!(name, "kind" => labels.kind, "class" => class(labels), key => value).increment(1);
    }

    pub(crate) fn count_bare(name: &'static str) {
        counter!(name).increment(1);
    }

    pub(crate) fn change(name: &'static str, labels: &Labels, by: f64) {
        gauge!(name, "kind" => labels.kind, "class" => class(labels)).increment(by);
    }

    pub(crate) fn set_bare(name: &'static str, value: f64) {
        gauge!(name).set(value);
    }

    pub(crate) fn record(name: &'static str, labels: &Labels, value: f64) {
        histogram!(name, "kind" => labels.kind, "class" => class(labels)).record(value);
    }

    #[cfg(test)]
    mod tests {
        use super::{COUNTERS, GAUGES, HISTOGRAMS, rows};

        #[test]
        fn the_table_of_the_documentation_has_all_metrics_and_no_other() {
            let page = include_str!("../../../../../docs/book/src/operate/observability.md");
            let documented = page.lines().filter_map(|line| {
                let mut cells = line.strip_prefix("| `redlatch_")?.split(" | ");
                let name = cells.next()?.trim_end_matches('`').to_owned();
                Some((name, cells.next()?.split(',').next()?.to_owned()))
            });
            let mut documented: Vec<_> = documented.collect();
            let types = [
                ("counter", COUNTERS),
                ("gauge", GAUGES),
                ("histogram", HISTOGRAMS),
            ];
            let ours = types.into_iter().flat_map(|(is, table)| {
                rows(table).map(move |(name, text)| {
                    assert!(!text.is_empty(), "{name}");
                    let name = name.trim_start_matches("redlatch_");
                    (name.to_owned(), is.to_owned())
                })
            });
            let mut ours: Vec<_> = ours.collect();
            documented.sort();
            ours.sort();
            assert_eq!(documented, ours);
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod on {
    use super::super::Labels;

    pub(crate) const fn describe() {}
    pub(crate) const fn count(_: &'static str, _: &Labels) {}
    pub(crate) const fn count_with(_: &'static str, _: &Labels, _: &'static str, _: &'static str) {}
    pub(crate) const fn count_bare(_: &'static str) {}
    pub(crate) const fn change(_: &'static str, _: &Labels, _: f64) {}
    pub(crate) const fn set_bare(_: &'static str, _: f64) {}
    pub(crate) const fn record(_: &'static str, _: &Labels, _: f64) {}
}

pub(crate) use on::{change, count, count_bare, count_with, describe, record, set_bare};
