//! The work of a contender in one round, and its results.

use std::{ops::Range, time::Duration};

use serde::{Deserialize, Serialize};

/// One round: tasks that lock and unlock as fast as they can, until each has done enough.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The prefix of the names of this round. No other round has the same.
    pub(crate) key: String,
    pub(crate) names: Names,
    pub(crate) tasks: usize,
    /// The time after which a task ends, in ns. Tasks that wait then leave. If it is 0, `pairs` end
    /// a task.
    pub(crate) time: u64,
    /// The number of pairs after which a task ends.
    pub(crate) pairs: u64,
    /// The time for which a task keeps a name that it shares, in ns.
    pub(crate) hold: u64,
}

/// The names that the tasks lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Names {
    /// Each task locks its own name.
    Own,
    /// All tasks lock the same name. One task has it at a time.
    One,
    /// 512 tasks lock 200 names: 180 names have one task each, and the others share the remaining
    /// tasks.
    Mixed,
    /// Each task locks its own name. The first one rests for [`PAUSE`] before each pair, and only
    /// its times count.
    Beside,
    /// All tasks lock the same name, which [`PERMITS`] tasks have at once.
    Pool,
    /// All tasks lock the same name, and all have it before each leaves. A round is of pairs.
    Crowd,
}

/// One hold in the view of its holder: the time at which the acquisition returned, and the time at
/// which its release was called, in ns of the machine's monotonic clock, which all processes share.
pub(crate) type Held = (u64, u64);

/// The results of one task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TaskDone {
    pub(crate) pairs: u64,
    /// The times from the call of an acquisition to the return of its release, in ns; empty with
    /// [`Names::One`] and [`Names::Crowd`]. With [`Names::Pool`], the times to the return of the
    /// acquisition.
    pub(crate) latencies: Vec<u64>,
    /// The holds; empty except with [`Names::One`] and [`Names::Pool`].
    pub(crate) holds: Vec<Held>,
    /// The times from the call of a release to its return, in ns; empty except with
    /// [`Names::One`] and [`Names::Pool`], and with programs that do not measure them.
    pub(crate) releases: Vec<u64>,
}

/// The results of all tasks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    /// The duration of the round, in ns.
    pub(crate) wall: u64,
    pub(crate) tasks: Vec<TaskDone>,
}

/// The hand-offs of a name that all tasks want.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handoffs {
    /// The times from each call of a release to the return of the next acquisition, in ns.
    pub(crate) gaps: Vec<u64>,
    /// The number of holds that began before the release of the previous one was called.
    pub(crate) overlaps: usize,
}

/// The rest of the first task of [`Names::Beside`].
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// The number of permits of a pool.
pub(crate) const PERMITS: u32 = 8;

impl Job {
    /// Returns the name that this task locks.
    pub(crate) fn name(&self, task: usize) -> String {
        match self.names {
            Names::Own | Names::Beside => format!("{}:{task}", self.key),
            Names::Mixed if task < 180 => format!("{}:{task}", self.key),
            Names::Mixed => format!("{}:{}", self.key, 180 + task % 20),
            Names::One | Names::Pool | Names::Crowd => self.key.clone(),
        }
    }

    /// Tells whether a task goes on that began so long ago and has done so many pairs.
    pub(crate) fn goes_on(&self, spent: Duration, pairs: u64) -> bool {
        match self.time {
            0 => pairs < self.pairs,
            time => spent < Duration::from_nanos(time),
        }
    }
}

impl Done {
    pub(crate) fn pairs(&self) -> u64 {
        self.tasks.iter().map(|task| task.pairs).sum()
    }

    /// Returns the times of all tasks.
    pub(crate) fn times(&self, of: impl Fn(&TaskDone) -> &Vec<u64>) -> Vec<u64> {
        self.tasks.iter().flat_map(of).copied().collect()
    }

    fn holds(&self) -> impl Iterator<Item = &Held> {
        self.tasks.iter().flat_map(|task| &task.holds)
    }

    /// Returns the ratio of the most to the fewest holds of a task; infinite if one task had none.
    pub(crate) fn unfairness(&self) -> f64 {
        let pairs = || self.tasks.iter().map(|task| task.pairs);
        let (most, least) = (pairs().max(), pairs().min());
        most.unwrap_or(0) as f64 / least.unwrap_or(0) as f64
    }

    /// Returns the number of holds that began in a span of the monotonic clock.
    pub(crate) fn begun(&self, span: Range<u64>) -> usize {
        self.holds().filter(|(got, _)| span.contains(got)).count()
    }

    /// Returns the share of the permits that somebody had, from the first hold until the last one
    /// began. NaN without holds.
    pub(crate) fn busy(&self) -> f64 {
        let began = || self.holds().map(|(got, _)| *got);
        let (first, last) = (began().min().unwrap_or(0), began().max().unwrap_or(0));
        let held = self.holds().map(|&(got, left)| left.min(last) - got);
        let held: u64 = held.sum();
        held as f64 / ((last - first) as f64 * PERMITS as f64)
    }

    /// Computes the hand-offs from the holds of all tasks, in order of time.
    pub(crate) fn handoffs(&self) -> Handoffs {
        let mut holds: Vec<Held> = self.holds().copied().collect();
        holds.sort_unstable();
        let mut handoffs = Handoffs::default();
        for pair in holds.windows(2) {
            match pair[1].0.checked_sub(pair[0].1) {
                Some(gap) => handoffs.gaps.push(gap),
                None => handoffs.overlaps += 1,
            }
        }
        handoffs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the results of tasks with these holds.
    fn done(tasks: &[&[Held]]) -> Done {
        let task = |holds: &&[Held]| TaskDone {
            pairs: holds.len() as u64,
            holds: holds.to_vec(),
            ..TaskDone::default()
        };
        let tasks = tasks.iter().map(task).collect();
        Done { wall: 1, tasks }
    }

    #[test]
    fn holds_of_all_tasks_are_put_in_order() {
        let done = done(&[&[(10, 20), (50, 60)], &[(25, 40)]]);
        assert_eq!(done.pairs(), 3);
        assert_eq!(done.handoffs().gaps, [5, 10]);
        assert_eq!(done.handoffs().overlaps, 0);
        assert_eq!((done.begun(10..50), done.begun(11..51)), (2, 2));
        assert!((done.unfairness() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn busy_share_is_that_of_the_permits_until_the_last_hold_begins() {
        let done = done(&[&[(100, 200), (300, 900)], &[(150, 500)]]);
        assert!((done.busy() - 250.0 / (200.0 * 8.0)).abs() < 1e-9);
        assert!(Done::default().busy().is_nan());
    }

    #[test]
    fn two_holders_at_a_time_are_found() {
        assert_eq!(done(&[&[(10, 20), (15, 30)]]).handoffs().overlaps, 1);
    }
}
