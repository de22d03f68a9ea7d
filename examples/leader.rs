//! Three processes of which one leads: a rolling restart, then a leader that is cut off from the
//! server. The timeline is printed and checked: never two at work, and tokens rise.
//!
//! Each candidate reaches the server through a relay of its own, which the first process can cut.
//! A candidate that is told to end closes its client. That ends its term in order: the work is
//! told, finishes, and the name is given back at once. The candidate that is cut off ends its work
//! by its own clock, before the server gives the name to another.

use std::{
    env,
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    pin::pin,
    process::{ExitCode, Stdio},
    time::Duration,
};

use redlatch::{Client, ErrorKind, Term};
use redlatch_examples::{Result, Scratch, Server, micros, role, run};
use tokio::{
    io::{AsyncReadExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    process::Child,
    select,
    sync::watch,
    time::sleep,
};

const NAMES: [&str; 3] = ["ada", "bob", "cyd"];
const LEASE: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match &args[..] {
        [role, url, folder, name] if role == "candidate" => {
            run(candidate(url, Path::new(folder), name)).await
        }
        _ => run(boss()).await,
    }
}

/// A candidate: leads whenever it can, until its standard input ends.
async fn candidate(url: &str, folder: &Path, name: &str) -> Result {
    let builder = Client::builder(url).application(name);
    let client = builder.patience(LEASE).connect().await?;
    let election = client.election("example:scheduler");
    let election = election.lease(LEASE).grace(GRACE).value(name);
    let campaigns = async {
        // A term whose end is near ends the work. Then this candidate campaigns again, until the
        // client closes.
        let lead = election.lead(async |term: &Term| work(term, folder, name).await);
        match lead.await {
            Ok(()) if client.is_closed() => {}
            Err(error) if error.kind() == ErrorKind::Closed => {}
            ended => note(folder, name, 0, &format!("campaigns no more: {ended:?}")),
        }
    };
    let told_to_end = async {
        let mut rest = Vec::new();
        // The end of the input, or of the process that had it.
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
        client.close(LEASE).await;
    };
    tokio::join!(campaigns, told_to_end);
    Ok(())
}

/// The work of a leader: a step every 20 ms, and an orderly end.
async fn work(term: &Term, folder: &Path, name: &str) {
    let token = term.token().as_u64();
    note(folder, name, token, "leads");
    let mut ending = pin!(term.ending());
    loop {
        select! {
            () = &mut ending => break,
            () = sleep(Duration::from_millis(20)) => note(folder, name, token, "works"),
        }
    }
    note(folder, name, token, "is told that the end is near");
    sleep(Duration::from_millis(50)).await;
    note(folder, name, token, "has finished");
}

/// The first process: starts the candidates, restarts each, cuts the leader off, and looks at the
/// timeline.
async fn boss() -> Result {
    let server = Server::from_env_or_start().await?;
    let scratch = Scratch::new()?;
    let folder = scratch.path().to_owned();
    fs::write(folder.join("timeline"), "")?;
    let observer = Client::connect(server.url()).await?;
    let scheduler = observer.election("example:scheduler");

    let mut candidates = Vec::new();
    for name in NAMES {
        candidates.push(Candidate::start(server.url(), &folder, name).await?);
    }
    wait_for_leader(&scheduler, |_| true).await?;

    println!("A rolling restart: each process ends and starts again.");
    for (at, name) in NAMES.into_iter().enumerate() {
        candidates[at].end().await?;
        wait_for_leader(&scheduler, |leader| leader != name).await?;
        candidates[at] = Candidate::start(server.url(), &folder, name).await?;
        sleep(Duration::from_millis(200)).await;
    }

    let leader = wait_for_leader(&scheduler, |_| true).await?;
    println!("Then {leader}, who leads, is cut off from the server for 5 s.");
    note(&folder, &leader, 0, "is cut off");
    let cut_off = NAMES.iter().position(|&name| name == leader);
    let cut_off = &candidates[cut_off.ok_or("an unknown candidate leads")?];
    cut_off.cut.send_replace(true);
    let next = wait_for_leader(&scheduler, |name| name != leader).await?;
    println!("{next} follows.\n");
    sleep(Duration::from_secs(3)).await;
    cut_off.cut.send_replace(false);
    note(&folder, &leader, 0, "is back");
    sleep(Duration::from_millis(500)).await;
    for candidate in &mut candidates {
        candidate.end().await?;
    }
    show(&fs::read_to_string(folder.join("timeline"))?)
}

