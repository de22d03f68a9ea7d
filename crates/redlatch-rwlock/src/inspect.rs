//! The state of a read-write lock, as an observer sees it.

use std::{collections::BTreeMap, time::Duration};

use redlatch_core::{
    Client, Error, Metadata, Token,
    family::{About, Internals},
};

use crate::scripts::{self, Inspected, Names};

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

pub(crate) async fn look(client: &Client, names: &Names, owner: &str) -> Result<Inspected, Error> {
    let reply = client.query(&scripts::inspect(names, owner)).await;
    let found = reply.and_then(|reply| scripts::inspected(&reply));
    found.about(NAMED, names.key.name())
}

pub(crate) async fn info(client: &Client, names: &Names) -> Result<ReadWriteInfo, Error> {
    let found = look(client, names, "").await?;
    Ok(ReadWriteInfo {
        name: names.key.name().to_owned(),
        token: found.token,
        writer: found.writer.map(|(owner, _, _)| owner),
        readers: found.readers,
        upgradable: found.upgradable,
        waiting_writers: found.waiting_writers,
        waiting_readers: found.waiting_readers,
    })
}

/// Lists all holders, without the descriptions of their clients.
pub(crate) async fn list(client: &Client, names: &Names) -> Result<Vec<ReadWriteHolder>, Error> {
    let found = look(client, names, "").await?;
    let mut all = Vec::new();
    if let (Some((owner, count, remaining)), Some(token)) = (found.writer, found.token) {
        all.push(ReadWriteHolder {
            access: Access::Write,
            owner,
            count,
            token,
            age: age(found.now, token.as_u64()),
            remaining: client.lease_of_holder(remaining),
            metadata: None,
            note: None,
            forbidden: false,
            serial: token.as_u64(),
        });
    }
    // A scan of a changing hash may return a hold twice.
    let mut readers = BTreeMap::new();
    let mut cursor = Some("0".to_owned());
    while let Some(at) = cursor {
        let reply = client.query(&scripts::holders(names, &at)).await;
        let page = reply.and_then(|reply| scripts::page(&reply));
        let (now, next, page) = page.about(NAMED, names.key.name())?;
        readers.extend(
            page.into_iter()
                .map(|reader| (reader.serial, (now, reader))),
        );
        cursor = next;
    }
    all.extend(readers.into_values().map(|(now, reader)| ReadWriteHolder {
        access: reader.access,
        owner: reader.owner,
        count: reader.count,
        token: reader.token,
        age: age(now, reader.serial),
        remaining: client.lease_of_holder(reader.remaining),
        metadata: None,
        note: None,
        forbidden: reader.forbidden,
        serial: reader.serial,
    }));
    Ok(all)
}

/// Lists all holders, and requests each of their clients' records once.
pub(crate) async fn holders(client: &Client, names: &Names) -> Result<Vec<ReadWriteHolder>, Error> {
    let mut all = list(client, names).await?;
    let mut known = BTreeMap::<String, Option<Metadata>>::new();
    for holder in &mut all {
        let of = holder.owner.split(':').next().unwrap_or_default();
        holder.metadata = match known.get(of) {
            Some(metadata) => metadata.clone(),
            None => {
                let metadata = client.metadata(&holder.owner).await?;
                known.insert(of.to_owned(), metadata.clone());
                metadata
            }
        };
        let (of, token) = (holder.metadata.as_ref(), Some(holder.token));
        let name = names.key.name();
        holder.note = client.note(of, &holder.owner, name, token).await?;
    }
    Ok(all)
}

fn age(now: u64, since_micros: u64) -> Duration {
    Duration::from_millis(now.saturating_sub(since_micros / 1000))
}

/// The name of the object's kind in errors of inspection.
pub(crate) const NAMED: &str = "read_write_lock";
