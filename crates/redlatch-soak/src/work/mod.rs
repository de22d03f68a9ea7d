//! The load: workers that acquire, hold, re-enter, extend, release, drop and give up. All kinds of
//! workers are in [`KINDS`].

mod bench;
mod election;
mod entry;
mod guarded;
mod guards;
mod latch;
mod limit;
mod once;
mod permits;

use std::{future::Future, ops::Range, time::Duration};

use fastrand::Rng;
use futures_util::future::BoxFuture;
use redlatch::{Client, Error, ErrorKind};
use tokio::task::JoinSet;

pub(crate) use self::{
    bench::Bench,
    entry::{Asked, Belief, Entry, Wanted},
    guards::{PERMITS, part},
};
use crate::names;

/// A primitive, or a way to use one, with its own names.
pub(crate) struct Kind {
    /// What its names begin with.
    pub(crate) stem: &'static str,
    /// The number of its names; 0 if it uses those of another kind.
    pub(crate) names: usize,
    /// Starts its workers, if it can run here.
    start: fn(&mut Crew<'_>),
    /// Takes a name and returns it, as every client must be able to do once all is healthy.
    visit: for<'a> fn(&'a Client, &'a str) -> Visit<'a>,
    /// Deletes a name, if it stays until it is deleted.
    delete: for<'a> fn(&'a Client, &'a str) -> Visit<'a>,
}

/// A kind without workers, whose names are those of plain locks.
const PLAIN: Kind = Kind {
    stem: "",
    names: 0,
    start: |_| {},
    visit: |client, name| {
        Box::pin(async move { client.lock(name).lock().await?.release().await.map(drop) })
    },
    delete: |_, _| Box::pin(async { Ok(()) }),
};

/// All kinds.
pub(crate) static KINDS: &[Kind] = &[
    Kind {
        stem: "lock",
        names: 4,
        start: |crew| crew.repeat(8, guards::lock),
        ..PLAIN
    },
    Kind {
        stem: "fair",
        names: 3,
        start: |crew| crew.repeat(6, guards::fair),
        visit: |client, name| {
            Box::pin(async move {
                let guard = client.fair_lock(name).lock().await?;
                guard.release().await.map(drop)
            })
        },
        ..PLAIN
    },
    Kind {
        stem: "rw",
        names: 3,
        start: |crew| crew.repeat(8, guards::sides),
        visit: |client, name| {
            Box::pin(async move {
                let guard = client.read_write_lock(name).write().await?;
                guard.release().await.map(drop)
            })
        },
        ..PLAIN
    },
    Kind {
        stem: "semaphore",
        names: 2,
        start: |crew| crew.repeat(6, guards::semaphore),
        visit: |client, name| {
            Box::pin(async move {
                let semaphore = client.semaphore(name).permits_if_unset(PERMITS);
                let guard = semaphore.acquire_many(PERMITS).await?;
                guard.release().await.map(drop)
            })
        },
        delete: |client, name| {
            Box::pin(async move { client.semaphore(name).delete().await.map(drop) })
        },
    },
    Kind {
        stem: "permits",
        names: 2,
        start: |crew| crew.repeat(4, permits::round),
        visit: permits::visit,
        delete: |client, name| {
            let permits = client.permit_expirable_semaphore(name);
            Box::pin(async move { permits.delete().await.map(drop) })
        },
    },
    Kind {
        stem: "multi",
        start: |crew| crew.repeat(3, guards::multi),
        ..PLAIN
    },
    Kind {
        stem: "durable",
        names: 2,
        start: |crew| {
            if crew.bench.replicas > 0 {
                crew.repeat(4, guards::durable);
            }
        },
        ..PLAIN
    },
    Kind {
        stem: "red",
        names: 1,
        start: |crew| {
            if !crew.bench.nodes.is_empty() {
                crew.repeat(3, guards::red);
            }
        },
        ..PLAIN
    },
    Kind {
        stem: "fenced",
        names: 1,
        start: |crew| guarded::start(crew, "fenced"),
        ..PLAIN
    },
    Kind {
        stem: "checked",
        names: 1,
        start: |crew| guarded::start(crew, "checked"),
        ..PLAIN
    },
    Kind {
        stem: "latch",
        names: 2,
        start: latch::start,
        visit: latch::visit,
        delete: |client, name| {
            Box::pin(async move { client.count_down_latch(name).delete().await.map(drop) })
        },
    },
    Kind {
        stem: "limit",
        names: 2,
        start: |crew| crew.repeat(6, limit::round),
        visit: limit::visit,
        ..PLAIN
    },
    Kind {
        stem: "once",
        names: 2,
        start: |crew| crew.repeat(4, once::round),
        visit: once::visit,
        delete: |client, name| Box::pin(async move { client.once(name).reset().await.map(drop) }),
    },
    Kind {
        stem: "election",
        names: 2,
        start: |crew| crew.repeat(4, election::round),
        visit: |client, name| {
            let election = client.election(name);
            Box::pin(async move { election.lead(async |_: &redlatch::Term| {}).await })
        },
        ..PLAIN
    },
];

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
        let mut bench = self.bench.clone();
        bench.worker = u32::try_from(self.workers.len()).unwrap_or(u32::MAX);
        let worker = work(bench, self.random.fork());
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
    for kind in KINDS {
        (kind.start)(&mut crew);
    }
    crew.workers
}

/// Acquires and releases `name` with the primitive that uses it.
pub(crate) async fn visit(client: &Client, name: &str) -> Result<(), Error> {
    (of(name).visit)(client, name).await
}

/// Deletes objects that stay until they are deleted.
pub(crate) async fn delete(client: &Client, name: &str) -> Result<(), Error> {
    match (of(name).delete)(client, name).await {
        Err(error) if error.kind() != ErrorKind::NotSet => Err(error),
        _ => Ok(()),
    }
}

/// Returns the kind that uses `name`.
fn of(name: &str) -> &'static Kind {
    let stem = name.split('-').next().unwrap_or(name);
    let found = KINDS.iter().find(|kind| kind.stem == stem);
    found.unwrap_or_else(|| panic!("no kind uses {name}"))
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
