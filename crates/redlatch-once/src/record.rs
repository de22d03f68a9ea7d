//! The server's record of a run, and the results of a call that runs a job.

use std::{
    error, fmt,
    time::{Duration, SystemTime},
};

use redlatch_core::{LossCause, Token};

use crate::slot::{Slot, instant, millis};

/// A run that has ended. All times are those of the server's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobRecord {
    /// The slot that it was for.
    pub slot: Slot,
    /// How it ended.
    pub outcome: JobOutcome,
    /// Which attempt at the slot it was, from 1.
    pub attempt: u32,
    /// Its fencing token. A later run of the job has a greater one.
    pub token: Token,
    /// When it began.
    pub began: SystemTime,
    /// When it ended. For a lost run, when its lease ended, or when its process noticed the loss
    /// and reached the server.
    pub ended: SystemTime,
    /// The host that ran it.
    pub host: String,
    /// The process that ran it.
    pub pid: u32,
    /// Why it failed, at most 500 bytes. Only the record of the last run has it.
    pub error: Option<String>,
}

impl JobRecord {
    /// Returns how long it ran, by the server's clock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # use std::time::Duration;
    /// use redlatch::once::JobRun;
    ///
    /// let import = client.once("import").slot("2026-11-28");
    /// # let read = async || tokio::time::sleep(Duration::from_secs(90)).await;
    /// let _ = import.run(async |_: &JobRun| { read().await; Ok::<_, String>(()) }).await?;
    /// let last = import.last().await?.expect("a run");
    /// println!("the import took {:?}", last.duration());
    /// # assert!(last.duration() >= Duration::from_secs(90));
    /// # Ok(())
    /// # }
    /// ```
    pub fn duration(&self) -> Duration {
        self.ended.duration_since(self.began).unwrap_or_default()
    }

    /// Reads the form that the server stores: `<outcome> <attempt> <token> <began> <ended> <who>
    /// <slot>`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let words: Vec<_> = text.splitn(7, ' ').collect();
        let [outcome, attempt, token, began, ended, who, slot] = words[..] else {
            return None;
        };
        let (host, pid) = parse_process(who);
        Some(Self {
            slot: Slot::parse(slot)?,
            outcome: JobOutcome::parse(outcome)?,
            attempt: attempt.parse().ok()?,
            token: Token::from_u64(token.parse().ok()?),
            began: instant(began.parse().ok()?),
            ended: instant(ended.parse().ok()?),
            host,
            pid,
            error: None,
        })
    }

    pub(crate) fn ended_millis(&self) -> u64 {
        millis(self.ended)
    }
}

impl fmt::Display for JobRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slot, outcome, took) = (&self.slot, self.outcome, self.duration());
        write!(f, "slot {slot}: {outcome} after {took:?} on {} ", self.host)?;
        write!(f, "(pid {}), attempt {}", self.pid, self.attempt)?;
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobOutcome {
    /// The work returned `Ok`.
    Done,
    /// The work returned `Err`.
    Failed,
    /// The work took longer than [`max_run`](crate::Job::max_run) and was dropped.
    Overran,
    /// The caller dropped its future, the work panicked, or the client closed.
    Dropped,
    /// The claim was lost: the process died or was stopped, or the server was silent for longer
    /// than the lease.
    Lost,
}

impl JobOutcome {
    /// Returns the outcome as the server stores it, and as metrics and events name it.
    ///
    /// ```
    /// use redlatch::once::JobOutcome;
    ///
    /// // The label `outcome` of the counter of runs has these values.
    /// assert_eq!(JobOutcome::Done.as_str(), "done");
    /// assert_eq!(JobOutcome::Overran.as_str(), "overran");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Overran => "overran",
            Self::Dropped => "dropped",
            Self::Lost => "lost",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        use JobOutcome::{Done, Dropped, Failed, Lost, Overran};

        // A keyed slot whose run is not over, or whose process died.
        let word = if word == "run" { "lost" } else { word };
        let mut all = [Done, Failed, Overran, Dropped, Lost].into_iter();
        all.find(|outcome| outcome.as_str() == word)
    }
}

impl fmt::Display for JobOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A run that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobHolder {
    /// The slot that it is for.
    pub slot: Slot,
    /// Which attempt at the slot it is, from 1.
    pub attempt: u32,
    /// Its fencing token.
    pub token: Token,
    /// When it began, by the server's clock.
    pub began: SystemTime,
    /// How long its lease lasts if nothing renews it.
    pub remaining: Duration,
    /// The host that runs it.
    pub host: String,
    /// The process that runs it.
    pub pid: u32,
    /// The owner of the claim, as the server stores it.
    pub owner: String,
}

impl fmt::Display for JobHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}: under way on {} ", self.slot, self.host)?;
        write!(f, "(pid {}), attempt {}", self.pid, self.attempt)
    }
}

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

/// Reads `<host>:<pid>`.
pub(crate) fn parse_process(text: &str) -> (String, u32) {
    match text.rsplit_once(':') {
        Some((host, pid)) => (host.to_owned(), pid.parse().unwrap_or(0)),
        None => (text.to_owned(), 0),
    }
}

/// Returns `<host>:<pid>` as one word.
pub(crate) fn process(host: &str, pid: u32) -> String {
    let odd = |char: char| char.is_whitespace() || char.is_control();
    let host: String = host.chars().take(200).collect();
    format!("{}:{pid}", host.replace(odd, "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_read_from_its_words() {
        let text = "failed 2 1795316400000123 1795316400000 1795316401500 my_host:77 =a b";
        let record = JobRecord::parse(text).unwrap();
        assert_eq!(record.slot, Slot::Key("a b".to_owned()));
        assert_eq!(record.outcome, JobOutcome::Failed);
        assert_eq!((record.attempt, record.pid), (2, 77));
        assert_eq!(record.host, "my_host");
        assert_eq!(record.duration(), Duration::from_millis(1500));
        assert_eq!(
            record.to_string(),
            "slot a b: failed after 1.5s on my_host (pid 77), attempt 2"
        );
        for broken in ["", "done", "gone 1 1 1 1 h:1 5", "done x 1 1 1 h:1 5"] {
            assert_eq!(JobRecord::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn process_is_one_word() {
        assert_eq!(process("a b\tc", 7), "a_b_c:7");
        assert_eq!(parse_process("::1:9"), ("::1".to_owned(), 9));
        assert_eq!(parse_process("x"), ("x".to_owned(), 0));
    }
}
