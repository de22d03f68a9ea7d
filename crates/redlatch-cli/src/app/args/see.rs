//! The options of the verbs that only look.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, builder::PossibleValuesParser};

use crate::app::span::parse;

/// The kinds of objects on the command line.
const KINDS: &str = "lock fair rw semaphore permits latch limit once election";

/// List what is held: locks, permits, elections, latches, rate limiters and jobs.
///
/// Shows the objects of all kinds whose name matches PATTERN, one line per holder, ordered by name.
/// A lock that nobody holds is not listed. Visits all keys of the server in small steps.
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

/// Show one name: who holds it, since when, for how long, and who waits.
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
/// A name is free while nobody holds it: a semaphore while a permit is available, a latch when it
/// is open, a job while no run is under way. A name that the server does not know is free as well;
/// say --latch if it may be a latch that nobody has set yet. All names have been free once, each at
/// its own time; when this returns, somebody else may have them again. To hold a name, use run.
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

/// Draw who held what and when, from a recording.
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
