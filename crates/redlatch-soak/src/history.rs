//! The history of a run, in memory and in a file, and its output while the run lasts.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use redlatch::{Error, ErrorKind};

use crate::record::{Outcome, Record};

/// The history of a run. Each record that is added goes to the end of the file.
pub(crate) struct History {
    inner: Mutex<Inner>,
    next: AtomicU64,
}

struct Inner {
    file: BufWriter<Box<dyn Write + Send>>,
    done: Finished,
    /// The fault that the status line shows.
    now: String,
}

impl History {
    /// Starts a history that is written to `path`.
    pub(crate) fn begin(path: &Path) -> io::Result<Self> {
        File::create(path).map(Self::kept_in)
    }

    fn kept_in(file: impl Write + Send + 'static) -> Self {
        Self {
            inner: Mutex::new(Inner {
                file: BufWriter::new(Box::new(file)),
                done: Finished::default(),
                now: "calm".to_owned(),
            }),
            next: AtomicU64::new(1),
        }
    }

    /// Starts a history without a file.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Self {
        Self::kept_in(io::sink())
    }

    /// Returns a number that is unique in this run.
    pub(crate) fn id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a record.
    pub(crate) fn add(&self, record: Record) {
        let mut inner = self.inner();
        let what = match &record {
            Record::Hold(hold) => hold.kind.clone(),
            Record::Fault(fault) => format!("fault {}", fault.kind),
            Record::Write(write) if write.accepted => format!("{} write", write.name),
            Record::Write(write) => format!("{} write refused", write.name),
            Record::Fenced(write) => format!("fenced write, {:?}", write.outcome),
            Record::Round(_) => "latch".to_owned(),
            Record::Pass(_) => "passes of limiters".to_owned(),
            Record::Attempt(attempt) => match attempt.outcome {
                Outcome::Late => format!("20 s of waiting, {}", attempt.kind),
                outcome => format!("attempts, {outcome:?}"),
            },
        };
        *inner.done.counts.entry(what).or_default() += 1;
        // `finish` reports a full disk at the end.
        let _ = record.line().map(|line| writeln!(inner.file, "{line}"));
        inner.done.records.push(record);
    }

    /// Counts an event that is in no record.
    pub(crate) fn count(&self, what: &str) {
        let mut inner = self.inner();
        *inner.done.counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Records an error. An unexplained error is a violation.
    pub(crate) fn note<T>(&self, outcome: Result<T, Error>) -> Option<T> {
        let error = match outcome {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let explained = error.is_transient()
            || error.loss().is_some()
            || error.kind() == ErrorKind::TooManyAttempts;
        let kind = format!("{:?}", error.kind());
        *self.inner().done.errors.entry(kind).or_default() += 1;
        if !explained {
            self.violated(format!("unexplained: {error:?}"));
        }
        None
    }

    /// Adds a violation.
    pub(crate) fn violated(&self, what: String) {
        println!("violation: {what}");
        self.inner().done.violations.push(what);
    }

    /// Sets the fault that the status line shows.
    pub(crate) fn began(&self, what: &str) {
        what.clone_into(&mut self.inner().now);
    }

    /// Returns a status line of the run so far.
    pub(crate) fn line(&self) -> String {
        let inner = self.inner();
        let Finished { counts, errors, .. } = &inner.done;
        let sum = |faults: bool| -> u64 {
            let counts = counts.iter();
            let counts = counts.filter(|(what, _)| what.starts_with("fault") == faults);
            counts.map(|(_, count)| count).sum()
        };
        let (done, faults, errors) = (sum(false), sum(true), errors.values().sum::<u64>());
        let (violations, now) = (inner.done.violations.len(), &inner.now);
        format!("{done} done, {errors} errors, {faults} faults, {violations} violations; {now}")
    }

    /// Closes the file and returns all records, counts, errors and violations.
    pub(crate) fn finish(self) -> io::Result<Finished> {
        let inner = self.inner.into_inner();
        let mut inner = inner.unwrap_or_else(PoisonError::into_inner);
        inner.file.flush()?;
        Ok(inner.done)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The content of a history.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    pub(crate) records: Vec<Record>,
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) errors: BTreeMap<String, u64>,
    /// Violations that the checks of a history cannot see: unexpected errors, and calls that do not
    /// end.
    pub(crate) violations: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_nothing_explains_is_a_violation() {
        let history = History::in_memory();
        for (kind, explained) in [
            (ErrorKind::Unavailable, true),
            (ErrorKind::OutcomeUnknown, true),
            (ErrorKind::NotEnoughReplicas, true),
            (ErrorKind::ServerFull, true),
            (ErrorKind::Permission, false),
            (ErrorKind::Protocol, false),
            (ErrorKind::Closed, false),
            (ErrorKind::WrongKind, false),
        ] {
            let before = history.inner().done.violations.len();
            history.note(Err::<(), _>(Error::new(kind, "made up")));
            let told = history.inner().done.violations.len() - before;
            assert_eq!(told, usize::from(!explained), "{kind:?}");
        }
        assert_eq!(history.note(Ok(7)), Some(7));
        history.violated("this".to_owned());
        let finished = history.finish().unwrap();
        assert_eq!(finished.violations.last().unwrap(), "this");
        assert_eq!(finished.errors.values().sum::<u64>(), 8);
    }
}
