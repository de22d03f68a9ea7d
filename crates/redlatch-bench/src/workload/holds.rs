//! W6 and W12: one process that holds many names, which its watchdog renews, and the cost of a
//! client, a hold and a waiter, small and large.

use std::time::Duration;

use redlatch_tests::server::ServerBinary;
use tokio::time::{Instant, sleep};

use super::{Outcome, worker};
use crate::{
    cli::Plan,
    contender::Failure,
    hold::Watched,
    report::{
        Bound::{AtLeast, AtMost},
        Report, Sample, Series,
    },
    rig::Rig,
    rounds::unique,
    stats::grouped,
    worker::Ask,
};

/// What processes keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    unit: &'static str,
    processes: usize,
    /// The number of units for each process.
    each: usize,
    lease: Duration,
}

impl Load {
    /// Returns so many units with the default lease.
    const fn of(unit: &'static str, processes: usize, each: usize) -> Self {
        Self {
            unit,
            processes,
            each,
            lease: LEASE,
        }
    }

    fn label(self) -> String {
        let units = grouped(&(self.processes * self.each).to_string());
        let label = format!("{units} {}", self.unit);
        if self.lease == LEASE {
            return label;
        }
        format!("{label} of {} s", self.lease.as_secs())
    }

    fn ask(self) -> Ask {
        let (n, lease, key) = (self.each, self.lease, unique());
        match self.unit {
            CLIENTS => Ask::Connect { n },
            HOLDS => Ask::Hold { n, lease, key },
            _ => Ask::Queue {
                n,
                names: n / 100,
                key,
            },
        }
    }

    /// Measures in new processes, so that their memory is that of what they keep. The cores that
    /// the server takes when `idle` do not count. Returns the results for W6 and for W12.
    async fn measure(self, rig: &Rig, idle: f64, time: Duration) -> Result<[Sample; 2], Failure> {
        let mut workers = Vec::new();
        for _ in 0..self.processes {
            workers.push(worker("redlatch", rig).await?);
        }
        let (empty, mut bytes) = (rig.size(), 0.0);
        for worker in &mut workers {
            bytes += worker.ask::<f64>(&self.ask()).await?;
        }
        let before = rig.counted();
        for worker in &mut workers {
            worker.tell(&Ask::Watch { time }).await?;
        }
        let (mut cpu, mut wall) = (Duration::ZERO, Duration::ZERO);
        let (mut least, mut lost) = (Duration::MAX, 0);
        for worker in &mut workers {
            let watched: Watched = worker.hear().await?;
            cpu += watched.cpu;
            wall = wall.max(watched.wall);
            least = least.min(watched.least);
            lost += watched.lost;
        }
        let after = rig.counted();
        // The buffers of the connections have shrunk by now.
        let full = rig.size();
        for worker in &mut workers {
            let _: u64 = worker.ask(&Ask::Part).await?;
        }
        let (units, wall) = ((self.processes * self.each) as f64, wall.as_secs_f64());
        let calls = after.calls_since(&before, "evalsha") as f64;
        let client = cpu.as_secs_f64() / wall;
        let server = (after.cpu - before.cpu).as_secs_f64() / wall - idle;
        let connections = full.connections - empty.connections;
        let of_renewals = Sample::from([
            ("renewals/s", calls / wall),
            ("client cores", client),
            ("server cores", server),
            ("bytes/hold", bytes / units),
            ("lateness ms", lateness(least, self.lease)),
            ("lost", lost as f64),
        ]);
        let of_units = Sample::from([
            ("server bytes/unit", (full.bytes - empty.bytes) / units),
            ("client bytes/unit", bytes / units),
            ("connections/unit", connections / units),
            ("server cores/10,000", server / units * 10_000.0),
            ("client cores/10,000", client / units * 10_000.0),
            ("lost", lost as f64),
        ]);
        Ok([of_renewals, of_units])
    }
}

