//! Soak: a mixed load of all primitives on real servers, under random faults, for a chosen time.
//! All workers record when they believed in their holds. The program in `tests/histories` judges
//! the record.
//!
//! `cargo xtask soak --help` describes its options, `docs/contributing/testing.md` what it shows.

// This program is a test. It works with real clocks, tasks and processes, and a failed step of its
// harness ends it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod clock;
mod cost;
mod history;
mod names;
mod nemesis;
mod options;
mod place;
#[expect(unreachable_pub, reason = "the simulator has the file in a library")]
#[path = "../../../tests/histories/record.rs"]
mod record;
mod report;
mod run;
mod trouble;
mod victim;
mod waits;
mod work;

use std::{fs, path::Path, process::ExitCode};

use crate::record::Record;
use history::Finished;
use options::{Options, Part};
use report::Report;

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() -> ExitCode {
    let options = Options::read();
    if let Some(Part::Victim { url, seed }) = &options.part {
        // The reader of its output notices the end of the process.
        let _ = victim::run(url, *seed).await;
        return ExitCode::FAILURE;
    }
    let report = match &options.check {
        Some(file) => read(file),
        None => run::run(&options).await.map_err(|error| error.to_string()),
    };
    match report {
        Ok(report) => {
            print!("{report}");
            if report.is_clean() {
                return ExitCode::SUCCESS;
            }
        }
        Err(message) => eprintln!("soak: {message}"),
    }
    ExitCode::FAILURE
}

fn read(file: &Path) -> Result<Report, String> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let records: Result<Vec<_>, _> = text.lines().map(Record::read).collect();
    let records = records.map_err(|error| format!("{name}: {error}"))?;
    let run = Finished {
        records,
        ..Finished::default()
    };
    let run = run::judged(run, file).map_err(|error| error.to_string())?;
    Ok(Report::of(name.to_string(), run, false))
}
