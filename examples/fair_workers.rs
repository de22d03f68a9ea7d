//! Worker processes drain one list of jobs in order, and one of them is killed on the way.
//!
//! The jobs stand in a file, and must be done in the order in which they stand there, one at a
//! time. Each worker takes the fair lock, does the next job that is not done, and queues again: so
//! the workers take turns. One is killed with a job half done; its lease ends, the next in the
//! queue sees from `is_after_abandonment()` that this happened, and does the job again.

use std::{
    env,
    fs::{self, OpenOptions},
    io::Write,
    path::Path,
    process::ExitCode,
    time::Duration,
};

use redlatch::Client;
use redlatch_examples::{Result, Scratch, Server, micros, role, run};
use tokio::{process::Child, time::sleep};

const WORKERS: usize = 4;
const JOBS: usize = 24;
const LEASE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match &args[..] {
        [role, url, folder, name] if role == "worker" => {
            run(worker(url, Path::new(folder), name)).await
        }
        _ => run(boss()).await,
    }
}

/// A worker process: takes its turn until nothing is left to do.
async fn worker(url: &str, folder: &Path, name: &str) -> Result {
    let client = Client::connect(url).await?;
    let lock = client.fair_lock("example:jobs").class("example");
    loop {
        let guard = lock.lock().renewed_lease(LEASE).await?;
        let done = fs::read_to_string(folder.join("done"))?.lines().count();
        let jobs = fs::read_to_string(folder.join("jobs"))?;
        let Some(job) = jobs.lines().nth(done) else {
            guard.release().await?;
            client.close(LEASE).await;
            return Ok(());
        };
        fs::write(folder.join("current"), format!("{name} {job}"))?;
        let began = micros() / 1000;
        guard.run(sleep(Duration::from_millis(40))).await?;
        let again = if guard.is_after_abandonment() {
            "again"
        } else {
            ""
        };
        let mut file = OpenOptions::new().append(true).open(folder.join("done"))?;
        let ended = micros() / 1000;
        file.write_all(format!("{job} {name} {began} {ended} {again}\n").as_bytes())?;
        guard.release().await?;
    }
}

/// The first process: writes the list, starts the workers, kills one, and looks at what was done.
async fn boss() -> Result {
    let server = Server::from_env_or_start().await?;
    let scratch = Scratch::new()?;
    let folder = scratch.path().to_owned();
    let jobs: Vec<_> = (1..=JOBS).map(|n| format!("job-{n:02}\n")).collect();
    fs::write(folder.join("jobs"), jobs.concat())?;
    fs::write(folder.join("done"), "")?;
    fs::write(folder.join("current"), "")?;
    println!(
        "{WORKERS} processes do {JOBS} jobs of 40 ms in order, in turn. `bob` is killed half-way.\n"
    );
    let mut workers = Vec::new();
    for name in ["ada", "bob", "cyd", "dee"] {
        let mut worker = role("worker")?;
        worker.arg(server.url()).arg(&folder).arg(name);
        workers.push((name, worker.spawn()?));
    }
    kill_at_work(&mut workers[1].1, "bob", &folder).await?;
    for (name, child) in &mut workers {
        let status = child.wait().await?;
        if *name != "bob" && !status.success() {
            return Err(format!("{name} failed").into());
        }
    }
    report(&fs::read_to_string(folder.join("done"))?)
}

/// Waits until half is done and this worker is at work, and kills it.
async fn kill_at_work(child: &mut Child, name: &str, folder: &Path) -> Result {
    loop {
        let done = fs::read_to_string(folder.join("done"))?;
        let current = fs::read_to_string(folder.join("current"))?;
        let (who, job) = current.split_once(' ').unwrap_or_default();
        let ends = done
            .lines()
            .last()
            .is_some_and(|line| line.starts_with(job));
        if done.lines().count() >= JOBS / 3 && who == name && !ends {
            child.kill().await?;
            return Ok(());
        }
        sleep(Duration::from_millis(5)).await;
    }
}

fn report(done: &str) -> Result {
    let mut last = None;
    let mut longest = 0;
    for (n, line) in done.lines().enumerate() {
        let words: Vec<_> = line.split(' ').collect();
        let &[job, name, began, ended, again] = &words[..] else {
            return Err(format!("a worker wrote {line:?}").into());
        };
        if job != format!("job-{:02}", n + 1) {
            return Err(format!("{job} was done as number {}", n + 1).into());
        }
        let (began, ended): (u64, u64) = (began.parse()?, ended.parse()?);
        let gap = began.saturating_sub(last.unwrap_or(began));
        longest = longest.max(gap);
        let note = match again {
            "again" => "   ← begun by the one before, who died",
            _ => "",
        };
        println!("  {job}  {name}  after a gap of {gap:>4} ms{note}");
        last = Some(ended);
    }
    let count = done.lines().count();
    if count != JOBS {
        return Err(format!("{count} of {JOBS} jobs were done").into());
    }
    println!(
        "\nAll {JOBS} jobs were done once, in order. The longest gap, {longest} ms, is what the death cost: the rest of a lease of {} ms, then",
        LEASE.as_millis()
    );
    println!("nothing for the place of the dead one in the queue, since it held and did not wait.");
    Ok(())
}
