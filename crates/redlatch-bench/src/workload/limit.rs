//! The limit of the server, measured by programs without other work.

use std::process::Command;

use crate::{
    contender::{ACQUIRE, Failure, RELEASE},
    report::{Sample, Series},
    rig::Rig,
    rounds::unique,
};

/// Runs the raw pair's scripts through `redis-benchmark`: one connection with this number of
/// requests in flight. `None` if it is not installed.
///
/// It cannot alternate two scripts. The first runs on a name that the caller holds, and the second
/// on a free name, so its path is the shorter one: the rate is an upper bound.
pub(super) fn redis_benchmark(
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
