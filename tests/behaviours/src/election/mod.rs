//! The election.

pub mod failing;
pub mod leading;
pub mod observing;
pub mod tasks;

use redlatch::Token;
use tokio::sync::mpsc;

use crate::prelude::*;

/// The shortest lease that is renewed.
pub const LEASE: Duration = Duration::from_secs(1);

/// A candidate that leads until it is told to stop.
#[derive(Debug)]
pub struct Candidate {
    /// The token of each term, as the terms begin.
    pub terms: mpsc::UnboundedReceiver<Token>,
    /// Tells the work to return.
    pub stop: Arc<Notify>,
    /// The number of runs of the work that have not ended.
    pub at_work: Arc<AtomicU32>,
    /// The call that leads.
    pub leading: JoinHandle<Result<(), Error>>,
}

impl Candidate {
    /// Starts a candidate in a task of its own.
    pub fn start(election: Election) -> Self {
        let (terms, began) = mpsc::unbounded_channel();
        let stop = Arc::new(Notify::new());
        let at_work = Arc::new(AtomicU32::new(0));
        let (told, counter) = (Arc::clone(&stop), Arc::clone(&at_work));
        let leading = tokio::spawn(async move {
            let work = async move |term: &Term| {
                let _working = Working::begin(&counter);
                terms.send(term.token()).unwrap();
                told.notified().await;
            };
            election.lead(work).await
        });
        Self {
            terms: began,
            stop,
            at_work,
            leading,
        }
    }

    /// Returns the token of the next term that begins.
    pub async fn term(&mut self) -> Token {
        self.terms.recv().await.unwrap()
    }

    /// Returns the number of runs of the work that have not ended.
    pub fn at_work(&self) -> u32 {
        self.at_work.load(Ordering::SeqCst)
    }

    /// Lets the work return, and waits for the end of the call.
    pub async fn stop(self) {
        self.stop.notify_one();
        self.leading.await.unwrap().unwrap();
        assert_eq!(self.at_work.load(Ordering::SeqCst), 0);
    }
}

/// One run of some work. Counts until it is dropped.
#[derive(Debug)]
pub struct Working(Arc<AtomicU32>);

impl Working {
    /// Counts one more.
    pub fn begin(counter: &Arc<AtomicU32>) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counter))
    }

    /// Goes on until it is dropped.
    pub async fn for_ever(self) {
        std::future::pending().await
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until nobody leads.
pub async fn vacant(election: &Election) {
    let free = async || election.leader().await.unwrap().is_none();
    wait_for("nobody to lead", free).await;
}
