//! W1, W2, W10, W11 and W13: no contention, or little.

use std::process::Command;

use super::{Outcome, contenders, label, owns};
use crate::{
    cli::Plan,
    contender::{ACQUIRE, EVERY_KIND, Failure, KNOWN, RAW, RELEASE, SCRIPTS},
    job::Names,
    report::{
        Bound::{AtLeast, AtMost},
        Report, Sample, Series,
    },
    rig::Rig,
    rounds::unique,
};

pub(super) async fn one_task(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    measure(report, plan, rig, &[1]).await?;
    let rate = report.ratio(&label(1), "redlatch", RAW, "pairs/s");
    report.target("pairs/s, of the raw pair's", AtLeast(0.88), rate);
    Ok(())
}

pub(super) async fn many_tasks(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    measure(report, plan, rig, &[64, 512]).await?;
    for (tasks, of_raw) in [(64, AtMost(1.3)), (512, AtMost(1.4))] {
        let of_pair = "server CPU per pair, of the raw pair's";
        let of_client = "client CPU per pair, µs";
        let of_rslock = "pairs/s, of rslock's";
        let wanted = [
            (of_pair, "server µs", Some(RAW), of_raw),
            (of_client, "client µs", None, AtMost(9.0)),
            (of_rslock, "pairs/s", Some("rslock"), AtLeast(1.0)),
            ("commands per pair", "commands", None, AtMost(2.01)),
        ];
        report.want(&label(tasks), "redlatch", &wanted);
    }
    Ok(())
}

/// Measures uncontended pairs of every kind, beside the raw pair.
pub(super) async fn every_kind(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    let names = std::iter::once(RAW).chain(EVERY_KIND);
    let case = plan.case(label(64), Names::Own, 64);
    report
        .compare(&mut owns(names, rig, 1).await?, &case)
        .await?;
    for name in EVERY_KIND.into_iter().skip(1) {
        let server = report.ratio(&case.label, name, RAW, "server µs");
        let what = format!("{name}: server CPU per pair, of the raw pair's");
        report.target(what, AtMost(2.0), server);
    }
    Ok(())
}

/// Measures a load of which one name in ten is contended.
pub(super) async fn mixed(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    let mut contenders = owns(["redlatch", "rslock", "polling"], rig, 1).await?;
    let case = plan.case("512 tasks, 200 names", Names::Mixed, 512);
    report.compare(&mut contenders, &case).await
}

/// Measures one task that makes a pair now and then, with 0 to 512 busy tasks beside it. All have
/// names of their own.
pub(super) async fn beside(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    let mut contenders = owns([RAW, "redlatch", "rslock"], rig, 1).await?;
    for busy in [0, 3, 64, 512] {
        let case = plan.case(format!("beside {busy}"), Names::Beside, busy + 1);
        report.compare(&mut contenders, &case).await?;
    }
    report.note(
        "p50 and p99 are of the task that rests for 1 ms before each pair; the other figures are of \
         all tasks.",
    );
    Ok(())
}

/// Measures pairs of acquisition and release with these numbers of tasks.
async fn measure(report: &mut Report, plan: &Plan, rig: &Rig, sizes: &[usize]) -> Outcome {
    let names = KNOWN.into_iter().chain([SCRIPTS]);
    let mut contenders = contenders(plan, rig, names, 1).await?;
    for &tasks in sizes {
        let case = plan.case(label(tasks), Names::Own, tasks);
        report.compare(&mut contenders, &case).await?;
        let limit = redis_benchmark(rig, &case.label, tasks, case.rounds)?;
        report.series.extend(limit);
    }
    Ok(())
}

/// Runs the raw pair's scripts through `redis-benchmark`: one connection with this number of
/// requests in flight. `None` if it is not installed.
///
/// It cannot alternate two scripts. The first runs on a name that the caller holds, and the second
/// on a free name, so its path is the shorter one: the rate is an upper bound.
fn redis_benchmark(
    rig: &Rig,
    case: &str,
    in_flight: usize,
    rounds: usize,
) -> Result<Option<Series>, Failure> {
    let mut series = Series::new(case, "redis-benchmark");
    let key = unique();
    let requests = if in_flight == 1 { 10_000 } else { 50_000 };
    for _ in 0..rounds {
        let mut seconds = 0.0;
        for script in [ACQUIRE, RELEASE] {
            let ran = Command::new("redis-benchmark")
                .args(["-p", &rig.port().to_string(), "-c", "1", "--csv"])
                .args(["-P", &in_flight.to_string(), "-n", &requests.to_string()])
                .args(["EVALSHA", &rig.load(script), "1", &key])
                .args(["0123456789abcdef", "30000"])
                .output();
            let Ok(output) = ran else {
                return Ok(None);
            };
            let text = String::from_utf8_lossy(&output.stdout);
            let rate = text.lines().next_back().and_then(rate);
            seconds += 1.0 / rate.ok_or_else(|| format!("redis-benchmark says {text:?}"))?;
        }
        series
            .samples
            .push(Sample::from([("pairs/s", 1.0 / seconds)]));
    }
    Ok(Some(series))
}

/// Reads `"<test>","<requests per second>",…`.
fn rate(line: &str) -> Option<f64> {
    line.split(',').nth(1)?.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let line = "\"EVALSHA abc 1 key owner 30000\",\"12345.68\",\"0.1\",\"0.1\"";
        assert_eq!(rate(line), Some(12_345.68));
        assert_eq!(rate("nothing"), None);
    }
}
