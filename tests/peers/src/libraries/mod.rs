//! Locks of other libraries beside `redlatch-compat`, on one server.

mod behaviour;
mod deploy;
mod ours;
mod process;
mod redisson;
mod scenes;

use std::{path::PathBuf, sync::Arc, time::Duration};

use redlatch::{Client, Lockable};
use redlatch_tests::server::{Server, ServerBinary, ServerOptions};

pub(crate) use self::ours::ours;
use self::process::{PROGRAMS, Peer};
use crate::Outcome;

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Options {
    /// Where the programs of the libraries have been built.
    programs: PathBuf,
    pub(crate) python: String,
    /// The libraries; all of them if empty.
    only: Vec<String>,
    /// How often each kind of lock is held, or each library's name under load.
    pub(crate) rounds: u64,
    /// How many processes are replaced in a deploy.
    processes: usize,
}

impl Options {
    /// Reads the arguments. `rounds` is the number of rounds unless they say another one.
    pub(crate) fn parse(args: &[String], rounds: u64) -> Outcome<Self> {
        let mut options = Self {
            programs: PathBuf::new(),
            python: String::new(),
            only: Vec::new(),
            rounds,
            processes: 20,
        };
        let number = |text: &String| {
            let number: Result<u64, _> = text.parse();
            number.map_err(|_| format!("{text} is no number"))
        };
        for pair in args.chunks(2) {
            match pair {
                [name, value] if name == "--programs" => options.programs = value.into(),
                [name, value] if name == "--python" => options.python.clone_from(value),
                [name, value] if name == "--only" => options.only.push(value.clone()),
                [name, value] if name == "--rounds" => options.rounds = number(value)?,
                [name, value] if name == "--processes" => {
                    options.processes = number(value)? as usize;
                }
                other => return Err(format!("unknown argument {other:?}").into()),
            }
        }
        let mut only = options.only.iter();
        match only.find(|name| !PROGRAMS.contains(&name.as_str())) {
            Some(name) => Err(format!("there is no program of {name}").into()),
            None => Ok(options),
        }
    }
}

/// The shortest time between two requests of a waiter that no message calls. A waiter that is let
/// in within this time of its first request was called.
const RECHECK: Duration = Duration::from_millis(1600);

/// Runs everything for each library, on the first server of the test run.
pub(crate) async fn all(options: &Options) -> Outcome {
    let binary = ServerBinary::all().into_iter().next();
    let binary = binary.ok_or("there is no server")?;
    for program in PROGRAMS {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == program) {
            continue;
        }
        println!("{program} on {binary}");
        let server = Server::start(&binary, ServerOptions::default());
        let stage = Stage {
            options,
            program,
            client: Client::connect(&server.url()).await?,
            server,
        };
        let result = stage.run().await;
        result.map_err(|error| format!("{program}: {error}"))?;
    }
    Ok(())
}

/// A library, a server, and a client of this family.
struct Stage<'a> {
    options: &'a Options,
    program: &'static str,
    client: Client,
    server: Server,
}

impl Stage<'_> {
    async fn run(&self) -> Outcome {
        scenes::hand_over(self).await?;
        scenes::renewals(self).await?;
        scenes::deaths(self).await?;
        scenes::foreign_values(self).await?;
        if self.is_redisson() {
            behaviour::record(self).await?;
            redisson::re_entry(self).await?;
            redisson::forced_ends(self).await?;
        }
        deploy::rounds(self).await?;
        deploy::deploy(self).await
    }

    /// Starts the program of the library.
    fn peer(&self) -> Peer {
        let address = self.server.address();
        Peer::start(&mut process::command(self.program, self.options, address))
    }

    /// Starts a process of this family; see [`ours()`].
    fn ours(&self, args: &[&str]) -> Peer {
        let mut command = process::own();
        command.args(["ours", &self.server.url(), self.program]);
        Peer::start(command.args(args))
    }

    fn is_redisson(&self) -> bool {
        self.program == "redisson"
    }

    fn lock(&self, name: &str) -> Arc<dyn Lockable> {
        ours::lock(&self.client, self.program, name, false)
    }
}

/// Fails with a text unless the condition holds.
fn ensure(condition: bool, text: &str) -> Outcome {
    condition.then_some(()).ok_or_else(|| text.into())
}
