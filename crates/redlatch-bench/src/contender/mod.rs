//! The contenders: a [`Session`] for each that is a Rust library, and a line in [`KNOWN`] for its
//! name.

mod drive;
mod external;
mod fleet;
mod floor;
mod gcra;
mod raw;
mod raw_pool;
mod redlatch;
mod rslock;
mod scripted;
mod scripts;

pub(crate) use drive::drive;
pub(crate) use external::External;
pub(crate) use fleet::Contender;
pub(crate) use floor::{Lap, Station, ring};
pub(crate) use raw::{ACQUIRE, RELEASE};
pub(crate) use redlatch::connect as connect_redlatch;

use std::{error::Error, time::Duration};

use async_trait::async_trait;

/// The reason why a round could not be run.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// A lock library in this process, connected to a server.
pub(crate) struct Session {
    /// The commands that it sends itself; see [`Contender::verbs`].
    pub(crate) verbs: &'static str,
    lock: Named,
}

/// Makes a handle of a name.
type Named = Box<dyn Fn(&str) -> Box<dyn Lock> + Send + Sync>;

impl Session {
    /// Returns a library that makes the handle of a name by `lock`.
    fn new<L: Lock + 'static>(
        verbs: &'static str,
        lock: impl Fn(&str) -> L + Send + Sync + 'static,
    ) -> Self {
        let lock = Box::new(move |name: &str| Box::new(lock(name)) as _);
        Self { verbs, lock }
    }

    /// Creates a handle of a name.
    pub(crate) fn lock(&self, name: &str) -> Box<dyn Lock> {
        (self.lock)(name)
    }
}

/// The commands of a library that only calls scripts.
const SCRIPTED: &str = "evalsha,eval,script|load";

/// The commands of a library that acquires by `SET` and releases by a script.
const SETTING: &str = "set,evalsha,eval,script|load";

/// A handle of a name for one task.
#[async_trait]
pub(crate) trait Lock: Send {
    /// Waits until it holds the name.
    async fn acquire(&mut self) -> Result<(), Failure>;

    /// Releases the hold of [`acquire`](Self::acquire). Returns when the server has answered. A
    /// check of a rate has nothing to release.
    async fn release(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The built-in contenders, in the order of the tables.
pub(crate) const KNOWN: [&str; 4] = [RAW, "redlatch", "rslock", "polling"];

/// Other primitives of redlatch with one holder at a time. `permit` and `permit-id` are semaphores
/// with one permit.
pub(crate) const KINDS: [&str; 4] = ["fair", "write", "permit", "permit-id"];

/// All primitives of redlatch without contention. `roomy` and `permits` are semaphores with a
/// permit for each task, of a name per task; `one-` of one name for all.
pub(crate) const EVERY_KIND: [&str; 8] = [
    "redlatch",
    "fair",
    "read",
    "write",
    "roomy",
    "permits",
    "one-roomy",
    "one-permits",
];

/// The reference without contention.
pub(crate) const RAW: &str = "raw";

/// The reference for a pool of permits.
pub(crate) const RAW_POOL: &str = "raw-pool";

/// The limit of a client that calls the scripts of redlatch, without contention.
pub(crate) const SCRIPTS: &str = "scripts";

/// The reference for checks of a rate.
pub(crate) const GCRA: &str = "gcra";

/// The rate limiter of redlatch.
pub(crate) const LIMIT: &str = "limit";

/// The reference for hand-offs.
pub(crate) const FLOOR: &str = "floor";

/// Connects a contender that [`is_known`].
pub(crate) async fn connect(name: &str, url: &str) -> Result<Session, Failure> {
    Ok(match name {
        RAW => raw::session(url).await?,
        // Its stations connect themselves.
        FLOOR => Session {
            verbs: floor::VERBS,
            ..raw::session(url).await?
        },
        "rslock" => rslock::session(url),
        "polling" => raw::polling(url).await?,
        SCRIPTS => scripts::session(url).await?,
        RAW_POOL => raw_pool::session(url).await?,
        GCRA => gcra::session(url).await?,
        kind => redlatch::session(kind, url).await?,
    })
}

/// Tells whether [`connect`] knows the name.
pub(crate) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
        || KINDS.contains(&name)
        || EVERY_KIND.contains(&name)
        || [SCRIPTS, RAW_POOL, GCRA, LIMIT, FLOOR, "semaphore"].contains(&name)
}

/// The fixed lease of all contenders. It is longer than any round.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
