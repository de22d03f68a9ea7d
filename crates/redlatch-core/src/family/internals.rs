//! What a client does for the sibling crates, and users do not call.

use std::{sync::Arc, time::Duration};

use crate::{
    Client, Error, Held, Metadata, Owner, Token,
    base::{primitive::Side, rules::Rule, script::ScriptCall, timeouts},
    family::{AcquireOptions, AttemptId, Changed, Primitive, Together, WatchOptions, Watched},
    net::{Answered, LinkClass, Repeated},
    protocol::{
        lease::Lease,
        name::{Key, Name},
    },
    runtime::Value,
};

impl Client {
    /// Returns the slot of `key` where slots are on different servers, else 0: keys with the same
    /// number can be named in one script.
    pub(crate) fn place(&self, key: &Key) -> u16 {
        if self.net().router.is_cluster() {
            key.slot()
        } else {
            0
        }
    }

    /// Sends a script that is idempotent until it is answered, as long as the client is patient.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the script may have been executed or may still be; that is the caller's to bear in
    /// mind.
    pub(crate) async fn query(&self, call: &ScriptCall) -> Result<Value, Error> {
        self.check_closing()?;
        Ok(self.insist(call).await?.reply)
    }

    /// As [`query`](Self::query); also tells whether a copy before the one that was answered may have been
    /// executed.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the script may have been executed or may still be; that is the caller's to bear in
    /// mind.
    pub(crate) async fn query_counted(&self, call: &ScriptCall) -> Result<(Value, bool), Error> {
        self.check_closing()?;
        let answered = self.insist(call).await?;
        Ok((answered.reply, answered.resent))
    }

    fn insist(&self, call: &ScriptCall) -> impl Future<Output = Result<Answered, Error>> {
        let deadline = self.now() + self.0.patience;
        let repeated = Repeated::new(call, timeouts::REQUEST, deadline);
        self.net().insist(repeated)
    }

    /// Returns for how long the server in charge of `slot` has surely been running. Costs one
    /// command per connection.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost; ask again.
    pub(crate) async fn server_age(&self, slot: u16) -> Result<Duration, Error> {
        self.check_open()?;
        let deadline = self.now() + timeouts::REQUEST;
        let net = self.net();
        let session = net.session(slot, LinkClass::Command, deadline).await?;
        session.server_age(deadline).await
    }

    /// Pauses on this client's clock.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(crate) async fn pause(&self, span: Duration) {
        self.alarm(self.now() + span).await;
    }

    /// Draws 64 random bits.
    pub(crate) fn random(&self) -> u64 {
        self.runtime().random()
    }

    /// Tells a hold of this client that it was ended by force.
    pub(crate) fn revoked(&self, key: &Key, token: Token) {
        self.revoked_hold(key, Side::Exclusive, token.as_u64());
    }

    /// Tells a hold of this client that it was ended by force, where holds are named by serials.
    pub(crate) fn revoked_hold(&self, key: &Key, side: Side, serial: u64) {
        self.0.holds.revoked(key, side, serial);
    }

    /// Returns the address of the waiter of `owner` that came first for `key` in this process.
    pub(crate) fn waiting(&self, key: &Key, owner: &Owner) -> Option<String> {
        let own = owner.client() == self.id();
        self.local_queues()
            .address(key, owner.number())
            .filter(|_| own)
    }

    /// Reads what the client of `owner` said about itself.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost; ask again.
    pub(crate) async fn metadata(&self, owner: &str) -> Result<Option<Metadata>, Error> {
        self.check_process()?;
        self.0
            .record
            .read(self.net(), owner, self.now() + self.0.patience)
            .await
    }

    /// Returns the command that publishes on a broadcast channel.
    pub(crate) fn publish_verb(&self) -> &'static str {
        "PUBLISH"
    }
}

/// What a [`Client`] does for the sibling crates, and users do not call.
///
/// A dropped future of any of these loses nothing, unless its method says otherwise.
pub trait Internals {
    /// Acquires `primitive`; `None` if another holds it and the caller's time is up.
    ///
    /// A dropped future gives back in the background what was taken, and passes the turn on.
    fn acquire(
        &self,
        primitive: &Arc<dyn Primitive>,
        options: &AcquireOptions,
    ) -> impl Future<Output = Result<Option<Held>, Error>> + Send;

    /// Acquires all of `primitives`, which are of one kind and in one [place](Self::place), by one
    /// script, or none. Asks once. Waiters of this process go first, unless the caller does not
    /// wait at all.
    ///
    /// A dropped future gives back in the background what was taken.
    fn acquire_together(
        &self,
        primitives: &[Arc<dyn Primitive>],
        options: &AcquireOptions,
    ) -> impl Future<Output = Result<Together, Error>> + Send;

    /// Sends a change until it is answered, as long as the client is patient and for 20 s at most.
    ///
    /// `build` makes the call, dated, from the id that its script remembers for [`REMEMBERED`];
    /// `read` reads the answer. If the future is dropped, the change is made once or not at all;
    /// at most 5 s after it was last sent.
    fn change<R: Send>(
        &self,
        build: impl Fn(&AttemptId) -> ScriptCall + Send + Sync,
        read: impl Fn(&Value) -> Result<Changed<R>, Error> + Send + Sync,
    ) -> impl Future<Output = Result<R, Error>> + Send;

