//! The report of a run as JSON.

use std::{fs::File, io::Write, path::Path};

pub(crate) use redlatch_core::family::millis;
use serde::Serialize;

use super::{
    exit::{Failure, no_file, warn},
    job::{Cut, Ended, Outcome},
};

/// The report that `--report` writes. Absent values are left out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// The names.
    pub(crate) names: Vec<String>,
    /// The fencing tokens, in the order of the names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tokens: Vec<u64>,
    /// The owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// How it went: `ended`, `lost`, `busy` or `failed`; of a job also `overran`, `done_before`,
    /// `under_way` or `exhausted`.
    pub(crate) outcome: &'static str,
    /// The slot of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slot: Option<String>,
    /// Why the hold was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<String>,
    /// Who ended the hold by force, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// The exit code of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit: Option<i32>,
    /// The signal that ended the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    /// The message on the standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// How long it waited for the names.
    pub(crate) waited_ms: u64,
    /// How long the command ran.
    pub(crate) ran_ms: u64,
    /// The exit code of redlatch.
    pub(crate) code: u8,
}

impl Report {
    /// Takes over how the command has ended.
    pub(crate) fn ended(&mut self, outcome: &Outcome) {
        self.ran_ms = millis(outcome.ran);
        match outcome.ended {
            Ended::Exited(code) => self.exit = Some(code),
            Ended::Signaled(signal) => self.signal = Some(signal),
        }
        self.outcome = match outcome.cut {
            Some(Cut::Lost) => "lost",
            Some(Cut::Overran) => "overran",
            None => "ended",
        };
    }
}

/// Runs `attempt`, and writes the report of it. The file is opened before anything is acquired.
pub(crate) async fn reported(
    path: Option<&Path>,
    names: Vec<String>,
    attempt: impl AsyncFnOnce(&mut Report) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let open = |path: &Path| {
        File::create(path).map_err(|error| no_file("report", path, "written", &error))
    };
    let file = path.map(open).transpose()?;
    let mut report = Report {
        names,
        outcome: "failed",
        ..Report::default()
    };
    let ended = attempt(&mut report).await;
    match &ended {
        Ok(code) => report.code = *code,
        Err(failure) => {
            report.code = failure.code;
            let message = Some(failure.message.clone());
            report.message = message.filter(|message| !message.is_empty());
        }
    }
    if let Some(mut file) = file {
        let text = serde_json::to_string(&report).unwrap_or_default();
        // The command has ended, so a failure changes no exit code.
        if let Err(error) = writeln!(file, "{text}") {
            warn(&format!("the report cannot be written: {error}"));
        }
    }
    ended
}
