//! The inspection of holds from outside.

use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};

use super::Kind;
use crate::{
    Client, Error, ErrorKind, Metadata, Token,
    family::{Internals, Items, scan::Scan},
    protocol::name::{Key, Name},
};

/// A held lock, as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The name.
    pub name: String,
    /// The holder, `<client>:<n>`.
    pub owner: String,
    /// The number of guards that hold, as the server counts them.
    pub count: u32,
    /// The fencing token of the hold.
    pub token: Token,
    /// How long it has been held, by the server's clock. The age is derived from the token, so it
    /// is too short after the server's clock was set back.
    pub age: Duration,
    /// How long the lease lasts if it is not renewed.
    pub remaining: Duration,
    /// The number of waiters of all clients that the server knows. For a plain lock, that is
    /// usually one per client, however many of its tasks wait; polling waiters are not counted. For
    /// a fair lock, all waiters are counted. A dead waiter may be counted for a while.
    pub waiters: u64,
}

/// A holder and the record of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The hold.
    pub info: LockInfo,
    /// Host, process and application; `None` if the client's record is gone.
    pub metadata: Option<Metadata>,
    /// The note of the hold, if it has one.
    pub note: Option<String>,
}

/// Returns the hold of a name, if any owner holds it.
pub(super) async fn info(
    client: &Client,
    kind: &'static Kind,
    key: &Key,
) -> Result<Option<LockInfo>, Error> {
    let read = |items: &Items<'_>| kind.inspected(key.name(), items);
    let held = client.query(&kind.inspect(key), read).await?;
    Ok(held.map(|held| LockInfo {
        remaining: client.lease_of_holder(held.remaining),
        ..held
    }))
}

pub(super) async fn holder(client: &Client, info: LockInfo) -> Result<Holder, Error> {
    let metadata = client.metadata(&info.owner).await?;
    let (of, token) = (metadata.as_ref(), Some(info.token));
    let note = client.note(of, &info.owner, &info.name, token).await?;
    Ok(Holder {
        info,
        metadata,
        note,
    })
}

/// The locks that are held, found in bounded steps. A stream; see `Client::locks`.
#[must_use = "a stream does nothing unless it is polled"]
pub struct Locks(BoxStream<'static, Result<Holder, Error>>);

impl Locks {
    /// Searches for held locks of this kind whose names match `pattern`: `*`, `?`, `[a-z]`, and `\`
    /// before a literal character.
    ///
    /// Each step costs one `SCAN` of 256 keys, one command per name that it finds, held or not, and
    /// one more per held name. As with `SCAN`, a lock that is taken or freed in the meantime may be
    /// missed, and a lock may be returned twice.
    #[doc(hidden)]
    pub fn new(client: &Client, kind: &'static Kind, pattern: &str) -> Self {
        let walk = Walk {
            kind,
            scan: Scan::new(client, pattern),
            client: client.clone(),
            names: Vec::new(),
        };
        let step = async |mut walk: Walk| Ok(walk.next().await?.map(|holder| (holder, walk)));
        Self(Box::pin(stream::try_unfold(walk, step)))
    }

    /// Returns the next lock; `None` at the end, and after an error.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(mut locks: redlatch::exclusive::Locks) -> Result<(), redlatch::Error> {
    /// while let Some(lock) = locks.next().await {
    ///     let lock = lock?;
    ///     println!("{} is held for {:?}", lock.info.name, lock.info.age);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Permission` if the user may not scan. `Auth`, `Closed`. `Unavailable` or `OutcomeUnknown`
    /// if the server did not answer within the client's `patience`.
    ///
    /// # Cancel safety
    ///
    /// The method only reads. If the future is dropped, the next call returns the item in progress.
    pub async fn next(&mut self) -> Option<Result<Holder, Error>> {
        self.0.next().await
    }
}

streams! {
    Locks => Holder;
}

struct Walk {
    kind: &'static Kind,
    client: Client,
    scan: Scan,
    names: Vec<Name>,
}

impl Walk {
    async fn next(&mut self) -> Result<Option<Holder>, Error> {
        loop {
            while let Some(name) = self.names.pop() {
                match info(&self.client, self.kind, &self.client.key(&name)).await {
                    // An object of another kind, or a value of another program.
                    Err(error) if error.kind() == ErrorKind::WrongKind => {}
                    Ok(None) => {}
                    Ok(Some(info)) => return holder(&self.client, info).await.map(Some),
                    Err(error) => return Err(error),
                }
            }
            match self.scan.step().await? {
                Some(names) => self.names = names,
                None => return Ok(None),
            }
        }
    }
}
