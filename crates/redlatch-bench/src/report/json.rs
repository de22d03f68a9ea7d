//! The results as data: the format of the files in `docs/book/src/explanation/performance`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Result;

use super::{Bound, Report, Series, Target};

/// The medians of a contender in a case. Infinite values are null.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    case: String,
    contender: String,
    /// Of the first measure, as a share of its median.
    spread: Option<f64>,
    median: BTreeMap<String, Option<f64>>,
    /// The medians of the ratios to the reference within each round.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ratio: BTreeMap<String, Option<f64>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Aim {
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    found: Option<f64>,
    met: Option<bool>,
}

/// Writes one line per series, target and note, so that a diff shows what changed.
pub(super) fn json(report: &Report) -> Result<String> {
    let series: Vec<_> = report.series.iter().map(|one| line(report, one)).collect();
    let targets: Vec<_> = report.targets.iter().map(aim).collect();
    let latency = report.latency.as_micros() as u64;
    let head = (report.workload, report.title, latency);
    text(head, &series, &targets, &report.notes)
}

fn text(
    (workload, title, latency): (&str, &str, u64),
    series: &[Line],
    targets: &[Aim],
    notes: &[String],
) -> Result<String> {
    Ok(format!(
        "{{\n\"workload\": {},\n\"title\": {},\n\"latency_us\": {latency},\n\"series\": {},\n\"targets\": {},\n\"notes\": {}\n}}\n",
        serde_json::to_string(workload)?,
        serde_json::to_string(title)?,
        lines(series)?,
        lines(targets)?,
        lines(notes)?,
    ))
}

fn line(report: &Report, series: &Series) -> Line {
    let measures = report.measures().into_iter();
    let measured: Vec<_> = measures
        .filter(|measure| !series.values(measure).is_empty())
        .collect();
    let each = |value: &dyn Fn(&str) -> f64| {
        let value = |&measure: &&str| (measure.to_owned(), rounded(value(measure)));
        measured.iter().map(value).collect()
    };
    let reference = report.reference(&series.case);
    let reference = reference.filter(|name| *name != series.contender);
    Line {
        case: series.case.clone(),
        contender: series.contender.clone(),
        spread: measured
            .first()
            .and_then(|first| rounded(series.spread(first))),
        median: each(&|measure| series.median(measure)),
        ratio: reference.map_or_else(BTreeMap::new, |reference| {
            each(&|measure| report.ratio(&series.case, &series.contender, reference, measure))
        }),
    }
}

fn aim(target: &Target) -> Aim {
    let (at_least, at_most) = match target.bound {
        Bound::AtLeast(bound) => (Some(bound), None),
        Bound::AtMost(bound) => (None, Some(bound)),
    };
    Aim {
        what: target.what.clone(),
        at_least,
        at_most,
        found: rounded(target.found),
        met: target.is_met(),
    }
}

/// Rounds to five digits. Further ones are noise, which would change with every run.
fn rounded(value: f64) -> Option<f64> {
    let rounded = format!("{value:.4e}").parse().ok();
    rounded.filter(|value: &f64| value.is_finite())
}

fn lines<T: Serialize>(items: &[T]) -> Result<String> {
    let items = items.iter().map(serde_json::to_string);
    let items = items.collect::<Result<Vec<_>>>()?;
    Ok(format!("[\n{}\n]", items.join(",\n")))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, time::Duration};

    use super::*;
    use crate::{
        contender::RAW,
        report::{Sample, id},
        workload,
    };

    /// The content of a file.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        workload: String,
        title: String,
        latency_us: u64,
        series: Vec<Line>,
        targets: Vec<Aim>,
        notes: Vec<String>,
    }

    #[test]
    fn results_are_written_with_their_ratios() {
        let mut report = Report::new("W0", "nothing", Duration::from_millis(1));
        for (contender, rate) in [(RAW, 1_234_567.0), ("x", 617_283.5)] {
            let mut series = Series::new("1 task", contender);
            series.samples = vec![Sample::from([
                ("pairs/s", rate),
                ("max/min", f64::INFINITY),
            ])];
            report.series.push(series);
        }
        report.target("half", Bound::AtLeast(0.5), 0.5);
        report.notes.push("a \"note\"".to_owned());
        let wanted = r#"{
"workload": "W0",
"title": "nothing",
"latency_us": 1000,
"series": [
{"case":"1 task","contender":"raw","spread":0.0,"median":{"max/min":null,"pairs/s":1234600.0}},
{"case":"1 task","contender":"x","spread":0.0,"median":{"max/min":null,"pairs/s":617280.0},"ratio":{"max/min":null,"pairs/s":0.5}}
],
"targets": [
{"what":"half","at_least":0.5,"found":0.5,"met":true}
],
"notes": [
"a \"note\""
]
}
"#;
        assert_eq!(json(&report).unwrap(), wanted);
    }

    #[test]
    fn committed_results_are_as_they_would_be_written() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/book/src/explanation/performance");
        let mut seen = 0;
        for folder in [folder.clone(), folder.join("kinds")] {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_none_or(|ending| ending != "json") {
                    continue;
                }
                seen += 1;
                let written = fs::read_to_string(&path).unwrap();
                let file: File = serde_json::from_str(&written)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let head = (&*file.workload, &*file.title, file.latency_us);
                let again = text(head, &file.series, &file.targets, &file.notes).unwrap();
                assert_eq!(again, written, "{}", path.display());
                let latency = Duration::from_micros(file.latency_us);
                assert_eq!(path.file_stem().unwrap(), &*id(&file.workload, latency));
                let known = workload::ALL
                    .iter()
                    .any(|one| *one == (&file.workload, &file.title));
                assert!(known, "{}: {}", file.workload, file.title);
            }
        }
        assert!(seen >= 12, "only {seen} files");
    }
}
