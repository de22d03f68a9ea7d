//! The processes of a history, and what they have told.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use redlatch_tests::{
    child::{resume, suspend},
    server::own_clock,
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{sleep, timeout},
};

use super::{
    line::Line,
    process::{ROLE, URL},
};

/// The processes, which go with it.
pub(super) struct Crew {
    url: String,
    places: Vec<Place>,
    told: UnboundedReceiver<Line>,
    teller: UnboundedSender<Line>,
    /// All lines so far, in the order in which they were read.
    pub(super) history: Vec<Line>,
}

/// A place that one process after the other has.
struct Place {
    role: &'static str,
    /// How far the wall clock of its processes is ahead, in seconds.
    ahead: i64,
    child: Child,
}

impl Crew {
    /// Starts a process for each role, with the seconds by which its clock is ahead.
    pub(super) fn start(url: &str, roles: &[(&'static str, i64)]) -> Self {
        let (teller, told) = unbounded_channel();
        let start = |(by, &(role, ahead))| Place {
            role,
            ahead,
            child: start(url, role, ahead, by, &teller),
        };
        let places = roles.iter().enumerate().map(start).collect();
        Self {
            url: url.to_owned(),
            places,
            told,
            teller,
            history: Vec::new(),
        }
    }

    /// Waits for the next line, and keeps it.
    pub(super) async fn next(&mut self) -> Line {
        let line = timeout(PATIENCE, self.told.recv()).await;
        let line = line.unwrap_or_else(|_| panic!("nobody tells anything for {PATIENCE:?}"));
        let line = line.expect("this has a sender itself");
        assert_ne!(line.what, ENDED, "process {} has ended by itself", line.by);
        self.history.push(line.clone());
        line
    }

    /// Kills the process in a place, and starts another one.
    pub(super) fn kill(&mut self, by: usize) {
        let place = &mut self.places[by];
        end(&mut place.child);
        place.child = start(&self.url, place.role, place.ahead, by, &self.teller);
    }

    /// Suspends the process in a place for `span`.
    pub(super) async fn suspend(&self, by: usize, span: Duration) {
        suspend(&self.places[by].child);
        sleep(span).await;
        resume(&self.places[by].child);
    }

    /// Ends all processes, and returns the history.
    pub(super) fn end(mut self) -> Vec<Line> {
        for place in &mut self.places {
            end(&mut place.child);
        }
        std::mem::take(&mut self.history)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for place in &mut self.places {
            end(&mut place.child);
        }
    }
}

fn end(child: &mut Child) {
    // It fails only for a process that has ended before.
    let _ = child.kill();
    child.wait().unwrap();
}

/// Starts this test binary anew, with its wall clock shifted, and passes on what it tells.
fn start(url: &str, role: &str, ahead: i64, by: usize, teller: &UnboundedSender<Line>) -> Child {
    let test = "history::process::run_as_a_process_of_a_history";
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .env(ROLE, role)
        .env(URL, url)
        .envs(own_clock(ahead))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let teller = teller.clone();
    thread::spawn(move || {
        for text in out.lines().map_while(Result::ok) {
            let line = if text.contains("test result: FAILED") {
                Some(Line {
                    by,
                    ..Line::now(ENDED, 0, 0, 0)
                })
            } else {
                Line::parse(&text, by)
            };
            if let Some(line) = line {
                // The test may be over.
                let _ = teller.send(line);
            }
        }
    });
    child
}

const ENDED: &str = "ended";

/// How long nobody may tell anything: longer than lease, failover and a busy machine take.
const PATIENCE: Duration = Duration::from_secs(60);
