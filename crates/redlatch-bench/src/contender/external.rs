//! An external program in any language as a contender. It reads requests as lines on its standard
//! input and writes replies as lines on its standard output.
//!
//! The server's URL is the last of its arguments. Requests and replies are JSON, times are in ns.
//!
//! | from | line | meaning |
//! |---|---|---|
//! | program | `ready <verbs>` | it is connected; the commands that it sends itself, in lower case, separated by commas |
//! | benchmark | `{"run":{"key":…,"names":…,"tasks":…,"time":…,"pairs":…,"hold":…}}` | lock and unlock with this number of tasks at once, each for `time`, or `pairs` times if `time` is 0; `own`: each task the name `<key>:<task>`, `one`: all the name `<key>`, which each holds for `hold` |
//! | program | `{"wall":…,"tasks":[…]}` | the duration of the round, and the tasks; the round is over |
//! | program | `failed <why>` | the round is over; so is the whole run |
//!
//! A task in the reply has `pairs`, how often it locked and unlocked, and with `own` `latencies`,
//! the times from the call of acquisitions to the return of their releases. With `one`, it has
//! `holds`, each as `[got, left]`: the return of its acquisition and the call of its release, by
//! `CLOCK_MONOTONIC`. It may also have `releases`, the times from the call of releases to their
//! return. [`Names`](crate::job::Names) lists the names that only this program knows.
//!
//! The program ends when its standard input does. `redlatch-bench worker <contender> <url>` is such
//! a program; `examples/polling.py` is one in another language.

use std::{process::Stdio, time::Duration};

use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::Failure;
use crate::{clock, worker::Ask};

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

    /// Sends a request, and returns the reply.
    pub(crate) async fn ask<T: DeserializeOwned>(&mut self, ask: &Ask) -> Result<T, Failure> {
        self.tell(ask).await?;
        self.hear().await
    }

    /// Sends a request without waiting for the reply, which [`hear`](Self::hear) returns.
    pub(crate) async fn tell(&mut self, ask: &Ask) -> Result<(), Failure> {
        let line = serde_json::to_string(ask)? + "\n";
        Ok(self.asks.write_all(line.as_bytes()).await?)
    }

    pub(crate) async fn hear<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let line = self.answer().await?;
        let read = serde_json::from_str(&line);
        Ok(read.map_err(|error| format!("{}: not a reply: {error}", self.name))?)
    }

    pub(super) fn cpu(&self) -> Duration {
        self.child.id().map_or(Duration::ZERO, clock::cpu_of)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Done, Job, Names};

    #[test]
    fn lines_are_those_of_the_description() {
        let job = Job {
            key: "k:1".to_owned(),
            names: Names::One,
            tasks: 7,
            time: 250_000_000,
            pairs: 0,
            hold: 200_000,
        };
        let line = serde_json::to_string(&Ask::Run(job)).unwrap();
        let wanted = r#"{"run":{"key":"k:1","names":"one","tasks":7,"time":250000000,"pairs":0,"hold":200000}}"#;
        assert_eq!(line, wanted);
        let again: Ask = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), wanted);

        let line = r#"{"wall":17,"tasks":[{"pairs":2,"latencies":[3,4]},{"pairs":1,"holds":[[5,9]],"releases":[6]}]}"#;
        let done: Done = serde_json::from_str(line).unwrap();
        let [alone, shared] = &done.tasks[..] else {
            panic!("{done:?}");
        };
        assert_eq!((done.wall, done.pairs(), shared.pairs), (17, 3, 1));
        assert_eq!(alone.latencies, [3, 4]);
        assert_eq!(shared.holds, [(5, 9)]);
        assert!(alone.holds.is_empty() && shared.releases == [6]);
        let again: Done = serde_json::from_str(&serde_json::to_string(&done).unwrap()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{done:?}"));
        for wrong in ["what", "{}", r#"{"wall":1,"tasks":[{"holds":[[1]]}]}"#] {
            assert!(serde_json::from_str::<Done>(wrong).is_err(), "{wrong}");
        }
    }
}
