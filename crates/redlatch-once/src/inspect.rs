//! The records of a job: looking at them and forgetting them.

use redlatch_core::{
    Error, ErrorKind,
    family::{About, Internals},
};

use crate::{
    Job, Slot,
    decide::View,
    scripts::{LookScript, Reset, ResetScript},
};

/// How often a caller looks again because the job has changed in between.
pub(crate) const LOOKS: u32 = 100;

pub(crate) async fn look(job: &Job, slot: Option<&Slot>) -> Result<View, Error> {
    let script = LookScript {
        key: job.key()?,
        slot,
    };
    let reply = job.client().query(&script.call()).await;
    let view = reply.and_then(|reply| LookScript::decode(&reply));
    view.about("job", job.name().unwrap_or_default())
}

pub(crate) async fn reset(job: &Job) -> Result<bool, Error> {
    let key = job.key()?;
    for _ in 0..LOOKS {
        let view = look(job, None).await?;
        let call = |op: &_| {
            ResetScript {
                key,
                op,
                view: &view,
            }
            .call()
        };
        let reset = job.client().change(call, ResetScript::decode).await;
        match reset.about("job", job.name().unwrap_or_default())? {
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
