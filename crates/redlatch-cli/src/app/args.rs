//! The command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    ArgAction, ArgGroup, Args as ClapArgs, Parser, Subcommand, builder::PossibleValuesParser,
};
use serde::{Deserialize, Serialize};

use super::{
    exit::Failure,
    span::{Period, parse, parse_period, parse_rate},
};

/// Run commands under distributed locks on Redis or Valkey, and see their holders.
///
/// `redlatch run NAME -- COMMAND` holds the lock NAME while COMMAND runs. If the lock is lost, the
/// command is dead before another client can have the name. `redlatch ls` shows what is held.
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
    /// First part of all keys; the same for all clients that share the names. Default: that of the
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
    /// After waiting that long, show the holders of the names on the standard error. Default: 2s if
    /// that is a terminal, else never.
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

/// How long a hold lasts without a renewal, and how long before its end a command gets TERM.
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

/// Run a command unless its slot is done, on however many machines this is called.
///
/// A slot is a time of the schedule by the clock of the server, so clocks of machines do not
/// matter. A slot that is done stays done. A run that fails, is killed or loses its claim leaves
/// the slot open while retries remain.
///
/// The command gets REDLATCH_NAME, REDLATCH_TOKEN, REDLATCH_OWNER, REDLATCH_SLOT and
/// REDLATCH_ATTEMPT. Exit code 0 of the command makes the slot done. If the slot is done, or if
/// another machine runs it, the exit code is 0, or that of --skipped. It is 70 if the slot has used
/// up its attempts.
#[derive(Clone, Debug, ClapArgs)]
#[command(group = ArgGroup::new("schedule").args(["every", "cron", "gap", "slot"]).required(true))]
pub(crate) struct OnceArgs {
    /// The name of the job. One that begins with a dash stands alone between -- and --.
    #[arg(value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) name: String,
    /// A slot begins every SPAN since 1970 in UTC; +OFFSET shifts it: 1d+3h is 3 o'clock.
    #[arg(long, value_name = "SPAN[+OFFSET]", value_parser = parse_period)]
    pub(crate) every: Option<Period>,
    /// Slots begin at the times of a cron expression, in the time zone of --tz. In a doubled hour,
    /// only jobs of each hour run twice. A skipped time moves to the end of the skipped stretch.
    #[arg(long, value_name = "EXPR", requires = "tz")]
    pub(crate) cron: Option<String>,
    /// Time zone of --cron, such as Europe/Berlin or UTC.
    #[arg(long, value_name = "ZONE", requires = "cron")]
    pub(crate) tz: Option<String>,
    /// The next run begins that long after the end of the last one, at the earliest.
    #[arg(long, value_name = "SPAN", value_parser = parse)]
    pub(crate) gap: Option<Duration>,
    /// The slot has this key, such as a date.
    #[arg(long, value_name = "KEY")]
    pub(crate) slot: Option<String>,
    /// How often a slot is tried again after a failure, each time by another call. Default: 3.
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// End the command after that time, by TERM and KILL; the run has failed then.
    #[arg(long, value_name = "SPAN", value_parser = parse)]
    pub(crate) max_run: Option<Duration>,
    #[command(flatten)]
    pub(crate) kill: KillArgs,
    /// Exit code if the slot is done or under way elsewhere.
    #[arg(long, value_name = "CODE", default_value_t = 0)]
    pub(crate) skipped: u8,
    /// Write a JSON report to FILE when it is over.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Append what happens to the hold to FILE, a line of JSON each, for redlatch timeline.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// The command and its arguments. No shell is involved.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Run a command while this process leads, on however many machines this is called.
///
/// Waits until it leads, and runs COMMAND. If COMMAND ends with 0, so does redlatch. If it ends
/// otherwise, or if the term is lost, redlatch gives the name back, pauses, and campaigns again.
///
/// The command gets REDLATCH_NAME and REDLATCH_TOKEN. Without a command, --http or --observe is
/// needed.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ElectArgs {
    /// The name of the election. One that begins with a dash stands alone between -- and --.
    #[arg(value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) name: String,
    /// Text that others see while this process leads, such as its address.
    #[arg(long, value_name = "TEXT", conflicts_with = "observe")]
    pub(crate) value: Option<String>,
    /// Why, for others to see with the term; 1 to 256 bytes.
    #[arg(long, value_name = "TEXT", conflicts_with = "observe")]
    pub(crate) note: Option<String>,
    /// Lead in the order in which candidates have come.
    #[arg(long, conflicts_with = "observe")]
    pub(crate) fair: bool,
    /// Pause after a failure; it doubles up to a minute while the command keeps failing at once.
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = parse)]
    pub(crate) pause: Duration,
    #[command(flatten)]
    pub(crate) kill: KillArgs,
    /// Print the leader, one line of JSON per change, and run nothing.
    #[arg(long, conflicts_with = "command", required_unless_present_any = ["command", "http"])]
    pub(crate) observe: bool,
    /// Say over HTTP whether this process leads: GET /leader is 200 then and 503 otherwise, and
    /// GET /ready is 200. Without a command, leading is all that redlatch does.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "observe")]
    pub(crate) http: Option<String>,
    /// Append what happens to the term to FILE, a line of JSON each, for redlatch timeline.
    #[arg(long, value_name = "FILE", conflicts_with = "observe")]
    pub(crate) record: Option<PathBuf>,
    /// The command and its arguments. No shell is involved.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Run a command as soon as a rate lets it through.
