//! What there is of each kind: who holds it, who waits for it, and what the server knows of both.

use std::time::{Duration, Instant};

use redlatch::{
    Client, CountDownLatch, Error, FairLock, Lock, Lockable, MultiLock, PermitExpirableSemaphore,
    ReadWriteLock, RedLock, Semaphore,
};
use redlatch_tests::fixture::SECOND;

use super::hold::{Duty, Hold, Ids};

/// A kind, and where it has sides, who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lock,
    Fair,
    /// A writer that waits for a reader.
    Writer,
    /// A reader that waits for a writer.
    Reader,
    Semaphore,
    Permits,
    /// A fair lock and a plain one.
    Multi,
    Striped,
    Latch,
    /// Over the server that fails and two others.
    Red,
}

impl Kind {
    /// All that live on one server, or several that stand for one.
    pub(super) const ON_ONE: [Self; 9] = [
        // First, since its waiters leave no trace on the server: they look while the others queue.
        Self::Latch,
        Self::Lock,
        Self::Fair,
        Self::Writer,
        Self::Reader,
        Self::Semaphore,
        Self::Permits,
        Self::Multi,
        Self::Striped,
    ];

    /// All: those, and what stands on several servers.
    pub(super) const ALL: [Self; 10] = {
        let mut all = [Self::Red; 10];
        let (on_one, _) = all.split_at_mut(Self::ON_ONE.len());
        on_one.copy_from_slice(&Self::ON_ONE);
        all
    };

    /// Returns the kind's word, for names.
    pub(super) fn stem(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Tells whether its lease is renewed without being asked for.
    pub(super) fn renews(self) -> bool {
        !matches!(self, Self::Latch | Self::Permits)
    }

    /// Returns how many units of it the server gives to whoever takes it first; of a latch how many
    /// have been counted.
    pub(super) fn taken(self) -> u64 {
        match self {
            Self::Semaphore | Self::Permits | Self::Multi => 2,
            _ => 1,
        }
    }
}

/// Somebody who takes part: a client, and its clients of the two servers that nothing happens to.
#[derive(Clone, Debug)]
pub(super) struct Party {
    pub(super) client: Client,
    pub(super) others: Vec<Client>,
}

/// An object of a kind, as a party sees it.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) name: String,
    party: Party,
}

