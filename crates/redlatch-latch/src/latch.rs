//! The handle of a latch.

use std::{fmt, sync::Arc, time::Duration};

use redlatch_core::{
    Client, Error, ErrorKind,
    family::{About, Internals, Key, Name, NameError, ScriptCall, Snapshot, Watched},
    runtime::Value,
};

use crate::{
    CountDownAndWait, LatchInfo, TrySetCount, Wait, WaitFor,
    inspect::{self, state_of},
    scripts::{CountDownScript, Counted, DeleteScript, LookScript, Looked},
};

/// A countdown latch under one name, shared by all processes that use the same server and prefix.
///
/// A latch is set to a count, and parties count it down. At zero it is open: all waiters continue,
/// and later callers do not wait. The handle is cheap to make and to clone and does no I/O. The
/// first call that would send a request reports an invalid name.
///
/// * **Once**: a count-down counts once, however often its request is sent, duplicated or delayed.
///   It carries an id that the server remembers for longer than any copy may act.
/// * **Generations**: an open latch can be set again. A waiter waits for the generation that it
///   found, and continues when that one has opened, even if the next has begun. A count-down counts
///   in the generation that it finds on arrival.
/// * **Not set**: waiting, counting and inspecting fail with [`ErrorKind::NotSet`].
/// * **Deleted, expired, or lost by the server**: waiters get [`ErrorKind::Deleted`].
/// * **Nothing is held.** A party that dies before its count-down keeps the latch closed;
///   [`wait_for`](Self::wait_for) or a [TTL](TrySetCount::ttl) bounds the wait of the others. A
///   waiter that dies leaves nothing behind.
/// * **It stays** until it is deleted, open or not, unless it was set with a TTL. An open latch
///   tells later callers that they need not wait.
/// * **Failover, restarts without persistence** can lose counts, which keeps the latch closed, or
///   the latch itself, which waiters are told. A later caller finds the state that the server
///   remembers, possibly an earlier, open generation.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch::Error> {
/// use redlatch::Client;
///
/// let client = Client::connect("redis://localhost").await?;
/// let ready = client.count_down_latch("import:ready");
/// // The first party sets the count. For the others it is already set.
/// ready.try_set_count(4).await?;
/// // Each of the four parties continues when all are ready.
/// ready.count_down_and_wait(1).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CountDownLatch {
    client: Client,
    latch: Result<Arc<Latch>, NameError>,
}

/// The latch's implementation of the core's `Watched`.
#[derive(Clone, Debug)]
pub(crate) struct Latch {
    key: Key,
    channel: Arc<str>,
    class: Arc<str>,
}

