//! An external program in any language as a contender. It reads requests as lines on its standard
//! input and writes replies as lines on its standard output.
//!
//! The server's URL is the last of its arguments. One space separates the words of a line.
//!
//! | from | line | meaning |
//! |---|---|---|
//! | program | `ready <verbs>` | it is connected; the commands that it sends itself, in lower case, separated by commas |
//! | benchmark | `run <names> <key> <tasks> <ms> <pairs> <hold>` | lock and unlock with this number of tasks at once, each for `<ms>` ms, or `<pairs>` times if `<ms>` is 0; `own`: each task the name `<key>:<task>`, `one` and `pool`: all the name `<key>`; `mixed`: the first 180 tasks the name `<key>:<task>`, the others one of 20 more; with `one` and `pool`, each holds it for `<hold>` µs |
//! | program | `latency <ns> …` | except with `one`, any number of lines: the times from the call of acquisitions to the return of their releases, or with `pool` of the acquisitions |
//! | program | `hold <task> <got> <left>` | with `one` and `pool`: a hold, from the return of its acquisition to the call of its release, in ns of `CLOCK_MONOTONIC` |
//! | program | `release <ns> …` | with `one` and `pool`, any number of lines, or none: the times from the call of releases to their return |
//! | program | `task <pairs>` | one line for each task: how often it locked and unlocked |
//! | program | `done <ns>` | the duration of the round; the round is over |
//! | program | `failed <why>` | the round is over; so is the whole run |
//!
//! The program ends when its standard input does. `redlatch-bench worker <contender> <url>` is such
//! a program; `examples/polling.py` is one in another language.

use std::{process::Stdio, time::Duration};

use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::{Failure, Lap};
use crate::{
    clock,
    hold::Ask,
    job::{Done, Held, Job, Names, TaskDone, Until},
};

/// A running program. Dropping this value kills it.
pub(crate) struct External {
    name: String,
    pub(super) verbs: String,
    child: Child,
    asks: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl External {
    /// Starts `words`, a program and its arguments, and waits until it is ready.
    pub(crate) async fn start(name: &str, words: &[String], url: &str) -> Result<Self, Failure> {
        let (program, arguments) = words.split_first().ok_or("no program is named")?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg(url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{program} cannot be run: {error}"))?;
        let asks = child.stdin.take().ok_or("no standard input")?;
        let answers = child.stdout.take().ok_or("no standard output")?;
        let mut external = Self {
            name: name.to_owned(),
            verbs: String::new(),
            child,
            asks,
            answers: BufReader::new(answers).lines(),
        };
        let line = external.answer().await?;
        let verbs = line.strip_prefix("ready ");
        let verbs = verbs.ok_or_else(|| format!("{name} says {line:?} and not `ready`"))?;
        verbs.clone_into(&mut external.verbs);
        Ok(external)
    }

    /// Sends a request to a worker, and returns the reply.
    pub(crate) async fn ask<T: DeserializeOwned>(&mut self, ask: &Ask) -> Result<T, Failure> {
        self.tell(ask).await?;
        self.hear().await
    }

    /// Sends a request to a worker without waiting for the reply, which [`hear`](Self::hear)
    /// returns.
    pub(crate) async fn tell(&mut self, ask: &Ask) -> Result<(), Failure> {
        self.say(&serde_json::to_string(ask)?).await
    }

    pub(crate) async fn hear<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        Ok(serde_json::from_str(&self.answer().await?)?)
    }

    /// Runs a round of a worker as a station.
    pub(crate) async fn lap(&mut self, lap: &Lap) -> Result<Done, Failure> {
        self.round(&serde_json::to_string(lap)?).await
    }

    pub(super) async fn run(&mut self, job: &Job) -> Result<Done, Failure> {
        self.round(&request(job)).await
    }

    pub(super) fn cpu(&self) -> Duration {
        self.child.id().map_or(Duration::ZERO, clock::cpu_of)
    }

    async fn round(&mut self, line: &str) -> Result<Done, Failure> {
        self.say(line).await?;
        let mut answer = Answer::default();
        loop {
            let line = self.answer().await?;
            if answer.read(&line)? {
                return Ok(answer.done);
            }
        }
    }

    async fn say(&mut self, line: &str) -> Result<(), Failure> {
        Ok(self.asks.write_all(format!("{line}\n").as_bytes()).await?)
    }

    async fn answer(&mut self) -> Result<String, Failure> {
        let line = self.answers.next_line().await?;
        let line = line.ok_or_else(|| format!("{} has ended", self.name))?;
        match line.strip_prefix("failed ") {
            Some(why) => Err(format!("{}: {why}", self.name).into()),
            None => Ok(line),
        }
    }
}

fn request(job: &Job) -> String {
    let (names, hold) = match job.names {
        Names::Own => ("own", Duration::ZERO),
        Names::One { hold } => ("one", hold),
        Names::Pool { hold } => ("pool", hold),
        Names::Mixed => ("mixed", Duration::ZERO),
        Names::Beside => ("beside", Duration::ZERO),
    };
    let (ms, pairs) = match job.until {
        Until::Time(time) => (time.as_millis(), 0),
        Until::Pairs(pairs) => (0, pairs),
    };
    let (key, tasks, hold) = (&job.key, job.tasks, hold.as_micros());
    format!("run {names} {key} {tasks} {ms} {pairs} {hold}")
}

/// Reads a line that [`request`] wrote.
pub(crate) fn read_request(line: &str) -> Option<Job> {
    let words: Vec<_> = line.strip_prefix("run ")?.split(' ').collect();
    let &[names, key, tasks, ms, pairs, hold] = words.as_slice() else {
        return None;
    };
    let hold = Duration::from_micros(hold.parse().ok()?);
    Some(Job {
        key: key.to_owned(),
        names: match names {
            "own" => Names::Own,
            "one" => Names::One { hold },
            "pool" => Names::Pool { hold },
            "mixed" => Names::Mixed,
            "beside" => Names::Beside,
            _ => return None,
        },
        tasks: tasks.parse().ok()?,
        until: match (ms.parse().ok()?, pairs.parse().ok()?) {
            (0, pairs) => Until::Pairs(pairs),
            (ms, _) => Until::Time(Duration::from_millis(ms)),
        },
    })
}

/// Writes lines that [`Answer`] reads.
pub(crate) fn answer(done: &Done) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    // Writing to a `String` does not fail.
    for task in &done.tasks {
        for (verb, times) in [("latency", &task.latencies), ("release", &task.releases)] {
            for some in times.chunks(100) {
                let some: Vec<_> = some.iter().map(u64::to_string).collect();
                let _ = writeln!(text, "{verb} {}", some.join(" "));
            }
        }
        for hold in &task.holds {
            let _ = writeln!(text, "hold {} {} {}", hold.task, hold.got, hold.left);
        }
        let _ = writeln!(text, "task {}", task.pairs);
    }
    let _ = writeln!(text, "done {}", done.wall.as_nanos());
    text
}

