//! Locks of several parts: the two sides of the read-write lock, a fair lock and a plain one held
//! together, and the red-lock over the server that fails and two others.

use futures_util::future::BoxFuture;
use redlatch::{FairLock, LockInfo, ReadWriteLock, RedGuard, RedLock};
use redlatch_tests::hold::{held, held_together};

use crate::every_kind::prelude::*;

/// One side of the read-write lock, which waits for the other one.
#[derive(Debug)]
pub(in crate::every_kind) enum Side {
    /// A writer that waits for a reader.
    Writer,
    /// A reader that waits for a writer.
    Reader,
}

#[async_trait]
impl Kind for Side {
    async fn take(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let other = match self {
            Self::Writer => Self::Reader,
            Self::Reader => Self::Writer,
        };
        other.get(object, lease).await
    }

    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let sides = sides(object);
        Ok(match self {
            Self::Writer => held(sides.write().renewed_lease(lease).await?),
            Self::Reader => held(sides.read().renewed_lease(lease).await?),
        })
    }

    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        let info = sides(object).info().await?;
        Ok(match self {
            Self::Writer => info.waiting_writers,
            Self::Reader => info.waiting_readers,
        })
    }

    async fn held(&self, object: &Object) -> Result<u64, Error> {
        let holders = sides(object).holders().await?;
        Ok(holders.iter().map(|holder| u64::from(holder.count)).sum())
    }

    /// Writers work together with readers.
    async fn work(&self, load: &mut Load) {
        if let Self::Writer = self {
            let (write, read) = ((&Self::Writer as _, 10), (&Self::Reader as _, 1));
            load.crew("sides", 10, &[write, write, read, read, read]);
        }
    }

    /// A reader has the token of the last write.
    fn follows(&self, before: Option<u64>, after: Option<u64>) -> bool {
        match self {
            Self::Writer => before.is_some() && after > before,
            Self::Reader => after >= before,
        }
    }
}

fn sides(object: &Object) -> ReadWriteLock {
    object.party.client.read_write_lock(&object.name)
}

/// A fair lock and a plain one.
#[derive(Debug)]
pub(in crate::every_kind) struct Multi;

#[async_trait]
impl Kind for Multi {
    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let (fair, plain) = members(object);
        let multi = object.party.client.multi_lock(&[&plain, &fair]);
        let guard = multi.lock().renewed_lease(lease).await?;
        // Each member has its own token, and they rise together.
        let tokens = guard.members().iter().map(|held| held.token().as_u64());
        let fence = tokens.min();
        Ok(held_together(guard, fence))
    }

    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        let first = members(object).0.info().await?;
        Ok(first.map_or(0, |info| info.waiters))
    }

    async fn held(&self, object: &Object) -> Result<u64, Error> {
        let (fair, plain) = members(object);
        let count = |info: Option<LockInfo>| info.map_or(0, |info| info.count);
        let all = count(fair.info().await?) + count(plain.info().await?);
        Ok(u64::from(all))
    }

    async fn work(&self, load: &mut Load) {
        load.crew("multi", 1, &[(&Self as _, 1); 3]);
    }

    fn taken(&self) -> u64 {
        2
    }

    fn handed_over(&self) -> u64 {
        2
    }
}

/// Returns the members in the order in which they are taken.
fn members(object: &Object) -> (FairLock, Lock) {
    let client = &object.party.client;
    let name = |part: &str| format!("{}-{part}", object.name);
    (client.fair_lock(name("fair")), client.lock(name("plain")))
}

/// The red-lock.
#[derive(Debug)]
pub(in crate::every_kind) struct Red;

/// A guard of several nodes. A minority does not count, whatever it says.
#[derive(Debug)]
struct Quorum(RedGuard);

#[async_trait]
impl Hold for Quorum {
    fn believed(&self) -> bool {
        self.0.check().is_ok()
    }

    fn left(&self) -> Option<Duration> {
        Some(self.0.remaining())
    }

    fn lost(&self) -> BoxFuture<'static, LossCause> {
        AnyGuard::lost(&self.0)
    }

    async fn prolong(&self, span: Duration) -> Result<(), Error> {
        self.0.extend(span).await
    }

    async fn give_back(self: Box<Self>) -> Result<ReleaseOutcome, Error> {
        let nodes = self.0.release().await?;
        let outcomes = || nodes.iter().map(|(_, released)| *released);
        let ended = outcomes().filter(|it| *it == Released::Free).count();
        let majority = ended * 2 > nodes.len();
        let all = if majority {
            Released::Free
        } else {
            Released::together(outcomes())
        };
        Ok(all.into())
    }
}

#[async_trait]
impl Kind for Red {
    /// A quorum waits for a slow node as long again and no longer; here one of three is to fail
    /// later.
    async fn take(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        loop {
            let guard = red(object).lock().renewed_lease(lease).await?;
            if guard.nodes_held() == 3 {
                return Ok(Box::new(Quorum(guard)));
            }
            guard.release().await.unwrap();
        }
    }

    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let guard = red(object).lock().renewed_lease(lease).await?;
        Ok(Box::new(Quorum(guard)))
    }

    /// Asks the first node.
    async fn held(&self, object: &Object) -> Result<u64, Error> {
        let info = object.party.client.lock(&object.name).info().await?;
        Ok(info.map_or(0, |info| info.count.into()))
    }

    /// There is none: the load runs on servers that stand for one.
    async fn work(&self, _: &mut Load) {}

    fn queues(&self) -> bool {
        false
    }

    fn servers(&self) -> usize {
        3
    }

    /// Two servers more have it.
    fn loses(&self) -> bool {
        false
    }

    /// Two of three nodes know.
    async fn after_data_loss(&self, pair: &mut Pair) {
        assert_eq!(pair.let_go().await.unwrap(), ReleaseOutcome::Ended);
        pair.served().await.exclusively(pair).await;
    }
}

fn red(object: &Object) -> RedLock {
    let clients = std::iter::once(&object.party.client).chain(&object.party.others);
    let locks: Vec<_> = clients.map(|client| client.lock(&object.name)).collect();
    let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    // Two of the three remember, which is a quorum; those that have just been started count
    // from the first moment.
    let red = RedLock::builder(&nodes).durable_nodes();
    red.node_timeout(SECOND).build().unwrap()
}
