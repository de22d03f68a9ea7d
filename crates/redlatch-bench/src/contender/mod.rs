//! Who is measured. Each contender is one file: a [`Session`] if it is a Rust library, a line in
//! [`KNOWN`] for its name.

mod drive;
mod external;
mod floor;
mod polling;
mod raw;
mod redlatch;
mod rslock;
mod scripts;

pub(crate) use drive::drive;
pub(crate) use external::{External, answer, read_request};
pub(crate) use floor::{Floor, Lap, Station, VERBS as FLOOR_VERBS, laps};
pub(crate) use raw::{ACQUIRE, RELEASE};
pub(crate) use redlatch::connect as connect_redlatch;

use std::{error::Error, sync::Arc, time::Duration};

use ::redlatch::{FairLock, Semaphore};
use async_trait::async_trait;

use crate::job::{Done, Job};

/// Why a round could not be run.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Whoever can be asked to run a round.
#[async_trait]
pub(crate) trait Contender: Send {
    fn name(&self) -> &str;

    /// The commands that it sends itself, in lower case; others that the server counts are called
    /// by scripts.
    fn verbs(&self) -> Vec<String>;

    async fn run(&mut self, job: &Job) -> Result<Done, Failure>;

    /// The CPU time that it has used so far.
    fn cpu(&self) -> Duration;
}

/// A lock library in this process, connected to a server.
pub(crate) trait Session: Send + Sync + 'static {
    /// Makes a handle of a name.
    fn lock(&self, name: &str) -> Box<dyn Lock>;

    /// See [`Contender::verbs`].
    fn verbs(&self) -> &'static [&'static str];
}

/// A handle of a name, of one task.
#[async_trait]
pub(crate) trait Lock: Send {
    /// Waits until it has the name.
    async fn acquire(&mut self) -> Result<(), Failure>;

    /// Gives back what [`acquire`](Self::acquire) got, and returns when the server has answered.
    async fn release(&mut self) -> Result<(), Failure>;
}

/// Those that are built in, in the order of the tables.
pub(crate) const KNOWN: [&str; 4] = [RAW, "redlatch", "rslock", "polling"];

/// Other kinds of redlatch that one at a time can have.
pub(crate) const KINDS: [&str; 2] = ["fair", "write"];

/// Who all others are compared with, where nobody waits for anybody.
pub(crate) const RAW: &str = "raw";

/// The limit of whoever calls the scripts that redlatch calls, where nobody waits for anybody.
pub(crate) const SCRIPTS: &str = "scripts";

/// Who all others are compared with, where one hands on to another.
pub(crate) const FLOOR: &str = "floor";

/// Connects one of [`KNOWN`] or [`KINDS`], or a semaphore.
pub(crate) async fn connect(name: &str, url: &str) -> Result<Arc<dyn Session>, Failure> {
    Ok(match name {
        RAW => raw::session(url).await?,
        "redlatch" => redlatch::session::<::redlatch::Lock>(url).await?,
        "rslock" => Arc::new(rslock::Rslock::connect(url)),
        "polling" => Arc::new(polling::Polling::connect(url).await?),
        "fair" => redlatch::session::<FairLock>(url).await?,
        "write" => redlatch::session::<redlatch::Writers>(url).await?,
        SCRIPTS => scripts::session(url).await?,
        "semaphore" => redlatch::session::<Semaphore>(url).await?,
        _ => return Err(format!("no contender is called {name:?}").into()),
    })
}

/// Tells whether [`connect`] knows the name.
pub(crate) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name) || KINDS.contains(&name) || [SCRIPTS, "semaphore"].contains(&name)
}

/// Fixed leases of all contenders: longer than any round.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