impl CountDownLatch {
    /// Creates a handle of the latch called `name`: 1 to 512 bytes of UTF-8.
    ///
    /// Does no I/O. The first call that would send a request reports an invalid name as
    /// `InvalidName`. A well-formed `{tag}` in the name is kept, so that names with that tag share
    /// a hash slot.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let latch = Name::parse(name.as_ref()).map(|name| Arc::new(Latch::new(client, &name)));
        Self {
            client: client.clone(),
            latch,
        }
    }

    /// Labels this handle's metrics and events with `class`, for example what the latch is for.
    /// Names are never used as labels.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.latch = self.latch.map(|latch| {
            Arc::new(Latch {
                class: class.into(),
                ..Latch::clone(&latch)
            })
        });
        self
    }

    /// Sets the count. Returns `false`, and changes nothing, if the latch is already set and not
    /// open.
    ///
    /// Await the returned builder: `latch.try_set_count(4).await?`,
    /// `latch.try_set_count(4).ttl(d).await?`. The setting begins a new generation. The count is 0
    /// to `u32::MAX`. With 0 the latch is open at once, so that a computed number of parties needs
    /// no special case.
    ///
    /// Of several parties that set it at the same time, one gets `true`. Costs one command.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `InvalidOption`, `WrongKind`, `ServerFull`, `NotEnoughReplicas`,
    /// `Permission`, `Auth`, `Closed`; `Unavailable`, or `OutcomeUnknown` if it may have been set,
    /// when the server did not answer within the client's `patience`, 20 s at most.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the count may be set or not. An unsent request is not sent. A sent one acts
    /// within 5 s or never.
    pub fn try_set_count(&self, count: u32) -> TrySetCount {
        TrySetCount::new(self, count)
    }

    /// Counts `n` down, once, and returns the remaining count. Zero means that the latch is open.
    ///
    /// Counting beyond zero, or on an open latch, stops at zero and is no error, so parties need
    /// not agree on the last one. With `n` of 0 nothing is counted. Costs one command. Works on a
    /// full server.
    ///
    /// A lost answer is requested again. It then has the count at that time, which is also zero if
    /// the latch was deleted in the meantime.
    ///
    /// # Errors
    ///
    /// [`NotSet`](ErrorKind::NotSet) if nobody has set the latch; `InvalidName`, `WrongKind`,
    /// `NotEnoughReplicas`, `Permission`, `Auth`, `Closed`; `Unavailable` if it has certainly not
    /// counted, and `OutcomeUnknown` if it may have, when the server did not answer within the
    /// client's `patience`, 20 s at most. After `OutcomeUnknown`, counting again may count twice:
    /// [`count`](Self::count) tells more.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the call may count or not, once at most. An unsent request is not sent. A sent
    /// one acts within 5 s or never.
    pub async fn count_down(&self, n: u32) -> Result<u32, Error> {
        if n == 0 {
            return self.count().await;
        }
        match self.counted(n).await? {
            Counted::Left { left, .. } => Ok(left),
            Counted::Deleted => Ok(0),
            Counted::Unset => Err(self.latch()?.absent()),
        }
    }

    /// Counts `n` down, once, and waits until the latch is open. Await the returned builder.
    ///
    /// Waits for the generation that it counted in, even if the answer to the count-down was lost.
    /// Costs one command if it opens the latch itself. Otherwise two and a subscription, one
    /// re-check every two seconds per client, and one for each message.
    ///
    /// # Errors
    ///
    /// As [`count_down`](Self::count_down) and [`wait`](Self::wait). [`Error::is_not_executed`]
    /// says nothing about the count-down.
    ///
    /// # Cancel safety
    ///
    /// As [`count_down`](Self::count_down): after a drop, it may have counted. Nothing remains of
    /// the wait.
    pub fn count_down_and_wait(&self, n: u32) -> CountDownAndWait {
        CountDownAndWait::new(self, n)
    }

    /// Waits until the latch is open. Returns at once if it is. Await the returned builder.
    ///
    /// The call waits for the generation that it finds. If that one opens and the latch is set
    /// again, the call returns all the same.
    ///
    /// # Cost
    ///
    /// One command if the latch is open. Otherwise a second one and a subscription, shared with all
    /// waiters of this latch in this client, and one re-check every two seconds *for all of them*.
    /// When the latch opens, one message reaches the client, which then re-checks once for all of
    /// them.
    ///
    /// # Errors
    ///
    /// [`NotSet`](ErrorKind::NotSet) if nobody has set the latch; [`Deleted`](ErrorKind::Deleted)
    /// if it is deleted during the wait, expires, or is lost by the server. Also `InvalidName`,
    /// `WrongKind`, `TooManyWaiters`, `Permission`, `Auth`, `Closed` (also when the client closes
    /// during the call), `Protocol`; `Unavailable` or `OutcomeUnknown` when the server did not
    /// answer within the client's `patience`.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any await. A wait takes and registers nothing on the server.
    /// The subscription ends with the last waiter.
    pub fn wait(&self) -> Wait {
        Wait::new(self)
    }

    /// Waits until the latch is open, at most for `wait`. Returns `false` if it was closed at each
    /// look.
    ///
    /// Ends after `wait` in any case. If the server did not answer by then, the result is an error
    /// and not `false`. A `wait` of zero is one request, and takes until its answer. Otherwise as
    /// [`wait`](Self::wait).
    pub fn wait_for(&self, wait: Duration) -> WaitFor {
        WaitFor::new(self, wait)
    }

    /// Returns the remaining count; zero if the latch is open. Costs one command. The result may be
    /// outdated on arrival.
    ///
    /// # Errors
    ///
    /// [`NotSet`](ErrorKind::NotSet) if nobody has set the latch; otherwise as
    /// [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn count(&self) -> Result<u32, Error> {
        match self.info().await? {
            Some(info) => Ok(info.count),
            None => Err(self.latch()?.absent()),
        }
    }

    /// Returns the remaining count, the count at the setting, the time since then and the TTL.
    /// Returns `None` if nobody has set the latch. Costs one command.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `WrongKind` for a name of another kind, `Permission`, `Auth`, `Closed`;
    /// `Unavailable` or `OutcomeUnknown` when the server did not answer within the client's
    /// `patience`.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn info(&self) -> Result<Option<LatchInfo>, Error> {
        inspect::info(&self.client, self.latch()?).await
    }

    /// Removes the latch, open or not. Returns `false` if there is none. All waiters get
    /// [`Deleted`](ErrorKind::Deleted) at once.
    ///
    /// Costs one command. Works on a full server. The server remembers the removed latch for the
    /// client's token retention, so that no waiter mistakes the next latch for it.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `WrongKind`, `NotEnoughReplicas`, `Permission`, `Auth`, `Closed`;
    /// `Unavailable`, or `OutcomeUnknown` if it may be deleted, when the server did not answer
    /// within the client's `patience`, 20 s at most.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the latch may be deleted or not. An unsent request is not sent. A sent one
    /// acts within 5 s or never.
    pub async fn delete(&self) -> Result<bool, Error> {
        let latch = self.latch()?;
        let trace = self.client.retention();
        let call = |op: &_| {
            DeleteScript {
                key: &latch.key,
                op,
                trace,
                channel: &latch.channel,
            }
            .call()
        };
        let deleted = self.client.change(call, DeleteScript::decode).await;
        deleted.about(latch.kind(), latch.name())
    }

    /// Returns the name as it was given; `None` if it is invalid.
    pub fn name(&self) -> Option<&str> {
        self.latch.as_ref().ok().map(|latch| latch.key.name())
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn latch(&self) -> Result<&Arc<Latch>, Error> {
        self.latch
            .as_ref()
            .map_err(|error| Error::new(ErrorKind::InvalidName, error.to_string()))
    }

    pub(crate) async fn counted(&self, n: u32) -> Result<Counted, Error> {
        let latch = self.latch()?;
        let call = |op: &_| {
            CountDownScript {
                key: &latch.key,
                op,
                n,
                channel: &latch.channel,
            }
            .call()
        };
        let counted = self.client.change(call, CountDownScript::decode).await;
        counted.about(latch.kind(), latch.name())
    }
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountDownLatch")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl Latch {
    fn new(client: &Client, name: &Name) -> Self {
        let key = client.key(name);
        Self {
            channel: key.broadcast_channel(),
            key,
            class: "".into(),
        }
    }
}

