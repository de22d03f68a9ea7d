//! The handle of a latch.

use std::{fmt, sync::Arc, time::Duration};

use redlatch_core::{
    Client, Error, ErrorKind,
    family::{Internals, Key, Name, NameError, ScriptCall, Sight, Watched},
    seam::Value,
};

use crate::{
    CountDownAndWait, LatchInfo, TrySetCount, Wait, WaitFor,
    inspect::{self, fate_of},
    scripts::{CountDownScript, Counted, DeleteScript, LookScript, Looked},
};

/// A countdown latch under one name, shared by all processes that use the same server and prefix.
///
/// Set to a count, counted down by whoever has done a part, and open when nothing is left: then everybody goes on who waits, and who comes later does not
/// wait. The handle is cheap to make and to clone and does no I/O. A name that is not allowed is told by the first call that talks to the server.
///
/// * **Once**: a count-down counts once, however often its request is sent, doubled or delayed on the way, for it carries an id that the server
///   remembers for longer than any copy may act.
/// * **Generations**: an open latch can be set anew. Who waits, waits for the generation that was there when it asked, and goes on when that has opened, also if
///   the next has begun meanwhile. A count-down counts in the generation that is there when it arrives.
/// * **Nobody set it**: waiting, counting and looking fail with [`ErrorKind::NotSet`].
/// * **Deleted, or ended by its TTL, or lost by the server**: who waits for it gets [`ErrorKind::Deleted`].
/// * **Nothing is held.** A party that dies before it has counted keeps the latch shut; [`wait_for`](Self::wait_for) or a
///   [TTL](TrySetCount::ttl) bounds the wait of the others. A waiter that dies leaves nothing behind.
/// * **It stays** until it is deleted, open or not, unless it was set with a TTL: an open latch is what tells latecomers that they need not wait.
/// * **Failover, restarts without persistence** can lose counts, which keeps it shut, or the latch, which is told to who waits. Who comes later finds
///   what the server remembers, which may be an earlier generation that was open.
///
/// # Examples
///
/// `redlatch`'s `client.countdown_latch(name)` makes one; without that crate:
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch_core::Error> {
/// use redlatch_core::{Client};
/// use redlatch_latch::CountDownLatch;
///
/// let client = Client::connect("redis://localhost").await?;
/// let ready = CountDownLatch::new(&client, "import:ready");
/// // Whoever is first sets it; the others find it set.
/// ready.try_set_count(4).await?;
/// // Each of the four: ready, and on when all are.
/// ready.count_down_and_wait(1).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CountDownLatch {
    client: Client,
    latch: Result<Arc<Latch>, NameError>,
}

/// What the engine knows of a latch.
#[derive(Clone, Debug)]
pub(crate) struct Latch {
    key: Key,
    channel: Arc<str>,
    class: Arc<str>,
}

impl CountDownLatch {
    /// Makes a handle of the latch called `name`: 1 to 512 bytes of UTF-8.
    ///
    /// Does no I/O. A name that is not allowed is told by the first call that would talk to the server, as `InvalidName`.
    /// A well-formed `{tag}` in the name is kept, so that names with that tag share a hash slot.
    pub fn new(client: &Client, name: &str) -> Self {
        let latch = Name::parse(name).map(|name| Arc::new(Latch::new(client, &name)));
        Self {
            client: client.clone(),
            latch,
        }
    }

    /// Labels this handle's metrics and events with `class`, for example what the latch is for. Names are never used as labels.
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

    /// Sets the count, unless the latch is set already and not open; `false` if it is.
    ///
    /// Awaiting the returned builder does it: `latch.try_set_count(4).await?`, `latch.try_set_count(4).ttl(d).await?`. That begins a new
    /// generation. 0 to `u32::MAX`; with 0 the latch is open at once, so that a computed number of parties needs no special case.
    ///
    /// Of those that set it at the same time one is told `true`. One command.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `InvalidOption`, `WrongKind`, `ServerFull`, `NotEnoughReplicas`, `Permission`, `Auth`, `Closed`; `Unavailable`, or `OutcomeUnknown` when it may have been
    /// set, if the server did not answer for as long as the client is patient, 20 s at most.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the count may be set or not; if it was not sent yet, it will not be, and if it was, it acts within 5 s or never.
    pub fn try_set_count(&self, count: u32) -> TrySetCount {
        TrySetCount::new(self, count)
    }

    /// Counts `n` down, once, and returns what is left; zero says that the latch is open.
    ///
    /// Counting further than to zero, or with the latch open, stops at zero and is no error: parties need not agree on who is last. `n` of 0 counts nothing and only looks.
    /// One command. Works on a full server.
    ///
    /// An answer that was lost is asked for again; it then tells what is left by that time, which is zero as well if the latch was deleted meanwhile.
    ///
    /// # Errors
    ///
    /// [`NotSet`](ErrorKind::NotSet) if nobody has set the latch; `InvalidName`, `WrongKind`, `NotEnoughReplicas`, `Permission`, `Auth`, `Closed`; `Unavailable` if it surely
    /// has not counted, and `OutcomeUnknown` if it may have, when the server did not answer for as long as the client is patient, 20 s at most. After `OutcomeUnknown`, counting again
    /// may count twice: [`count`](Self::count) tells more.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it may count or not, once at most; if it was not sent yet it will not, and if it was, it acts within 5 s or never.
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

