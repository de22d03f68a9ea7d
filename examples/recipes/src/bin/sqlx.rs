//! Moves a lock from PostgreSQL to redlatch in steps, with `PgAdvisoryLock` of `sqlx`.
//!
//! Processes of the phases *old* and *both* run at the same time, and later those of *both* and
//! *new*. The program fails if two are inside at once. The variable `REDLATCH_POSTGRES` has the
//! address of a database.

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use redlatch::Client;
use redlatch_recipes::Result;
use sqlx::{Connection, PgConnection, postgres::PgAdvisoryLock};
use tokio::{task::JoinSet, time::sleep};

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Old,
    Both,
    New,
}

/// What the lock protects.
#[derive(Debug, Default)]
struct Report {
    is_written: AtomicBool,
    writes: AtomicU32,
}

impl Report {
    async fn write(&self) -> Result {
        if self.is_written.swap(true, SeqCst) {
            return Err("two processes are inside".into());
        }
        sleep(Duration::from_millis(1)).await;
        self.is_written.store(false, SeqCst);
        self.writes.fetch_add(1, SeqCst);
        Ok(())
    }
}

async fn process(phase: Phase, address: String, client: Client, report: Arc<Report>) -> Result {
    let mut database = PgConnection::connect(&address).await?;
    let (old, new) = (PgAdvisoryLock::new("report"), client.lock("report"));
    for _ in 0..TIMES {
        // All processes take the old lock first.
        let advisory = match phase {
            Phase::Old | Phase::Both => Some(old.acquire(&mut database).await?),
            Phase::New => None,
        };
        let done = match phase {
            Phase::Old => report.write().await,
            Phase::Both | Phase::New => {
                let guard = new.lock().await?;
                let done = guard.run(report.write()).await?;
                guard.release().await?;
                done
            }
        };
        // Without a pool, a dropped guard keeps the lock until the connection is used again.
        if let Some(advisory) = advisory {
            advisory.release_now().await?;
        }
        done?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result {
    let address = env::var("REDLATCH_POSTGRES")?;
    let client = Client::embedded().await?;
    let report = Arc::new(Report::default());
    for phases in [[Phase::Old, Phase::Both], [Phase::Both, Phase::New]] {
        let mut processes = JoinSet::new();
        for phase in phases.repeat(2) {
            let (address, client) = (address.clone(), client.clone());
            processes.spawn(process(phase, address, client, Arc::clone(&report)));
        }
        while let Some(ended) = processes.join_next().await {
            ended??;
        }
        println!("{phases:?} exclude each other.");
    }
    assert_eq!(report.writes.load(SeqCst), 8 * TIMES);
    Ok(())
}

/// How often each process works.
const TIMES: u32 = 50;
