//! The handle of a pool, behind the handles of both semaphores, and the builders that set the
//! number of permits.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use redlatch_core::{
    Acquire, Client, Error, ErrorKind, Held, Metadata, TryAcquire, TryAcquireFor, awaited,
    family::{
        AttemptId, Handle, Identity, Internals, Items, Lease, Primitive, Records, ReleaseReply,
        Renewed, invalid,
    },
};

use crate::scripts::{self, Change, Made, ReleaseScript, unset};

/// The sort of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flavour {
    /// Its name in events and metrics.
    pub kind: &'static str,
    /// Its name on the server.
    pub stored: &'static str,
    /// Each permit is a hold of its own, `<attempt>:<n>`.
    pub each: bool,
}

/// A pool of leased permits under one name.
#[derive(Clone, Debug)]
pub struct Pool {
    handle: Handle,
    flavour: Flavour,
    size: Option<u32>,
}

/// A number of permits of one pool.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) flavour: Flavour,
    pub(crate) identity: Identity,
    pub(crate) need: u32,
    pub(crate) size: Option<u32>,
}

impl Counted {
    /// Returns the names of the holds that `attempt` makes, without the client.
    pub(crate) fn holds(&self, attempt: &AttemptId) -> Vec<String> {
        let attempt = attempt.suffix().to_string();
        if self.flavour.each {
            (0..self.need).map(|at| format!("{attempt}:{at}")).collect()
        } else {
            vec![attempt]
        }
    }
}

/// An acquisition that waits. Await the builder.
pub type AcquirePermits<G> = Acquire<G>;

/// An acquisition that does not wait. Await the builder. Returns `None` if too few permits are
/// available, or if earlier waiters need them.
pub type TryAcquirePermits<G> = TryAcquire<G>;

/// An acquisition with a bounded wait. Await the builder. Returns `None` if too few permits
/// were available at each check.
pub type TryAcquirePermitsFor<G> = TryAcquireFor<G>;

/// The numbers of permits, as the server knows them. The result may be outdated on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// The number of permits.
    pub permits: u32,
    /// The number available. Zero while more permits are out than the total.
    pub available: u32,
    /// The number given out. Larger than the total after the total was lowered.
    pub acquired: u32,
    /// Waiters in the queue, of all clients. Dead ones are counted for a while.
    pub waiters: u64,
    /// The remaining TTL; `None` if it has none.
    pub remaining: Option<Duration>,
}

/// The permits of one acquisition, and the description of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitHolder {
    /// The acquisition, `<client>:<n>`.
    pub id: String,
    /// The number of its permits.
    pub permits: u32,
    /// The remaining lease.
    pub remaining: Duration,
    /// Host, process and application. `None` if the client's record is gone.
    pub metadata: Option<Metadata>,
    /// Why it holds, if it has said so with `note`.
    pub note: Option<String>,
}

/// Largest number of holds per call.
pub const CHUNK: usize = 256;

/// Largest number of permits with ids per call.
pub const AT_ONCE: u32 = 1_000;

impl Pool {
    /// Creates a handle. Does no I/O; the first call reports an invalid name.
    pub fn new(client: &Client, flavour: Flavour, name: &str) -> Self {
        Self {
            handle: Handle::new(client, flavour.kind, name),
            flavour,
            size: None,
        }
    }

