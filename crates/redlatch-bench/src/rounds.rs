//! Measures contenders in turn, round after round, from outside.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tokio::{join, task::block_in_place, time::sleep};

use crate::{
    cli::Plan,
    clock,
    contender::{Contender, Failure},
    job::{Done, Job, Names, Until},
    report::{Report, Sample, Series},
    rig::{Counted, Rig},
    stats::micros,
};

/// The work of all contenders in each round.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) label: String,
    pub(crate) names: Names,
    pub(crate) tasks: usize,
    pub(crate) until: Until,
    pub(crate) rounds: usize,
}

impl Plan {
    /// Returns a case whose rounds take the usual time.
    pub(crate) fn case(&self, label: impl Into<String>, names: Names, tasks: usize) -> Case {
        Case {
            label: label.into(),
            names,
            tasks,
            until: Until::Time(self.effort.time),
            rounds: self.effort.rounds,
        }
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
    /// Runs a case with all contenders, and adds their series.
    pub(crate) async fn compare(
        &mut self,
        rig: &Rig,
        contenders: &mut [Contender],
        case: &Case,
    ) -> Result<(), Failure> {
        let series = interleaved(rig, contenders, case).await?;
        self.series.extend(series);
        Ok(())
    }
}

/// Runs a case with all contenders. Each round includes all of them, and begins with another one.
/// Before the first round each has a short warm-up that does not count.
pub(crate) async fn interleaved(
    rig: &Rig,
    contenders: &mut [Contender],
    case: &Case,
) -> Result<Vec<Series>, Failure> {
    let series = contenders.iter();
    let series = series.map(|contender| Series::new(&case.label, &contender.name));
    let mut series: Vec<_> = series.collect();
    for contender in contenders.iter_mut() {
        let warm = Until::Time(Duration::from_millis(100));
        contender.run(&job(case, warm)).await?;
        sleep(PAUSE).await;
    }
    let n = contenders.len();
    for round in 0..case.rounds {
        for turn in 0..n {
            let at = (round + turn) % n;
            let sample = measured(rig, &mut contenders[at], &job(case, case.until)).await?;
            series[at].samples.push(sample);
            sleep(PAUSE).await;
        }
    }
    Ok(series)
}

fn job(case: &Case, until: Until) -> Job {
    Job {
        key: unique(),
        names: case.names,
        tasks: case.tasks,
        until,
    }
}

/// Returns a name that was not used before on these servers.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("bench{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn measured(rig: &Rig, contender: &mut Contender, job: &Job) -> Result<Sample, Failure> {
    let (counted, cpu) = (rig.counted(), contender.cpu());
    let (done, middle) = join!(contender.run(job), middle(rig, job));
    let done = done?;
    let (cpu, after) = (contender.cpu().saturating_sub(cpu), rig.counted());
    let verbs = &contender.verbs;
    let mut sample =
        timings(&done, job.names).map_err(|error| format!("{}: {error}", contender.name))?;
    sample.append(&mut costs(
        done.pairs(),
        done.wall,
        cpu,
        [&counted, &after],
        verbs,
    ));
    if let Some(commands) = middle.and_then(|middle| middle.commands(&done, verbs)) {
        sample.insert("commands", commands);
    }
    Ok(sample)
}

/// Returns what pairs cost the client and the servers, whose counters were read before and after.
pub(crate) fn costs(
    pairs: u64,
    wall: Duration,
    cpu: Duration,
    [before, after]: [&Counted; 2],
    verbs: &str,
) -> Sample {
    let pairs = pairs as f64;
    let micros = |cpu: Duration| cpu.as_secs_f64() * 1e6 / pairs;
    Sample::from([
        ("pairs/s", pairs / wall.as_secs_f64()),
        ("client µs", micros(cpu)),
        ("server µs", micros(after.cpu - before.cpu)),
        ("commands", after.calls_since(before, verbs) as f64 / pairs),
    ])
}

/// The counters of the servers at two moments in a round, and the times of these in ns of the
/// monotonic clock.
struct Middle([(u64, Counted); 2]);

/// Reads the counters while all tasks are present and none leaves yet, if all want one name. A task
/// that arrives, or that leaves without the name, sends more commands than one that stays.
async fn middle(rig: &Rig, job: &Job) -> Option<Middle> {
    let (Names::One { .. }, Until::Time(time)) = (job.names, job.until) else {
        return None;
    };
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

/// Returns the times that a round's tasks measured. Fails if two tasks held `Names::One` at the
/// same time.
pub(crate) fn timings(done: &Done, names: Names) -> Result<Sample, Failure> {
    let mut sample = Sample::new();
    let seen = match names {
        Names::Own | Names::Mixed | Names::Beside => done.times(|task| &task.latencies),
        Names::Pool { hold } => {
            sample.insert("max/min", done.unfairness());
            if !hold.is_zero() {
                sample.insert("busy %", 100.0 * done.busy());
            }
            done.times(|task| &task.latencies)
        }
        Names::One { .. } => {
            let handoffs = done.handoffs();
            if handoffs.overlaps > 0 {
                return Err(format!("{} times two held at once", handoffs.overlaps).into());
            }
            sample.insert("max/min", done.unfairness());
            handoffs.gaps
        }
    };
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