impl Watched for Latch {
    fn kind(&self) -> &'static str {
        "latch"
    }

    fn class(&self) -> Arc<str> {
        Arc::clone(&self.class)
    }

    fn key(&self) -> &Key {
        &self.key
    }

    fn look(&self, phases: &[u64]) -> ScriptCall {
        LookScript {
            key: &self.key,
            generations: phases,
        }
        .call()
    }

    fn looked(&self, phases: &[u64], reply: &Value) -> Result<Snapshot, Error> {
        Ok(match LookScript::decode(reply, phases)? {
            Looked::Set {
                generation,
                left,
                remaining,
                states,
                ..
            } => Snapshot {
                states,
                present: Some((generation, state_of(left))),
                remaining: remaining.unwrap_or(Duration::MAX),
            },
            Looked::Unset { states } => Snapshot {
                states,
                present: None,
                remaining: Duration::MAX,
            },
        })
    }

    fn absent(&self) -> Error {
        let message = "nobody has set it; one participant calls try_set_count first";
        Error::new(ErrorKind::NotSet, message).about(self.kind(), self.name())
    }

    fn gone(&self) -> Error {
        let message = "it is gone: deleted, expired by its ttl, or lost by the server";
        Error::new(ErrorKind::Deleted, message).about(self.kind(), self.name())
    }
}
