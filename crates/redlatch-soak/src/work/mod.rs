//! The load: workers that acquire, hold, re-enter, extend, release, drop and give up. [`start`]
//! starts all kinds of workers.

mod bench;
mod election;
mod entry;
mod guarded;
mod guards;
mod latch;
mod limit;
mod once;
mod permits;

use std::{ops::Range, time::Duration};

use fastrand::Rng;
use redlatch::{Client, Error, ErrorKind, Term};
use tokio::task::JoinSet;

pub(crate) use self::{bench::Bench, entry::Wanted, guards::PERMITS};
use crate::names;

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
        let mut bench = self.bench.clone();
        bench.worker = u32::try_from(self.workers.len()).unwrap_or(u32::MAX);
        let worker = work(bench, self.random.fork());
        self.workers.spawn(worker);
    }
}

/// Starts all workers of the kinds that can run here.
pub(crate) fn start(bench: &Bench, random: &mut Rng) -> JoinSet<()> {
    let mut crew = Crew {
        bench,
        random,
        workers: JoinSet::new(),
    };
    crew.repeat(8, guards::lock);
    crew.repeat(6, guards::fair);
    crew.repeat(8, guards::sides);
    crew.repeat(6, guards::semaphore);
    crew.repeat(4, permits::round);
    crew.repeat(3, guards::multi);
    if bench.replicas > 0 {
        crew.repeat(4, guards::durable);
    }
    if !bench.nodes.is_empty() {
        crew.repeat(3, guards::red);
    }
    for at in 0..names::KEPT {
        crew.spawn(move |bench, random| guards::kept(bench, random, at));
    }
    guarded::start(&mut crew, "fenced");
    guarded::start(&mut crew, "checked");
    latch::start(&mut crew);
    crew.repeat(6, limit::round);
    crew.repeat(4, once::round);
    crew.repeat(4, election::round);
    crew.workers
}

/// Takes a name with the primitive that uses it and returns it, as every client must be able to do
/// once all is healthy.
pub(crate) async fn visit(client: &Client, name: &str) -> Result<(), Error> {
    let released = match names::stem(name) {
        "fair" => client.fair_lock(name).lock().await?.release().await,
        "rw" => {
            let lock = client.read_write_lock(name);
            lock.write().await?.release().await
        }
        "semaphore" => {
            let semaphore = client.semaphore(name).permits_if_unset(PERMITS);
            semaphore.acquire_many(PERMITS).await?.release().await
        }
        "permits" => return permits::visit(client, name).await,
        "latch" => return latch::visit(client, name).await,
        "limit" => return limit::visit(client, name).await,
        "once" => return once::visit(client, name).await,
        "election" => return client.election(name).lead(async |_: &Term| {}).await,
        "lock" | "kept" | "durable" | "red" | "fenced" | "checked" => {
            client.lock(name).lock().await?.release().await
        }
        stem => panic!("nothing visits names of {stem}"),
    };
    released.map(drop)
}

/// Deletes objects that stay until they are deleted.
pub(crate) async fn delete(client: &Client, name: &str) -> Result<(), Error> {
    let deleted = match names::stem(name) {
        "semaphore" => client.semaphore(name).delete().await.map(drop),
        "permits" => {
            let permits = client.permit_expirable_semaphore(name);
            permits.delete().await.map(drop)
        }
        "latch" => client.count_down_latch(name).delete().await.map(drop),
        "once" => client.once(name).reset().await.map(drop),
        // They end by themselves.
        "lock" | "kept" | "fair" | "rw" | "durable" | "red" | "fenced" | "checked" | "limit"
        | "election" => {
            return Ok(());
        }
        stem => panic!("nothing deletes names of {stem}"),
    };
    match deleted {
        Err(error) if error.kind() != ErrorKind::NotSet => Err(error),
        _ => Ok(()),
    }
}

/// Draws a name of a stem.
pub(crate) fn any(random: &mut Rng, stem: &str) -> String {
    names::name(stem, random.usize(..names::count(stem)))
}

/// Draws a time in the given range of milliseconds.
pub(crate) fn millis(random: &mut Rng, range: Range<u64>) -> Duration {
    Duration::from_millis(random.u64(range))
}

/// The longest wait of a worker. It is longer than any outage of a server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
