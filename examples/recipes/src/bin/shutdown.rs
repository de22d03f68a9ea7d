//! Subsystems of `tokio-graceful-shutdown` hold and await a lock, and the client closes after them.
//!
//! After the request, the holder finishes its step, and no waiter gets the lock any more. All
//! subsystems have ended before `close`, so `close` has nothing to wait for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use redlatch::{Client, Error, Lock};
use redlatch_recipes::Result;
use tokio::time::{Instant, sleep};
use tokio_graceful_shutdown::{FutureExt, SubsystemBuilder, SubsystemHandle, Toplevel};

/// How long one step of the work takes. A step is never cut.
const STEP: Duration = Duration::from_secs(3);

async fn worker(
    subsys: &mut SubsystemHandle,
    lock: Lock,
    steps: Arc<AtomicU32>,
) -> Result<(), Error> {
    // After the request, the future is dropped, and the client gives back what the call took.
    let waiting = lock.lock().into_future();
    let Ok(guard) = waiting.cancel_on_shutdown(subsys).await else {
        return Ok(());
    };
    let guard = guard?;
    let work = async {
        while !subsys.is_shutdown_requested() {
            sleep(STEP).await;
            steps.fetch_add(1, Relaxed);
        }
    };
    guard.run(work).await?;
    guard.release().await?;
    Ok(())
}

// With a paused clock, `sleep` returns when all tasks wait.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result {
    let client = Client::embedded().await?;
    let steps = Arc::new(AtomicU32::new(0));
    let (lock, counted) = (client.lock("report"), Arc::clone(&steps));
    let service = Toplevel::new(async move |subsys: &mut SubsystemHandle| {
        for n in 0..3 {
            let (lock, steps) = (lock.clone(), Arc::clone(&counted));
            let worker =
                async move |subsys: &mut SubsystemHandle| worker(subsys, lock, steps).await;
            subsys.start(SubsystemBuilder::new(format!("worker {n}"), worker));
        }
        // In place of SIGTERM, amid the third step.
        sleep(STEP * 5 / 2).await;
        subsys.request_shutdown();
    });
    // Longer than a step: subsystems that have not ended by then are dropped.
    let ended = service.catch_signals().handle_shutdown_requests(STEP * 2);
    ended.await?;
    assert_eq!(steps.load(Relaxed), 3, "the third step has ended");

    let guard = client.lock("report").try_lock().await?;
    guard.ok_or("the name is not free")?.release().await?;
    let closing = Instant::now();
    client.close(Duration::from_secs(5)).await;
    assert!(closing.elapsed() < Duration::from_secs(1));
    println!("One worker finished its step, and two stopped waiting.");
    Ok(())
}
