//! What every library does beside this family.

use std::time::{Duration, Instant};

use redlatch::ErrorKind;
use tokio::time::{sleep, timeout};

use super::{RECHECK, Stage, ensure};
use crate::Outcome;

const MS: Duration = Duration::from_millis(1);

/// Either holds, and the other waits and is let in.
pub(super) async fn hand_over(stage: &Stage<'_>) -> Outcome {
    let mut peer = stage.peer();
    let lock = stage.lock("a");
    for _ in 0..3 {
        peer.expect("lock a 30000 0", "held").await?;
        let (waiter, held) = (lock.clone(), lock.try_lock().await);
        ensure(matches!(held, Ok(None)), "ours got what theirs holds")?;
        // Its re-check comes that long after its last request, which this precedes.
        let asked = Instant::now();
        let waiting = tokio::spawn(async move { waiter.lock().await });
        sleep(300 * MS).await;
        ensure(!waiting.is_finished(), "ours did not wait")?;
        let freed = peer.expect("unlock", "freed").await?;
        let guard = timeout(Duration::from_secs(30), waiting).await;
        let guard = guard.map_err(|_| "ours waits for ever")?;
        let guard = guard.expect("no panic")?;
        let to_ours = freed.elapsed();
        if stage.is_redisson() {
            let told = asked.elapsed() < RECHECK;
            ensure(told, "ours may have been let in by a re-check")?;
        }

        peer.expect("lock a 30000 0", "busy").await?;
        peer.send("lock a 30000 20000")?;
        sleep(300 * MS).await;
        ensure(peer.said().is_none(), "theirs did not wait")?;
        let freed = Instant::now();
        guard.release().await?;
        // Redisson would wait for the rest of the lease of 30 s, and give up before.
        let to_theirs = peer.says("held").await? - freed;
        peer.expect("unlock", "freed").await?;
        println!("  theirs to ours in {to_ours:?}, ours to theirs in {to_theirs:?}");
    }
    Ok(())
}

/// Either renews for longer than its lease.
pub(super) async fn renewals(stage: &Stage<'_>) -> Outcome {
    let mut peer = stage.peer();
    let lock = stage.lock("b");
    let lease = Duration::from_secs(1);
    let guard = lock.lock().renewed_lease(lease).await?;
    let start = Instant::now();
    while start.elapsed() < 3 * lease {
        peer.expect("lock b 5000 0", "busy").await?;
        sleep(100 * MS).await;
    }
    guard.check()?;
    guard.release().await?;

    let free = || async { matches!(lock.try_lock().await, Ok(Some(_))) };
    if stage.is_redisson() {
        // It renews by itself what has no lease.
        peer.expect("lock b 0 0", "held").await?;
        sleep(4500 * MS).await;
    } else {
        peer.expect("lock b 1500 0", "held").await?;
        sleep(900 * MS).await;
        peer.expect("extend 1500", "extended").await?;
        sleep(900 * MS).await;
    }
    ensure(!free().await, "ours got what theirs had renewed")?;
    peer.expect("unlock", "freed").await?;
    ensure(free().await, "the name is not free")?;
    println!("  either renews for longer than its lease");
    Ok(())
}

/// Either is killed, and the other gets in when the lease ends.
pub(super) async fn deaths(stage: &Stage<'_>) -> Outcome {
    let lease = Duration::from_secs(3);
    let lock = stage.lock("c");
    let mut peer = stage.peer();
    // Redisson's renewed lease is 3 s, too.
    let given = if stage.is_redisson() { 0 } else { 3000 };
    let asked = Instant::now();
    peer.expect(&format!("lock c {given} 0"), "held").await?;
    let held = Instant::now();
    peer.kill();
    let guard = timeout(Duration::from_secs(30), lock.lock()).await;
    let guard = guard.map_err(|_| "ours waits for ever")??;
    ensure(asked.elapsed() >= lease, "ours got a name that was held")?;
    let to_ours = held.elapsed();
    ensure(to_ours < lease + RECHECK, "ours came late")?;
    guard.release().await?;

    let mut holder = stage.ours(&["hold", "c", "3000"]);
    holder.says("held").await?;
    holder.kill();
    let killed = Instant::now();
    let mut peer = stage.peer();
    peer.expect("lock c 5000 20000", "held").await?;
    let to_theirs = killed.elapsed();
    peer.expect("unlock", "freed").await?;
    println!("  after kill -9: ours in {to_ours:?}, theirs in {to_theirs:?}, lease {lease:?}");
    Ok(())
}

/// A value of another type under the name.
pub(super) async fn foreign_values(stage: &Stage<'_>) -> Outcome {
    let mut peer = stage.peer();
    let server = &stage.server;
    let redisson = stage.is_redisson();
    if redisson {
        server.command(&["SET", "f", "text"]);
    } else {
        server.command(&["HSET", "f", "field", "text"]);
    }
    let refused = stage.lock("f").lock().await.map(drop);
    let wrong = refused.is_err_and(|error| error.kind() == ErrorKind::WrongKind);
    ensure(wrong, "ours did not refuse a value of another type")?;
    let theirs = peer.ask("lock f 5000 0").await?;
    ensure(theirs != "held", "theirs took a value of another type")?;
    let value = if redisson {
        server.command(&["GET", "f"]).text()
    } else {
        server.command(&["HGET", "f", "field"]).text()
    };
    ensure(value == "text", "the value was destroyed")?;
    let theirs: String = theirs.chars().take(60).collect();
    println!("  a value of another type: ours is WrongKind, theirs says {theirs:?}");
    Ok(())
}
