//! Records, which are lines of JSON. Times are microseconds of the machine's clock. The program in
//! `tests/histories` reads them, too.

use serde::{Deserialize, Serialize};

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub(crate) enum Record {
    Hold(Hold),
    Attempt(Attempt),
    Fault(Fault),
    Write(Write),
    Fenced(Fenced),
    Round(Round),
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Ok,
    /// It was refused, and had no effect.
    Fail,
    /// It was dropped, or failed. It may have had its effect.
    #[default]
    Info,
    /// The same, after the time limit of every worker.
    Late,
}

/// A hold, for as long as its guard passed its check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold {
    /// A number that is unique in the run.
    pub(crate) id: u64,
    /// Guards of one owner share a hold.
    pub(crate) owner: u64,
    /// The worker, or the process that is killed.
    pub(crate) process: u32,
    pub(crate) kind: String,
    pub(crate) name: String,
    /// The units of `limit` that it takes: a lock takes 1 of 1, a writer all, a reader 1.
    pub(crate) units: u32,
    pub(crate) limit: u32,
    /// The token, or 0 for holds without a rising one.
    pub(crate) token: u64,
    /// The times at which the acquisition began, at which it returned, and at which the guard last
    /// passed its check.
    pub(crate) asked: u64,
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// The deadline that the guard had when it last passed its check.
    pub(crate) deadline: u64,
    /// The time of the reply to the release that freed the name; 0 if there was none.
    pub(crate) gone: u64,
    /// Whether all replicas had to confirm the grant.
    pub(crate) durable: bool,
}

/// An injected fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) kind: String,
    /// The period from the beginning of the fault until servers and replicas agreed again.
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// The names whose server it hit.
    pub(crate) names: Vec<String>,
    /// The takeover by another server without the old one's consent, if there was one. Acknowledged
    /// data may then be lost.
    pub(crate) takeover: Option<Takeover>,
}

/// A period in which two servers may have been active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Takeover {
    /// The time until which only the old server was active.
    pub(crate) began: u64,
    /// The period in which the old server was dead; both times are the same if it was not.
    pub(crate) died: u64,
    pub(crate) back: u64,
    /// The time from which the old server no longer answered as a master: it was dead for good, or
    /// knew that it was a replica.
    pub(crate) ended: u64,
}

/// An acquisition that gave no hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) process: u32,
    pub(crate) kind: String,
    /// All names for which it waited.
    pub(crate) names: Vec<String>,
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) outcome: Outcome,
}

/// A write through a fence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fenced {
    pub(crate) process: u32,
    pub(crate) name: String,
    pub(crate) token: u64,
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) outcome: Outcome,
}

/// A write to the guarded set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Write {
    pub(crate) name: String,
    pub(crate) token: u64,
    /// The times at which the writer requested the lock, read the set, and wrote it.
    pub(crate) asked: u64,
    pub(crate) read: u64,
    pub(crate) at: u64,
    pub(crate) accepted: bool,
    /// Whether the writer's guard passed its check right before the write.
    pub(crate) valid: bool,
    /// The number of other writers' elements that it overwrote.
    pub(crate) lost: u32,
}

/// One life of a latch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) name: String,
    pub(crate) from: u64,
    /// The time at which it was set.
    pub(crate) set: u64,
    pub(crate) until: u64,
    pub(crate) count: u32,
    pub(crate) downs: Vec<Step>,
    /// The waits. One that ends while the latch is shut fails.
    pub(crate) waits: Vec<Step>,
}

/// One call of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) outcome: Outcome,
}

impl Record {
    /// Writes the record as one line.
    pub(crate) fn line(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Reads a line.
    pub(crate) fn read(line: &str) -> Result<Self, String> {
        serde_json::from_str(line).map_err(|error| format!("{line:?}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_written() {
        let hold = Record::Hold(Hold {
            id: 7,
            token: 1_790_000_000_000_001,
            ..Hold::default()
        });
        assert_eq!(Record::read(&hold.line().unwrap()), Ok(hold));
        let flush = Record::Fault(Fault {
            kind: "flush".to_owned(),
            from: 1,
            until: 2,
            names: Vec::new(),
            takeover: None,
        });
        assert_eq!(Record::read(&flush.line().unwrap()), Ok(flush));
        // The line of a process that was killed while it wrote.
        assert!(Record::read("{\"record\":\"hold\",\"id\":7,\"ki").is_err());
    }
}