/// A candidate's process, and the relay through which it reaches the server.
struct Candidate {
    child: Child,
    /// True while nothing passes the relay.
    cut: watch::Sender<bool>,
}

impl Candidate {
    async fn start(server: &str, folder: &Path, name: &str) -> Result<Self> {
        let address = server.trim_start_matches("redis://").to_owned();
        let relay = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("redis://{}", relay.local_addr()?);
        let cut = watch::Sender::new(false);
        tokio::spawn(forward(relay, address, cut.subscribe()));
        let mut candidate = role("candidate")?;
        candidate.arg(url).arg(folder).arg(name);
        let child = candidate.stdin(Stdio::piped()).spawn()?;
        Ok(Self { child, cut })
    }

    /// Tells the process to end, and waits for it.
    async fn end(&mut self) -> Result {
        drop(self.child.stdin.take());
        let status = self.child.wait().await?;
        if status.success() {
            return Ok(());
        }
        Err(format!("a candidate failed: {status}").into())
    }
}

/// Passes connections on, except while it is cut.
async fn forward(relay: TcpListener, server: String, cut: watch::Receiver<bool>) {
    while let Ok((mut here, _)) = relay.accept().await {
        let (server, mut cut) = (server.clone(), cut.clone());
        tokio::spawn(async move {
            becomes(&mut cut, false).await;
            let Ok(mut there) = TcpStream::connect(server).await else {
                return;
            };
            select! {
                _ = copy_bidirectional(&mut here, &mut there) => {}
                // Silence, not an end: the candidate has to notice by its clock.
                () = becomes(&mut cut, true) => {}
            }
            becomes(&mut cut, false).await;
        });
    }
}

/// Waits until the relay is cut or not.
async fn becomes(cut: &mut watch::Receiver<bool>, wanted: bool) {
    // The sender lives as long as the candidate.
    let _ = cut.wait_for(|&cut| cut == wanted).await;
}

/// Waits until a leader is seen that `fits`, and returns its name.
async fn wait_for_leader(
    scheduler: &redlatch::Election,
    fits: impl Fn(&str) -> bool,
) -> Result<String> {
    let mut observer = scheduler.observe();
    while let Some(leader) = observer.next().await {
        match leader?.and_then(|leader| leader.value) {
            Some(name) if fits(&name) => return Ok(name),
            _ => {}
        }
    }
    Err("the observer has ended".into())
}

/// Adds a line to the timeline: time, name, token, what.
fn note(folder: &Path, name: &str, token: u64, what: &str) {
    let now = micros() / 1000;
    let path: PathBuf = folder.join("timeline");
    let file = OpenOptions::new().append(true).open(path);
    let line = format!("{now} {name} {token} {what}\n");
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        eprintln!("the timeline cannot be written: {error}");
    }
}

/// Prints the timeline, without the steps of the work, and checks it.
fn show(timeline: &str) -> Result {
    let begin: u64 = timeline.split(' ').next().unwrap_or("0").parse()?;
    let (mut latest, mut terms, mut steps) = (0, 0, 0);
    for line in timeline.lines() {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().ok_or("a line is torn");
        let (at, name, token, what) = (word()?, word()?, word()?, word()?);
        let (at, token): (u64, u64) = (at.parse()?, token.parse()?);
        if token != 0 && token < latest {
            return Err(format!("{name} is at work after the next term began: {line}").into());
        }
        if what == "leads" {
            if token <= latest {
                return Err(format!("tokens do not rise: {line}").into());
            }
            (latest, terms) = (token, terms + 1);
        }
        if what == "works" {
            steps += 1;
        } else {
            println!("  {:>6} ms  {name} {what}", at.saturating_sub(begin));
        }
    }
    println!("\n{terms} terms, {steps} steps, never two at work.");
    if terms < 3 {
        return Err("there were fewer terms than restarts".into());
    }
    Ok(())
}
