//! W6 and W12: one process that holds many names, which its watchdog renews, and the cost of a
//! client, a hold and a waiter, small and large.

use std::time::Duration;

use redlatch_tests::server::ServerBinary;
use tokio::time::{Instant, sleep};

use super::{Reported, worker};
use crate::{
    cli::Plan,
    contender::Failure,
    hold::{Ask, Watched},
    report::{
        Bound::{AtLeast, AtMost},
        Report, Sample, Series,
    },
    rig::Rig,
    rounds::unique,
    stats::grouped,
};

/// Holds of one process, and their lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    holds: usize,
    lease: Duration,
}

impl Kept {
    /// Returns so many holds with the default lease.
    pub(super) const fn of(holds: usize) -> Self {
        let lease = LEASE;
        Self { holds, lease }
    }

    fn label(self) -> String {
        let holds = grouped(&self.holds.to_string());
        if self.lease == LEASE {
            return format!("{holds} holds");
        }
        format!("{holds} holds of {} s", self.lease.as_secs())
    }
}

pub(super) async fn kept(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let (many, short) = (
        Kept::of(100_000),
        Kept {
            holds: 10_000,
            lease: SHORT_LEASE,
        },
    );
    for kept in [Kept::of(10_000), many, short] {
        report.series.push(measure(rig, kept, plan).await?);
    }
    targets(&mut report, &many.label());
    // The costs of renewals where they are frequent.
    let case = short.label();
    for (what, bound, measure) in [
        ("cores of the client", 0.007, "client cores"),
        ("cores of the server", 0.015, "server cores"),
    ] {
        let found = report.median(&case, "redlatch", measure);
        report.targets(&case, [(what, AtMost(bound), found)]);
    }
    report.note(NOTE);
    Ok(report)
}

/// Measures in a new process per round, so that its memory is that of these holds.
pub(super) async fn measure(rig: &Rig, kept: Kept, plan: &Plan) -> Result<Series, Failure> {
    let Kept { holds, lease } = kept;
    // A lease of 30 s is renewed for the first time after 8 to 10 s.
    let time = Duration::from_secs(if plan.effort.long { 30 } else { 13 });
    let mut series = Series::new(&kept.label(), "redlatch");
    for _ in 0..plan.effort.few {
        let mut holder = worker("redlatch", rig).await?;
        let (n, key) = (holds, unique());
        let bytes: f64 = holder.ask(&Ask::Hold { n, lease, key }).await?;
        let before = rig.counted();
        let watched: Watched = holder.ask(&Ask::Watch { time }).await?;
        let (after, wall) = (rig.counted(), watched.wall);
        let calls = after.calls_since(&before, "evalsha") as f64;
        let cores = |cpu: Duration| cpu.as_secs_f64() / wall.as_secs_f64();
        series.samples.push(Sample::from([
            ("renewals/s", calls / wall.as_secs_f64()),
            ("client cores", cores(watched.cpu)),
            ("server cores", cores(after.cpu - before.cpu)),
            ("bytes/hold", bytes / holds as f64),
            ("lateness ms", lateness(watched.least, lease)),
            ("lost", watched.lost as f64),
        ]));
        let _: u64 = holder.ask(&Ask::Part).await?;
    }
    Ok(series)
}

/// Returns the lateness of the latest renewal against the latest planned time, in ms.
fn lateness(least_left: Duration, lease: Duration) -> f64 {
    let least_left = least_left.as_secs_f64() * 1_000.0;
    let lease = lease.as_secs_f64() * 1_000.0;
    // The client's safety margin is 2 % for clocks and 4 ms for timers.
    let margin = lease / 50.0 + 4.0;
    (lease - lease / 3.0 - margin - least_left).max(0.0)
}

fn targets(report: &mut Report, case: &str) {
    let Some(series) = report.find(case, "redlatch") else {
        return;
    };
    let worst = |measure| series.values(measure).into_iter().fold(0.0, f64::max);
    let (cores, bytes) = (series.median("client cores"), series.median("bytes/hold"));
    let (late, lost) = (worst("lateness ms"), worst("lost"));
    let lateness = LEASE.as_secs_f64() * 1_000.0 / 6.0;
    let found = [
        ("cores of the client", AtMost(0.1), cores),
        ("bytes per hold in the client", AtMost(600.0), bytes),
        ("latest renewal, ms behind its time", AtMost(lateness), late),
        ("lost", AtMost(0.0), lost),
    ];
    report.targets(case, found);
}

/// The default lease.
const LEASE: Duration = Duration::from_secs(30);

const SHORT_LEASE: Duration = Duration::from_secs(10);

const NOTE: &str = "Each round is a process of its own, which takes its holds, and then does nothing but keep them. Bytes are the growth of its resident memory. A renewal is due \
    when 8 to 10 s of the default lease of 30 s are over; lateness is what the one who waited longest waited beyond that, seen by looks at all holds every 500 ms.";

