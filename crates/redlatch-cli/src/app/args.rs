//! The command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgAction, ArgGroup, Args as ClapArgs, Parser, Subcommand};
use serde::{Deserialize, Serialize};

use super::{exit::Failure, span::parse};

mod operate;
mod see;
mod work;

pub(crate) use self::{
    operate::{BreakArgs, ForgetArgs, HoldArgs, ReleaseArgs, ResizeArgs},
    see::{DoctorArgs, LsArgs, ShowArgs, TimelineArgs, TopArgs, WaitArgs},
    work::{ElectArgs, LimitArgs, OnceArgs},
};

/// Run commands under distributed locks on Redis or Valkey, and see who holds what.
///
/// `redlatch run NAME -- COMMAND` holds the lock NAME while COMMAND runs. If the lock is lost, the
/// command is dead before anybody else can have the name. `redlatch ls` shows what is held.
#[derive(Debug, Parser)]
#[command(name = "redlatch", version, max_term_width = 100, after_help = AFTER)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const AFTER: &str = "\
The address of the server is that of --url or --url-file, else of REDLATCH_URL, else of REDIS_URL.

Spans of time are written as 500ms, 30s, 1h30m or 2d.

Exit codes of redlatch itself: 64 usage, 66 no such hold, 69 no server, 70 no attempts left, 75 busy, 76 lost,
77 rights, 78 address, 124 the command took too long, 125 failure of redlatch, 126 command not
executable, 127 command not found. Otherwise the exit code is that of the command, or 128 + n if
signal n ended it.";

#[derive(Clone, Debug, Default, ClapArgs, Serialize, Deserialize)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Address: redis://[user[:password]@]host[:port][/database], rediss://… or unix:///path. Other
    /// users of the machine see it, so a password belongs elsewhere.
    #[arg(long, global = true, value_name = "URL")]
    #[serde(skip)]
    pub(crate) url: Option<String>,
    /// A file with the address as its only line.
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "url")]
    #[serde(skip)]
    pub(crate) url_file: Option<PathBuf>,
    /// First part of all keys; the same for everybody who shares the names. Default: that of the
    /// address, else redlatch.
    #[arg(long, global = true, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,
    /// Certificates in PEM of the authorities to trust instead of those of the system. Default:
    /// the file in REDLATCH_CACERT.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// Certificate in PEM that redlatch presents. Default: the file in REDLATCH_CERT.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key in PEM of the certificate. Default: the file in REDLATCH_KEY.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// If a name is taken, say nothing: the exit code tells.
    #[arg(short, long, global = true, help_heading = "Messages")]
    #[serde(skip)]
    pub(crate) quiet: bool,
    /// Show events of the library on the standard error; twice for more. RUST_LOG chooses them
    /// by target and level.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Messages")]
    #[serde(skip)]
    pub(crate) verbose: u8,
    /// The address, once it was found.
    #[arg(skip)]
    pub(crate) found: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(RunArgs),
    Once(OnceArgs),
    Elect(ElectArgs),
    Limit(LimitArgs),
    Ls(LsArgs),
    Show(ShowArgs),
    Top(TopArgs),
    Wait(WaitArgs),
    Hold(HoldArgs),
    Release(ReleaseArgs),
    Break(BreakArgs),
    Forget(ForgetArgs),
    Resize(ResizeArgs),
    Doctor(DoctorArgs),
    Timeline(TimelineArgs),
    /// Print the manual page of redlatch, or of one verb.
    ///
    /// Show it with: redlatch man | man -l -
    Man {
        /// The verb.
        verb: Option<String>,
    },
    /// Print a script that completes the command line in a shell.
    ///
    /// For bash: redlatch completions bash > ~/.local/share/bash-completion/completions/redlatch
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    #[command(name = "__guardian", hide = true)]
    Guardian,
    #[command(name = "__launch", hide = true)]
    Launch(LaunchArgs),
}

impl Verb {
    /// Takes the names that stand between `--` and `--`, as those do that begin with a dash. Fails
    /// without a name.
    pub(crate) fn with_names(mut self) -> Result<Self, Failure> {
        match &mut self {
            Self::Run(args) if args.names.is_empty() => args.names = names(&mut args.command)?,
            Self::Once(OnceArgs { name, command, .. })
            | Self::Elect(ElectArgs { name, command, .. })
            | Self::Limit(LimitArgs { name, command, .. })
                if name.is_empty() =>
            {
                match &names(command)?[..] {
                    [one] => name.clone_from(one),
                    _ => return Err(Failure::usage("this verb takes one name")),
                }
            }
            _ => {}
        }
        Ok(self)
    }
}