    /// Labels this handle's metrics and events.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.handle = self.handle.class(class);
        self
    }

    /// Sets the size that the pool gets if it has none.
    #[must_use]
    pub const fn size(mut self, size: u32) -> Self {
        self.size = Some(size);
        self
    }

    /// Returns the client.
    pub const fn client(&self) -> &Client {
        self.handle.client()
    }

    /// Returns the name as it was given; `None` if it is invalid.
    pub fn name(&self) -> Option<&str> {
        self.handle.name()
    }

    /// Returns the primitive that acquires `need` permits.
    pub fn primitive(&self, need: u32) -> Result<Arc<dyn Primitive>, Error> {
        let identity = self.handle.identity()?;
        if need == 0 {
            return Err(invalid("0 permits are requested; the least is 1"));
        }
        if self.flavour.each && need > AT_ONCE {
            let message = format!("{need} permits are requested; the most at once is {AT_ONCE}");
            return Err(invalid(message));
        }
        Ok(Arc::new(Counted {
            flavour: self.flavour,
            identity,
            need,
            size: self.size,
        }))
    }

    /// Acquires permits, and makes the result of their hold.
    pub fn acquire<G>(&self, permits: u32, wrap: fn(Held) -> G) -> Acquire<G> {
        Acquire::fresh(self.client(), self.primitive(permits), wrap)
    }

    /// The same without a wait.
    pub fn try_acquire<G>(&self, permits: u32, wrap: fn(Held) -> G) -> TryAcquire<G> {
        TryAcquire::fresh(self.client(), self.primitive(permits), wrap)
    }

    /// The same with a bounded wait.
    pub fn try_acquire_for<G>(
        &self,
        permits: u32,
        wrap: fn(Held) -> G,
        wait: Duration,
    ) -> TryAcquireFor<G> {
        TryAcquireFor::fresh(self.client(), self.primitive(permits), wrap, wait)
    }

    /// Returns the number of permits, and the number given out.
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn totals(&self) -> Result<Totals, Error> {
        let counting = self.client().within_patience(false, self.count());
        self.handle.about(counting.await)
    }

    async fn count(&self) -> Result<Totals, Error> {
        let (key, kind) = (self.handle.key()?, self.flavour.stored);
        loop {
            let call = scripts::inspect(key, kind, self.size);
            let read = |items: &Items<'_>| scripts::inspected(kind, items);
            if let Some(totals) = self.handle.ask(call, read).await? {
                return Ok(totals);
            }
        }
    }

    /// Lists the holds whose id is `shown`, with the descriptions of their clients. They are
    /// ordered by their end as the index knows it. Holds that begin or end in the meantime may be
    /// missed or listed twice.
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn holders(&self, shown: impl Fn(&str) -> bool) -> Result<Vec<PermitHolder>, Error> {
        let (client, key, kind) = (self.client(), self.handle.key()?, self.flavour.stored);
        let (mut from, mut seen, mut all) = (0, CHUNK, Vec::new());
        while seen == CHUNK {
            let call = scripts::holds(key, kind, from, CHUNK);
            let read = |items: &Items<'_>| scripts::listed(kind, items);
            let listed = self.handle.ask(call, read).await?;
            seen = listed.0;
            from += seen;
            all.extend(listed.1.into_iter().filter(|hold| shown(&hold.id)));
        }
        let records = Records::new(client);
        for hold in &mut all {
            hold.remaining = client.lease_of_holder(hold.remaining);
            hold.metadata = records.of(&hold.id).await?;
            let of = hold.metadata.as_ref();
            hold.note = client.note(of, &hold.id, key.name(), None).await?;
        }
        Ok(all)
    }

    /// Ends at most [`CHUNK`] holds by name. Returns an outcome for each, and whether an earlier
    /// copy of the request may have been executed. `void` names the acquire that this undoes, and
    /// the time until which its copies may act.
    ///
    /// # Cancel safety
    ///
    /// After a drop, holds may have been ended or not. Nothing continues in the background.
    pub async fn end(
        &self,
        holds: &[String],
        void: Option<(String, u64)>,
    ) -> Result<(Vec<ReleaseReply>, bool), Error> {
        let key = self.handle.key()?;
        // This reads no grants in the reply. Only kinds whose holds have ids know an acquire that
        // it may undo, and they grant to no waiter.
        debug_assert!(self.flavour.each || void.is_none());
        let one = void.as_ref().map(|(attempt, _)| attempt);
        let one = one.or_else(|| holds.first());
        let colon = one.and_then(|one| Some(one.split_at(one.find(':')?)));
        let (client, number) = colon.unwrap_or_default();
        let script = ReleaseScript {
            key,
            kind: self.flavour.stored,
            client,
            attempt: void.as_ref().map_or("", |_| number).to_owned(),
            void_by: void.as_ref().map(|(_, by)| *by),
            retention: self.client().retention(),
            waiter: None,
            left: 0,
            forgotten: 0,
        };
        let holds: Vec<_> = holds.iter().map(|hold| script.hold(hold)).collect();
        let call = script.call(&holds);
        let answered = self.client().query_counted(&call, ReleaseScript::decode);
        self.handle.about(answered.await)
    }

    /// Extends one hold to at least `lease` from now, as its holder counts it. Returns
    /// [`Renewed::Late`] if the server got both requests too late.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the change has been made once or not at all.
    pub async fn extend(&self, hold: &str, lease: Duration) -> Result<Renewed, Error> {
        let key = self.handle.key()?;
        let lease = self.client().lease_on_server(lease);
        let call = scripts::renew(key, self.flavour.stored, lease, hold);
        // The first try may be too late to act if the client's knowledge of the server's time is
        // old. Its answer has the time.
        for _ in 0..2 {
            let answered = self.client().query_counted(&call, Renewed::read).await;
            match self.handle.about(answered)?.0 {
                Renewed::Late => {}
                Renewed::Ends(rest) => {
                    return Ok(Renewed::Ends(self.client().lease_of_holder(rest)));
                }
                renewed => return Ok(renewed),
            }
        }
        Ok(Renewed::Late)
    }

    /// Returns the remaining time of each hold; zero if it is over or unknown.
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn remaining(&self, holds: &[String]) -> Result<Vec<Duration>, Error> {
        let (key, kind) = (self.handle.key()?, self.flavour.stored);
        let mut all = Vec::with_capacity(holds.len());
        for holds in holds.chunks(CHUNK) {
            let call = scripts::look(key, kind, holds);
            let read = |items: &Items<'_>| scripts::looked(kind, items);
            let spans = self.handle.ask(call, read).await?.into_iter();
            all.extend(spans.map(|span| self.client().lease_of_holder(span)));
        }
        Ok(all)
    }

    /// Makes a change of a pool whose size is set, and returns its number. With `ttl`, also sets
    /// the life of the pool; zero is for ever.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the change has been made once or not at all.
    pub async fn changed(&self, change: Change, ttl: Option<Duration>) -> Result<u32, Error> {
        match self.change(change, ttl).await? {
            Made::Done(number) => Ok(number),
            Made::OutOfRange(size) => self.handle.about(Err(Error::new(
                ErrorKind::OutOfRange,
                format!("it has {size} permits, and 0 to 4294967295 are possible"),
            ))),
            _ => self.handle.about(Err(unset())),
        }
    }

    /// Makes a change. With `ttl`, also sets the life of the pool; zero is for ever.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the change has been made once or not at all.
    pub async fn change(&self, change: Change, ttl: Option<Duration>) -> Result<Made, Error> {
        let trying = self.try_change(change, ttl);
        let changing = self.client().within_patience(true, trying);
        self.handle.about(changing.await)
    }

    async fn try_change(&self, change: Change, ttl: Option<Duration>) -> Result<Made, Error> {
        let (key, kind) = (self.handle.key()?, self.flavour.stored);
        // One id for all calls, so that a late copy of an unanswered one changes nothing again.
        let mut first: Option<AttemptId> = None;
        loop {
            let asked = OnceLock::new();
            let call = |op: &AttemptId| {
                let op = first.as_ref().unwrap_or(op);
                let _ = asked.set(op.clone());
                scripts::change(key, kind, op, change, ttl)
            };
            let read = |items: &Items<'_>| scripts::changed(kind, items);
            let made = self.handle.change(call, read).await?;
            if made != Made::More {
                return Ok(made);
            }
            first = first.or_else(|| asked.get().cloned());
        }
    }
}

