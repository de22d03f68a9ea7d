//! Starts the workers, suspends and kills some of them, and collects what they say.

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

use redlatch_tests::{
    child::{resume, suspend},
    server::{Server, ServerBinary, ServerOptions},
};

use crate::{history::History, libraries::Options, worker::now};

/// The lease of all holds, in ms: the shortest one that is renewed.
const LEASE: u64 = 1000;

/// The ms for which a worker plans a long hold, in which it can be caught.
const LONG: u64 = 30;

/// Stands for the end of a worker's output.
const ENDED: &str = "";

/// The shortest time after which a waiter looks without a message, in ns.
const RECHECK: u64 = 1_600_000_000;

/// The longest silence of all workers together: a lease, a dead waiter and a look, and more.
const SILENCE: Duration = Duration::from_secs(60);

/// Runs both kinds of locks on the first server of the test run.
pub(crate) fn all(options: &Options) -> Result<(), String> {
    if options.python.is_empty() {
        return Err("--python names a Python with redis-py".to_owned());
    }
    let binary = ServerBinary::all().into_iter().next();
    let binary = binary.ok_or("there is no server")?;
    for kind in ["plain", "fair"] {
        let server = Server::start(&binary, ServerOptions::default());
        let history = Run::start(options, kind, &server.url()).run(options.rounds as usize);
        report(kind, &binary, history?)?;
    }
    Ok(())
}

fn report(kind: &str, binary: &ServerBinary, mut history: History) -> Result<(), String> {
    history
        .check()
        .map_err(|error| format!("{kind}: {error}"))?;
    let (holds, lost) = (history.holds.len(), history.lost);
    println!("{kind} lock on {binary}: {holds} holds, {lost} lost and told");
    for (from, to) in [("rust", "python"), ("python", "rust")] {
        let (count, least) = history.hand_overs(from, to);
        let fastest = least / 1000;
        println!("  {from} to {to}: {count} times, the fastest in {fastest} µs");
        if count == 0 || least >= RECHECK {
            return Err(format!(
                "{kind}: {from} never handed over to {to} by a message"
            ));
        }
    }
    if lost == 0 {
        return Err(format!("{kind}: no suspended holder was told of its loss"));
    }
    Ok(())
}

/// The name of a worker, and what it says.
type Line = (String, String);

/// A worker process. A thread reads its lines.
struct Worker {
    name: String,
    child: Child,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself, which the run has noticed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Run<'a> {
    options: &'a Options,
    kind: &'a str,
    url: &'a str,
    workers: Vec<Worker>,
    started: usize,
    says: (Sender<Line>, Receiver<Line>),
    history: History,
}

impl<'a> Run<'a> {
    fn start(options: &'a Options, kind: &'a str, url: &'a str) -> Self {
        let mut run = Self {
            options,
            kind,
            url,
            workers: Vec::new(),
            started: 0,
            says: channel(),
            history: History::default(),
        };
        for language in ["rust", "python", "rust", "python"] {
            run.add(language);
        }
        run
    }

