//! W12: the cost of a client, a hold and a waiter, small and large.

use std::time::Duration;

use redlatch_tests::server::ServerBinary;
use tokio::time::{Instant, sleep};

use super::{Reported, worker};
use crate::{
    cli::Plan,
    contender::Failure,
    hold::{Ask, Watched},
    report::{Bound, Report, Sample, Series},
    rig::Rig,
    rounds::unique,
};

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
        targets(&mut report, small, large);
    }
    report.note(NOTE);
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
fn targets(report: &mut Report, small: &Point, large: &Point) {
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
            ("at least", Bound::AtLeast(0.75), ratio),
            ("at most", Bound::AtMost(1.25), ratio),
        ];
        report.targets(&what, within);
    }
}

/// The time for which the costs of renewals and health checks are measured: more than one period of
/// each.
const WATCH: Duration = Duration::from_secs(20);

/// The time for which the server's costs without clients are measured.
const IDLE: Duration = Duration::from_secs(10);

const NOTE: &str = "Bytes are the growth of the server's `used_memory` and of the resident memory of the clients. Waiters wait for fair locks, 100 for each, \
    so that each has an entry in the server's queue. Cores are those that 10,000 units take while nobody acquires or releases anything, without those of a server that has no clients.";
