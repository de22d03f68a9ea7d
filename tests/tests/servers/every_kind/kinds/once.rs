//! Jobs that run once per slot. A hold is a run, whose work lasts until it is given back.

use redlatch_tests::running::RunningJob;

use crate::every_kind::prelude::*;

/// Jobs that run once per slot.
#[derive(Debug)]
pub(in crate::every_kind) struct Jobs;

#[async_trait]
impl Kind for Jobs {
    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let client = &object.party.client;
        let running = RunningJob::begin_in_time(client, &job(object).lease(lease)).await?;
        Ok(Box::new(running))
    }

    async fn held(&self, object: &Object) -> Result<u64, Error> {
        Ok(job(object).holder().await?.map_or(0, |_| 1))
    }

    async fn work(&self, load: &mut Load) {
        load.crew("once", 1, &[(&Self as _, 1); 2]);
    }

    fn looks_first(&self) -> bool {
        true
    }

    fn queues(&self) -> bool {
        false
    }

    fn extends(&self) -> bool {
        false
    }
}

/// Returns a job that may run again right after a run.
fn job(object: &Object) -> Job {
    let job = object.party.client.once(&object.name);
    job.gap(Duration::from_millis(1)).retries(1_000_000)
}
