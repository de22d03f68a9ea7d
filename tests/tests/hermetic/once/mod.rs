//! Jobs that run once per slot.

mod cancel;
mod clock;
mod crash;
#[cfg(feature = "cron")]
mod cron;
mod loss;
mod serve;

use crate::prelude::*;

const HOUR: Duration = Duration::from_secs(3600);

/// The slots that ran, in their order.
type Log = Arc<Mutex<Vec<SystemTime>>>;

/// Serves `job` in a task, with work that takes so long.
fn serving(job: Job, log: &Log, takes: Duration) -> JoinHandle<ErrorKind> {
    let log = Arc::clone(log);
    tokio::spawn(async move {
        let work = async move |run: &JobRun| {
            log.lock().unwrap().push(run.slot().instant().unwrap());
            sleep(takes).await;
            Ok::<_, String>(())
        };
        match job.serve(work).await {
            Ok(never) => match never {},
            Err(error) => error.kind(),
        }
    })
}

fn taken(log: &Log) -> Vec<SystemTime> {
    std::mem::take(&mut log.lock().unwrap())
}
