#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

#[cfg(feature = "cron")]
mod cron;
mod decide;
mod job;
mod options;
mod record;
mod run;
mod schedule;
mod scripts;
mod slot;

pub use job::Job;
pub use record::{JobError, JobHolder, JobOutcome, JobRecord, Once};
pub use run::JobRun;
pub use slot::Slot;
