//! The results of a run, in words and figures.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    check::{Handoff, Verdict, check},
    clock::span,
    cost::{Cost, costs},
    history::Finished,
    record::Record,
};

/// The report of a run, for printing.
#[derive(Debug)]
pub(crate) struct Report {
    title: String,
    grants: BTreeMap<String, u64>,
    others: BTreeMap<String, u64>,
    faults: BTreeMap<String, u64>,
    errors: BTreeMap<String, u64>,
    costs: BTreeMap<String, Cost>,
    gaps: (u64, Duration),
    verdict: Verdict,
}

impl Report {
    /// Checks the history and combines all results.
    pub(crate) fn of(title: String, run: Finished) -> Self {
        let mut grants: BTreeMap<String, u64> = BTreeMap::new();
        let (mut gaps, mut gap) = (0, 0);
        for record in &run.records {
            match record {
                Record::Hold(hold) => *grants.entry(hold.kind.clone()).or_default() += 1,
                Record::Fault(fault) => {
                    if let Some(takeover) = fault.takeover {
                        gaps += 1;
                        gap += takeover.ended.saturating_sub(takeover.began);
                    }
                }
                _ => {}
            }
        }
        let (mut faults, mut others) = (BTreeMap::new(), BTreeMap::new());
        for (what, count) in run.counts {
            if let Some(fault) = what.strip_prefix("fault ") {
                faults.insert(fault.to_owned(), count);
            } else if !grants.contains_key(&what) {
                others.insert(what, count);
            }
        }
        let mut verdict = check(&run.records);
        verdict.violations.splice(..0, run.violations);
        Self {
            title,
            grants,
            others,
            faults,
            errors: run.errors,
            costs: costs(&run.records),
            gaps: (gaps, span(gap)),
            verdict,
        }
    }

    /// Tells whether no promise was broken.
    pub(crate) fn is_clean(&self) -> bool {
        self.verdict.violations.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        counted(f, "grants", &self.grants)?;
        counted(f, "others", &self.others)?;
        counted(f, "faults", &self.faults)?;
        for (fault, cost) in &self.costs {
            writeln!(f, "  {fault}: {cost}")?;
        }
        counted(f, "errors", &self.errors)?;
        let all: Vec<_> = self.verdict.handoffs.iter().collect();
        let count = all.len();
        writeln!(f, "hand-offs: {count} to a client that was waiting")?;
        let mut quiet = all.clone();
        quiet.retain(|handoff| handoff.during.is_empty());
        for (which, of) in [("all", all), ("while no server was in trouble", quiet)] {
            if let Some(longest) = of.last() {
                let part = |percent: usize| of[(of.len() - 1) * percent / 100].took;
                let (count, half, most) = (of.len(), part(50), part(99));
                write!(f, "  {which}: {count} of them, median {half:?}, ")?;
                writeln!(f, "99 % within {most:?}, longest {longest}")?;
            }
        }
        let (gaps, gap) = (self.gaps.0, self.gaps.1.as_secs_f64());
        write!(
            f,
            "gaps: {gaps} takeovers that may forget what was answered, "
        )?;
        writeln!(f, "{gap:.1} s with two servers in charge")?;
        told(f, "expected in gaps", &self.verdict.expected)?;
        told(f, "violations", &self.verdict.violations)
    }
}

impl fmt::Display for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}", self.took, self.name)?;
        if !self.during.is_empty() {
            write!(f, " during {}", self.during.join(", "))?;
        }
        Ok(())
    }
}

fn counted(f: &mut fmt::Formatter<'_>, what: &str, counts: &BTreeMap<String, u64>) -> fmt::Result {
    let sum: u64 = counts.values().sum();
    let each = counts.iter().map(|(what, count)| format!("{count} {what}"));
    let each: Vec<_> = each.collect();
    writeln!(f, "{what}: {sum}: {}", each.join(", "))
}

fn told(f: &mut fmt::Formatter<'_>, what: &str, all: &[String]) -> fmt::Result {
    writeln!(f, "{what}: {}", all.len())?;
    for one in all.iter().take(SHOWN) {
        writeln!(f, "  {one}")?;
    }
    if all.len() > SHOWN {
        writeln!(f, "  and {} more", all.len() - SHOWN)?;
    }
    Ok(())
}

/// The number of entries of a kind that are printed in full. The history has all of them.
const SHOWN: usize = 20;
