//! The results of a call that runs a job.

use std::{error, fmt, time::Duration};

use redlatch_core::LossCause;

use crate::{JobHolder, JobRecord};

/// The result of [`Job::run`](crate::Job::run).
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "a slot that is not done is told here only"]
pub enum Once<T, E> {
    /// This call ran the work, and its success is on record.
    Ran(T),
    /// The slot, or a later slot of time, is done. The work was not called.
    Done(JobRecord),
    /// Another run of the job is under way. The work was not called.
    UnderWay(JobHolder),
    /// This call ran the work, which failed. The slot is open again while retries remain.
    Failed(JobError<E>),
    /// This call ran the work and lost its claim before a success could be recorded. The work was
    /// dropped if it was not over. The slot runs again while retries remain.
    Lost(LossCause),
    /// The slot has had all its attempts, and none succeeded. The work was not called. The record
    /// is that of the last run.
    Exhausted(JobRecord),
}

impl<T, E> Once<T, E> {
    /// Returns the value if this call ran the work with success.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::once::JobRun;
    ///
    /// let job = client.once("invoices").slot("2026-11");
    /// let send = async |_: &JobRun| Ok::<_, String>(250);
    /// if let Some(count) = job.run(send).await?.ran() {
    ///     println!("this process has sent {count} invoices");
    /// }
    /// assert_eq!(job.run(send).await?.ran(), None); // sent before
    /// # Ok(())
    /// # }
    /// ```
    pub fn ran(self) -> Option<T> {
        match self {
            Self::Ran(value) => Some(value),
            _ => None,
        }
    }

    /// Tells whether the slot is done, by this call or before it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::once::JobRun;
    ///
    /// let migration = client.once("migration").slot("v42");
    /// let migrate = async |_: &JobRun| Ok::<_, String>(());
    /// // In each process: serve after the migration, whichever process has run it.
    /// assert!(migration.run(migrate).await?.is_done());
    /// assert!(migration.run(migrate).await?.is_done());
    /// # Ok(())
    /// # }
    /// ```
    pub const fn is_done(&self) -> bool {
        matches!(self, Self::Ran(_) | Self::Done(_))
    }
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobError<E> {
    /// The work returned this error.
    Work(E),
    /// The work took longer than this [`max_run`](crate::Job::max_run), and was dropped.
    Overran(Duration),
}

impl<E: fmt::Display> fmt::Display for JobError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(error) => error.fmt(f),
            Self::Overran(limit) => write!(f, "the job took longer than {limit:?}"),
        }
    }
}

impl<E: error::Error + 'static> error::Error for JobError<E> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Work(error) => error.source(),
            Self::Overran(_) => None,
        }
    }
}
