//! The records of histories, which are lines of JSON. The soak and the simulator write them, and
//! the program in this folder judges them. Times are microseconds: of the machine's clock in the
//! soak, and true time in the simulator.

use serde::{Deserialize, Serialize};

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub enum Record {
    /// A hold.
    Hold(Hold),
    /// An acquisition that gave no hold.
    Attempt(Attempt),
    /// An injected fault.
    Fault(Fault),
    /// A write to a guarded set.
    Write(Write),
    /// A write through a fence.
    Fenced(Fenced),
    /// One life of a latch.
    Round(Round),
    /// A pass of a rate limiter.
    Pass(Pass),
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It had its effect.
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
pub struct Hold {
    /// A number that is unique in the run.
    pub id: u64,
    /// Guards of one owner share a hold.
    pub owner: u64,
    /// The worker, or the process that is killed.
    pub process: u32,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The units of `limit` that it takes: a lock takes 1 of 1, a writer all, a reader 1.
    pub units: u32,
    /// The units in total.
    pub limit: u32,
    /// The token, or 0 for holds without a rising one.
    pub token: u64,
    /// The time at which the acquisition began.
    pub asked: u64,
    /// The time at which it returned.
    pub from: u64,
    /// The time at which the guard last passed its check.
    pub until: u64,
    /// The deadline that the guard had when it last passed its check.
    pub deadline: u64,
    /// The time at which the guard first failed its check; 0 if there was none.
    pub lost: u64,
    /// The time of the reply to the release that freed the name; 0 if there was none.
    pub gone: u64,
    /// Whether all replicas had to confirm the grant.
    pub durable: bool,
}

/// An injected fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: String,
    /// The period from the beginning of the fault until servers and replicas agreed again.
    pub from: u64,
    pub until: u64,
    /// The names whose server it hit.
    pub names: Vec<String>,
    /// The takeover by another server without the old one's consent, if there was one. Acknowledged
    /// data may then be lost.
    pub takeover: Option<Takeover>,
}

/// A period in which two servers may have been active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takeover {
    /// The time until which only the old server was active.
    pub began: u64,
    /// The period in which the old server was dead; both times are the same if it was not.
    pub died: u64,
    pub back: u64,
    /// The time from which the old server no longer answered as a master: it was dead for good, or
    /// knew that it was a replica.
    pub ended: u64,
}

/// An acquisition that gave no hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub process: u32,
    pub kind: String,
    /// All names for which it waited.
    pub names: Vec<String>,
    pub from: u64,
    pub until: u64,
    pub outcome: Outcome,
}

/// A write through a fence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fenced {
    pub process: u32,
    pub name: String,
    pub token: u64,
    pub from: u64,
    pub until: u64,
    pub outcome: Outcome,
}

/// A write to the guarded set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    pub name: String,
    pub token: u64,
    /// The times at which the writer requested the lock, read the set, and wrote it.
    pub asked: u64,
    pub read: u64,
    pub at: u64,
    pub accepted: bool,
    /// Whether the writer's guard passed its check right before the write.
    pub valid: bool,
    /// The number of other writers' elements that it overwrote.
    pub lost: u32,
}

/// One life of a latch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    pub name: String,
    pub from: u64,
    /// The time at which it was set.
    pub set: u64,
    pub until: u64,
    pub count: u32,
    pub downs: Vec<Step>,
    /// The waits. One that ends while the latch is shut fails.
    pub waits: Vec<Step>,
}

/// One call of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub from: u64,
    pub until: u64,
    pub outcome: Outcome,
}

/// A pass of a rate limiter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    pub process: u32,
    pub name: String,
    /// The rate: so many tokens in so many microseconds.
    pub count: u64,
    pub per: u64,
    pub burst: u64,
    /// The tokens that it took and did not give back.
    pub cost: u64,
    /// The tokens that it gave back.
    pub back: u64,
    /// The time at which it counts, by the server's clock.
    pub at: u64,
    /// The time of the call, and of its settlement.
    pub from: u64,
    pub until: u64,
}

impl Record {
    /// Writes the record as one line.
    pub fn line(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Reads a line.
    pub fn read(line: &str) -> Result<Self, String> {
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