///
/// Takes tokens of the rate limiter NAME and becomes COMMAND, which gets NAME as REDLATCH_NAME.
/// Nothing is held while COMMAND runs. The rate is that of this call: the server stores no rate, so
/// use the same one in all calls for NAME.
#[derive(Clone, Debug, ClapArgs)]
#[command(group = ArgGroup::new("waiting").args(["now", "wait"]))]
pub(crate) struct LimitArgs {
    /// The name of the limiter. One that begins with a dash stands alone between -- and --.
    #[arg(value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) name: String,
    /// So many tokens in each unit of time, such as 10/s, 100/m or 1/90s.
    #[arg(long, value_name = "N/SPAN", value_parser = parse_rate)]
    pub(crate) rate: (u64, Duration),
    /// So many tokens pass at once after a pause. Default: the number in --rate.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) burst: Option<u64>,
    /// The tokens that COMMAND costs, at most the burst.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) cost: u64,
    /// Do not wait: exit with 75 if the rate is used up.
    #[arg(short = 'n', long)]
    pub(crate) now: bool,
    /// Wait at most that long, and exit with 75 at once if that is too short. Default: as long as
    /// it takes.
    #[arg(short, long, value_name = "SPAN", value_parser = parse)]
    pub(crate) wait: Option<Duration>,
    /// The command and its arguments. No shell is involved.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The kinds of objects on the command line.
const KINDS: &str = "lock fair rw semaphore permits latch limit once election";

/// List what is held: locks, permits, elections, latches, rate limiters and jobs.
///
/// Shows the objects of all kinds whose name matches PATTERN, one line per holder, ordered by name.
/// A lock that is not held is not listed. Visits all keys of the server in small steps.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct LsArgs {
    /// Names to show: * for any text, ? for one character, [a-z], and \ before a literal one.
    #[arg(value_name = "PATTERN", default_value = "*")]
    pub(crate) pattern: String,
    /// Show objects of that kind only; may be given several times.
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(KINDS.split(' ')))]
    pub(crate) kind: Vec<String>,
    /// Also show tokens, owners, and the last runs of jobs.
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Write one object of JSON per line, in no order; with --watch one line per change.
    #[arg(long)]
    pub(crate) json: bool,
    /// Look again and again until a signal ends it.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Time between two looks of --watch; at least 100ms.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = parse)]
    pub(crate) every: Duration,
}

/// Show one name: what holds it, since when, for how long, and what waits.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// The name.
    pub(crate) name: String,
    /// Write one object of JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what is held, live on a terminal.
///
/// What is held comes first, the oldest hold before all. Keys: up and down choose a line, enter
/// shows all of it, / filters by text, h shows only what is held, b ends the chosen hold with its
/// lease after asking, q ends the display.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct TopArgs {
    /// Names to show, as in ls.
    #[arg(value_name = "PATTERN", default_value = "*")]
    pub(crate) pattern: String,
    /// Show only what is held.
    #[arg(long)]
    pub(crate) held: bool,
    /// Time between two looks; at least 100ms.
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = parse)]
    pub(crate) every: Duration,
}

