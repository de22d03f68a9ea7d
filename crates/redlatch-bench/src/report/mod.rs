//! The results as a table, as data and as a plot.

mod json;
mod plot;
mod table;

use std::{collections::BTreeMap, fs, io, path::Path, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    contender::{FLOOR, GCRA, RAW, RAW_POOL},
    stats::{median, span, spread},
};

/// The results of one round: measure → value. The measures are those of [`MEASURES`].
pub(crate) type Sample = BTreeMap<&'static str, f64>;

/// All rounds of one contender in one case.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) case: String,
    pub(crate) contender: String,
    pub(crate) samples: Vec<Sample>,
}

/// A target of the project for a workload, and the result, if it was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Target {
    what: String,
    #[serde(flatten)]
    bound: Bound,
    found: Option<f64>,
    met: Option<bool>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// What is wanted of a contender in a case: the words, the measure, the contender whose value in
/// the same round it is divided by, if there is one, and the bound of the median.
pub(crate) type Wanted = (&'static str, &'static str, Option<&'static str>, Bound);

/// The results of one workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) workload: &'static str,
    pub(crate) title: &'static str,
    /// The distance of the server, as the time that is added to a round trip.
    pub(crate) latency: Duration,
    pub(crate) series: Vec<Series>,
    targets: Vec<Target>,
    /// Further remarks, a sentence each.
    notes: Vec<String>,
    /// The measures that are drawn. If it is empty, the first ones are drawn.
    pub(crate) plotted: &'static [&'static str],
}

impl Series {
    pub(crate) fn new(case: &str, contender: &str) -> Self {
        Self {
            case: case.to_owned(),
            contender: contender.to_owned(),
            samples: Vec::new(),
        }
    }

    /// Returns the values of a measure, round by round; empty if it was not measured.
    pub(crate) fn values(&self, measure: &str) -> Vec<f64> {
        let values = self.samples.iter().map(|sample| sample.get(measure));
        values.flatten().copied().collect()
    }

    pub(crate) fn median(&self, measure: &str) -> f64 {
        median(&self.values(measure))
    }
}

impl Report {
    pub(crate) fn new(workload: &'static str, title: &'static str, latency: Duration) -> Self {
        Self {
            workload,
            title,
            latency,
            ..Self::default()
        }
    }

    pub(crate) fn find(&self, case: &str, contender: &str) -> Option<&Series> {
        let mut series = self.series.iter();
        series.find(|series| series.case == case && series.contender == contender)
    }

    /// Returns the median of a measure; NaN if it was not measured.
    pub(crate) fn median(&self, case: &str, contender: &str, measure: &str) -> f64 {
        let series = self.find(case, contender);
        series.map_or(f64::NAN, |series| series.median(measure))
    }

