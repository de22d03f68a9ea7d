//! The handle behind the handles of everything that one owner holds at a time.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    ForceRelease, Holder, Kind, LockInfo,
    inspect::{self, info},
    kind::queued_address,
};
use crate::{
    Client, Error, ErrorKind, Lockable, Member, Owner,
    base::{
        primitive::{
            AcquireRequest, Answer, AnswerForAll, Primitive, ReleaseReply, ReleaseRequest,
            RenewRequest, Renewed, Waiting, WithdrawRequest, Withdrawn,
        },
        script::ScriptCall,
    },
    protocol::{
        name::{Key, Name, NameError},
        waiter::Discipline,
    },
    runtime::Value,
};

/// What can be asked of a name that one owner holds at a time. Handles deref to this.
#[derive(Clone)]
pub struct Exclusive {
    client: Client,
    kind: &'static Kind,
    class: Arc<str>,
    object: Result<Arc<Object>, NameError>,
}

/// What the engine knows of it.
#[derive(Debug)]
struct Object {
    kind: &'static Kind,
    key: Key,
    class: Arc<str>,
}

/// For the crates of this family.
#[doc(hidden)]
impl Exclusive {
    pub fn new(client: &Client, kind: &'static Kind, name: &str) -> Self {
        let class = Arc::<str>::default();
        let object = Name::parse(name).map(|name| {
            Arc::new(Object {
                kind,
                key: client.key(&name),
                class: Arc::clone(&class),
            })
        });
        Self {
            client: client.clone(),
            kind,
            class,
            object,
        }
    }

    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.class = class.into();
        self.object = self.object.map(|object| {
            Arc::new(Object {
                kind: self.kind,
                key: object.key.clone(),
                class: Arc::clone(&self.class),
            })
        });
        self
    }

    pub fn primitive(&self) -> Result<Arc<dyn Primitive>, Error> {
        self.object().map(|object| Arc::clone(object) as _)
    }

    pub fn key(&self) -> Result<&Key, Error> {
        self.object().map(|object| &object.key)
    }

    /// Returns the address of the first waiter of `owner`, as its kind knows it; `None` if `owner`
    /// does not wait in this process.
    pub fn waiting(&self, owner: &Owner) -> Result<Option<String>, Error> {
        self.client.check_open()?;
        let address = self.client.waiting(self.key()?, owner);
        Ok(address.map(|address| queued_address(&address, owner)))
    }

    pub const fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn object(&self) -> Result<&Arc<Object>, Error> {
        self.object
            .as_ref()
            .map_err(|error| Error::new(ErrorKind::InvalidName, error.to_string()))
    }
}

impl Exclusive {
    /// Tells whether anybody holds it. Costs one command. Stale as soon as it is known.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.info().await?.is_some())
    }

    /// Tells whether `owner` holds it. Costs one command.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn is_held_by(&self, owner: &Owner) -> Result<bool, Error> {
        Ok(self.hold_count(owner).await? > 0)
    }

    /// Returns how many times `owner` holds it, zero if another or nobody does. Costs one command.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn hold_count(&self, owner: &Owner) -> Result<u32, Error> {
        let info = self.info().await?;
        Ok(info
            .filter(|info| info.owner == owner.to_string())
            .map_or(0, |info| info.count))
    }

    /// Returns how long the present hold lasts if it is not renewed; `None` if nobody holds. Costs
    /// one command.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn remaining(&self) -> Result<Option<Duration>, Error> {
        Ok(self.info().await?.map(|info| info.remaining))
    }

    /// Returns who holds, how often, with what token, since when and for how long; `None` if nobody
    /// does. Costs one command.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `WrongKind` for a name of another kind, `Permission`, `Auth`, `Closed`;
    /// `Unavailable` or `OutcomeUnknown` when the server did not answer for as long as the client
    /// is patient.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn info(&self) -> Result<Option<LockInfo>, Error> {
        let object = self.object()?;
        info(&self.client, self.kind, &object.key).await
    }

    /// Returns the holders, at most one, with what their clients say about themselves. Costs two
    /// commands, one if nobody holds.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn holders(&self) -> Result<Vec<Holder>, Error> {
        match self.info().await? {
            Some(info) => Ok(vec![inspect::holder(&self.client, info).await?]),
            None => Ok(Vec::new()),
        }
    }

    /// Ends the present hold, whoever has it. Awaiting the returned builder does it.
    ///
    /// **This breaks exclusion by definition**: the name is free at once, and the holder may still
    /// be at work. If it is a hold of this very client, its guards are told at once. Otherwise a
    /// renewed hold is told at its next renewal, and one with a fixed lease only at its deadline,
    /// or when it extends. The next holder has a greater token. Use [`after_lease`](ForceRelease::after_lease) to forbid
    /// renewal instead, which breaks nothing.
    pub fn force_release(&self) -> ForceRelease {
        ForceRelease::new(self)
    }

    /// Returns the name as it was given; `None` if it is not allowed.
    pub fn name(&self) -> Option<&str> {
        self.object.as_ref().ok().map(|object| object.key.name())
    }

    /// Returns the client it talks through.
    pub const fn client(&self) -> &Client {
        &self.client
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

impl Primitive for Object {
    fn kind(&self) -> &'static str {
        self.kind.label
    }

    fn class(&self) -> Arc<str> {
        Arc::clone(&self.class)
    }

    fn key(&self) -> &Key {
        &self.key
    }

    fn discipline(&self) -> Discipline {
        self.kind.discipline
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        self.kind.acquire(&[&self.key], request)
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        self.kind.acquired(reply)
    }

    fn acquire_all(&self, keys: &[&Key], request: &AcquireRequest<'_>) -> Option<ScriptCall> {
        Some(self.kind.acquire(keys, request))
    }

    fn acquired_all(&self, keys: usize, reply: &Value) -> Result<AnswerForAll, Error> {
        self.kind.acquired_all(keys, reply)
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        self.kind.renew(&self.key, request)
    }

    fn renewed(&self, reply: &Value) -> Result<Renewed, Error> {
        self.kind.renewed(reply)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        self.kind.release(&self.key, request)
    }

    fn released(&self, reply: &Value) -> Result<ReleaseReply, Error> {
        self.kind.released(reply)
    }

    fn withdraw(&self, request: &WithdrawRequest<'_>) -> Option<ScriptCall> {
        Some(self.kind.withdraw(request))
    }

    fn withdrawn(&self, reply: &Value) -> Result<Withdrawn, Error> {
        self.kind.withdrawn(reply)
    }

    fn waiting<'a>(&self, reply: &'a Value) -> Waiting<'a> {
        self.kind.waiting(reply)
    }
}
