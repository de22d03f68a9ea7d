#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

#[cfg(feature = "cron")]
mod cron;
mod decide;
mod job;
mod options;
mod outcome;
mod record;
mod run;
mod schedule;
mod scripts;
mod serve;
mod slot;

pub use job::Job;
pub use outcome::{JobError, Once};
pub use record::{JobHolder, JobOutcome, JobRecord};
pub use run::JobRun;
pub use slot::Slot;
