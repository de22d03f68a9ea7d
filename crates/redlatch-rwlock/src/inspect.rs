//! The state of a read-write lock, as an observer sees it.

use std::{collections::BTreeMap, time::Duration};

use redlatch_core::{
    Error, Metadata, Token,
    family::{Handle, Internals, Items, Records, Side},
};

use crate::scripts::{self, Inspected};

/// A read-write lock as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadWriteInfo {
    /// The name.
    pub name: String,
    /// The token of the last write. `None` if the server has no record of a write, or if no owner
    /// has read or written for long.
    pub token: Option<Token>,
    /// The writer, `<client>:<n>`.
    pub writer: Option<String>,
    /// The number of readers. At most 64 holds that may have ended are examined; the rest are
    /// counted.
    pub readers: u64,
    /// The reader that may become the writer.
    pub upgradable: Option<String>,
    /// Waiters that want to write, to read upgradably or to upgrade, of all clients. Dead ones may
    /// be counted for a while.
    pub waiting_writers: u64,
    /// Waiters that want to read, of all clients. Dead ones may be counted for a while.
    pub waiting_readers: u64,
}

/// The rights of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Access {
    /// Read.
    Read,
    /// Read, and become the writer.
    UpgradableRead,
    /// Write.
    Write,
}

/// A holder and the description of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadWriteHolder {
    /// Its rights. An owner that reads and writes is listed twice.
    pub access: Access,
    /// The holder, `<client>:<n>`.
    pub owner: String,
    /// The number of guards, as the server counts them.
    pub count: u32,
    /// The token of a writer's hold, or of the last write before a reader's.
    pub token: Token,
    /// The age of the hold, by the server's clock. Too short after the server's clock was set back.
    pub age: Duration,
    /// The remaining lease.
    pub remaining: Duration,
    /// Host, process and application. `None` if the client's record is gone.
    pub metadata: Option<Metadata>,
    /// Why it holds, if it has said so with `note`.
    pub note: Option<String>,
    /// The renewal of this reader is forbidden. For the crates of this family.
    #[doc(hidden)]
    pub forbidden: bool,
    /// The name of the hold on the server.
    pub(crate) serial: u64,
}

impl Access {
    /// Returns the side of the lock that it holds.
    pub(crate) const fn side(self) -> Side {
        match self {
            Self::Write => Side::Exclusive,
            Self::Read | Self::UpgradableRead => Side::Shared,
        }
    }
}

pub(crate) async fn look(lock: &Handle, owner: &str) -> Result<Inspected, Error> {
    let key = lock.key()?;
    let call = scripts::inspect(key, owner);
    let read = |items: &Items<'_>| scripts::inspected(key.name(), items);
    lock.ask(call, read).await
}

/// Lists all holders, without the descriptions of their clients.
pub(crate) async fn list(lock: &Handle) -> Result<Vec<ReadWriteHolder>, Error> {
    let write = look(lock, "").await?.write;
    // A scan of a changing hash may return a hold twice.
    let mut readers = BTreeMap::new();
    let mut cursor = Some("0".to_owned());
    while let Some(at) = cursor {
        let call = scripts::holders(lock.key()?, &at);
        let (next, page) = lock.ask(call, scripts::page).await?;
        readers.extend(page.into_iter().map(|reader| (reader.serial, reader)));
        cursor = next;
    }
    let all = write.into_iter().chain(readers.into_values());
    Ok(all
        .map(|hold| ReadWriteHolder {
            remaining: lock.client().lease_of_holder(hold.remaining),
            ..hold
        })
        .collect())
}

/// Lists all holders, and requests each of their clients' records once.
pub(crate) async fn holders(lock: &Handle) -> Result<Vec<ReadWriteHolder>, Error> {
    let (client, name) = (lock.client(), lock.key()?.name());
    let records = Records::new(client);
    let mut all = list(lock).await?;
    for holder in &mut all {
        holder.metadata = records.of(&holder.owner).await?;
        let (of, token) = (holder.metadata.as_ref(), Some(holder.token));
        holder.note = client.note(of, &holder.owner, name, token).await?;
    }
    Ok(all)
}