/// Takes the words in front of a `--`.
fn names(command: &mut Vec<OsString>) -> Result<Vec<String>, Failure> {
    let Some(end) = command.iter().position(|word| word == "--") else {
        return Err(Failure::usage("the name is missing; see redlatch help"));
    };
    let names = command.drain(..end).map(|word| {
        let wrong =
            |word: OsString| Failure::usage(format!("the name {} is no UTF-8", word.display()));
        word.into_string().map_err(wrong)
    });
    let names = names.collect::<Result<Vec<_>, _>>()?;
    command.remove(0);
    Ok(names)
}

/// Hold names while a command runs.
///
/// Waits until the names are free, runs COMMAND, and gives the names back when it has ended.
/// Several names are held together, all or none.
///
/// The command gets the names, fencing tokens and owner as REDLATCH_NAME, REDLATCH_TOKEN and
/// REDLATCH_OWNER; several names and tokens are separated by line feeds.
///
/// If the hold cannot be renewed, the command gets TERM --kill-after before the deadline of the
/// hold, and KILL at the deadline, with all processes of its group. TERM, INT and HUP are forwarded
/// to the command. While redlatch still waits for the name they end the wait.
#[derive(Clone, Debug, ClapArgs)]
#[command(group = ArgGroup::new("waiting").args(["now", "wait"]))]
#[command(group = ArgGroup::new("kind").args(["fair", "read", "write", "permits"]))]
pub(crate) struct RunArgs {
    /// Do not wait: exit with 75 if a name is taken.
    #[arg(short = 'n', long)]
    pub(crate) now: bool,
    /// Wait at most that long, then exit with 75. Default: as long as it takes.
    #[arg(short, long, value_name = "SPAN", value_parser = parse)]
    pub(crate) wait: Option<Duration>,
    /// Use fair locks: first come, first served.
    #[arg(long)]
    pub(crate) fair: bool,
    /// Use the read side of read-write locks.
    #[arg(long)]
    pub(crate) read: bool,
    /// Use the write side of read-write locks.
    #[arg(long)]
    pub(crate) write: bool,
    /// Take that many permits of a semaphore.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) permits: Option<u32>,
    /// Number of permits that there are, if the semaphore does not exist yet.
    #[arg(long, value_name = "M", requires = "permits", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) of: Option<u32>,
    #[command(flatten)]
    pub(crate) kill: KillArgs,
    /// Why, for others to see with the hold; 1 to 256 bytes.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// After waiting that long, say on the standard error who has the names. Default: 2s if that is
    /// a terminal, else never.
    #[arg(long, value_name = "SPAN", value_parser = parse)]
    pub(crate) long_wait: Option<Duration>,
    /// Exit with CODE instead of 75 if a name is taken.
    #[arg(short = 'E', long, value_name = "CODE")]
    pub(crate) busy_code: Option<u8>,
    /// Write a JSON report to FILE when it is over.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Append what happens to the hold to FILE, a line of JSON each, for redlatch timeline.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Names to hold. Those that begin with a dash stand between -- and --.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The command and its arguments. No shell is involved.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How long a hold lasts without a renewal, and when a command is told of its end.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct KillArgs {
    /// Time for which the name stays taken if this machine dies; renewed every third of it. At
    /// least 1s. Default: that of the address, else 30s.
    #[arg(long, value_name = "SPAN", value_parser = parse)]
    pub(crate) lease: Option<Duration>,
    /// TERM comes that long before KILL. At most half of the lease. Default: 5s, or a third of the
    /// lease if that is less.
    #[arg(long, value_name = "SPAN", value_parser = parse)]
    pub(crate) kill_after: Option<Duration>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct LaunchArgs {
    /// Descriptor from which one byte is read before the command starts.
    #[arg(long)]
    pub(crate) go: i32,
    #[arg(long)]
    pub(crate) foreground: bool,
    #[arg(long)]
    pub(crate) program: PathBuf,
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}
