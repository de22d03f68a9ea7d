//! The options of the verbs that run commands on a schedule, as a leader or at a rate.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgGroup, Args as ClapArgs};

use super::KillArgs;
use crate::app::span::{Period, parse, parse_period, parse_rate};

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
    /// Print who leads, one line of JSON per change, and run nothing.
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
