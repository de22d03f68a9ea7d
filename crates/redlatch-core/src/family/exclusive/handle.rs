//! The handle on which the handles of all exclusive kinds are built, and the end of a hold by
//! force.

use std::{fmt, sync::Arc, time::Duration};

use super::{Holder, Kind, LockInfo, inspect, kind::Object};
use crate::{
    Client, Error, Lockable, Member, Owner, Token,
    family::{Force, Handle, Internals, Primitive, Side},
};

/// The operations on a name that one owner holds at a time. The handles of locks deref to this
/// type.
#[derive(Clone)]
pub struct Exclusive {
    handle: Handle,
    kind: &'static Kind,
    /// Made once, since all acquisitions share it.
    object: Result<Arc<Object>, Error>,
}

/// Methods for the crates of this family.
#[doc(hidden)]
impl Exclusive {
    pub fn new(client: &Client, kind: &'static Kind, name: &str) -> Self {
        Self::of(Handle::new(client, kind.label, name), kind)
    }

    fn of(handle: Handle, kind: &'static Kind) -> Self {
        let identity = handle.identity();
        Self {
            object: identity.map(|identity| Arc::new(Object { kind, identity })),
            handle,
            kind,
        }
    }

    #[must_use]
    pub fn class(self, class: &str) -> Self {
        Self::of(self.handle.class(class), self.kind)
    }

    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    pub fn primitive(&self) -> Result<Arc<dyn Primitive>, Error> {
        self.object.clone().map(|object| object as _)
    }

    /// Returns the address of the first waiter of `owner`, in the form of an ordered kind. Returns
    /// `None` if `owner` does not wait in this process.
    pub fn waiting(&self, owner: &Owner) -> Result<Option<String>, Error> {
        self.client().check_open()?;
        Ok(self.client().waiting(self.handle.key()?, owner))
    }
}

impl Exclusive {
    /// Returns true if any owner holds the name. Costs one command. The answer may be outdated on
    /// arrival.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &redlatch::exclusive::Exclusive) -> Result<(), redlatch::Error> {
    /// if lock.is_locked().await? {
    ///     println!("the import is under way");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    #[doc(alias = "isLocked")]
    #[doc(alias = "locked")]
    pub async fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.info().await?.is_some())
    }

    /// Returns true if `owner` holds the name. Costs one command.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # use redlatch::{Error, Held, exclusive::Exclusive};
    /// # async fn example(lock: &Exclusive, guard: Held) -> Result<(), Error> {
    /// assert!(lock.is_held_by(guard.owner()).await?);
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    #[doc(alias = "isHeldByCurrentThread")]
    #[doc(alias = "owned")]
    pub async fn is_held_by(&self, owner: &Owner) -> Result<bool, Error> {
        Ok(self.hold_count(owner).await? > 0)
    }

    /// Returns how many times `owner` holds the name. Returns zero if `owner` does not hold the
    /// name. Costs one command.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # use redlatch::{Error, Held, exclusive::Exclusive};
    /// # async fn example(lock: &Exclusive, guard: Held) -> Result<(), Error> {
    /// let count = lock.hold_count(guard.owner()).await?;
    /// println!("the server counts {count} guards, and this process {}", guard.hold_count());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn hold_count(&self, owner: &Owner) -> Result<u32, Error> {
        let info = self.info().await?;
        Ok(info
            .filter(|info| info.owner == owner.to_string())
            .map_or(0, |info| info.count))
    }

    /// Returns how long the present hold lasts if nothing renews it. Returns `None` if no owner
    /// holds the name. Costs one command.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &redlatch::exclusive::Exclusive) -> Result<(), redlatch::Error> {
    /// match lock.remaining().await? {
    ///     Some(rest) => println!("free in {rest:?} if the holder has died"),
    ///     None => println!("free"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn remaining(&self) -> Result<Option<Duration>, Error> {
        Ok(self.info().await?.map(|info| info.remaining))
    }

    /// Returns the present hold: owner, count, token, age and remaining lease. Returns `None` if no
    /// owner holds the name. Costs one command.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &redlatch::exclusive::Exclusive) -> Result<(), redlatch::Error> {
    /// if let Some(hold) = lock.info().await? {
    ///     println!("held for {:?}, {} wait, token {}", hold.age, hold.waiters, hold.token);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn info(&self) -> Result<Option<LockInfo>, Error> {
        let key = self.handle.key()?;
        let info = inspect::info(self.client(), self.kind, key).await;
        self.handle.about(info)
    }

    /// Returns the holders, at most one, with the records of their clients. Costs two commands; one
    /// if no owner holds the name.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &redlatch::exclusive::Exclusive) -> Result<(), redlatch::Error> {
    /// for holder in lock.holders().await? {
    ///     println!("held by {:?} for {:?}", holder.metadata, holder.note);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn holders(&self) -> Result<Vec<Holder>, Error> {
        match self.info().await? {
            Some(info) => Ok(vec![inspect::holder(self.client(), info).await?]),
            None => Ok(Vec::new()),
        }
    }

    /// Ends the present hold of any owner. Await the returned builder.
    ///
    /// **The call breaks exclusion by definition.** The name is free at once, while the holder may
    /// still be working. Guards of this client are lost at once. A renewed hold of another client
    /// is lost within a round trip, since the server notifies that client, or at its next renewal.
    /// A hold with a fixed lease is lost only at its deadline, or when it extends. The next holder
    /// has a greater token. To keep exclusion, forbid the renewal with
    /// [`after_lease`](ForceRelease::after_lease).
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &redlatch::exclusive::Exclusive) -> Result<(), redlatch::Error> {
    /// // The holder hangs: no more renewals, so the name is free when the lease ends.
    /// let ended = lock.force_release().after_lease().await?;
    /// println!("{}", if ended { "revoked" } else { "no owner holds the lock" });
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "forceUnlock")]
    pub fn force_release(&self) -> ForceRelease {
        ForceRelease {
            lock: self.clone(),
            token: None,
            how: Force::Now,
        }
    }

    /// Returns the name as it was given. Returns `None` if the name is invalid.
    pub fn name(&self) -> Option<&str> {
        self.handle.name()
    }

    /// Returns the client that sends the requests.
    pub const fn client(&self) -> &Client {
        self.handle.client()
    }
}

