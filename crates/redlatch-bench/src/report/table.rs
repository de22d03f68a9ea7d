//! Tables in Markdown.

use std::fmt::Write;

use super::{Bound, Report, Row};
use crate::stats::number;

/// Writes medians, each followed by its ratio to the reference.
pub(super) fn table(report: &Report) -> String {
    let mut text = format!("## {}\n\n", report.heading());
    let measures = report.measures();
    let columns = measures.join(" | ");
    // Writing to a `String` does not fail.
    let _ = writeln!(text, "| case | contender | {columns} | spread |");
    let _ = writeln!(text, "|---|---|{}---:|", "---:|".repeat(measures.len()));
    for row in report.rows() {
        let cells = measures.iter();
        let cells: Vec<_> = cells.map(|measure| cell(&row, measure)).collect();
        let cells = cells.join(" | ");
        let spread = 100.0 * row.spread.unwrap_or(0.0);
        let (case, contender) = (&row.series.case, &row.series.contender);
        let _ = writeln!(text, "| {case} | {contender} | {cells} | {spread:.0} % |");
    }
    if !report.targets.is_empty() {
        text.push_str("\n| target | wanted | found | |\n|---|---:|---:|---|\n");
        for target in &report.targets {
            let wanted = match target.bound {
                Bound::AtLeast(least) => format!("≥ {}", number(least)),
                Bound::AtMost(most) => format!("≤ {}", number(most)),
            };
            let verdict = match target.met {
                Some(true) => "met",
                Some(false) => "**missed**",
                None => "not measured",
            };
            let found = number(target.found.unwrap_or(f64::NAN));
            let _ = writeln!(text, "| {} | {wanted} | {found} | {verdict} |", target.what);
        }
    }
    for note in &report.notes {
        let _ = writeln!(text, "\n{note}");
    }
    text
}

fn cell(row: &Row<'_>, measure: &str) -> String {
    let mut cells = row.cells.iter();
    match cells.find(|(known, ..)| *known == measure) {
        None => String::new(),
        Some((_, median, Some(ratio))) if ratio.is_finite() => {
            format!("{} ({ratio:.2}×)", number(*median))
        }
        Some((_, median, _)) => number(*median),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{contender::RAW, report::Series};

    #[test]
    fn ratios_are_of_one_round() {
        let series = |contender: &str, values: [f64; 3]| {
            let mut series = Series::new("1 task", contender);
            let sample = |value| BTreeMap::from([("pairs/s", value)]);
            series.samples = values.into_iter().map(sample).collect();
            series
        };
        let mut report = Report::new("W0", "nothing", std::time::Duration::ZERO);
        // The machine was three times slower in the second round.
        report.series.push(series(RAW, [3_000.0, 1_000.0, 3_000.0]));
        report.series.push(series("x", [1_500.0, 500.0, 1_500.0]));
        report.target(
            "half",
            Bound::AtLeast(0.5),
            report.ratio("1 task", "x", RAW, "pairs/s"),
        );
        report.target("more", Bound::AtLeast(0.6), 0.5);
        report.target("all", Bound::AtMost(1.0), f64::NAN);
        let text = table(&report);
        for row in [
            "| 1 task | x | 1,500 (0.50×) | 67 % |",
            "| half | ≥ 0.500 | 0.500 | met |",
            "| more | ≥ 0.600 | 0.500 | **missed** |",
            "| all | ≤ 1.00 | ? | not measured |",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
    }
}
