//! Clocks and counters of this machine.

use std::{fs, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// Returns ns of the monotonic clock, which all processes of the machine share.
pub(crate) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Returns the CPU time of this process, of all its threads.
pub(crate) fn own_cpu() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        used.tv_sec.unsigned_abs(),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}

/// Returns the CPU time of another process, of all its threads. Those that have ended are in the
/// process's own account, which is kept in steps of 10 ms.
pub(crate) fn cpu_of(pid: u32) -> Duration {
    account_of(pid).max(threads_of(pid))
}

/// The sum over the threads there are, to the ns; zero where the kernel does not keep it.
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
    // The program's name may have anything in it; what follows its bracket has not. User and system
    // time are the 14th and 15th field.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: u64 = after
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// Returns the bytes of this process that are in memory.
pub(crate) fn own_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<u64> = line
        .and_then(|line| line.split_whitespace().next())
        .and_then(|kib| kib.parse().ok());
    kib.unwrap_or(0) * 1024
}

/// Returns how many processes wanted to run on this machine in the last minute, on average.
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