    /// Returns the reference of a case, if it has one.
    pub(crate) fn reference(&self, case: &str) -> Option<&'static str> {
        let mut references = [RAW, FLOOR, RAW_POOL, GCRA].into_iter();
        references.find(|name| self.find(case, name).is_some())
    }

    /// Returns the median over the rounds of the ratio of a contender's value to the reference's
    /// value in the same round.
    pub(crate) fn ratio(&self, case: &str, contender: &str, reference: &str, measure: &str) -> f64 {
        let values = |name| self.find(case, name).map(|series| series.values(measure));
        let (Some(values), Some(base)) = (values(contender), values(reference)) else {
            return f64::NAN;
        };
        let ratios: Vec<_> = values.iter().zip(base).map(|(a, b)| a / b).collect();
        median(&ratios)
    }

    pub(crate) fn target(&mut self, what: impl Into<String>, bound: Bound, found: f64) {
        let met = match bound {
            Bound::AtLeast(least) => found >= least,
            Bound::AtMost(most) => found <= most,
        };
        self.targets.push(Target {
            what: what.into(),
            bound,
            found: rounded(found),
            met: (!found.is_nan()).then_some(met),
        });
    }

    /// Adds the targets of a contender in a case.
    pub(crate) fn want(&mut self, case: &str, contender: &str, wanted: &[Wanted]) {
        for &(what, measure, of, bound) in wanted {
            let found = match of {
                Some(reference) => self.ratio(case, contender, reference, measure),
                None => self.median(case, contender, measure),
            };
            self.target(format!("{case}: {what}"), bound, found);
        }
    }

    /// Returns the ratio of a contender's median in a large case to that in a small one.
    pub(crate) fn growth(&self, contender: &str, measure: &str, [small, large]: [&str; 2]) -> f64 {
        self.median(large, contender, measure) / self.median(small, contender, measure)
    }

    /// Adds a remark.
    pub(crate) fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    /// Writes data and plot into `folder`, and returns the table.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<String> {
        let id = id(self.workload, self.latency);
        let file = |ending: &str| folder.join(format!("{id}.{ending}"));
        fs::create_dir_all(folder)?;
        fs::write(file("json"), json::json(self)?)?;
        fs::write(file("svg"), plot::plot(self))?;
        Ok(table::table(self))
    }

    fn heading(&self) -> String {
        let away = match self.latency {
            Duration::ZERO => String::new(),
            latency => format!(", {} away", span(latency)),
        };
        format!("{}{away}: {}", self.workload, self.title)
    }

    /// Returns what table and data show of each series.
    fn rows(&self) -> Vec<Row<'_>> {
        let rows = self.series.iter().map(|series| {
            let measures = self.measures().into_iter();
            let measured = measures.filter(|measure| !series.values(measure).is_empty());
            let reference = self.reference(&series.case);
            let reference = reference.filter(|name| *name != series.contender);
            let cells = measured.map(|measure| {
                let ratio = |of| self.ratio(&series.case, &series.contender, of, measure);
                (measure, series.median(measure), reference.map(ratio))
            });
            let cells: Vec<_> = cells.collect();
            let first = cells.first();
            let spread = first.map(|(first, ..)| spread(&series.values(first)));
            Row {
                series,
                spread,
                cells,
            }
        });
        rows.collect()
    }

    /// Returns the measures of all series, in the order of [`MEASURES`].
    fn measures(&self) -> Vec<&'static str> {
        let has = |measure: &&str| {
            let mut samples = self.series.iter().flat_map(|series| &series.samples);
            samples.any(|sample| sample.contains_key(*measure))
        };
        MEASURES.into_iter().filter(has).collect()
    }
}

/// Returns the base name of the files of a workload.
fn id(workload: &str, latency: Duration) -> String {
    if latency.is_zero() {
        return workload.to_owned();
    }
    let away = span(latency).replace(' ', "").replace('µ', "u");
    format!("{workload}-{away}")
}

/// A series as table and data show it.
struct Row<'a> {
    series: &'a Series,
    /// Of the first measure, as a share of its median.
    spread: Option<f64>,
    /// The measures that it has, their medians, and the medians of the ratios to the reference
    /// within each round. The reference and cases without one have no ratios.
    cells: Vec<(&'static str, f64, Option<f64>)>,
}

/// Rounds to five digits. Further ones are noise, which would change with every run.
fn rounded(value: f64) -> Option<f64> {
    let rounded = format!("{value:.4e}").parse().ok();
    rounded.filter(|value: &f64| value.is_finite())
}

/// All measures, in the order of the tables' columns. Values per pair are per acquisition and its
/// release.
const MEASURES: [&str; 20] = [
    "pairs/s",
    "p50 µs",
    "p99 µs",
    "release p99 µs",
    "client µs",
    "server µs",
    "commands",
    "max/min",
    "busy %",
    "renewals/s",
    "client cores",
    "server cores",
    "bytes/hold",
    "server bytes/unit",
    "client bytes/unit",
    "connections/unit",
    "server cores/10,000",
    "client cores/10,000",
    "lateness ms",
    "lost",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_server_that_is_away_have_a_name_of_their_own() {
        let folder = std::env::temp_dir().join(format!("redlatch-bench-{}", std::process::id()));
        for (latency, heading) in [(0, "## W1: nothing\n"), (1, "## W1, 1 ms away: nothing\n")] {
            let report = Report::new("W1", "nothing", Duration::from_millis(latency));
            assert!(report.write(&folder).unwrap().starts_with(heading));
        }
        for name in ["W1.json", "W1.svg", "W1-1ms.json", "W1-1ms.svg"] {
            assert!(folder.join(name).exists(), "{name}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_case_is_compared_with_its_own_limit() {
        let mut report = Report::new("W0", "nothing", Duration::ZERO);
        for (case, contender) in [("a", "x"), ("a", FLOOR), ("b", RAW), ("c", "x")] {
            report.series.push(Series::new(case, contender));
        }
        let references = ["a", "b", "c"].map(|case| report.reference(case));
        assert_eq!(references, [Some(FLOOR), Some(RAW), None]);
    }
}