    /// Starts a worker. Python workers are synchronous and asynchronous by turns.
    fn add(&mut self, language: &str) {
        self.started += 1;
        let name = format!("{language}{}", self.started);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let lease = LEASE.to_string();
        let mut command = if language == "rust" {
            let mut command = Command::new(env::current_exe().expect("this program"));
            command.args(["worker", self.url, "shared", self.kind, &lease]);
            command
        } else {
            let mut command = Command::new(&self.options.python);
            command.arg(root.join("clients/python/tests/peer.py"));
            command.args([self.url, "shared", self.kind, &lease]);
            command.arg(if self.started.is_multiple_of(4) {
                "aio"
            } else {
                "sync"
            });
            command.env("PYTHONPATH", root.join("clients/python/src"));
            command
        };
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("a worker that starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (says, worker) = (self.says.0.clone(), name.clone());
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if says.send((worker.clone(), line)).is_err() {
                    return;
                }
            }
            // Nobody listens any more at the end of a run.
            let _ = says.send((worker, ENDED.to_owned()));
        });
        self.workers.push(Worker { name, child });
    }

    fn run(mut self, rounds: usize) -> Result<History, String> {
        // A short run has each disturbance once, for each language.
        let step = (rounds / 5).clamp(1, 100);
        let mut disturbed = 0;
        // A busy machine may suspend too late to catch a holder, so that it tries again.
        while self.history.holds.len() < rounds
            || self.history.lost == 0 && self.history.holds.len() < 20 * rounds
        {
            self.listen()?;
            let holds = self.history.holds.len();
            if holds / step > disturbed {
                disturbed = holds / step;
                self.disturb(disturbed)?;
            }
        }
        while let Some(worker) = self.workers.pop() {
            self.kill(worker)?;
        }
        Ok(self.history)
    }

    /// Takes over one line.
    fn listen(&mut self) -> Result<Line, String> {
        match self.says.1.recv_timeout(SILENCE) {
            Ok((worker, line)) if line == ENDED => Err(format!("{worker} has ended by itself")),
            Ok((worker, line)) => {
                self.history.take(&worker, &line)?;
                Ok((worker, line))
            }
            Err(RecvTimeoutError::Timeout) => Err("nobody got the lock for a minute".to_owned()),
            Err(RecvTimeoutError::Disconnected) => Err("all workers have ended".to_owned()),
        }
    }

    /// Suspends a holder for longer than its lease, or kills a holder, by turns.
    fn disturb(&mut self, number: usize) -> Result<(), String> {
        let language = if number.is_multiple_of(2) {
            "rust"
        } else {
            "python"
        };
        // The next holder of that language, caught while it holds.
        let at = loop {
            let before = self.history.holds.len();
            self.listen()?;
            let new = self.history.holds.get(before);
            let holder =
                new.filter(|hold| hold.worker.starts_with(language) && hold.planned >= LONG);
            let Some(holder) = holder.map(|hold| hold.worker.clone()) else {
                continue;
            };
            let at = self.workers.iter().position(|worker| worker.name == holder);
            break at.ok_or("a killed worker speaks")?;
        };
        if (number / 2).is_multiple_of(2) {
            suspend(&self.workers[at].child);
            thread::sleep(Duration::from_millis(LEASE + LEASE / 2));
            resume(&self.workers[at].child);
            return self.recovered(at);
        }
        let worker = self.workers.remove(at);
        self.kill(worker)?;
        self.add(language);
        Ok(())
    }

    /// Waits until a resumed worker has told what became of its hold. Before that, nobody knows
    /// until when it believed in it.
    fn recovered(&mut self, at: usize) -> Result<(), String> {
        let (name, resumed) = (self.workers[at].name.clone(), now());
        loop {
            let (worker, line) = self.listen()?;
            let mut words = line
                .split(' ')
                .skip(if line.starts_with("granted") { 2 } else { 1 });
            let time: Option<u64> = words.next().and_then(|word| word.parse().ok());
            let new = line.starts_with("lost") || time.is_some_and(|time| time > resumed);
            if worker == name && new {
                return Ok(());
            }
        }
    }

    /// Kills a worker, and takes over what it has said before.
    fn kill(&mut self, mut worker: Worker) -> Result<(), String> {
        // It may believe for a moment longer, which nobody can tell.
        let at = now();
        worker.child.kill().expect("a child can be killed");
        worker.child.wait().expect("a killed child ends");
        loop {
            match self.says.1.recv_timeout(SILENCE) {
                Ok((name, line)) if line == ENDED && name == worker.name => break,
                Ok((name, line)) if line == ENDED => {
                    return Err(format!("{name} has ended by itself"));
                }
                Ok((name, line)) => self.history.take(&name, &line)?,
                Err(_) => return Err(format!("{} does not end", worker.name)),
            }
        }
        self.history.killed(&worker.name, at);
        Ok(())
    }
}
