//! What only Redisson does.

use std::time::{Duration, Instant};

use redlatch::{HoldState, compat::Redisson};
use tokio::time::{sleep, timeout};

use super::{RECHECK, Stage, ensure};
use crate::Outcome;

/// Re-entry counts as the other side sees them.
pub(super) async fn re_entry(stage: &Stage<'_>) -> Outcome {
    let mut java = stage.peer();
    let lock = Redisson::new(&stage.client, "r");
    let count = async || {
        let info = lock.info().await?;
        Ok::<_, redlatch::Error>(info.map_or(0, |info| info.count))
    };
    for expected in 1..=3 {
        java.expect("lock r 30000 0", "held").await?;
        java.expect("count r", &expected.to_string()).await?;
        ensure(count().await? == expected, "ours counts otherwise")?;
    }
    for expected in (0..3).rev() {
        java.expect("unlock", "freed").await?;
        ensure(count().await? == expected, "ours counts otherwise")?;
    }
    let first = lock.lock().await?;
    let second = lock.lock().owner(first.owner()).await?;
    let third = lock.lock().owner(first.owner()).await?;
    let field = Redisson::owner_text(first.owner());
    for (guard, expected) in [(third, "2"), (first, "1")] {
        guard.release().await?;
        let stored = stage.server.command(&["HGET", "r", &field]).text();
        ensure(stored == expected, "the server counts otherwise")?;
        java.expect("locked r", "true").await?;
        java.expect("lock r 30000 0", "busy").await?;
    }
    second.release().await?;
    java.expect("locked r", "false").await?;
    println!("  re-entry: three counts up and down, as the other side sees them");
    Ok(())
}

/// A forced end by either is heard by the waiters of the other.
pub(super) async fn forced_ends(stage: &Stage<'_>) -> Outcome {
    let (mut java, mut other) = (stage.peer(), stage.peer());
    let lock = Redisson::new(&stage.client, "e");
    // Java holds. Ours ends it, and another Java process, which waits, is told.
    // Without the message, that process would wait for the end of the lease.
    java.expect("lock e 60000 0", "held").await?;
    other.expect("locked e", "true").await?;
    other.send("lock e 0 90000")?;
    sleep(Duration::from_millis(500)).await;
    ensure(other.said().is_none(), "it did not wait")?;
    let forced = Instant::now();
    let ended = lock.force_release().await?;
    ensure(ended, "nothing was ended")?;
    let java_told = other.says("held").await? - forced;
    ensure(
        java_told < Duration::from_secs(30),
        "Java was let in by the lease's end",
    )?;
    let late = java.ask("unlock").await?;
    ensure(late.starts_with("error IllegalMonitorState"), &late)?;
    other.expect("unlock", "freed").await?;

    // Ours holds. Java ends it, and another client of ours, which waits, is told.
    let lease = Duration::from_secs(6);
    let guard = lock.lock().renewed_lease(lease).await?;
    let client = redlatch::Client::connect(&stage.server.url()).await?;
    let waiter = Redisson::new(&client, "e");
    // Its re-check comes that long after its last request, which this precedes.
    let asked = Instant::now();
    let waiting = tokio::spawn(async move { waiter.lock().await });
    sleep(Duration::from_millis(300)).await;
    ensure(!waiting.is_finished(), "ours did not wait")?;
    let forced = java.expect("force e", "true").await?;
    let next = timeout(Duration::from_secs(30), waiting).await;
    let next = next.map_err(|_| "ours waits for ever")?;
    let next = next.expect("no panic")?;
    let ours_told = forced.elapsed();
    let told = asked.elapsed() < RECHECK;
    ensure(told, "ours may have been let in by a re-check")?;
    let lost = timeout(lease, guard.lost()).await;
    let cause = lost.map_err(|_| "the holder was not told")?;
    ensure(
        matches!(guard.state(), HoldState::Lost(_)),
        "it is not lost",
    )?;
    let holder_told = forced.elapsed();
    ensure(holder_told <= lease / 2, "the holder was told late")?;
    drop(guard);
    java.expect("lock e 5000 0", "busy").await?;
    next.release().await?;
    println!("  forced end by ours: Java let in after {java_told:?}");
    println!(
        "  forced end by Java: ours let in after {ours_told:?}; the holder told after {holder_told:?}: {cause}"
    );
    Ok(())
}
