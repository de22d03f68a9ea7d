//! Waits for conditions, unique names, and what differs by night.

use std::{
    env,
    panic::Location,
    process,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A limit for waits whose outcome is certain on a healthy machine. It is generous enough for a
/// loaded machine.
///
/// Only a *failing* test takes this long. A passing test never waits for it.
pub const GENEROUS: Duration = Duration::from_secs(30);

/// Polls `condition` until it holds, at most for [`GENEROUS`].
///
/// Use this instead of a sleep of a fixed time: it ends as soon as the condition holds. `what`
/// completes the sentence "gave up waiting for …".
///
/// # Panics
///
/// Panics if the condition does not hold in time.
#[track_caller]
pub fn wait_for<F>(what: &str, condition: impl FnMut() -> F) -> impl Future<Output = ()>
where
    F: Future<Output = bool>,
{
    eventually(what, GENEROUS, condition)
}

/// Polls as [`wait_for`] does, at most for `ceiling`.
///
/// # Panics
///
/// Panics if `ceiling` has passed and the condition still does not hold.
#[track_caller]
pub fn eventually<F>(
    what: &str,
    ceiling: Duration,
    mut condition: impl FnMut() -> F,
) -> impl Future<Output = ()>
where
    F: Future<Output = bool>,
{
    let caller = Location::caller();
    async move {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        while !condition().await {
            assert!(
                start.elapsed() < ceiling,
                "{caller}: gave up waiting for {what} after {ceiling:?}"
            );
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Polls as [`eventually`] does, but blocks the thread, and returns the value that `attempt` finds.
///
/// # Panics
///
/// Panics if `ceiling` has passed and `attempt` has found nothing.
#[track_caller]
pub fn eventually_blocking<T>(
    what: &str,
    ceiling: Duration,
    mut attempt: impl FnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        let waits = start.elapsed() < ceiling;
        assert!(waits, "gave up waiting for {what} after {ceiling:?}");
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Tells whether this run is one by night, with the variable `REDLATCH_NIGHT`: everything runs on
/// every server, and crowds are whole.
pub fn is_night() -> bool {
    env::var_os("REDLATCH_NIGHT").is_some()
}

/// Returns a name that no other test, and no earlier run against the same server, uses.
pub fn unique_name(stem: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since_epoch.unwrap_or_default().as_micros();
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{stem}-{:x}-{micros:x}-{n}", process::id())
}

/// Returns `night` by night, and `day` otherwise: for sizes that a quick run has no time for.
pub fn by_night<T>(day: T, night: T) -> T {
    if is_night() { night } else { day }
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "gave up waiting for a miracle")]
    async fn eventually_panics_at_its_ceiling() {
        eventually("a miracle", Duration::ZERO, || async { false }).await;
    }
}
