//! A `CancellationToken` of `tokio-util` ends both waiting and holding.
//!
//! One of three workers holds the lock, and the others wait. After `cancel`, all three have ended
//! and the name is free, long before the lease of 30 s ends.

use std::{convert::Infallible, future::pending, time::Duration};

use redlatch::{Client, Error, Lock};
use redlatch_recipes::Result;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

/// What the token has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    Holding,
    Waiting,
}

async fn worker(lock: Lock, token: CancellationToken) -> Result<Ended, Error> {
    // Cancelled, the future is dropped, and the client gives back what the call took.
    let waiting = lock.lock().into_future();
    let Some(guard) = token.run_until_cancelled(waiting).await else {
        return Ok(Ended::Waiting);
    };
    let guard = guard?;
    let holding = guard.run(pending::<Infallible>());
    if let Some(done) = token.run_until_cancelled(holding).await {
        match done? {}
    }
    guard.release().await?;
    Ok(Ended::Holding)
}

// With a paused clock, `sleep` returns when all tasks wait.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result {
    let client = Client::embedded().await?;
    let token = CancellationToken::new();
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        workers.spawn(worker(client.lock("report"), token.clone()));
    }
    sleep(Duration::from_secs(1)).await;

    let cancelled = Instant::now();
    token.cancel();
    let mut ended = Vec::new();
    while let Some(worker) = workers.join_next().await {
        ended.push(worker??);
    }
    ended.sort_unstable();
    assert_eq!(ended, [Ended::Holding, Ended::Waiting, Ended::Waiting]);

    let guard = client.lock("report").try_lock().await?;
    let guard = guard.ok_or("the name is not free")?;
    assert!(!guard.is_after_abandonment(), "the hold was released");
    assert!(cancelled.elapsed() < Duration::from_secs(1));
    println!("One worker stopped holding, and two stopped waiting.");
    Ok(())
}