/// Wait until names are free, and take nothing.
///
/// A name is free while it is not held: a semaphore while a permit is available, a latch when it is
/// open, a job while no run is under way. A name that the server does not know is free as well; say
/// --latch if it may be a latch that is not set yet. All names have been free once, each at its own
/// time; when this returns, other clients may have them again. To hold a name, use run.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct WaitArgs {
    /// Wait at most that long, then exit with 75. Default: as long as it takes.
    #[arg(short, long, value_name = "SPAN", value_parser = parse)]
    pub(crate) wait: Option<Duration>,
    /// The names are latches. A latch that is not set is waited for until it is set and opens.
    #[arg(long)]
    pub(crate) latch: bool,
    /// Names to wait for.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// Check address, server, rights and speed, and say what to do about each fault.
///
/// Exits with 0 if all is well or only warned of, otherwise with the code of the first fault.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Write one object of JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Draw what was held, when and by which client, from a recording.
///
/// Record with: redlatch ls --watch --json > holds.jsonl
///
/// The page is one HTML file that needs nothing else: a lane per name or per client, a bar per
/// hold, with zoom and search. It marks where two relied on one name.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct TimelineArgs {
    /// The recording. Default: the standard input.
    pub(crate) file: Option<PathBuf>,
    /// Write the page to FILE instead of the standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Hold a name without a process, such as during maintenance.
///
/// Prints the handle that gives the name back: redlatch release HANDLE. The name is free at the
/// latest when the time of --for is over. Nothing renews the hold.
#[derive(Clone, Debug, ClapArgs)]
#[command(group = ArgGroup::new("kind").args(["fair", "write"]))]
pub(crate) struct HoldArgs {
    /// The name.
    pub(crate) name: String,
    /// Time after which the name is free again; 1s to 30d.
    #[arg(long = "for", value_name = "SPAN", value_parser = parse)]
    pub(crate) span: Duration,
    /// Why, for others to see with the hold; 1 to 256 bytes.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Wait at most that long for the name, then exit with 75. Default: do not wait.
    #[arg(short, long, value_name = "SPAN", value_parser = parse, default_value = "0s")]
    pub(crate) wait: Duration,
    /// Use a fair lock.
    #[arg(long)]
    pub(crate) fair: bool,
    /// Use the write side of a read-write lock.
    #[arg(long)]
    pub(crate) write: bool,
}

/// Give back what hold has taken.
///
/// Exits with 66 if the hold is over already.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ReleaseArgs {
    /// The handle that hold has printed, TOKEN@NAME.
    pub(crate) handle: String,
}

/// End the hold of another client.
///
/// By default the renewal of the hold is forbidden. The holder is notified at once, the lease runs
/// out, and exclusion is kept. With --now the name is free at once, while the holder may still be
/// at work: two may work at the same time.
///
/// Without --token or --owner, the holder is shown and the terminal is asked. Without a terminal
/// nothing is broken. Exits with 66 if there is no such hold.
#[derive(Clone, Debug, ClapArgs)]
#[command(group = ArgGroup::new("which").args(["token", "owner"]))]
pub(crate) struct BreakArgs {
    /// The name.
    pub(crate) name: String,
    /// End the hold with this fencing token only, as ls --long shows it.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<u64>,
    /// End the holds of this owner only, as ls --long shows it. Permits have no token.
    #[arg(long, value_name = "OWNER")]
    pub(crate) owner: Option<String>,
    /// Free the name at once instead of forbidding the renewal.
    #[arg(long)]
    pub(crate) now: bool,
    /// Why, for the holder and for others to see; 1 to 256 bytes.
    #[arg(long, value_name = "TEXT", value_parser = parse_note)]
    pub(crate) note: Option<String>,
}

/// Remove the record of a name that is not in use.
///
/// A freed name keeps its kind for a while, so that a lock cannot become a fair lock at once. This
/// removes what is kept, if no client holds the name or waits for it; otherwise it exits with 75.
/// Fencing tokens of the new object are greater than those of the old one.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ForgetArgs {
    /// The name.
    pub(crate) name: String,
}

/// Set how many permits a semaphore has.
///
/// Holders keep what they have. If they have more than that, waiters wait until enough is given
/// back.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ResizeArgs {
    /// The name of the semaphore.
    pub(crate) name: String,
    /// The number of permits.
    #[arg(value_name = "M")]
    pub(crate) permits: u32,
}

fn parse_note(text: &str) -> Result<String, String> {
    match text.len() {
        1..=256 => Ok(text.to_owned()),
        bytes => Err(format!(
            "a note is 1 to 256 bytes, and this one has {bytes}"
        )),
    }
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
