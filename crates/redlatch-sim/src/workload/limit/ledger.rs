//! The additional promises of the rate limiter: an attempt takes its passes once, the passes of any
//! window are at most rate × window + burst, and no pass is used before it counts.

use std::collections::{BTreeMap, BTreeSet};

use super::measure;
use crate::{
    exec::ProcId,
    names::label,
    scripts::Ran,
    watch::{Broken, Checker, Event, Record, View},
};

/// An action that a worker reports.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    /// It begins one call, which may take one pass.
    Asks,
    /// It may use a pass that counts at this time of the server, in µs.
    Passes { at: u64 },
}

/// Compares all runs of the scripts with the promises.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    names: BTreeMap<usize, Limit>,
    /// The calls and passes of each process for each name.
    counts: BTreeMap<(ProcId, usize), (u64, u64)>,
    /// Whether the server has lost state. An attempt may pass once more then.
    forgot: bool,
}

/// What has passed one name.
#[derive(Debug, Default)]
struct Limit {
    /// The time that has passed by the server's clock, in µs, without steps back.
    elapsed: u64,
    /// The server's time at the last run, in µs.
    last: u64,
    attempts: BTreeMap<String, u64>,
    /// All that counts, by time.
    entries: Vec<(u64, What)>,
    /// When the limiter or its rate was new, as the last pass says.
    born: String,
    /// The marks of passes that a server which lost state had given ahead.
    lost: BTreeSet<u64>,
    /// When passes that were taken ahead may be used, in true µs, by the process and the server's
    /// time at which they count. Clocks are up to 1 % fast or slow. Passes of different bursts may
    /// count at one time, and the one that was taken first has the widest bound.
    due: BTreeMap<(ProcId, u64), u64>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A pass of so many tokens, with this mark.
    Pass(u64, u64),
    /// The server has lost state, which lets one more burst pass.
    Forgot,
    /// The tokens of a pass from before a loss are given back.
    Back(u64),
}

impl Checker for Ledger {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        match event.deed::<Deed>() {
            Some((proc, name, Deed::Asks)) => self.counts.entry((proc, name)).or_default().0 += 1,
            Some((proc, name, &Deed::Passes { at })) => {
                record.tally.grants += 1;
                let limit = self.names.entry(name).or_default();
                record.judge(limit.used(name, (proc, at), view.now));
            }
            None => {}
        }
        match *event {
            Event::Ran {
                proc, ran, clock, ..
            } => record.judge(self.ran(proc, ran, (view.now, clock))),
            Event::Forgot { .. } => {
                self.forgot = true;
                // What was taken ahead is forgotten, too, and passes besides the burst.
                self.names.values_mut().for_each(Limit::forget);
            }
            _ => {}
        }
    }
}

impl Ledger {
    /// Handles a script that the server has run at `now`, and at `clock` of its own clock.
    fn ran(&mut self, proc: ProcId, ran: &Ran<'_>, (now, clock): (u64, u64)) -> Broken {
        let name = ran.name()?;
        let limit = self.names.entry(name).or_default();
        let broken = |what: String| Some(("P5", format!("{}: {what}", label(name))));
        match (ran.source.name, ran.verdict()) {
            ("limit/settle", "settled") => {
                if limit.attempts.insert(ran.arg(4).to_owned(), 0).is_some() && !self.forgot {
                    return None;
                }
                limit.settle(ran, clock);
                limit.check(name)
            }
            ("limit/acquire", "passed") => {
                let passes = ran.number(3)?;
                let acts = ran.number(7).is_some();
                let before = limit.attempts.insert(ran.arg(4).to_owned(), passes);
                if let Some(before) = before.filter(|_| !self.forgot)
                    && (acts || passes != before)
                {
                    let what = format!("{} took {before} passes, its copy {passes}", ran.arg(4));
                    return broken(what);
                }
                if !acts {
                    limit.says_again(proc, ran, (now, clock));
                    return None;
                }
                limit.pass(proc, ran, passes, now);
                let (calls, taken) = self.counts.entry((proc, name)).or_default();
                *taken += passes;
                if *taken > *calls && !self.forgot {
                    return broken(format!("{calls} calls took {taken} passes"));
                }
                limit.check(name)
            }
            _ => None,
        }
    }
}

