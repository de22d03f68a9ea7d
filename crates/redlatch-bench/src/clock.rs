//! Clocks and counters of the machine.

use std::{fs, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// Returns the monotonic clock in ns, which all processes of the machine share.
pub(crate) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Returns a span in ns.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the CPU time of all threads of this process.
pub(crate) fn own_cpu() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        used.tv_sec.unsigned_abs(),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}

/// Returns the CPU time of all threads of another process. The time of ended threads comes from the
/// process's own account, which has a resolution of 10 ms.
pub(crate) fn cpu_of(pid: u32) -> Duration {
    account_of(pid).max(threads_of(pid))
}

/// Returns the sum over the live threads, in ns; zero if the kernel does not report it.
fn threads_of(pid: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Duration::ZERO;
    };
    let nanos = threads.flatten().filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

fn account_of(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The program's name may contain any character, but no bracket follows that which closes it.
    // User and system time are the 14th and 15th field.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: u64 = after
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// Returns the resident memory of this process in bytes.
pub(crate) fn own_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<u64> = line
        .and_then(|line| line.split_whitespace().next())
        .and_then(|kib| kib.parse().ok());
    kib.unwrap_or(0) * 1024
}

/// Returns the machine's load average over the last minute.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_cpu_of_this_process_are_measured() {
        assert!(own_memory() > 0);
        let before = monotonic();
        let mut sum = 0_u64;
        while own_cpu() < Duration::from_millis(60) {
            sum = sum.wrapping_add(monotonic());
        }
        assert!(monotonic() > before, "{sum}");
        let account = account_of(std::process::id());
        assert!(account > Duration::ZERO);
        assert!(cpu_of(std::process::id()) >= account);
    }
}
