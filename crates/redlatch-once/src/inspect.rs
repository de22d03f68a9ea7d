//! The records of a job: looking at them and forgetting them.

use redlatch_core::{Error, ErrorKind};

use crate::{
    Job, Slot,
    decide::View,
    scripts::{self, Reset},
};

/// How often a caller looks again because the job has changed in between.
pub(crate) const LOOKS: u32 = 100;

pub(crate) async fn look(job: &Job, slot: Option<&Slot>) -> Result<View, Error> {
    let call = scripts::look(job.handle().key()?, slot);
    job.handle().ask(call, scripts::looked).await
}

pub(crate) async fn reset(job: &Job) -> Result<bool, Error> {
    let key = job.handle().key()?;
    for _ in 0..LOOKS {
        let view = look(job, None).await?;
        let call = |op: &_| scripts::reset(key, op, &view);
        match job.handle().change(call, scripts::was_reset).await? {
            Reset::Done => return Ok(true),
            Reset::Unset => return Ok(false),
            Reset::Moved => {}
        }
    }
    Err(changing(job))
}

/// Returns the error of a job that changes faster than a caller can look.
pub(crate) fn changing(job: &Job) -> Error {
    let name = job.name().unwrap_or_default();
    let message = format!("the job {name:?} has changed after each of {LOOKS} looks");
    Error::new(ErrorKind::TooManyAttempts, message)
}
