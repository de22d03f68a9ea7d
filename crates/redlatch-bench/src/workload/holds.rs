//! W6: one process holds many names, and its watchdog renews them.

use std::time::Duration;

use super::{Reported, own_worker};
use crate::{
    cli::Plan,
    contender::{External, Failure},
    hold::{Ask, Watched},
    report::{Bound, Report, Sample, Series},
    rig::Rig,
    rounds::unique,
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
        Self {
            holds,
            lease: LEASE,
        }
    }
}

pub(super) async fn kept(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    for (holds, lease) in [(10_000, LEASE), (100_000, LEASE), (10_000, SHORT_LEASE)] {
        let kept = Kept { holds, lease };
        let series = measure(rig, kept, time(plan), plan.effort.few).await?;
        report.series.push(series);
    }
    targets(&mut report, &label(Kept::of(100_000)));
    short_targets(
        &mut report,
        &label(Kept {
            holds: 10_000,
            lease: SHORT_LEASE,
        }),
    );
    report.notes.push(NOTE.to_owned());
    Ok(report)
}

/// Measures in a new process per round, so that its memory is that of these holds.
pub(super) async fn measure(
    rig: &Rig,
    kept: Kept,
    time: Duration,
    rounds: usize,
) -> Result<Series, Failure> {
    let Kept { holds, lease } = kept;
    let mut series = Series::new(&label(kept), "redlatch");
    for _ in 0..rounds {
        let words = own_worker("redlatch")?;
        let mut holder = External::start("redlatch", &words, &rig.url()).await?;
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

pub(super) fn targets(report: &mut Report, case: &str) {
    let Some(series) = report.find(case, "redlatch") else {
        return;
    };
    let worst = |measure| series.values(measure).into_iter().fold(0.0, f64::max);
    let found = [
        (
            "cores of the client",
            Bound::AtMost(0.1),
            series.median("client cores"),
        ),
        (
            "bytes per hold in the client",
            Bound::AtMost(600.0),
            series.median("bytes/hold"),
        ),
        (
            "latest renewal, ms behind its time",
            Bound::AtMost(LEASE.as_secs_f64() * 1_000.0 / 6.0),
            worst("lateness ms"),
        ),
        ("lost", Bound::AtMost(0.0), worst("lost")),
    ];
    report.targets(case, found);
}

/// The costs of renewals where they are frequent.
fn short_targets(report: &mut Report, case: &str) {
    let Some(series) = report.find(case, "redlatch") else {
        return;
    };
    let found = [
        ("cores of the client", 0.007, series.median("client cores")),
        ("cores of the server", 0.015, series.median("server cores")),
    ];
    for (what, bound, value) in found {
        report.target(format!("{case}: {what}"), Bound::AtMost(bound), value);
    }
}

pub(super) fn label(kept: Kept) -> String {
    let holds = if kept.holds < 100_000 {
        "10,000"
    } else {
        "100,000"
    };
    if kept.lease == LEASE {
        return format!("{holds} holds");
    }
    format!("{holds} holds of {} s", kept.lease.as_secs())
}

pub(super) fn time(plan: &Plan) -> Duration {
    // A lease of 30 s is renewed for the first time after 8 to 10 s.
    Duration::from_secs(if plan.effort.long { 30 } else { 13 })
}

/// The default lease.
const LEASE: Duration = Duration::from_secs(30);

const SHORT_LEASE: Duration = Duration::from_secs(10);

const NOTE: &str = "Each round is a process of its own, which takes its holds, and then does nothing but keep them. Bytes are the growth of its resident memory. A renewal is due \
    when 8 to 10 s of the default lease of 30 s are over; lateness is what the one who waited longest waited beyond that, seen by looks at all holds every 500 ms.";