/// A reply that is read line by line.
#[derive(Debug, Default)]
struct Answer {
    task: TaskDone,
    done: Done,
}

impl Answer {
    /// Reads a line. Returns true at the end of the reply.
    fn read(&mut self, line: &str) -> Result<bool, Failure> {
        let mut words = line.split(' ');
        let verb = words.next().unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = words.map(str::parse).collect();
        let numbers = numbers.map_err(|_| format!("not a line of an answer: {line:?}"))?;
        match (verb, numbers.as_slice()) {
            ("latency", latencies) => self.task.latencies.extend(latencies),
            ("release", releases) => self.task.releases.extend(releases),
            ("hold", &[task, got, left]) => {
                let task = u32::try_from(task)?;
                self.task.holds.push(Held { got, left, task });
            }
            ("task", &[pairs]) => {
                self.task.pairs = pairs;
                self.done.tasks.push(std::mem::take(&mut self.task));
            }
            ("done", &[nanos]) => {
                // Times and holds after the last `task` line belong to that task.
                if let Some(last) = self.done.tasks.last_mut() {
                    last.latencies.append(&mut self.task.latencies);
                    last.releases.append(&mut self.task.releases);
                    last.holds.append(&mut self.task.holds);
                }
                self.done.wall = Duration::from_nanos(nanos);
                return Ok(true);
            }
            _ => return Err(format!("not a line of an answer: {line:?}").into()),
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_as_written() {
        let job = Job {
            key: "k:1".to_owned(),
            names: Names::One {
                hold: Duration::from_micros(200),
            },
            tasks: 7,
            until: Until::Time(Duration::from_millis(250)),
        };
        let read = read_request(&request(&job)).unwrap();
        assert_eq!(format!("{read:?}"), format!("{job:?}"));
        assert!(read_request("run own k 1 1 0").is_none());
        assert!(read_request("run some k 1 1 0 0").is_none());

        let task = TaskDone {
            pairs: 2,
            latencies: (0..250).collect(),
            holds: vec![Held {
                got: 5,
                left: 9,
                task: 3,
            }],
            releases: (0..110).collect(),
        };
        let done = Done {
            wall: Duration::from_nanos(17),
            tasks: vec![task.clone(), TaskDone::default(), task],
        };
        let mut read = Answer::default();
        let text = answer(&done);
        let ends: Vec<_> = text.lines().map(|line| read.read(line).unwrap()).collect();
        let (last, others) = ends.split_last().unwrap();
        assert!(*last && !others.contains(&true), "{ends:?}");
        assert_eq!(format!("{:?}", read.done), format!("{done:?}"));
        assert!(read.read("hold 1 2").is_err());
        assert!(read.read("what").is_err());
    }
}
