//! Looking at locks from outside, and ending holds by force.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_core::Stream;
use futures_util::stream;
use redlatch_core::{
    Client, Error, ErrorKind, Key, Metadata, Name, Scan, Token, primitive::Primitive,
};

use crate::{
    Lock,
    scripts::{Force, ForceScript, InspectScript, Inspected, wrong_kind},
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
    /// How long it has been held, by the server's clock. Derived from the token, and so too short after the server's clock was set back.
    pub age: Duration,
    /// How long the lease lasts if it is not renewed.
    pub remaining: Duration,
    /// Waiters that are registered on the server, of all clients. Usually one per client, however many of its tasks wait; those that poll
    /// are not among them, and one that died may be for 5 s.
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

pub(crate) async fn info(
    client: &Client,
    name: &Name,
    key: &Key,
) -> Result<Option<LockInfo>, Error> {
    match inspected(client, key).await? {
        Inspected::OtherKind(kind) => Err(wrong_kind(&kind)),
        found => Ok(live(name, found)),
    }
}

async fn inspected(client: &Client, key: &Key) -> Result<Inspected, Error> {
    let reply = client.query(&InspectScript { key }.call()).await?;
    InspectScript::decode(&reply)
}

fn live(name: &Name, found: Inspected) -> Option<LockInfo> {
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
        name: name.as_str().to_owned(),
        owner,
        count,
        token,
        age: Duration::from_millis(now.saturating_sub(since)),
        remaining,
        waiters,
    })
}

/// The locks that somebody holds, found a bounded step at a time. A stream; see `Client::locks`.
#[must_use = "a stream does nothing unless it is polled"]
pub struct Locks(Pin<Box<dyn Stream<Item = Result<Holder, Error>> + Send>>);

impl Locks {
    /// Starts to look for locks that are held and whose name matches `pattern`: `*`, `?`, `[a-z]`, and `\` before a character that stands for itself.
    ///
    /// Each step costs one `SCAN` of 256 keys, one command per name it finds, held or not, and one more per name that is held. A lock that is
    /// taken or freed meanwhile may be missed, and one may come twice, as with `SCAN`.
    pub fn new(client: &Client, pattern: &str) -> Self {
        let walk = Walk {
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
    /// `Permission` if the user may not scan, `Auth`, `Closed`; `Unavailable` or `OutcomeUnknown` when the server did not answer for as long
    /// as the client is patient.
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
    client: Client,
    scan: Scan,
    names: Vec<Name>,
}

impl Walk {
    async fn next(&mut self) -> Result<Option<Holder>, Error> {
        loop {
            while let Some(name) = self.names.pop() {
                let found = match inspected(&self.client, &self.client.key(&name)).await {
                    // Somebody else's value under our prefix is no lock.
                    Err(error) if error.kind() == ErrorKind::WrongKind => continue,
                    found => found?,
                };
                if let Some(info) = live(&name, found) {
                    let metadata = self.client.metadata(&info.owner).await?;
                    return Ok(Some(Holder { info, metadata }));
                }
            }
            match self.scan.step().await? {
                Some(names) => self.names = names,
                None => return Ok(None),
            }
        }
    }
}

/// A forced release; await it. See [`Lock::force_release`].
///
/// `true` if there was such a hold and this, or an earlier copy of this, ended it. Costs two commands, one if the token is given.
///
/// # Errors
///
/// As [`Lock::info`].
///
/// # Cancel safety
///
/// Dropped, the hold may have been ended or not.
#[derive(Clone, Debug)]
#[must_use = "nothing is released until this is awaited"]
pub struct ForceRelease {
    lock: Lock,
    token: Option<Token>,
    how: Force,
}

impl ForceRelease {
    pub(crate) fn new(lock: &Lock) -> Self {
        Self {
            lock: lock.clone(),
            token: None,
            how: Force::Now,
        }
    }

    /// Ends only the hold with this token. Default: the one that is found when this is awaited.
    pub const fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Forbids the hold's renewal instead of ending it: the name is free when the lease ends, and exclusion is kept.
    ///
    /// A renewed hold is told that it is revoked by its next renewal; one with a fixed lease ends at its deadline as it would have.
    pub const fn after_lease(mut self) -> Self {
        self.how = Force::AfterLease;
        self
    }

    async fn run(self) -> Result<bool, Error> {
        let token = match self.token {
            Some(token) => token,
            None => match self.lock.info().await? {
                Some(info) => info.token,
                None => return Ok(false),
            },
        };
        let client = self.lock.client();
        let key = self.lock.plain()?.key();
        let script = ForceScript {
            key,
            token,
            how: self.how,
            retention: client.retention(),
        };
        let ended = ForceScript::decode(&client.query(&script.call()).await?)?;
        if ended && self.how == Force::Now {
            client.revoked(key, token);
        }
        Ok(ended)
    }
}

impl IntoFuture for ForceRelease {
    /// Whether there was such a hold.
    type Output = Result<bool, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