/// One point of the measurement: the unit that is counted, the number of processes, and the number
/// of units for each process.
struct Point {
    unit: &'static str,
    processes: usize,
    each: usize,
}

/// The points from which the constants of the model come, and the points at which it is checked.
const POINTS: [[Point; 2]; 3] = [
    [point("clients", 2, 1_000), point("clients", 5, 1_000)],
    [point("holds", 1, 20_000), point("holds", 2, 100_000)],
    [point("waiters", 1, 2_000), point("waiters", 4, 5_000)],
];

const fn point(unit: &'static str, processes: usize, each: usize) -> Point {
    Point {
        unit,
        processes,
        each,
    }
}

pub(super) async fn model(mut report: Report, plan: &Plan, binary: &ServerBinary) -> Reported {
    for [small, large] in &POINTS {
        for point in [small, large] {
            let mut series = Series::new(&point.label(), "redlatch");
            for _ in 0..plan.effort.few {
                // A server that has forgotten gives its memory back late.
                let rig = Rig::roomy(binary);
                series.samples.push(point.measure(&rig).await?);
            }
            report.series.push(series);
        }
        point_targets(&mut report, small, large);
    }
    report.note(POINTS_NOTE);
    Ok(report)
}

impl Point {
    fn label(&self) -> String {
        format!("{} {}", self.processes * self.each, self.unit)
    }

    async fn measure(&self, rig: &Rig) -> Result<Sample, Failure> {
        let mut workers = Vec::new();
        for _ in 0..self.processes {
            workers.push(worker("redlatch", rig).await?);
        }
        let idle = idle_cores(rig).await;
        let before = rig.size();
        let mut bytes = 0.0;
        for worker in &mut workers {
            let (n, names, key) = (self.each, self.each / 100, unique());
            let lease = Duration::from_secs(30);
            let ask = match self.unit {
                "clients" => Ask::Connect { n },
                "holds" => Ask::Hold { n, lease, key },
                _ => Ask::Queue { n, names, key },
            };
            bytes += worker.ask::<f64>(&ask).await?;
        }
        let counted = rig.counted();
        for worker in &mut workers {
            worker.tell(&Ask::Watch { time: WATCH }).await?;
        }
        let (mut cpu, mut wall, mut lost) = (Duration::ZERO, Duration::ZERO, 0);
        for worker in &mut workers {
            let watched: Watched = worker.hear().await?;
            cpu += watched.cpu;
            wall = wall.max(watched.wall);
            lost += watched.lost;
        }
        let served = rig.counted().cpu - counted.cpu;
        // The buffers of the connections have shrunk by now.
        let after = rig.size();
        let units = (self.processes * self.each) as f64;
        let connections = after.connections - before.connections;
        let wall = wall.as_secs_f64();
        let cores = |cpu: Duration, idle: f64| (cpu.as_secs_f64() / wall - idle) / units * 10_000.0;
        for worker in &mut workers {
            let _: u64 = worker.ask(&Ask::Part).await?;
        }
        Ok(Sample::from([
            ("server bytes/unit", (after.bytes - before.bytes) / units),
            ("client bytes/unit", bytes / units),
            ("connections/unit", connections / units),
            ("server cores/10,000", cores(served, idle)),
            ("client cores/10,000", cores(cpu, 0.0)),
            ("lost", lost as f64),
        ]))
    }
}

/// Returns the cores that the server takes without clients.
async fn idle_cores(rig: &Rig) -> f64 {
    let before = rig.counted().cpu;
    let began = Instant::now();
    sleep(IDLE).await;
    (rig.counted().cpu - before).as_secs_f64() / began.elapsed().as_secs_f64()
}

/// A unit at the large point may cost a quarter more or less than at the small one.
fn point_targets(report: &mut Report, small: &Point, large: &Point) {
    for measure in [
        "server bytes/unit",
        "client bytes/unit",
        "server cores/10,000",
        "client cores/10,000",
    ] {
        let [of_large, of_small] =
            [large, small].map(|point| report.median(&point.label(), "redlatch", measure));
        let ratio = of_large / of_small;
        let what = format!("{}, {measure}, of {}", large.label(), small.label());
        let within = [
            ("at least", AtLeast(0.75), ratio),
            ("at most", AtMost(1.25), ratio),
        ];
        report.targets(&what, within);
    }
}

/// The time for which the costs of renewals and health checks are measured: more than one period of
/// each.
const WATCH: Duration = Duration::from_secs(20);

/// The time for which the server's costs without clients are measured.
const IDLE: Duration = Duration::from_secs(10);

const POINTS_NOTE: &str = "Bytes are the growth of the server's `used_memory` and of the resident memory of the clients. Waiters wait for fair locks, 100 for each, \
    so that each has an entry in the server's queue. Cores are those that 10,000 units take while nobody acquires or releases anything, without those of a server that has no clients.";
