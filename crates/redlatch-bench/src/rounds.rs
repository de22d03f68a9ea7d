//! Measures contenders in turn, round after round, from outside.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tokio::{join, task::block_in_place, time::sleep};

use crate::{
    cli::Plan,
    clock::{self, nanos},
    contender::{Contender, Failure},
    job::{Done, Job, Names},
    report::{Report, Sample, Series},
    rig::{Counted, Rig},
    stats::{micros, span},
};

/// The work of all contenders in each round.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) label: String,
    pub(crate) rounds: usize,
    /// Each round has a key of its own.
    pub(crate) job: Job,
}

impl Plan {
    /// Returns a case whose rounds take the usual time.
    pub(crate) fn case(&self, label: impl Into<String>, names: Names, tasks: usize) -> Case {
        Case {
            label: label.into(),
            rounds: self.effort.rounds,
            job: Job {
                key: String::new(),
                names,
                tasks,
                time: nanos(self.effort.time),
                pairs: 0,
                hold: 0,
            },
        }
    }
}

impl Case {
    /// Lets tasks hold the name for some time.
    pub(crate) fn held(mut self, hold: Duration) -> Self {
        self.label = held(&self.label, hold);
        self.job.hold = nanos(hold);
        self
    }

    /// Lets each task make so many pairs.
    pub(crate) fn of_pairs(mut self, pairs: usize) -> Self {
        (self.job.time, self.job.pairs) = (0, pairs as u64);
        self
    }
}

/// Adds the duration of the holds to the name of a case, if they have one.
pub(crate) fn held(case: &str, hold: Duration) -> String {
    if hold.is_zero() {
        case.to_owned()
    } else {
        format!("{case}, held {}", span(hold))
    }
}

/// The durations and numbers of rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// The number of rounds for workloads with long rounds.
    pub(crate) few: usize,
    pub(crate) time: Duration,
    /// Whether the workloads use the numbers of the targets, however long that takes.
    pub(crate) long: bool,
}

impl Report {
    /// Runs a case with all contenders, and adds their series. Each round includes all of them, and
    /// begins with another one. Before the first round each has a short warm-up that does not
    /// count.
    pub(crate) async fn compare(
        &mut self,
        contenders: &mut [Contender<'_>],
        case: &Case,
    ) -> Result<(), Failure> {
        let mut series: Vec<_> = contenders.iter().map(|one| series(one, case)).collect();
        for contender in contenders.iter_mut() {
            let time = nanos(Duration::from_millis(100));
            let key = unique();
            let job = case.job.clone();
            contender.run(&Job { key, time, ..job }).await?;
            sleep(PAUSE).await;
        }
        let n = contenders.len();
        for round in 0..case.rounds {
            for turn in 0..n {
                let at = (round + turn) % n;
                let key = unique();
                let job = case.job.clone();
                let sample = measured(&mut contenders[at], &Job { key, ..job }).await?;
                series[at].samples.push(sample);
                sleep(PAUSE).await;
            }
        }
        self.series.extend(series);
        Ok(())
    }
}

fn series(contender: &Contender<'_>, case: &Case) -> Series {
    match contender.place {
        "" => Series::new(&case.label, &contender.name),
        place => Series::new(&format!("{}, {place}", case.label), &contender.name),
    }
}

/// Returns a name that was not used before on these servers.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("bench{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn measured(contender: &mut Contender<'_>, job: &Job) -> Result<Sample, Failure> {
    let rig = contender.rig;
    let (before, cpu) = (rig.counted(), contender.cpu());
    let (done, middle) = join!(contender.run(job), middle(rig, job));
    let done = done?;
    let (cpu, after) = (contender.cpu().saturating_sub(cpu), rig.counted());
    let verbs = contender.verbs();
    let mut sample = timings(&done, job).map_err(|error| format!("{}: {error}", contender.name))?;
    let pairs = done.pairs() as f64;
    let micros = |cpu: Duration| cpu.as_secs_f64() * 1e6 / pairs;
    let wall = Duration::from_nanos(done.wall).as_secs_f64();
    let commands = after.calls_since(&before, verbs) as f64 / pairs;
    let middle = middle.and_then(|middle| middle.commands(&done, verbs));
    sample.extend([
        ("pairs/s", pairs / wall),
        ("client µs", micros(cpu)),
        ("server µs", micros(after.cpu - before.cpu)),
        ("commands", middle.unwrap_or(commands)),
    ]);
    Ok(sample)
}

/// The counters of the servers at two moments in a round, and the times of these in ns of the
/// monotonic clock.
struct Middle([(u64, Counted); 2]);

/// Reads the counters while all tasks are present and none leaves yet, if all want one name. A task
/// that arrives, or that leaves without the name, sends more commands than one that stays.
async fn middle(rig: &Rig, job: &Job) -> Option<Middle> {
    if job.names != Names::One || job.time == 0 {
        return None;
    }
    let time = Duration::from_nanos(job.time);
    sleep(time / 4).await;
    let first = counted_now(rig);
    sleep(time * 5 / 8).await;
    Some(Middle([first, counted_now(rig)]))
}

fn counted_now(rig: &Rig) -> (u64, Counted) {
    let before = clock::monotonic();
    let counted = block_in_place(|| rig.counted());
    (u64::midpoint(before, clock::monotonic()), counted)
}

impl Middle {
    /// Returns the commands per hold that began between the two moments; `None` if none did.
    fn commands(&self, done: &Done, verbs: &str) -> Option<f64> {
        let [(from, before), (to, after)] = &self.0;
        let holds = done.begun(*from..*to);
        let calls = after.calls_since(before, verbs) as f64;
        (holds > 0).then(|| calls / holds as f64)
    }
}

/// Returns the times that a round's tasks measured. Fails if two tasks held a name of
/// [`Names::One`] at the same time.
fn timings(done: &Done, job: &Job) -> Result<Sample, Failure> {
    let mut sample = Sample::new();
    if [Names::One, Names::Pool].contains(&job.names) {
        sample.insert("max/min", done.unfairness());
    }
    let seen = match job.names {
        Names::Crowd => return Ok(sample),
        Names::One => {
            let handoffs = done.handoffs();
            if handoffs.overlaps > 0 {
                return Err(format!("{} times two held at once", handoffs.overlaps).into());
            }
            handoffs.gaps
        }
        _ => done.times(|task| &task.latencies),
    };
    if job.names == Names::Pool && job.hold > 0 {
        sample.insert("busy %", 100.0 * done.busy());
    }
    sample.insert("p50 µs", micros(&seen, 0.5));
    sample.insert("p99 µs", micros(&seen, 0.99));
    let releases = done.times(|task| &task.releases);
    if !releases.is_empty() {
        sample.insert("release p99 µs", micros(&releases, 0.99));
    }
    Ok(sample)
}

/// A pause in which the activity that a round has left ends.
const PAUSE: Duration = Duration::from_millis(100);