impl Limit {
    /// Adds the passes of a run.
    fn pass(&mut self, proc: ProcId, ran: &Ran<'_>, passes: u64, now: u64) {
        let number = |at| ran.number(at).unwrap_or(0);
        self.born = ran.text(9).unwrap_or_default().to_owned();
        let (wait, at, mark) = (number(4), number(6), number(7) + number(8));
        let ahead = if passes > 0 { wait } else { 0 };
        let server = at - ahead;
        self.elapsed += server.saturating_sub(self.last);
        self.last = server;
        if ahead > 0 {
            let earliest = now + ahead - ahead / 40;
            let due = self.due.entry((proc, at)).or_insert(earliest);
            *due = earliest.min(*due);
        }
        let terms = ran.arg(5).split('/').map(|term| term.parse().unwrap_or(1));
        let terms: Vec<u64> = terms.collect();
        let (count, period, tokens) = (terms[0], terms[1], terms[3]);
        for later in (0..passes).rev() {
            let mark = mark - (later * tokens * period).div_ceil(count);
            self.add(self.elapsed + ahead, What::Pass(tokens, mark));
        }
    }

    /// Handles the answer to a copy. A clock that was set forward makes a pass count sooner.
    fn says_again(&mut self, proc: ProcId, ran: &Ran<'_>, (now, clock): (u64, u64)) {
        let at = ran.number(6).unwrap_or(0);
        let wait = at.saturating_sub(clock);
        if let Some(due) = self.due.get_mut(&(proc, at)) {
            *due = (*due).min(now + wait - wait / 40);
        }
    }

    /// Takes what a settlement asks to give back from the pass that has the mark. If the script
    /// gives back less, even less has passed. What is added only delays others. For a pass from
    /// before a loss, others get their tokens now.
    fn settle(&mut self, ran: &Ran<'_>, clock: u64) -> Option<()> {
        self.elapsed += clock.saturating_sub(self.last);
        self.last = clock;
        let back: u64 = ran.arg(8).strip_prefix('-')?.parse().ok()?;
        let from: u64 = ran.arg(9).parse().ok()?;
        let mark = from.checked_add_signed(ran.arg(10).parse().unwrap_or(0))?;
        let mut lost = self.lost.contains(&mark);
        let mut all = self.entries.iter();
        let forgot = all.rposition(|(_, what)| matches!(what, What::Forgot));
        for (at, (_, what)) in self.entries.iter_mut().enumerate() {
            match what {
                What::Pass(_, its) if *its != mark => {}
                What::Pass(..) if forgot > Some(at) => lost = true,
                What::Pass(tokens, _) => *tokens = tokens.saturating_sub(back),
                _ => {}
            }
        }
        if lost && ran.arg(11) == self.born {
            self.add(self.elapsed, What::Back(back));
        }
        Some(())
    }

    fn forget(&mut self) {
        let elapsed = self.elapsed;
        let ahead = self.entries.extract_if(.., |(time, _)| *time > elapsed);
        let marks = ahead.filter_map(|(_, what)| match what {
            What::Pass(_, mark) => Some(mark),
            _ => None,
        });
        self.lost.extend(marks);
        self.add(elapsed, What::Forgot);
    }

    fn add(&mut self, time: u64, what: What) {
        let at = self.entries.partition_point(|(other, _)| *other <= time);
        self.entries.insert(at, (time, what));
        if self.entries.len() > REMEMBERED {
            self.entries.remove(0);
        }
    }

    /// Compares all windows: what fills a bucket that empties at the rate never is more than the
    /// burst, and only then each window has at most rate × window + burst.
    fn check(&self, name: usize) -> Broken {
        let (count, period, burst) = measure(name);
        let (mut level, mut last) = (0, 0);
        for &(time, what) in &self.entries {
            level = u64::saturating_sub(level, (time - last) * count);
            last = time;
            match what {
                What::Pass(tokens, _) => level += tokens * period,
                What::Forgot => level = level.saturating_sub(burst * period),
                What::Back(tokens) => level = level.saturating_sub(tokens * period),
            }
            // Times are whole µs.
            if level > burst * period + count {
                let over = level - burst * period;
                let (name, of) = (label(name), format!("a window that ends at {time}"));
                let what = format!("{name}: {over} / {period} tokens too many in {of}");
                return Some(("rate", what));
            }
        }
        None
    }

    /// Checks that a pass is not used before it counts.
    fn used(&self, name: usize, pass: (ProcId, u64), now: u64) -> Broken {
        let due = *self.due.get(&pass)?;
        (now + 2_000 < due).then(|| {
            let (name, early) = (label(name), (due - now) / 1_000);
            let what = format!("{name}: a pass is used {early} ms before it counts");
            ("early", what)
        })
    }
}

/// The number of passes of a name whose windows are compared.
const REMEMBERED: usize = 200;
