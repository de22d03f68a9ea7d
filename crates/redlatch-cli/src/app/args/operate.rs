//! The options of the verbs by which an operator steps in.

use std::time::Duration;

use clap::{ArgGroup, Args as ClapArgs};

use crate::app::span::parse;

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

/// End the hold of somebody else.
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

/// Remove the record of a name that nobody uses.
///
/// A freed name keeps its kind for a while, so that a lock cannot become a fair lock at once. This
/// removes what is kept, if nobody holds the name or waits for it; otherwise it exits with 75.
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
