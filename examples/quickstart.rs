//! Four processes keep one ledger: first under a lock, then without.
//!
//! Each update reads the last balance, thinks a little, and appends a line with the balance plus
//! one. That goes wrong as soon as two do it at the same time, and they will, unless something
//! keeps them apart across processes.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    time::Duration,
};

use redlatch::Client;
use redlatch_examples::{Result, Scratch, Server, micros, role, run};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    time::sleep,
};

const WORKERS: u64 = 4;
const UPDATES: u64 = 5;

/// The variable that tells a worker where the lock is. Without it a worker does as it pleases.
const LOCK_SERVER: &str = "LOCK_SERVER";

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match &args[..] {
        [role, ledger] if role == "worker" => run(worker(Path::new(ledger))).await,
        _ => run(quickstart()).await,
    }
}

/// A worker process: makes its updates, under the lock if it is given a server.
async fn worker(ledger: &Path) -> Result {
    let client = match env::var(LOCK_SERVER) {
        Ok(url) => Some(Client::connect(&url).await?),
        Err(_) => None,
    };
    wait_for_the_others()?;
    for _ in 0..UPDATES {
        // This is all it takes: get a guard, do the work, let the guard go.
        let guard = match &client {
            Some(client) => Some(client.lock("example:ledger").lock().await?),
            None => None,
        };
        let from = micros();
        let (before, after) = add_one(ledger).await?;
        let token = guard.as_ref().map_or(0, |guard| guard.token().as_u64());
        println!("{token} {from} {} {before} {after}", micros());
        if let Some(guard) = guard {
            guard.release().await?;
        }
    }
    if let Some(client) = client {
        client.close(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// The critical section, as innocent as they come.
async fn add_one(ledger: &Path) -> Result<(u64, u64)> {
    let before = last_balance(ledger)?;
    // Thinking: some milliseconds, not the same for everybody.
    let millis = 4 + (micros() / 7 + u64::from(std::process::id())) % 8;
    sleep(Duration::from_millis(millis)).await;
    let after = before + 1;
    let mut file = OpenOptions::new().append(true).open(ledger)?;
    file.write_all(format!("{after} by process {}\n", std::process::id()).as_bytes())?;
    Ok((before, after))
}

fn last_balance(ledger: &Path) -> Result<u64> {
    let text = fs::read_to_string(ledger)?;
    let balance = text.lines().last().and_then(|line| line.split(' ').next());
    Ok(balance.ok_or("the ledger is empty")?.parse()?)
}

/// Says that it is ready and waits for the word, so that nobody starts before all have.
fn wait_for_the_others() -> io::Result<()> {
    println!("ready");
    io::stdin().read_line(&mut String::new()).map(drop)
}

/// The first process: starts the workers and looks at what they did.
async fn quickstart() -> Result {
    let server = Server::from_env_or_start().await?;
    let scratch = Scratch::new()?;
    println!(
        "{WORKERS} processes add 1 to the balance of one ledger file, {UPDATES} times each.\n"
    );

    let expected = WORKERS * UPDATES;
    let ledger = new_ledger(&scratch, "locked")?;
    let updates = race(Some(server.url()), &ledger).await?;
    let scale = span(&updates) / 40 + 1;
    println!(
        "UNDER THE LOCK (one █ is {:.1} ms, here and below)",
        millis(scale)
    );
    print_timeline(&updates, scale);
    let balance = last_balance(&ledger)?;
    let overlaps = updates.windows(2).filter(|two| two[1].from < two[0].to);
    if balance != expected || overlaps.count() > 0 || !updates.is_sorted_by_key(|u| u.token) {
        return Err(format!("the lock did not hold: balance {balance} of {expected}").into());
    }
    println!(
        "The balance is {balance}, as it should be. No two held at a time, and tokens rise.\n\
         A plain lock goes to whichever process asks first; `fair_lock` keeps the order.\n"
    );

    println!("WITHOUT THE LOCK");
    let ledger = new_ledger(&scratch, "unlocked")?;
    print_timeline(&race(None, &ledger).await?, scale);
    let balance = last_balance(&ledger)?;
    match expected.saturating_sub(balance) {
        0 => println!("The balance is {balance}: nothing was lost this time. Luck; run it again."),
        lost => println!(
            "The balance is {balance} instead of {expected}: {lost} of {expected} updates are \
             lost, and nobody got an error."
        ),
    }
    println!(
        "\nNext: REDIS_URL=redis://localhost cargo run --example quickstart   with your own server\n      \
         docs/book/src/introduction.md                                 the book"
    );
    Ok(())
}

fn new_ledger(scratch: &Scratch, name: &str) -> io::Result<PathBuf> {
    let path = scratch.path().join(name);
    fs::write(&path, "0 opening balance\n")?;
    Ok(path)
}

/// One update as a worker reports it. Times are microseconds since 1970.
struct Update {
    pid: u32,
    token: u64,
    from: u64,
    to: u64,
    before: u64,
    after: u64,
}

/// Lets all workers run at the same time and returns what they did, in the order in which they
/// began.
async fn race(url: Option<&str>, ledger: &Path) -> Result<Vec<Update>> {
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let mut worker = role("worker")?;
        worker.arg(ledger).env_remove(LOCK_SERVER);
        worker.envs(url.map(|url| (LOCK_SERVER, url)));
        worker.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = worker.spawn()?;
        let stdout = child.stdout.take().ok_or("no output of the worker")?;
        workers.push((child, BufReader::new(stdout).lines()));
    }
    for (_, lines) in &mut workers {
        lines.next_line().await?.ok_or("a worker did not start")?;
    }
    for (child, _) in &mut workers {
        let stdin = child.stdin.as_mut().ok_or("no input of the worker")?;
        stdin.write_all(b"go\n").await?;
    }

    let mut updates = Vec::new();
    for (mut child, mut lines) in workers {
        let pid = child.id().unwrap_or_default();
        while let Some(line) = lines.next_line().await? {
            let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
            let &[token, from, to, before, after] = &numbers[..] else {
                return Err(format!("a worker says {line:?}").into());
            };
            updates.push(Update {
                pid,
                token,
                from,
                to,
                before,
                after,
            });
        }
        if !child.wait().await?.success() {
            return Err("a worker failed".into());
        }
    }
    updates.sort_by_key(|update| update.from);
    Ok(updates)
}

/// Draws the updates; each column of the bars is `scale` microseconds.
fn print_timeline(updates: &[Update], scale: u64) {
    let Some(first) = updates.first() else {
        return;
    };
    if first.token > 0 {
        println!(
            "  Times are ms since the first lock, tokens what {} grew by.",
            first.token
        );
    } else {
        println!("  Times are ms since the first update.");
    }
    println!("  process     token  from ms    to ms   balance");
    for update in updates {
        let (from, to) = (update.from - first.from, update.to - first.from);
        let token = match update.token {
            0 => "none".to_owned(),
            token => format!("+{}", token.saturating_sub(first.token)),
        };
        let (left, right) = ((from / scale) as usize, (to / scale) as usize);
        println!(
            "  {:>7}  {token:>8}  {:>7.1}  {:>7.1}  {:>2} → {:<2}  {:left$}{}",
            update.pid,
            millis(from),
            millis(to),
            update.before,
            update.after,
            "",
            "█".repeat((right - left).max(1)),
        );
    }
}

/// Returns the time from the first beginning to the last end.
fn span(updates: &[Update]) -> u64 {
    let from = updates.iter().map(|update| update.from).min();
    let to = updates.iter().map(|update| update.to).max();
    to.zip(from).map_or(0, |(to, from)| to - from)
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1000.0
}