impl Object {
    pub(super) fn new(kind: Kind, name: &str, party: &Party) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            party: party.clone(),
        }
    }

    /// Takes it, so that whoever waits for it has to wait. A lease is renewed, but that of permits
    /// with ids. A latch is set to two and counted down once.
    pub(super) async fn take(&self, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        Ok(match self.kind {
            Kind::Writer => Box::new(self.sides().read().renewed_lease(lease).await?),
            Kind::Reader => Box::new(self.sides().write().renewed_lease(lease).await?),
            Kind::Semaphore => {
                let permits = self.semaphore().acquire_many(2);
                Box::new(permits.renewed_lease(lease).await?)
            }
            Kind::Permits => self.take_ids(2, lease).await?,
            Kind::Latch => {
                let latch = self.latch();
                assert!(latch.try_set_count(2).await?);
                assert_eq!(latch.count_down(1).await?, 1);
                Box::new(Duty(Some(latch)))
            }
            Kind::Red => self.take_all_nodes(lease).await?,
            _ => self.get(lease).await?,
        })
    }

    /// Gets what another has as soon as it can be had.
    pub(super) async fn get(&self, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        Ok(match self.kind {
            Kind::Lock | Kind::Striped => Box::new(self.plain().lock().renewed_lease(lease).await?),
            Kind::Fair => Box::new(self.fair().lock().renewed_lease(lease).await?),
            Kind::Writer => Box::new(self.sides().write().renewed_lease(lease).await?),
            Kind::Reader => Box::new(self.sides().read().renewed_lease(lease).await?),
            Kind::Semaphore => Box::new(self.semaphore().acquire().renewed_lease(lease).await?),
            Kind::Permits => self.take_ids(1, lease).await?,
            Kind::Multi => Box::new(self.multi().lock().renewed_lease(lease).await?),
            Kind::Red => Box::new(self.red().lock().renewed_lease(lease).await?),
            Kind::Latch => {
                self.latch().wait().await?;
                Box::new(Duty(None))
            }
        })
    }

    /// Returns how many waiters the server knows of. Of those it does not know, this party's are
    /// counted.
    pub(super) async fn waiters(&self) -> Result<u64, Error> {
        Ok(match self.kind {
            Kind::Lock | Kind::Striped => self.plain().info().await?.map_or(0, |info| info.waiters),
            Kind::Fair => self.fair().info().await?.map_or(0, |info| info.waiters),
            Kind::Writer => self.sides().info().await?.waiting_writers,
            Kind::Reader => self.sides().info().await?.waiting_readers,
            Kind::Semaphore => self.semaphore().totals().await?.waiters,
            Kind::Permits => self.permits().totals().await?.waiters,
            Kind::Multi => {
                let first = self.members().0.info().await?;
                first.map_or(0, |info| info.waiters)
            }
            Kind::Latch => self.party.client.tables().listeners as u64,
            Kind::Red => self.party.client.tables().waiters as u64,
        })
    }

    /// Returns how many units the server says are held, each guard of an owner counted; of a latch
    /// how many have been counted down, of a red-lock's nodes the first.
    pub(super) async fn held(&self) -> Result<u64, Error> {
        Ok(match self.kind {
            Kind::Lock | Kind::Striped | Kind::Red => {
                let info = self.plain().info().await?;
                info.map_or(0, |info| info.count.into())
            }
            Kind::Fair => self
                .fair()
                .info()
                .await?
                .map_or(0, |info| info.count.into()),
            Kind::Writer | Kind::Reader => {
                let holders = self.sides().holders().await?;
                holders.iter().map(|holder| u64::from(holder.count)).sum()
            }
            Kind::Semaphore => self.semaphore().totals().await?.acquired.into(),
            Kind::Permits => self.permits().totals().await?.acquired.into(),
            Kind::Multi => {
                let (fair, plain) = self.members();
                let count = |info: Option<redlatch::LockInfo>| info.map_or(0, |info| info.count);
                u64::from(count(fair.info().await?) + count(plain.info().await?))
            }
            Kind::Latch => {
                let info = self.latch().info().await?;
                info.map_or(0, |info| (info.initial - info.count).into())
            }
        })
    }

    /// Deletes what lasts until somebody does.
    pub(super) async fn delete(&self) -> Result<(), Error> {
        match self.kind {
            Kind::Latch => drop(self.latch().delete().await?),
            Kind::Semaphore => drop(self.semaphore().delete().await?),
            Kind::Permits => drop(self.permits().delete().await?),
            _ => {}
        }
        Ok(())
    }

    async fn take_ids(&self, permits: u32, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let semaphore = self.permits();
        let ids = semaphore.acquire_many(permits).lease(lease).await?;
        // Who waited does not know for how long it has them, and asks.
        let (asked, mut left) = (Instant::now(), lease);
        for id in &ids {
            left = semaphore.remaining(id).await?.unwrap_or_default().min(left);
        }
        Ok(Box::new(Ids::new(semaphore, ids, asked, left)))
    }

    /// A quorum waits for a slow node as long again and no longer; here one of three is to fail
    /// later.
    async fn take_all_nodes(&self, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        loop {
            let guard = self.red().lock().renewed_lease(lease).await?;
            if guard.nodes_held() == 3 {
                return Ok(Box::new(guard));
            }
            guard.release().await;
        }
    }

    fn plain(&self) -> Lock {
        if self.kind == Kind::Striped {
            let stripes = self.party.client.striped_lock(&self.name, 4).unwrap();
            stripes.of("row:1")
        } else {
            self.party.client.lock(&self.name)
        }
    }

    fn fair(&self) -> FairLock {
        self.party.client.fair_lock(&self.name)
    }

    fn sides(&self) -> ReadWriteLock {
        self.party.client.read_write_lock(&self.name)
    }

    fn semaphore(&self) -> Semaphore {
        self.party.client.semaphore(&self.name).permits_if_unset(2)
    }

    fn permits(&self) -> PermitExpirableSemaphore {
        let permits = self.party.client.permit_expirable_semaphore(&self.name);
        permits.permits_if_unset(2)
    }

    pub(super) fn latch(&self) -> CountDownLatch {
        self.party.client.countdown_latch(&self.name)
    }

    /// In the order in which they are taken.
    fn members(&self) -> (FairLock, Lock) {
        let client = &self.party.client;
        let name = |part: &str| format!("{}-{part}", self.name);
        (client.fair_lock(&name("fair")), client.lock(&name("plain")))
    }

    fn multi(&self) -> MultiLock {
        let (fair, plain) = self.members();
        self.party.client.multi_lock(&[&plain, &fair])
    }

    fn red(&self) -> RedLock {
        let clients = std::iter::once(&self.party.client).chain(&self.party.others);
        let locks: Vec<_> = clients.map(|client| client.lock(&self.name)).collect();
        let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
        // Two of the three remember, which is a quorum; those that have just been started count
        // from the first moment.
        let red = RedLock::builder(&nodes).durable_nodes();
        red.node_timeout(SECOND).build().unwrap()
    }
}