    /// Waits until a phase of `watched` is over; `false` if the caller's time is up before.
    ///
    /// Watchers of one object in one client share their looks at it. A message is a hint: it makes
    /// one of them look, and what the server answers releases all of them.
    fn watch(
        &self,
        watched: &Arc<dyn Watched>,
        options: &WatchOptions,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Sends an idempotent script until it is answered, as long as the client is patient.
    ///
    /// If the future is dropped, the script was executed, will be, or neither.
    fn query(&self, call: &ScriptCall) -> impl Future<Output = Result<Value, Error>> + Send;

    /// As [`query`](Self::query); also tells whether a copy before the one that was answered may
    /// have been executed.
    fn query_counted(
        &self,
        call: &ScriptCall,
    ) -> impl Future<Output = Result<(Value, bool), Error>> + Send;

    /// Returns for how long the server in charge of `slot` has surely been running. Costs one
    /// command per connection.
    fn server_age(&self, slot: u16) -> impl Future<Output = Result<Duration, Error>> + Send;

    /// Reads what the client of `owner` said about itself.
    fn metadata(&self, owner: &str)
    -> impl Future<Output = Result<Option<Metadata>, Error>> + Send;

    /// Pauses on this client's clock.
    fn pause(&self, span: Duration) -> impl Future<Output = ()> + Send;

    /// Draws 64 random bits.
    fn random(&self) -> u64;

    /// Returns the key of `name`.
    fn key(&self, name: &Name) -> Key;

    /// Returns the slot of `key` where slots are on different servers, else 0: keys with the same
    /// number can be named in one script.
    fn place(&self, key: &Key) -> u16;

    /// Tells a hold of this client that it was ended by force.
    fn revoked(&self, key: &Key, token: Token);

    /// As [`revoked`](Self::revoked), where holds are named by serials.
    fn revoked_hold(&self, key: &Key, side: Side, serial: u64);

    /// Returns the address of the waiter of `owner` that came first for `key` in this process.
    fn waiting(&self, key: &Key, owner: &Owner) -> Option<String>;

    /// Returns the channel that everybody hears who waits for something about the object at `key`:
    /// one message reaches all of them, in all clients. In the key's slot.
    fn broadcast_channel(&self, key: &Key) -> Arc<str>;

    /// Returns the command that publishes on a broadcast channel.
    fn publish_verb(&self) -> &'static str;

    /// Returns the lease that servers are asked for, where a holder believes in one of `span`: the
    /// clock of a server that takes over may be ahead.
    fn lease_on_server(&self, span: Duration) -> Duration;

    /// Returns what a holder may believe in of a lease that lasts `span` on the server.
    fn lease_of_holder(&self, span: Duration) -> Duration;

    /// Returns how long the token of a freed name is kept.
    fn retention(&self) -> Duration;

    /// Returns how long this client goes on without an answer.
    fn patience(&self) -> Duration;

    /// Returns the lease of acquisitions that name none.
    fn default_lease(&self) -> Lease;

    /// Tells whether it keeps a rule: always, outside of the simulator's build.
    fn keeps(&self, rule: Rule) -> bool;
}

impl Internals for Client {
    fn acquire(
        &self,
        primitive: &Arc<dyn Primitive>,
        options: &AcquireOptions,
    ) -> impl Future<Output = Result<Option<Held>, Error>> + Send {
        self.acquire(primitive, options)
    }

    fn acquire_together(
        &self,
        primitives: &[Arc<dyn Primitive>],
        options: &AcquireOptions,
    ) -> impl Future<Output = Result<Together, Error>> + Send {
        self.acquire_together(primitives, options)
    }

    fn change<R: Send>(
        &self,
        build: impl Fn(&AttemptId) -> ScriptCall + Send + Sync,
        read: impl Fn(&Value) -> Result<Changed<R>, Error> + Send + Sync,
    ) -> impl Future<Output = Result<R, Error>> + Send {
        self.change(build, read)
    }

    fn watch(
        &self,
        watched: &Arc<dyn Watched>,
        options: &WatchOptions,
    ) -> impl Future<Output = Result<bool, Error>> + Send {
        self.watch(watched, options)
    }

    fn query(&self, call: &ScriptCall) -> impl Future<Output = Result<Value, Error>> + Send {
        self.query(call)
    }

    fn query_counted(
        &self,
        call: &ScriptCall,
    ) -> impl Future<Output = Result<(Value, bool), Error>> + Send {
        self.query_counted(call)
    }

    fn server_age(&self, slot: u16) -> impl Future<Output = Result<Duration, Error>> + Send {
        self.server_age(slot)
    }

    fn metadata(
        &self,
        owner: &str,
    ) -> impl Future<Output = Result<Option<Metadata>, Error>> + Send {
        self.metadata(owner)
    }

    fn pause(&self, span: Duration) -> impl Future<Output = ()> + Send {
        self.pause(span)
    }

    fn random(&self) -> u64 {
        self.random()
    }

    fn key(&self, name: &Name) -> Key {
        self.key(name)
    }

    fn place(&self, key: &Key) -> u16 {
        self.place(key)
    }

    fn revoked(&self, key: &Key, token: Token) {
        self.revoked(key, token);
    }

    fn revoked_hold(&self, key: &Key, side: Side, serial: u64) {
        self.revoked_hold(key, side, serial);
    }

    fn waiting(&self, key: &Key, owner: &Owner) -> Option<String> {
        self.waiting(key, owner)
    }

    fn broadcast_channel(&self, key: &Key) -> Arc<str> {
        self.broadcast_channel(key)
    }

    fn publish_verb(&self) -> &'static str {
        self.publish_verb()
    }

    fn lease_on_server(&self, span: Duration) -> Duration {
        self.lease_on_server(span)
    }

    fn lease_of_holder(&self, span: Duration) -> Duration {
        self.lease_of_holder(span)
    }

    fn retention(&self) -> Duration {
        self.retention()
    }

    fn patience(&self) -> Duration {
        self.patience()
    }

    fn default_lease(&self) -> Lease {
        self.default_lease()
    }

    #[inline]
    fn keeps(&self, rule: Rule) -> bool {
        self.keeps(rule)
    }
}
