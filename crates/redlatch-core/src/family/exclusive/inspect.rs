//! Looking at what is held from outside.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_core::Stream;
use futures_util::stream;

use super::{Kind, kind::Inspected};
use crate::{
    Client, Error, ErrorKind, Metadata, Token,
    family::scan::Scan,
    protocol::name::{Key, Name},
};

/// A lock that somebody holds, as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The name.
    pub name: String,
    /// The holder, `<client>:<n>`.
    pub owner: String,
    /// How many guards hold, as the server counts them.
    pub count: u32,
    /// The fencing token of the hold.
    pub token: Token,
    /// How long it has been held, by the server's clock. Derived from the token, and so too short
    /// after the server's clock was set back.
    pub age: Duration,
    /// How long the lease lasts if it is not renewed.
    pub remaining: Duration,
    /// Waiters that the server knows of, of all clients. For a plain lock usually one per client,
    /// however many of its tasks wait, without those that poll; for a fair lock all that wait. One
    /// that died may be counted for a while.
    pub waiters: u64,
}

/// A holder and what its client says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The hold.
    pub info: LockInfo,
    /// Host, process and application; `None` if the client's record is gone.
    pub metadata: Option<Metadata>,
}

pub(super) async fn info(
    client: &Client,
    kind: &'static Kind,
    key: &Key,
) -> Result<Option<LockInfo>, Error> {
    match inspected(client, kind, key).await? {
        Inspected::OtherKind(found) => Err(kind.wrong(&found)),
        found => Ok(live(client, key.name(), found)),
    }
}

pub(super) async fn holder(client: &Client, info: LockInfo) -> Result<Holder, Error> {
    let metadata = client.metadata(&info.owner).await?;
    Ok(Holder { info, metadata })
}

async fn inspected(client: &Client, kind: &'static Kind, key: &Key) -> Result<Inspected, Error> {
    kind.inspected(&client.query(&kind.inspect(key)).await?)
}

fn live(client: &Client, name: &str, found: Inspected) -> Option<LockInfo> {
    let Inspected::Held {
        now,
        owner,
        count,
        token,
        remaining,
        waiters,
    } = found
    else {
        return None;
    };
    let since = token.as_u64() / 1000;
    Some(LockInfo {
        name: name.to_owned(),
        owner,
        count,
        token,
        age: Duration::from_millis(now.saturating_sub(since)),
        remaining: client.lease_of_holder(remaining),
        waiters,
    })
}

/// The locks that somebody holds, found a bounded step at a time. A stream; see `Client::locks`.
#[must_use = "a stream does nothing unless it is polled"]
pub struct Locks(Pin<Box<dyn Stream<Item = Result<Holder, Error>> + Send>>);

impl Locks {
    /// Starts to look for locks of this kind that are held and whose name matches `pattern`: `*`,
    /// `?`, `[a-z]`, and `\` before a character that stands for itself.
    ///
    /// Each step costs one `SCAN` of 256 keys, one command per name it finds, held or not, and one
    /// more per name that is held. A lock that is taken or freed meanwhile may be missed, and one
    /// may come twice, as with `SCAN`.
    #[doc(hidden)]
    pub fn new(client: &Client, kind: &'static Kind, pattern: &str) -> Self {
        let walk = Walk {
            kind,
            scan: Scan::new(client, pattern),
            client: client.clone(),
            names: Vec::new(),
        };
        Self(Box::pin(stream::unfold(Some(walk), |walk| async move {
            let mut walk = walk?;
            match walk.next().await {
                Ok(Some(holder)) => Some((Ok(holder), Some(walk))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })))
    }

    /// Returns the next lock; `None` at the end, and after an error.
    ///
    /// # Errors
    ///
    /// `Permission` if the user may not scan, `Auth`, `Closed`; `Unavailable` or `OutcomeUnknown`
    /// when the server did not answer for as long as the client is patient.
    ///
    /// # Cancel safety
    ///
    /// It only reads. An item that is under way when this is dropped comes with the next call.
    pub async fn next(&mut self) -> Option<Result<Holder, Error>> {
        std::future::poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl Stream for Locks {
    type Item = Result<Holder, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
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
                let found = match inspected(&self.client, self.kind, &self.client.key(&name)).await
                {
                    // Somebody else's value under our prefix is no lock.
                    Err(error) if error.kind() == ErrorKind::WrongKind => continue,
                    found => found?,
                };
                if let Some(info) = live(&self.client, name.as_str(), found) {
                    return holder(&self.client, info).await.map(Some);
                }
            }
            match self.scan.step().await? {
                Some(names) => self.names = names,
                None => return Ok(None),
            }
        }
    }
}
