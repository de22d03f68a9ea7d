//! A server's clock that is set while replicas serve a job.

use super::{HOUR, Log, serving, taken};
use crate::prelude::*;

/// Serves an hourly job on three replicas. The clock is set by `set` after five and a half hours.
/// Returns the slots that began before that, and in the twelve hours after it.
async fn around(catch_up: u32, set: impl FnOnce(&Backend)) -> [Vec<SystemTime>; 2] {
    let (backend, clients) = embedded::<3>().await;
    let log = Log::default();
    let tasks = clients.map(|client| {
        let job = client.once("x").every(HOUR).catch_up(catch_up);
        serving(job, &log, Duration::ZERO)
    });
    backend.pass(HOUR * 11 / 2).await;
    let before = taken(&log);
    set(&backend);
    backend.pass(12 * HOUR).await;
    for task in tasks {
        task.abort();
    }
    [before, taken(&log)]
}

/// Returns the hours between each slot and the next.
fn gaps(slots: &[SystemTime]) -> Vec<u64> {
    let gap = |two: &[SystemTime]| two[1].duration_since(two[0]).unwrap().as_secs() / 3600;
    slots.windows(2).map(gap).collect()
}

#[tokio::test(start_paused = true)]
async fn clock_set_back_repeats_no_slot() {
    for catch_up in [0, 64] {
        let back = |backend: &Backend| backend.embedded_server().set_back(3 * HOUR);
        let [before, after] = around(catch_up, back).await;
        // Nothing runs until the clock shows again what it has shown.
        assert!((8..=9).contains(&after.len()), "{after:?}");
        let all = [before, after].concat();
        assert!(gaps(&all).iter().all(|&gap| gap == 1), "{all:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn clock_set_forward_skips_slots_unless_they_are_caught_up_on() {
    // The gaps that are longer than an hour.
    for (catch_up, expected) in [(0, vec![11]), (3, vec![8]), (64, vec![])] {
        let forward = |backend: &Backend| backend.embedded_server().advance(10 * HOUR);
        let [before, after] = around(catch_up, forward).await;
        let all = [before, after].concat();
        let mut longer = gaps(&all);
        longer.retain(|&gap| gap != 1);
        // The step may come just before a slot or just after one.
        assert_eq!(longer.len(), expected.len(), "{catch_up}: {longer:?}");
        for (gap, wanted) in longer.iter().zip(expected) {
            assert!(gap.abs_diff(wanted) <= 1, "{catch_up}: {longer:?}");
        }
    }
}
