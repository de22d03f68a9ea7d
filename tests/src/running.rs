//! A run of a job as something that can be held: its work lasts until the holder gives it back.

use std::{fmt, sync::Mutex, time::Duration};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use redlatch::{
    Client, Error, ErrorKind, LossCause, Moment,
    once::{Job, JobRun, Once},
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::hold::{Hold, ReleaseOutcome};

/// How often the work says until when its hold lasts.
const TOLD: Duration = Duration::from_millis(10);

/// A run of a job whose work does nothing but last.
pub struct RunningJob {
    client: Client,
    token: u64,
    /// Until when the run is certain to last, as its work says. Closed once the work is dropped.
    until: watch::Receiver<Moment>,
    lost: Mutex<Option<oneshot::Receiver<LossCause>>>,
    end: oneshot::Sender<()>,
    outcome: JoinHandle<Result<Once<(), String>, Error>>,
}

impl RunningJob {
    /// Runs `job` if its slot is open. Returns `None` if another run is in the way.
    async fn begin(client: &Client, job: Job) -> Result<Option<Self>, Error> {
        let (begun, began) = oneshot::channel();
        let (end, mut ended) = oneshot::channel();
        let (alive, until) = watch::channel(client.now());
        let work = async move |run: &JobRun| {
            alive.send_replace(run.valid_until());
            // Nobody holds it if the caller has gone.
            let _ = begun.send(run.token().as_u64());
            loop {
                if run.check().is_ok() {
                    alive.send_replace(run.valid_until());
                }
                match timeout(TOLD, &mut ended).await {
                    Ok(Ok(())) => return Ok(()),
                    Ok(Err(_)) => return Err("its holder has dropped it".to_owned()),
                    Err(_) => {}
                }
            }
        };
        let (tell, told) = oneshot::channel();
        let outcome = tokio::spawn(async move {
            let ran = job.run(work).await;
            if let Ok(Once::Lost(cause)) = &ran {
                let _ = tell.send(*cause);
            }
            ran
        });
        match began.await {
            Ok(token) => Ok(Some(Self {
                client: client.clone(),
                token,
                until,
                lost: Mutex::new(Some(told)),
                end,
                outcome,
            })),
            Err(_) => outcome.await.unwrap().map(|_| None),
        }
    }

    /// Runs `job` as soon as its slot is open.
    ///
    /// # Errors
    ///
    /// Those of [`Job::run`] that do not pass.
    pub async fn begin_in_time(client: &Client, job: &Job) -> Result<Self, Error> {
        loop {
            match Self::begin(client, job.clone()).await {
                Ok(Some(running)) => return Ok(running),
                Err(error) if !error.is_transient() => return Err(error),
                Ok(None) | Err(_) => sleep(2 * TOLD).await,
            }
        }
    }
}

#[async_trait]
impl Hold for RunningJob {
    fn believed(&self) -> bool {
        self.left() > Some(Duration::ZERO)
    }

    /// Returns how long the run certainly lasts.
    fn left(&self) -> Option<Duration> {
        let left = || self.until.borrow().since(self.client.now());
        let works = self.until.has_changed().is_ok();
        Some(works.then(left).unwrap_or_default())
    }

    fn fence(&self) -> Option<u64> {
        Some(self.token)
    }

    /// May be called once.
    fn lost(&self) -> BoxFuture<'static, LossCause> {
        let lost = self.lost.lock().unwrap().take();
        let lost = lost.expect("it is asked for once");
        Box::pin(async move {
            match lost.await {
                Ok(cause) => cause,
                Err(_) => std::future::pending().await,
            }
        })
    }

    /// A run lasts for as long as its work.
    async fn prolong(&self, _: Duration) -> Result<(), Error> {
        Ok(())
    }

    /// Ends the work with success. After a drop of the future the run ends all the same.
    async fn give_back(self: Box<Self>) -> Result<ReleaseOutcome, Error> {
        let Self { end, outcome, .. } = *self;
        // The work may have been dropped.
        let _ = end.send(());
        match outcome.await.unwrap() {
            Ok(Once::Ran(())) => Ok(ReleaseOutcome::Ended),
            Ok(_) => Ok(ReleaseOutcome::WasOver),
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => Ok(ReleaseOutcome::Unsure),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for RunningJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningJob")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
