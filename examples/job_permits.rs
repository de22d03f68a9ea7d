//! A permit travels with a job: one process takes it and queues the job, another extends it, does
//! the work, and gives it back.
//!
//! There may be three jobs at a time between their being queued and their being done, whatever
//! processes are involved. The queue is a folder, a job a file of JSON with the permit's id in it.
//! One worker dies with a job in its hands; its permit comes back when its lease ends.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use redlatch::{Client, PermitId};
use redlatch_examples::{Result, Scratch, Server, role, run};
use serde_json::{Value, json};
use tokio::time::sleep;

const AT_A_TIME: u32 = 3;
const JOBS: u32 = 10;

/// How long a job may lie in the queue.
const QUEUED: Duration = Duration::from_secs(2);

/// How long the work on it may take.
const WORK: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match &args[..] {
        [role, url, queue, name] if role == "worker" => {
            run(worker(url, Path::new(queue), name)).await
        }
        _ => run(dispatch()).await,
    }
}

/// A worker process: takes jobs from the queue until it is told to go.
async fn worker(url: &str, queue: &Path, name: &str) -> Result {
    let client = Client::connect(url).await?;
    let slots = client.permit_expirable_semaphore("example:jobs");
    while !queue.join("closed").exists() {
        let Some(job) = take(queue, name)? else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        let permit: PermitId = serde_json::from_value(job["permit"].clone())?;
        let left = slots.remaining(&permit).await?;
        if let Err(error) = slots.extend(&permit, WORK).await {
            // It lay in the queue for too long: its place has been given to another job.
            println!("  {name} leaves job {} alone: {error}", job["number"]);
            continue;
        }
        if name == "bob" {
            let number = &job["number"];
            println!("  {name} dies with job {number} in its hands, and the permit {permit}");
            std::process::exit(1);
        }
        sleep(Duration::from_millis(150)).await;
        let released = slots.release(&permit).await?;
        println!(
            "  {name} has done job {}; the permit had {:.1} s left, and {released}",
            job["number"],
            left.unwrap_or_default().as_secs_f64()
        );
    }
    client.close(Duration::from_secs(1)).await;
    Ok(())
}

/// Takes a job out of the queue; a rename has one winner.
fn take(queue: &Path, name: &str) -> Result<Option<Value>> {
    for entry in fs::read_dir(queue)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "job") {
            let mine = path.with_extension(name);
            if fs::rename(&path, &mine).is_ok() {
                return Ok(Some(serde_json::from_slice(&fs::read(mine)?)?));
            }
        }
    }
    Ok(None)
}

/// The first process: takes a permit for each job and queues it.
async fn dispatch() -> Result {
    let server = Server::from_env_or_start().await?;
    let scratch = Scratch::new()?;
    let queue = scratch.path();
    let client = Client::connect(server.url()).await?;
    let slots = client.permit_expirable_semaphore("example:jobs");
    slots.set_permits(AT_A_TIME).await?;
    let mut workers = Vec::new();
    for name in ["ada", "bob", "cyd"] {
        let mut worker = role("worker")?;
        worker.arg(server.url()).arg(queue).arg(name);
        workers.push(worker.spawn()?);
    }

    println!("{JOBS} jobs, {AT_A_TIME} of them at a time between queue and done.");
    let (started, mut most) = (Instant::now(), 0);
    for number in 1..=JOBS {
        // Waits while there are three, wherever they are.
        let permit = slots.acquire().lease(QUEUED).await?;
        most = most.max(slots.totals().await?.acquired);
        let job = json!({ "number": number, "permit": permit });
        let file = queue.join(format!("{number:03}"));
        fs::write(&file, job.to_string())?;
        fs::rename(&file, file.with_extension("job"))?;
    }
    let all = AT_A_TIME;
    while slots.available_permits().await? < all {
        sleep(Duration::from_millis(50)).await;
    }
    fs::write(queue.join("closed"), "")?;
    let mut dead = 0;
    for mut worker in workers {
        dead += u32::from(!worker.wait().await?.success());
    }
    println!(
        "Done in {:.1} s with at most {most} at a time; {dead} worker died, and all {all} permits are back.",
        started.elapsed().as_secs_f64()
    );
    let left: Vec<PathBuf> = fs::read_dir(queue)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "job"))
        .collect();
    if most > AT_A_TIME || !left.is_empty() {
        return Err(format!("{most} at a time, {} left in the queue", left.len()).into());
    }
    slots.delete().await?;
    client.close(Duration::from_secs(1)).await;
    Ok(())
}
