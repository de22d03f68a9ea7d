//! All measured values, for programs.

use serde_json::{Map, Value, json};

use super::{Bound, Report, Series};

/// Writes every value of every round, and the targets. Infinite values and NaN become null.
pub(super) fn json(report: &Report) -> String {
    let targets = report.targets.iter().map(|target| {
        let (at_least, at_most) = match target.bound {
            Bound::AtLeast(bound) => (Some(bound), None),
            Bound::AtMost(bound) => (None, Some(bound)),
        };
        json!({
            "what": target.what,
            "at_least": at_least,
            "at_most": at_most,
            "found": target.found,
            "met": target.is_met(),
        })
    });
    let whole = json!({
        "workload": report.workload,
        "title": report.title,
        "latency_us": report.latency.as_micros() as u64,
        "series": report.series.iter().map(|one| series(report, one)).collect::<Vec<_>>(),
        "targets": targets.collect::<Vec<_>>(),
        "notes": report.notes,
    });
    format!("{whole:#}\n")
}

fn series(report: &Report, series: &Series) -> Value {
    let measures = report.measures().into_iter().filter_map(|measure| {
        let values = series.values(measure);
        if values.is_empty() {
            return None;
        }
        let all = json!({ "median": series.median(measure), "rounds": values });
        Some((measure.to_owned(), all))
    });
    json!({
        "case": series.case,
        "contender": series.contender,
        "measures": measures.collect::<Map<_, _>>(),
    })
}
