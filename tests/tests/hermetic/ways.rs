//! The ways to hold a name, in one table: each lock or side of one, and permits that are acquired
//! at once. The tests of what all have in common run over it.

use std::fmt;

use futures_util::{FutureExt, future::BoxFuture};
use redlatch::{
    Acquire, TryAcquire, TryAcquireFor,
    compat::{Redisson, SetNx},
};
use redlatch_behaviours::{rwlock::assert_quiet, semaphore::assert_all_back};

use crate::prelude::*;

/// A guard of any kind.
pub(crate) type Guard = Box<dyn AnyGuard>;

pub(crate) type Acquiring = BoxFuture<'static, Result<Option<Guard>, Error>>;

/// For how long an acquisition waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Never,
    For(Duration),
    Forever,
}

/// One way. All tests use the name `x`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) what: &'static str,
    ask: fn(&Client, Wait, Option<WaitStrategy>) -> Acquiring,
}

macro_rules! ways {
    ($($what:literal: |$client:ident| $handle:expr,
        $try:ident / $within:ident / $wait:ident($($n:literal)?);)*) => {
        [$(Way {
            what: $what,
            ask: |$client, wait, strategy| match wait {
                Wait::Never => tries($handle.$try($($n)?)),
                Wait::For(wait) => waits_for($handle.$within($($n,)? wait), strategy),
                Wait::Forever => waits($handle.$wait($($n)?), strategy),
            },
        }),*]
    };
}

pub(crate) const WAYS: [Way; 8] = ways! {
    "lock": |client| client.lock("x"), try_lock / try_lock_for / lock();
    "fair": |client| client.fair_lock("x"), try_lock / try_lock_for / lock();
    "read": |client| client.read_write_lock("x"), try_read / try_read_for / read();
    "upgradable": |client| client.read_write_lock("x"),
        try_upgradable_read / try_upgradable_read_for / upgradable_read();
    "write": |client| client.read_write_lock("x"), try_write / try_write_for / write();
    "permits": |client| client.semaphore("x").permits_if_unset(3),
        try_acquire_many / try_acquire_many_for / acquire_many(3);
    "set nx": |client| SetNx::new(client, "x"), try_lock / try_lock_for / lock();
    "redisson": |client| Redisson::new(client, "x"), try_lock / try_lock_for / lock();
};

fn tries<G: Into<Guard> + 'static>(acquire: TryAcquire<G>) -> Acquiring {
    let acquired = acquire.into_future();
    acquired.map(|got| got.map(some)).boxed()
}

fn waits_for<G: Into<Guard> + 'static>(
    acquire: TryAcquireFor<G>,
    strategy: Option<WaitStrategy>,
) -> Acquiring {
    let acquire = strategy.into_iter().fold(acquire, TryAcquireFor::strategy);
    let acquired = acquire.into_future();
    acquired.map(|got| got.map(some)).boxed()
}

fn waits<G: Into<Guard> + 'static>(
    acquire: Acquire<G>,
    strategy: Option<WaitStrategy>,
) -> Acquiring {
    let acquire = strategy.into_iter().fold(acquire, Acquire::strategy);
    let acquired = acquire.into_future();
    acquired.map(|got| got.map(Some).map(some)).boxed()
}

fn some<G: Into<Guard>>(got: Option<G>) -> Option<Guard> {
    got.map(Into::into)
}

/// Returns the way that is called so.
pub(crate) fn way(what: &str) -> Way {
    WAYS.into_iter().find(|way| way.what == what).unwrap()
}

impl Way {
    /// Acquires the name by the strategy of the client.
    pub(crate) fn ask(self, client: &Client, wait: Wait) -> Acquiring {
        (self.ask)(client, wait, None)
    }

    /// Acquires the name by this strategy.
    pub(crate) fn ask_by(self, client: &Client, wait: Wait, strategy: WaitStrategy) -> Acquiring {
        (self.ask)(client, wait, Some(strategy))
    }

    /// Acquires the name, which is free.
    pub(crate) async fn hold(self, client: &Client) -> Guard {
        let held = self.ask(client, Wait::Forever).await.unwrap();
        held.expect("it waits for ever")
    }

    /// Acquires the name so that nobody else gets it in this way.
    pub(crate) async fn obstacle(self, client: &Client) -> Guard {
        let other = match self.what {
            "read" => way("write"),
            "write" => way("read"),
            _ => self,
        };
        other.hold(client).await
    }

    /// Checks that the name is free and that nothing is left, as `client` sees it.
    pub(crate) async fn assert_nothing_left(self, backend: &Backend, client: &Client) {
        let alone = match self.what {
            "read" | "upgradable" | "write" => {
                assert_quiet(backend, client, "x").await;
                way("write")
            }
            "permits" => {
                // The first acquisition makes the semaphore.
                let all = self.ask(client, Wait::Never).await.unwrap();
                drop(all.expect("all permits are back"));
                assert_all_back(backend, client, &client.semaphore("x")).await;
                self
            }
            _ => {
                backend.assert_only_counters_left();
                self
            }
        };
        let again = alone.ask(client, Wait::Never).await.unwrap();
        assert!(again.is_some(), "the name is free: {}", self.what);
    }
}

/// Awaits what ends within less than `limit` of stepped time. `what` says in an error what did not.
pub(crate) async fn within<T>(
    limit: Duration,
    what: impl fmt::Debug,
    future: impl IntoFuture<Output = T>,
) -> T {
    let start = Instant::now();
    let output = future.await;
    let took = start.elapsed();
    assert!(took < limit, "{what:?}: {took:?}, not {limit:?}");
    output
}

/// Makes a lock of a client and a name.
pub(crate) type Make = fn(&Client, &str) -> Box<dyn Lockable>;

/// Each kind of lock, or one side of one.
pub(crate) const LOCKS: [(&str, Make); 5] = [
    ("lock", |client, name| Box::new(client.lock(name))),
    ("fair", |client, name| Box::new(client.fair_lock(name))),
    ("write", |client, name| {
        Box::new(client.read_write_lock(name).write_side())
    }),
    ("read", |client, name| {
        Box::new(client.read_write_lock(name).read_side())
    }),
    ("redisson", |client, name| {
        Box::new(Redisson::new(client, name))
    }),
];