/// Sets the number of permits. Await the builder.
#[derive(Clone, Debug)]
#[must_use = "nothing is set until this is awaited"]
pub struct SetPermits(Setting);

/// Sets the number of permits if no number is set. Await the builder. Returns `false` if a number
/// was set.
#[derive(Clone, Debug)]
#[must_use = "nothing is set until this is awaited"]
pub struct TrySetPermits(Setting);

#[derive(Clone, Debug)]
struct Setting {
    pool: Pool,
    permits: u32,
    ttl: Option<Duration>,
    wrong: bool,
}

macro_rules! settings {
    ($($builder:ident),*) => {$(
        impl $builder {
            /// Creates the builder, for the crates of this family.
            #[doc(hidden)]
            pub fn new(pool: &Pool, permits: u32) -> Self {
                Self(Setting {
                    pool: pool.clone(),
                    permits,
                    ttl: None,
                    wrong: false,
                })
            }

            /// Lets the whole object expire after `ttl`: 1 s to 365 days, else `InvalidOption`.
            /// Default: unchanged, and for ever if the object is new.
            ///
            /// The time counts from this setting, and nothing prolongs it. The object expires later
            /// if given-out permits have longer leases. Permits given out afterwards end with it,
            /// and their guards know. Then the number of permits is not set.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// use std::time::Duration;
            /// use redlatch::ErrorKind;
            ///
            /// let sale = client.semaphore("sale:2026-11-28");
            /// sale.set_permits(100).ttl(Duration::from_secs(3600)).await?;
            /// tokio::time::sleep(Duration::from_secs(3601)).await;
            /// assert_eq!(sale.permits().await.unwrap_err().kind(), ErrorKind::NotSet);
            /// # Ok(())
            /// # }
            /// ```
            pub fn ttl(mut self, ttl: Duration) -> Self {
                self.0.wrong = ttl < MIN_TTL || ttl > Lease::MAX;
                self.0.ttl = Some(ttl);
                self
            }

            /// Removes a TTL: the object lasts until it is deleted.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// use std::time::Duration;
            ///
            /// let sale = client.semaphore("sale");
            /// sale.set_permits(100).ttl(Duration::from_secs(3600)).await?;
            /// sale.set_permits(100).for_ever().await?; // the sale goes on
            /// tokio::time::sleep(Duration::from_secs(3601)).await;
            /// assert_eq!(sale.permits().await?, 100);
            /// # Ok(())
            /// # }
            /// ```
            pub const fn for_ever(mut self) -> Self {
                self.0.wrong = false;
                self.0.ttl = Some(Duration::ZERO);
                self
            }
        }
    )*};
}

settings!(SetPermits, TrySetPermits);

impl Setting {
    fn checked_ttl(&self) -> Result<Option<Duration>, Error> {
        match self.wrong {
            true => Err(invalid("the ttl is out of bounds; it is 1 s to 365 days")),
            false => Ok(self.ttl),
        }
    }
}

impl SetPermits {
    async fn run(self) -> Result<(), Error> {
        let ttl = self.0.checked_ttl()?;
        let set = Change::Set(self.0.permits);
        self.0.pool.changed(set, ttl).await.map(drop)
    }
}

impl TrySetPermits {
    async fn run(self) -> Result<bool, Error> {
        let ttl = self.0.checked_ttl()?;
        let set = Change::TrySet(self.0.permits);
        Ok(self.0.pool.change(set, ttl).await? != Made::Set)
    }
}

awaited! {
    SetPermits => ();
    /// True if this call set it.
    TrySetPermits => bool;
}

/// Shortest TTL of a pool.
const MIN_TTL: Duration = Duration::from_secs(1);
