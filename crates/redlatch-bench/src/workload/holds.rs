//! W6: one process holds many names, and its watchdog renews them.

use std::time::Duration;

use super::{Reported, worker};
use crate::{
    cli::Plan,
    contender::Failure,
    hold::{Ask, Watched},
    report::{Bound::AtMost, Report, Sample, Series},
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
        let calls = after.calls_since(&before, &["evalsha".to_owned()]) as f64;
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
    report.targets(
        case,
        [
            ("cores of the client", AtMost(0.1), cores),
            ("bytes per hold in the client", AtMost(600.0), bytes),
            ("latest renewal, ms behind its time", AtMost(lateness), late),
            ("lost", AtMost(0.0), lost),
        ],
    );
}

/// The default lease.
const LEASE: Duration = Duration::from_secs(30);

const SHORT_LEASE: Duration = Duration::from_secs(10);

const NOTE: &str = "Each round is a process of its own, which takes its holds, and then does nothing but keep them. Bytes are the growth of its resident memory. A renewal is due \
    when 8 to 10 s of the default lease of 30 s are over; lateness is what the one who waited longest waited beyond that, seen by looks at all holds every 500 ms.";
