//! The load: workers that acquire, hold, re-enter, extend, release, drop and give up. Each kind of
//! worker is a [`Kind`] in a file of its own, listed in [`KINDS`].

mod bench;
mod durable;
mod election;
mod fair;
mod given;
mod guarded;
mod latch;
mod lock;
mod multi;
mod once;
mod permits;
mod red;
mod rwlock;
mod semaphore;

use std::{future::Future, ops::Range, time::Duration};

use fastrand::Rng;
use futures_util::future::BoxFuture;
use redlatch::{Client, Error, ErrorKind};
use tokio::task::JoinSet;

use self::given::given;
pub(crate) use self::{
    bench::{Asked, Bench, Entry, Wanted},
    semaphore::PERMITS,
};
use crate::names;

/// All kinds, each with the stem and the number of its names. The number is 0 if it uses those of
/// another kind.
pub(crate) static KINDS: &[(&str, usize, &dyn Kind)] = &[
    ("lock", 4, &lock::Plain),
    ("fair", 3, &fair::Fair),
    ("rw", 3, &rwlock::ReadWrite),
    ("semaphore", 2, &semaphore::Permits),
    ("permits", 2, &permits::Ids),
    ("multi", 0, &multi::Several),
    ("durable", 2, &durable::Durable),
    ("red", 1, &red::Quorum),
    (guarded::FENCED.stem, 1, &guarded::FENCED),
    (guarded::CHECKED.stem, 1, &guarded::CHECKED),
    ("latch", 2, &latch::CountDown),
    ("once", 2, &once::Jobs),
    ("election", 2, &election::Leaders),
];

/// A primitive, or a way to use one, with its own names.
pub(crate) trait Kind: Sync {
    /// Starts its workers, if it can run here.
    fn start(&self, crew: &mut Crew<'_>);

    /// Takes `name` and returns it, as every client must be able to do once all is healthy.
    fn visit<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a>;

    /// Deletes `name`, if it stays until it is deleted.
    fn delete<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        let _ = (client, name);
        Box::pin(async { Ok(()) })
    }
}

/// A call about one name.
pub(crate) type Visit<'a> = BoxFuture<'a, Result<(), Error>>;

/// The workers of a run, and what they need.
pub(crate) struct Crew<'a> {
    pub(crate) bench: &'a Bench,
    random: &'a mut Rng,
    workers: JoinSet<()>,
}

impl Crew<'_> {
    /// Starts `count` workers that each repeat `round`.
    fn repeat<F>(&mut self, count: usize, round: fn(Bench, Rng) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        for _ in 0..count {
            self.spawn(|bench, mut random| async move {
                while bench.goes_on() {
                    round(bench.clone(), random.fork()).await;
                    tokio::time::sleep(millis(&mut random, 0..40)).await;
                }
            });
        }
    }

    /// Starts one worker, with random numbers of its own.
    fn spawn<F>(&mut self, work: impl FnOnce(Bench, Rng) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let worker = work(self.bench.clone(), self.random.fork());
        self.workers.spawn(worker);
    }
}

/// Starts all workers.
pub(crate) fn start(bench: &Bench, random: &mut Rng) -> JoinSet<()> {
    let mut crew = Crew {
        bench,
        random,
        workers: JoinSet::new(),
    };
    for (_, _, kind) in KINDS {
        kind.start(&mut crew);
    }
    crew.workers
}

/// Acquires and releases `name` with the primitive that uses it.
pub(crate) async fn visit(client: &Client, name: &str) -> Result<(), Error> {
    of(name).visit(client, name).await
}

/// Deletes objects that stay until they are deleted.
pub(crate) async fn delete(client: &Client, name: &str) -> Result<(), Error> {
    match of(name).delete(client, name).await {
        Err(error) if error.kind() != ErrorKind::NotSet => Err(error),
        _ => Ok(()),
    }
}

/// Returns the kind that uses `name`.
fn of(name: &str) -> &'static dyn Kind {
    let stem = name.split('-').next().unwrap_or(name);
    let found = KINDS.iter().find(|(other, ..)| *other == stem);
    found.unwrap_or_else(|| panic!("no kind uses {name}")).2
}

/// Takes a plain lock and returns it.
fn visit_lock<'a>(client: &'a Client, name: &'a str) -> Visit<'a> {
    Box::pin(async move { client.lock(name).lock().await?.release().await.map(drop) })
}

/// Draws a name of a stem.
fn any(random: &mut Rng, stem: &str) -> String {
    names::name(stem, random.usize(..names::count(stem)))
}

/// Draws a time in the given range of milliseconds.
pub(crate) fn millis(random: &mut Rng, range: Range<u64>) -> Duration {
    Duration::from_millis(random.u64(range))
}

/// The longest wait of a worker. It is longer than any outage of a server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
