//! What the processes of a history tell, one line for each thing that they do.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::poll::taken;

/// Something that a process did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// When it did so, in µs of the machine's monotonic clock.
    pub(super) at: u64,
    pub(super) what: String,
    /// The start of the slot in ms since 1970; 0 for a term.
    pub(super) slot: u64,
    pub(super) attempt: u32,
    pub(super) token: u64,
    /// What the process believes the time to be, in seconds since 1970.
    pub(super) wall: u64,
    /// The µs since the poll began in which it did so.
    pub(super) poll: u64,
    /// The process, which the reader adds.
    pub(super) by: usize,
}

impl Line {
    /// Returns a line of this moment.
    pub(super) fn now(what: &str, slot: u64, attempt: u32, token: u64) -> Self {
        let at = now();
        Self {
            at,
            what: what.to_owned(),
            slot,
            attempt,
            token,
            wall: wall(),
            poll: taken(at),
            by: 0,
        }
    }

    /// Prints the line. It is written in one piece, so that a kill cuts none in two.
    pub(super) fn say(&self) {
        let Self {
            at,
            what,
            slot,
            attempt,
            token,
            wall,
            poll,
            ..
        } = self;
        println!("{MARK}{at} {what} {slot} {attempt} {token} {wall} {poll}");
    }

    /// Reads a line of process `by`; `None` if it is of the test runner.
    pub(super) fn parse(text: &str, by: usize) -> Option<Self> {
        let (_, text) = text.split_once(MARK)?;
        let mut words = text.split(' ');
        Some(Self {
            at: words.next()?.parse().ok()?,
            what: words.next()?.to_owned(),
            slot: words.next()?.parse().ok()?,
            attempt: words.next()?.parse().ok()?,
            token: words.next()?.parse().ok()?,
            wall: words.next()?.parse().ok()?,
            poll: words.next()?.parse().ok()?,
            by,
        })
    }

    /// Tells whether the process was not suspended within the poll.
    pub(super) const fn is_prompt(&self) -> bool {
        self.poll < PROMPT
    }

    /// Returns by how many seconds the process's clock was wrong.
    pub(super) fn wrong_by(&self) -> u64 {
        let since = (now() - self.at) / 1_000_000;
        self.wall.abs_diff(wall() - since)
    }
}

/// Returns the µs of the machine's monotonic clock, which all processes share and nobody shifts.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |part: i64| u64::try_from(part).unwrap();
    part(now.tv_sec) * 1_000_000 + part(now.tv_nsec) / 1_000
}

/// Returns the seconds since 1970 by the wall clock of this process.
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_secs()
}

const MARK: &str = "history: ";

/// The longest poll in µs that counts: far shorter than a suspension, and than what is left of a
/// lease while it is renewed.
const PROMPT: u64 = 50_000;