pub(super) async fn kept(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    let many = Load::of(HOLDS, 1, 100_000);
    let short = Load {
        lease: SHORT_LEASE,
        ..FEW
    };
    for load in [FEW, many, short] {
        report.series.push(renewed(load, rig, plan).await?);
    }
    let case = many.label();
    let wanted = [
        ("cores of the client", "client cores", None, AtMost(0.1)),
        (
            "bytes per hold in the client",
            "bytes/hold",
            None,
            AtMost(600.0),
        ),
    ];
    report.want(&case, "redlatch", &wanted);
    let lateness = LEASE.as_secs_f64() * 1_000.0 / 6.0;
    for (what, measure, most) in [
        (
            "latest renewal, ms behind its time",
            "lateness ms",
            lateness,
        ),
        ("lost", "lost", 0.0),
    ] {
        let series = report.find(&case, "redlatch");
        let values = series.map(|series| series.values(measure));
        let worst = values.into_iter().flatten().fold(0.0, f64::max);
        report.target(format!("{case}: {what}"), AtMost(most), worst);
    }
    // The costs of renewals where they are frequent.
    let wanted = [
        ("cores of the client", "client cores", None, AtMost(0.007)),
        ("cores of the server", "server cores", None, AtMost(0.015)),
    ];
    report.want(&short.label(), "redlatch", &wanted);
    report.note(NOTE);
    Ok(())
}

/// Measures holds that are renewed.
pub(super) async fn renewed(load: Load, rig: &Rig, plan: &Plan) -> Result<Series, Failure> {
    // A lease of 30 s is renewed for the first time after 8 to 10 s.
    let time = Duration::from_secs(if plan.effort.long { 30 } else { 13 });
    let mut series = Series::new(&load.label(), "redlatch");
    for _ in 0..plan.effort.few {
        let [sample, _] = load.measure(rig, 0.0, time).await?;
        series.samples.push(sample);
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

/// The default lease.
const LEASE: Duration = Duration::from_secs(30);

const SHORT_LEASE: Duration = Duration::from_secs(10);

/// The smaller load of renewed holds.
pub(super) const FEW: Load = Load::of(HOLDS, 1, 10_000);

const NOTE: &str = "Each round is a process of its own, which takes its holds, and then does nothing but keep them. Bytes are the growth of its resident memory. A renewal is due \
    when 8 to 10 s of the default lease of 30 s are over; lateness is what the one who waited longest waited beyond that, seen by looks at all holds every 500 ms.";

const CLIENTS: &str = "clients";

const HOLDS: &str = "holds";

const WAITERS: &str = "waiters";

/// The loads from which the constants of the model come, and those at which it is checked.
const POINTS: [[Load; 2]; 3] = [
    [Load::of(CLIENTS, 2, 1_000), Load::of(CLIENTS, 5, 1_000)],
    [Load::of(HOLDS, 1, 20_000), Load::of(HOLDS, 2, 100_000)],
    [Load::of(WAITERS, 1, 2_000), Load::of(WAITERS, 4, 5_000)],
];

pub(super) async fn model(report: &mut Report, plan: &Plan, binary: &ServerBinary) -> Outcome {
    for points in POINTS {
        for point in points {
            let mut series = Series::new(&point.label(), "redlatch");
            for _ in 0..plan.effort.few {
                // A server that has forgotten gives its memory back late.
                let rig = Rig::roomy(binary);
                let idle = idle_cores(&rig).await;
                let [_, sample] = point.measure(&rig, idle, WATCH).await?;
                series.samples.push(sample);
            }
            report.series.push(series);
        }
        let [small, large] = points.map(Load::label);
        // A unit at the large point may cost a quarter more or less than at the small one.
        for measure in [
            "server bytes/unit",
            "client bytes/unit",
            "server cores/10,000",
            "client cores/10,000",
        ] {
            let growth = report.growth("redlatch", measure, [&small, &large]);
            let what = format!("{large}, {measure}, of {small}");
            report.target(format!("{what}: at least"), AtLeast(0.75), growth);
            report.target(format!("{what}: at most"), AtMost(1.25), growth);
        }
    }
    report.note(POINTS_NOTE);
    Ok(())
}

/// Returns the cores that the server takes without clients.
async fn idle_cores(rig: &Rig) -> f64 {
    let before = rig.counted().cpu;
    let began = Instant::now();
    sleep(IDLE).await;
    (rig.counted().cpu - before).as_secs_f64() / began.elapsed().as_secs_f64()
}

/// The time for which the costs of renewals and health checks are measured: more than one period of
/// each.
const WATCH: Duration = Duration::from_secs(20);

/// The time for which the server's costs without clients are measured.
const IDLE: Duration = Duration::from_secs(10);

const POINTS_NOTE: &str = "Bytes are the growth of the server's `used_memory` and of the resident memory of the clients. Waiters wait for fair locks, 100 for each, \
    so that each has an entry in the server's queue. Cores are those that 10,000 units take while nobody acquires or releases anything, without those of a server that has no clients.";
