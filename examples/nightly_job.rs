//! One job, several hosts that want to run it: one does, the others see who, and go home.
//!
//! A lock says who works *now*. That the work has been done is for the work's own records to say:
//! the host that comes late gets the lock, finds the report, and goes home too. In the second night
//! the job is called off while it runs.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use redlatch::Client;
use redlatch_examples::{Result, Server, run};
use tokio::{task::JoinSet, time::sleep};

const STEPS: u32 = 8;
const STEP: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() -> ExitCode {
    run(nights()).await
}

async fn nights() -> Result {
    let server = Server::from_env_or_start().await?;

    println!("First night: three hosts come at midnight, a fourth three seconds later.");
    let night = Night::new(1);
    let mut hosts = JoinSet::new();
    for (host, late) in [("ada", 0), ("bob", 0), ("cyd", 0), ("dee", 3)] {
        let (night, url) = (night.clone(), server.url().to_owned());
        hosts.spawn(async move {
            sleep(Duration::from_secs(late)).await;
            shift(host, &url, &night).await
        });
    }
    while let Some(host) = hosts.join_next().await {
        host??;
    }

    println!("\nSecond night: the operator calls the job off while it runs.");
    let night = Night::new(2);
    let operator = Client::connect(server.url()).await?;
    let calls_off = async {
        sleep(STEP * 3).await;
        // Forbids the hold's renewal and leaves it the rest of its lease, so that nobody can start
        // before the host has been told. `force_release()` alone frees the name at once, while the
        // host is still at work.
        let lock = operator.lock(night.lock_name());
        lock.force_release().after_lease().await?;
        night.say("the operator", "calls it off");
        Ok(())
    };
    tokio::try_join!(shift("ada", server.url(), &night), calls_off)?;
    Ok(())
}

/// What a host does at night.
async fn shift(host: &str, url: &str, night: &Night) -> Result {
    // The application's name shows in `holders()`, beside the host's name and the process id.
    let client = Client::builder(url).application(host).connect().await?;
    let lock = client.lock(night.lock_name());

    // The lease is renewed while the guard lives, and short: if this host dies, another can start 2
    // s later.
    let lease = Duration::from_secs(2);
    let Some(guard) = lock.try_lock().renewed_lease(lease).await? else {
        for holder in lock.holders().await? {
            let age = holder.info.age.as_millis();
            match holder.metadata {
                Some(who) => night.say(host, &format!("goes home: {who} has it since {age} ms")),
                None => night.say(host, "goes home: somebody has it"),
            }
        }
        return Ok(());
    };
    if night.report.load(Ordering::Relaxed) {
        night.say(host, "goes home: it got the lock, and found the report");
        return Ok(());
    }

    night.say(host, &format!("runs the job, token {}", guard.token()));
    match guard.run(job(host, night)).await {
        Ok(()) => night.say(host, "has written the report"),
        // Nothing in the job looks for the loss: it was dropped where it waited.
        Err(error) => night.say(host, &format!("has stopped: {error}")),
    }
    let released = guard.release().await?;
    night.say(host, &format!("gives the lock back: {released:?}"));
    Ok(())
}

async fn job(host: &str, night: &Night) {
    for step in 1..=STEPS {
        sleep(STEP).await;
        night.say(host, &format!("has done step {step} of {STEPS}"));
    }
    night.report.store(true, Ordering::Relaxed);
}

/// A night and its records, which stand for a database.
#[derive(Clone)]
struct Night {
    number: u32,
    midnight: Instant,
    report: Arc<AtomicBool>,
}

impl Night {
    fn new(number: u32) -> Self {
        Self {
            number,
            midnight: Instant::now(),
            report: Arc::default(),
        }
    }

    fn lock_name(&self) -> String {
        format!("example:nightly-report:{}", self.number)
    }

    fn say(&self, who: &str, what: &str) {
        println!(
            "  {:>5} ms  {who} {what}",
            self.midnight.elapsed().as_millis()
        );
    }
}
