//! Five processes serve one job by a cron expression, and each slot has one effect.
//!
//! The job runs every two seconds, by the *server's* clock: `eve` believes that it is ten minutes
//! later, and that makes no difference. Two processes are killed at work. The one that runs the
//! second slot dies before its effect: another process runs the slot again when the lease ends. The
//! one that runs the fourth slot dies after its effect and before that is on record. The slot runs
//! again with a later token, and finds by the name of the slot that the effect was made.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
    process::{ExitCode, Stdio},
    time::Duration,
};

use redlatch::{
    Client,
    once::{JobRun, Slot},
};
use redlatch_examples::{Result, Scratch, Server, micros, role, run};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
    sync::mpsc,
    time::{sleep, timeout},
};

const NAMES: [&str; 5] = ["ada", "bob", "cyd", "dee", "eve"];
const SLOTS: usize = 6;
const WORK: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match &args[..] {
        [role, url, folder, name] if role == "replica" => {
            run(replica(url, Path::new(folder), name)).await
        }
        _ => run(watch()).await,
    }
}

/// A replica: serves the job, and tells what it does on its standard output.
async fn replica(url: &str, folder: &Path, name: &str) -> Result {
    let client = Client::builder(url).application(name).connect().await?;
    let job = client
        .once("example:report")
        .class("example")
        .cron("*/2 * * * * *", "Europe/Berlin")
        .retries(3)
        .retry_pause(WORK)
        .catch_up(2)
        .lease(Duration::from_secs(1));
    let ended = job
        .serve(async |run: &JobRun| -> Result {
            let (slot, attempt, token) = (run.slot(), run.attempt(), run.token());
            println!("begins {slot} {attempt} {token} {}", clock(name));
            sleep(WORK).await;
            let effect = effect(folder, slot, &format!("{name} {token}"))?;
            println!("{effect} {slot} {attempt} {token} {}", clock(name));
            sleep(WORK).await;
            println!("ends {slot} {attempt} {token} {}", clock(name));
            Ok(())
        })
        .await;
    match ended {
        Ok(never) => match never {},
        Err(error) => Err(error.into()),
    }
}

/// Makes the effect of a slot once: the slot is its key. A database would have a unique index.
fn effect(folder: &Path, slot: &Slot, text: &str) -> io::Result<&'static str> {
    let path = folder.join(slot.to_string().replace(':', "-"));
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map(|()| "effects"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok("finds"),
        Err(error) => Err(error),
    }
}

/// Returns the seconds that the clock of a process shows. That of `eve` is wrong.
fn clock(name: &str) -> u64 {
    let ahead = if name == "eve" { 600 } else { 0 };
    micros() / 1_000_000 + ahead
}

/// One line of a replica.
struct Line {
    name: &'static str,
    what: String,
    slot: String,
    attempt: u32,
    token: u64,
    clock: u64,
}

impl Line {
    fn parse(name: &'static str, text: &str) -> Option<Self> {
        let mut words = text.split(' ').map(str::to_owned);
        Some(Self {
            name,
            what: words.next()?,
            slot: words.next()?,
            attempt: words.next()?.parse().ok()?,
            token: words.next()?.parse().ok()?,
            clock: words.next()?.parse().ok()?,
        })
    }
}

/// The first process: starts the replicas, kills two of them, and looks at what has happened.
async fn watch() -> Result {
    let server = Server::from_env_or_start().await?;
    let scratch = Scratch::new()?;
    let client = Client::connect(server.url()).await?;
    client.once("example:report").reset().await?;
    println!("Five processes serve `*/2 * * * * *`. The clock of `eve` is ten minutes ahead.\n");
    let (lines, mut told) = mpsc::unbounded_channel();
    let mut replicas = BTreeMap::new();
    for name in NAMES {
        let mut child = start(server.url(), scratch.path(), name)?;
        let out = child.stdout.take().ok_or("a replica has an output")?;
        let lines = lines.clone();
        tokio::spawn(async move {
            let mut out = BufReader::new(out).lines();
            while let Ok(Some(text)) = out.next_line().await {
                // Lines of another form are errors, which the table would show as missing slots.
                if let Some(line) = Line::parse(name, &text) {
                    let _ = lines.send(line);
                }
            }
        });
        replicas.insert(name, child);
    }
    let history = follow(&mut told, &mut replicas).await?;
    for child in replicas.values_mut() {
        child.kill().await?;
    }
    report(&history, scratch.path())
}

fn start(url: &str, folder: &Path, name: &str) -> Result<Child> {
    let mut replica = role("replica")?;
    replica.arg(url).arg(folder).arg(name);
    Ok(replica.stdout(Stdio::piped()).spawn()?)
}

/// Collects what the replicas tell until enough slots have ended, and kills two of them on the way.
async fn follow(
    told: &mut mpsc::UnboundedReceiver<Line>,
    replicas: &mut BTreeMap<&'static str, Child>,
) -> Result<Vec<Line>> {
    let (mut history, mut slots) = (Vec::<Line>::new(), Vec::new());
    let mut ended = 0;
    while ended < SLOTS {
        let line = timeout(Duration::from_secs(60), told.recv()).await;
        let line = line?.ok_or("all replicas have gone")?;
        if !slots.contains(&line.slot) {
            slots.push(line.slot.clone());
        }
        ended += usize::from(line.what == "ends");
        let killed = match (slots.len(), &*line.what, line.attempt) {
            (2, "begins", 1) => "before its effect",
            (4, "effects", 1) => "after its effect",
            _ => "",
        };
        if !killed.is_empty()
            && let Some(mut child) = replicas.remove(line.name)
        {
            child.kill().await?;
            println!("`{}` is killed {killed} for slot {}.", line.name, line.slot);
        }
        history.push(line);
    }
    Ok(history)
}

/// Prints what happened to each slot, and checks it.
fn report(history: &[Line], folder: &Path) -> Result {
    println!("\n  slot                  attempt  process  its clock   what it did");
    let mut tokens = Vec::new();
    for begun in history.iter().filter(|line| line.what == "begins") {
        let did = |line: &&Line| line.token == begun.token && line.what != "begins";
        let did: Vec<_> = history.iter().filter(did).map(|line| &*line.what).collect();
        let told = match did[..] {
            ["effects", "ends"] => "made the effect, on record",
            ["finds", "ends"] => "found the effect made, on record",
            ["effects"] => "made the effect, then died",
            [] => "died",
            _ => "something else",
        };
        let Line {
            slot,
            attempt,
            name,
            clock,
            ..
        } = begun;
        println!("  {slot}  {attempt:>7}  {name:<7}  {clock}  {told}");
        tokens.push(begun.token);
    }
    let ends = history.iter().filter(|line| line.what == "ends");
    let mut ended: Vec<_> = ends.map(|line| line.slot.clone()).collect();
    let all = ended.len();
    ended.sort_unstable();
    ended.dedup();
    let effects = fs::read_dir(folder)?.count();
    let again = history.iter().filter(|line| line.what == "finds").count();
    if ended.len() != all || effects != all {
        return Err(format!(
            "{all} successes, {effects} effects of {} slots",
            ended.len()
        )
        .into());
    }
    if again != 1 || !tokens.is_sorted_by(|one, other| one < other) {
        return Err("the slot of the second process that died was not run again".into());
    }
    println!("\n{all} slots, each with one success and one effect, in spite of two deaths.");
    Ok(())
}