    /// Counts `n` down, once, and waits until the latch is open. Awaiting the returned builder does it.
    ///
    /// Waits for the generation that it counted in, also if the answer to the count-down was lost. One command if it opens the latch itself; else two and a subscription, and one look
    /// every two seconds and client and one when a message comes.
    ///
    /// # Errors
    ///
    /// As [`count_down`](Self::count_down) and [`wait`](Self::wait). [`Error::is_not_executed`] does not tell whether it has counted.
    ///
    /// # Cancel safety
    ///
    /// As [`count_down`](Self::count_down): dropped, it may have counted. Nothing is left of the wait.
    pub fn count_down_and_wait(&self, n: u32) -> CountDownAndWait {
        CountDownAndWait::new(self, n)
    }

    /// Waits until the latch is open; returns at once if it is. Awaiting the returned builder does it.
    ///
    /// It waits for the generation it finds: if that opens and the latch is set anew, this returns all the same.
    ///
    /// # Cost
    ///
    /// One command if the latch is open. If not, a second one and a subscription, shared with all who wait for this latch in this client, and one look
    /// every two seconds *for all of them*. When the latch opens, one message reaches the client, which then looks once for all of them.
    ///
    /// # Errors
    ///
    /// [`NotSet`](ErrorKind::NotSet) if nobody has set the latch; [`Deleted`](ErrorKind::Deleted) if it is deleted while this waits, ends by its TTL, or the server lost it. Also
    /// `InvalidName`, `WrongKind`, `TooManyWaiters`, `Permission`, `Auth`, `Closed` (also when the client closes meanwhile), `Protocol`; `Unavailable` or
    /// `OutcomeUnknown` when the server did not answer for as long as the client is patient.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, it leaves nothing: waiting takes nothing and registers nothing on the server. The subscription ends with the last who waits.
    pub fn wait(&self) -> Wait {
        Wait::new(self)
    }

    /// Waits until the latch is open, for `wait` at most; `false` if it was not whenever this looked.
    ///
    /// Ends at its time, whatever happens; if the server has not answered by then it is an error and not `false`. A `wait` of zero looks once and takes the
    /// time that one answer needs. Otherwise as [`wait`](Self::wait).
    pub fn wait_for(&self, wait: Duration) -> WaitFor {
        WaitFor::new(self, wait)
    }

    /// Returns what is left to be counted; zero if the latch is open. Costs one command. Stale as soon as it is known.
    ///
    /// # Errors
    ///
    /// [`NotSet`](ErrorKind::NotSet) if nobody has set the latch; otherwise as [`info`](Self::info).
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

    /// Returns what is left, what it was set to, since when and for how long; `None` if nobody has set the latch. Costs one command.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `WrongKind` for a name of another kind, `Permission`, `Auth`, `Closed`; `Unavailable` or `OutcomeUnknown` when the
    /// server did not answer for as long as the client is patient.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn info(&self) -> Result<Option<LatchInfo>, Error> {
        inspect::info(&self.client, self.latch()?).await
    }

    /// Removes the latch, open or not; `false` if there is none. Everybody who waits for it is told at once, with [`Deleted`](ErrorKind::Deleted).
    ///
    /// One command. Works on a full server. That there was a latch is remembered for the client's token retention, so that no waiter takes the next one for
    /// this.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `WrongKind`, `NotEnoughReplicas`, `Permission`, `Auth`, `Closed`; `Unavailable`, or `OutcomeUnknown` when it may be deleted, if the server did not answer for
    /// as long as the client is patient, 20 s at most.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the latch may be deleted or not; if it was not sent yet it will not be, and if it was, it acts within 5 s or never.
    pub async fn delete(&self) -> Result<bool, Error> {
        let latch = self.latch()?;
        let trace = self.client.retention();
        let call = |op: &_| {
            DeleteScript {
                key: &latch.key,
                op,
                trace,
                verb: self.client.publish_verb(),
                channel: &latch.channel,
            }
            .call()
        };
        self.client.change(call, DeleteScript::decode).await
    }

    /// Returns the name as it was given; `None` if it is not allowed.
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
                verb: self.client.publish_verb(),
                channel: &latch.channel,
            }
            .call()
        };
        self.client.change(call, CountDownScript::decode).await
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
            channel: client.broadcast_channel(&key),
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

    fn looked(&self, phases: &[u64], reply: &Value) -> Result<Sight, Error> {
        Ok(match LookScript::decode(reply, phases)? {
            Looked::Set {
                generation,
                left,
                remaining,
                fates,
                ..
            } => Sight {
                fates,
                present: Some((generation, fate_of(left))),
                remaining: remaining.unwrap_or(Duration::MAX),
            },
            Looked::Unset { fates } => Sight {
                fates,
                present: None,
                remaining: Duration::MAX,
            },
        })
    }

    fn absent(&self) -> Error {
        Error::new(
            ErrorKind::NotSet,
            format!("nobody has set the latch {}", self.name()),
        )
    }

    fn gone(&self) -> Error {
        Error::new(
            ErrorKind::Deleted,
            format!(
                "the latch {} is gone: deleted, ended by its time, or lost by the server",
                self.name()
            ),
        )
    }
}
