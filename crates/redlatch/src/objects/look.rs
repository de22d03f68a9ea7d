//! A look at one object.

use std::time::Duration;

use redlatch_core::{
    Error, ErrorKind, Token,
    exclusive::LockInfo,
    family::{Internals, Name, Records, is_of_one_object, stored},
};

use super::{Object, ObjectHolder, ObjectKind, ObjectState};
use crate::{Access, Client, Exclusive, semaphore::Totals};

/// Looks at the object called `name`.
pub(super) async fn look(client: &Client, name: &Name) -> Result<Option<Object>, Error> {
    let mut kind = ObjectKind::Unknown;
    seek(client, &Records::new(client), name, &mut kind).await
}

/// Looks at the object called `name`. An object that cannot be read is returned as such.
pub(super) async fn entry(
    client: &Client,
    records: &Records,
    name: &Name,
) -> Result<Option<Object>, Error> {
    let mut kind = ObjectKind::Unknown;
    match seek(client, records, name, &mut kind).await {
        Err(error) if is_of_one_object(&error) => Ok(Some(Object {
            name: name.as_str().to_owned(),
            kind,
            holders: Vec::new(),
            waiters: 0,
            state: ObjectState::Unreadable {
                kind: error.kind(),
                reason: error.to_string(),
            },
        })),
        found => found,
    }
}

/// Looks at the object called `name`, and tells its kind as soon as it is known.
async fn seek(
    client: &Client,
    records: &Records,
    name: &Name,
    kind: &mut ObjectKind,
) -> Result<Option<Object>, Error> {
    let Some(found) = stored(client, name).await? else {
        return Ok(None);
    };
    *kind = ObjectKind::of(&found.kind);
    let look = Look {
        records,
        client,
        name: name.as_str(),
        kind: kind.clone(),
        forced: found.forced,
    };
    match look.find().await {
        // The object has gone since.
        Err(error) if error.kind() == ErrorKind::NotSet => Ok(None),
        // So it has if it is one of another kind by now.
        Err(error) if error.kind() == ErrorKind::WrongKind => match stored(client, name).await? {
            Some(now) if now.kind == found.kind => Err(error),
            _ => Ok(None),
        },
        found => found,
    }
}

struct Look<'a> {
    records: &'a Records,
    client: &'a Client,
    name: &'a str,
    kind: ObjectKind,
    /// The token of the last hold that was ended by force.
    forced: Option<Token>,
}