impl Lockable for Exclusive {
    fn member(&self) -> Result<Member, Error> {
        Ok(Member::new(self.client(), self.primitive()?))
    }
}

impl fmt::Debug for Exclusive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive")
            .field("kind", &self.kind.label)
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// A forced release. Await the builder. See [`Exclusive::force_release`].
///
/// Returns `true` if the hold existed, and this request or an earlier copy of it ended the hold.
/// Costs two commands; one if you pass the token.
///
/// # Errors
///
/// Those of [every call](Error#errors-of-every-call).
///
/// # Cancel safety
///
/// If the future is dropped, the hold may or may not have been ended.
#[derive(Clone, Debug)]
#[must_use = "nothing is released until this is awaited"]
pub struct ForceRelease {
    lock: Exclusive,
    token: Option<Token>,
    how: Force,
}

impl ForceRelease {
    /// Ends only the hold with this token. Default: the hold that exists when this is awaited.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &redlatch::exclusive::Exclusive) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    ///
    /// // Ends the hold that was looked at, and no later one.
    /// if let Some(hold) = lock.info().await?.filter(|hold| hold.age > Duration::from_secs(3600)) {
    ///     let ended = lock.force_release().token(hold.token).await?;
    ///     println!("{}", if ended { "ended" } else { "released in the meantime" });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub const fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Forbids the renewal of the hold instead of ending it. The name is free when the lease ends,
    /// and exclusion is kept.
    ///
    /// A renewed hold is lost within a round trip, or at its next renewal. A hold with a fixed
    /// lease ends at its deadline, as it would have anyway.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &redlatch::exclusive::Exclusive) -> Result<(), redlatch::Error> {
    /// if lock.force_release().after_lease().await? {
    ///     assert!(lock.is_locked().await?, "until the lease ends");
    /// }
    /// # Ok(())
    /// # }
    /// ```
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
        let Exclusive { handle, kind, .. } = &self.lock;
        let (client, key) = (handle.client(), handle.key()?);
        let call = kind.force(key, token, self.how, client);
        let ended = handle.ask(call, |items| kind.forced(items)).await?;
        if ended && self.how == Force::Now {
            client.revoked(key, Side::Exclusive, token.as_u64());
        }
        Ok(ended)
    }
}

awaited! {
    /// Whether the hold existed and was ended.
    ForceRelease => bool;
}
