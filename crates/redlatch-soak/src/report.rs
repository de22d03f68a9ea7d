//! The results of a run, in words and figures.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    clock::span,
    cost::{Cost, costs},
    history::Finished,
    record::Record,
    waits::{Handoff, forgotten, handoffs},
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
    handoffs: Vec<Handoff>,
    violations: Vec<String>,
}

impl Report {
    /// Combines all results. On servers of the user, nothing is known of the faults that excuse a
    /// wait.
    pub(crate) fn of(title: String, run: Finished, own: bool) -> Self {
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
        let waits = if own {
            Vec::new()
        } else {
            forgotten(&run.records)
        };
        Self {
            title,
            grants,
            others,
            faults,
            errors: run.errors,
            costs: costs(&run.records),
            gaps: (gaps, span(gap)),
            handoffs: handoffs(&run.records),
            violations: [run.violations, waits].concat(),
        }
    }

    /// Tells whether no violation was seen.
    pub(crate) fn is_clean(&self) -> bool {
        self.violations.is_empty()
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
        let all: Vec<_> = self.handoffs.iter().collect();
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
        writeln!(f, "violations: {}", self.violations.len())?;
        for one in &self.violations {
            writeln!(f, "  {one}")?;
        }
        Ok(())
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