impl Look<'_> {
    async fn find(self) -> Result<Option<Object>, Error> {
        let (client, name) = (self.client, self.name);
        match self.kind {
            ObjectKind::Lock => self.exclusive(&client.lock(name)).await,
            ObjectKind::FairLock => self.exclusive(&client.fair_lock(name)).await,
            ObjectKind::ReadWriteLock => self.read_write().await,
            ObjectKind::Semaphore => self.semaphore().await.map(Some),
            ObjectKind::PermitExpirableSemaphore => self.permits().await.map(Some),
            ObjectKind::CountDownLatch => {
                let info = client.count_down_latch(name).info().await?;
                Ok(info.map(|info| self.object(Vec::new(), 0, ObjectState::Latch(info))))
            }
            ObjectKind::RateLimiter => {
                let info = client.rate_limiter(name).info().await?;
                Ok(Some(self.object(Vec::new(), 0, ObjectState::Limit(info))))
            }
            #[cfg(feature = "once")]
            ObjectKind::Job => self.job().await.map(Some),
            #[cfg(feature = "election")]
            ObjectKind::Election => self.election(client.election(name)).await,
            #[cfg(feature = "election")]
            ObjectKind::FairElection => self.election(client.election(name).fair()).await,
            _ => Ok(Some(self.object(Vec::new(), 0, ObjectState::Plain))),
        }
    }

    fn object(self, holders: Vec<ObjectHolder>, waiters: u64, state: ObjectState) -> Object {
        Object {
            name: self.name.to_owned(),
            kind: self.kind,
            holders,
            waiters,
            state,
        }
    }

    /// Returns who has forbidden the renewal of a hold, if it is forbidden.
    async fn broken(
        &self,
        is_forbidden: bool,
        owner: &str,
        token: Option<Token>,
    ) -> Result<Option<String>, Error> {
        if !is_forbidden {
            return Ok(None);
        }
        let note = self.client.end_note(owner, self.name, token).await?;
        Ok(Some(note.unwrap_or_default()))
    }

    async fn exclusive(self, lock: &Exclusive) -> Result<Option<Object>, Error> {
        let info = lock.info().await?;
        self.held(info, ObjectState::Plain).await
    }

    async fn held(
        self,
        info: Option<LockInfo>,
        state: ObjectState,
    ) -> Result<Option<Object>, Error> {
        let Some(info) = info else {
            return Ok(None);
        };
        let metadata = self.records.of(&info.owner).await?;
        let (of, token) = (metadata.as_ref(), Some(info.token));
        let holder = ObjectHolder {
            token,
            age: Some(info.age),
            note: self.client.note(of, &info.owner, self.name, token).await?,
            broken: self
                .broken(self.forced == token, &info.owner, token)
                .await?,
            metadata,
            ..ObjectHolder::new(info.owner, info.remaining)
        };
        Ok(Some(self.object(vec![holder], info.waiters, state)))
    }

    async fn read_write(self) -> Result<Option<Object>, Error> {
        let lock = self.client.read_write_lock(self.name);
        let info = lock.info().await?;
        let waiters = info.waiting_readers + info.waiting_writers;
        let mut holders = Vec::new();
        for holder in lock.holders().await? {
            let token = Some(holder.token);
            // Readers have the token of the last write.
            let is_forced = match holder.access {
                Access::Write => self.forced == token,
                _ => holder.forbidden,
            };
            holders.push(ObjectHolder {
                broken: self.broken(is_forced, &holder.owner, token).await?,
                access: Some(holder.access),
                token,
                age: Some(holder.age),
                metadata: holder.metadata,
                note: holder.note,
                ..ObjectHolder::new(holder.owner, holder.remaining)
            });
        }
        if holders.is_empty() && waiters == 0 {
            return Ok(None);
        }
        Ok(Some(self.object(holders, waiters, ObjectState::Plain)))
    }

    async fn semaphore(self) -> Result<Object, Error> {
        let semaphore = self.client.semaphore(self.name);
        let totals = semaphore.totals().await?;
        let holders = semaphore.holders().await?.into_iter();
        let holders = holders.map(|held| ObjectHolder {
            permits: Some(held.permits),
            metadata: held.metadata,
            note: held.note,
            ..ObjectHolder::new(held.id, held.remaining)
        });
        Ok(self.pool(&totals, holders.collect()))
    }

    async fn permits(self) -> Result<Object, Error> {
        let semaphore = self.client.permit_expirable_semaphore(self.name);
        let totals = semaphore.totals().await?;
        let holders = semaphore.holders().await?.into_iter();
        let holders = holders.map(|held| ObjectHolder {
            permits: Some(1),
            metadata: held.metadata,
            note: held.note,
            ..ObjectHolder::new(held.id.to_string(), held.remaining)
        });
        Ok(self.pool(&totals, holders.collect()))
    }

    fn pool(self, totals: &Totals, holders: Vec<ObjectHolder>) -> Object {
        let state = ObjectState::Permits {
            total: totals.permits,
            available: totals.available,
        };
        self.object(holders, totals.waiters, state)
    }

    #[cfg(feature = "once")]
    async fn job(self) -> Result<Object, Error> {
        let job = self.client.once(self.name);
        let last = job.last().await?;
        let (mut holders, mut running) = (Vec::new(), None);
        if let Some(holder) = job.holder().await? {
            holders.push(ObjectHolder {
                token: Some(holder.token),
                metadata: self.records.of(&holder.owner).await?,
                ..ObjectHolder::new(holder.owner, holder.remaining)
            });
            running = Some(holder.slot);
        }
        Ok(self.object(holders, 0, ObjectState::Job { last, running }))
    }

    #[cfg(feature = "election")]
    async fn election(
        self,
        election: redlatch_election::Election,
    ) -> Result<Option<Object>, Error> {
        let Some(leader) = election.leader().await? else {
            return Ok(None);
        };
        let info = election.info().await?;
        self.held(info, ObjectState::Leader(leader.value)).await
    }
}

impl ObjectHolder {
    /// Returns a holder of which no more is known.
    fn new(owner: String, remaining: Duration) -> Self {
        Self {
            owner,
            access: None,
            permits: None,
            token: None,
            age: None,
            remaining,
            metadata: None,
            note: None,
            broken: None,
        }
    }
}
