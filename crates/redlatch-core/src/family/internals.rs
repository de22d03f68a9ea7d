//! The operations of a client for the sibling crates. Users do not call them.

use std::{any::Any, collections::HashMap, sync::Arc, time::Duration};

use tokio::select;
use tracing::Instrument;

use crate::{
    Client, Error, Held, Metadata, Owner, Token,
    api::describe,
    base::{
        observe::{self, Labels},
        primitive::Side,
        rules::Rule,
        script::ScriptCall,
        sync::{Mutex, lock},
        timeouts,
    },
    engine::client_record::About as Noted,
    family::{
        About, AcquireOptions, AttemptId, Items, Primitive, ServerAnswers, Together, WatchOptions,
        Watched,
    },
    net::{LinkClass, Repeated},
    protocol::{
        lease::Lease,
        name::{Key, Name},
        time::Moment,
    },
    runtime::BoxFuture,
};

/// The operations of a [`Client`] for the sibling crates. Users do not call them.
///
/// Dropping a future of any of these methods has no effect, unless the method says otherwise.
///
/// The engine needs some of these methods as well. They are methods of the client, and only called
/// here.
#[allow(
    async_fn_in_trait,
    reason = "the one client has the futures, and they are Send"
)]
pub trait Internals {
    /// Returns the client.
    fn client(&self) -> &Client;

    /// Acquires `primitive`. Returns `None` if another owner holds it when the caller's time is up.
    ///
    /// If the future is dropped, the background gives back everything that was taken, and the local
    /// turn passes on.
    async fn acquire(
        &self,
        primitive: &Arc<dyn Primitive>,
        options: &AcquireOptions,
    ) -> Result<Option<Held>, Error> {
        let client = self.client();
        let acquired = client.acquire(primitive, options).await;
        acquired.about(primitive.kind(), primitive.name())
    }

    /// Acquires all of `primitives` with one script, or none. They must be of one kind and in one
    /// [place](Self::place). Sends one request. Local waiters go first, unless the caller does not
    /// wait at all.
    ///
    /// If the future is dropped, the background gives back everything that was taken.
    async fn acquire_together(
        &self,
        primitives: &[Arc<dyn Primitive>],
        options: &AcquireOptions,
    ) -> Result<Together, Error> {
        self.client().acquire_together(primitives, options).await
    }

    /// Sends a change until it is answered, within the client's `patience` and for 20 s at most.
    ///
    /// `build` builds the dated call from the id that its script remembers for
    /// [`REMEMBERED`](crate::family::REMEMBERED). `read` reads the reply, unless it says that the
    /// request came too late to act. If the future is dropped, the change takes effect once or not
    /// at all, at most 5 s after it was last sent.
    async fn change<R: Send>(
        &self,
        build: impl Fn(&AttemptId) -> ScriptCall + Send + Sync,
        read: impl FnOnce(&Items<'_>) -> Result<R, Error> + Send,
    ) -> Result<R, Error> {
        self.client().change(build, read).await
    }

    /// Runs a call that asks an object of `kind` to let its caller pass, and ends the call when the
    /// client closes. Counts as an acquisition in progress: the client's `max_waiters` applies.
    /// `outcome` returns how many have passed, and how many were refused.
    async fn passing<R: Send>(
        &self,
        (kind, class, name): (&'static str, &Arc<str>, &str),
        call: impl Future<Output = Result<R, Error>> + Send,
        outcome: fn(&R) -> (usize, usize),
    ) -> Result<R, Error> {
        let client = self.client();
        let class = Arc::clone(class);
        let labels = Labels { kind, class };
        let span = observe::call_span(&labels, name);
        let began = client.now();
        let admitted = async {
            client.check_open()?;
            let _ticket = client.admit()?;
            select! {
                biased;
                () = client.forked() => {
                    client.check_process().and_then(|()| Err(client.closed()))
                }
                result = call => result,
                () = client.closing() => Err(client.closed()),
            }
        };
        let result = admitted.instrument(span.clone()).await;
        let waited = client.now().since(began);
        observe::passed(&labels, &span, result.as_ref().ok().map(outcome), waited);
        result.about(kind, name)
    }

    /// Fails in a forked process, where no task of the client runs.
    fn check_process(&self) -> Result<(), Error> {
        self.client().check_process()
    }

    /// Returns the one value of type `T` that belongs to this client. It must not keep the client
    /// alive.
    fn table<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        self.client().0.sibling_tables.get()
    }

    /// Waits until a phase of `watched` is over. Returns `false` if the caller's time ends first.
    ///
    /// The watchers of one object in one client share their queries. A message is only a hint: it
    /// makes one watcher query, and the server's answer applies to all of them.
    async fn watch(
        &self,
        watched: &Arc<dyn Watched>,
        options: &WatchOptions,
    ) -> Result<bool, Error> {
        let client = self.client();
        let over = client.watch(watched, options).await;
        over.about(watched.kind(), watched.name())
    }

    /// Sends an idempotent script until it is answered, within the client's `patience`. `read`
    /// reads the reply.
    ///
    /// If the future is dropped, the script has been executed, will be, or neither.
    async fn query<R>(
        &self,
        call: &ScriptCall,
        read: impl FnOnce(&Items<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let client = self.client();
        client.check_closing()?;
        let repeated = Repeated {
            fails_fast: true,
            ..repeated(client, call)
        };
        let reply = client.net().insist(repeated).await?.reply;
        read(&Items::new(call.script(), &reply)?)
    }

    /// The same as [`query`](Self::query), for a script that keeps a hold or gives it back: the
    /// client's `fail_fast` does not refuse it. Also returns whether an earlier copy than the
    /// answered one may have been executed.
    async fn query_counted<R>(
        &self,
        call: &ScriptCall,
        read: impl FnOnce(&Items<'_>) -> Result<R, Error>,
    ) -> Result<(R, bool), Error> {
        let client = self.client();
        client.check_closing()?;
        let answered = client.net().insist(repeated(client, call)).await?;
        let items = Items::new(call.script(), &answered.reply)?;
        Ok((read(&items)?, answered.resent))
    }

    /// Runs a call of several requests, and ends the call after twice the client's `patience`
    /// (P11). `changes` tells whether a request without an answer may have changed something.
    ///
    /// If the future is dropped, the same as with `call`.
    async fn within_patience<R: Send>(
        &self,
        changes: bool,
        call: impl Future<Output = Result<R, Error>> + Send,
    ) -> Result<R, Error> {
        let client = self.client();
        let late = client.alarm(client.now() + client.0.patience * 2);
        select! {
            biased;
            ended = call => ended,
            () = late => {
                let why = "the answers to its requests took twice the client's patience";
                let error = Error::unavailable(why);
                Err(if changes { error.in_doubt() } else { error })
            }
        }
    }

    /// Returns the time for which the server that owns `slot` has certainly been running. Costs one
    /// command per connection.
    async fn server_age(&self, slot: u16) -> Result<Duration, Error> {
        let client = self.client();
        client.check_open()?;
        let deadline = client.now() + timeouts::REQUEST;
        let router = &client.net().router;
        let session = router.session(slot, LinkClass::Command, deadline).await?;
        session.server_age(deadline).await
    }

    /// Reads the record of the client of `owner`.
    async fn metadata(&self, owner: &str) -> Result<Option<Metadata>, Error> {
        let client = self.client();
        client.check_process()?;
        let deadline = client.now() + client.0.patience;
        client.0.record.read(owner, deadline).await
    }

    /// Reads the note of a hold, named as inspection does, of the object called `name`. `of` is the
    /// description of its client. Costs one command, and none for a client without notes.
    async fn note(
        &self,
        of: Option<&Metadata>,
        holder: &str,
        name: &str,
        token: Option<Token>,
    ) -> Result<Option<String>, Error> {
        if !of.is_some_and(|of| of.has_notes) {
            return self.check_process().map(|()| None);
        }
        read_note(self.client(), Noted::Hold, (holder, name), token).await
    }

    /// Reads who has ended a hold by force, and why. `holder` may be any owner of its client. Costs
    /// one command.
    async fn end_note(
        &self,
        holder: &str,
        name: &str,
        token: Option<Token>,
    ) -> Result<Option<String>, Error> {
        read_note(self.client(), Noted::End, (holder, name), token).await
    }

    /// Writes that this client ends a hold by force, and why, for the holder and for those who
    /// look, within a second. Costs one command.
    ///
    /// If the future is dropped, it may be written or not.
    async fn note_end(
        &self,
        holder: &str,
        name: &str,
        token: Option<Token>,
        why: Option<&str>,
    ) -> Result<(), Error> {
        let client = self.client();
        client.check_open()?;
        let record = &client.0.record;
        record.note_end((holder, name), token, why).await
    }

    /// Asks each server in use for `INFO` and for its time. Costs six commands per server.
    async fn ask_servers(&self) -> Result<Vec<ServerAnswers>, Error> {
        describe::describe(self.client()).await
    }

    /// Lets the record of this client outlast it: for `span`, and for an hour at least. A client
    /// that goes on writes it anew. Takes a second at most. Costs one command.
    ///
    /// If the future is dropped, the record may stay for either time.
    async fn keep_record(&self, span: Duration) -> Result<(), Error> {
        let client = self.client();
        client.check_open()?;
        let deadline = client.now() + timeouts::RECORD_WRITE;
        let span = span.max(timeouts::RECORD_TTL);
        client.0.record.announce(deadline, span).await
    }

    /// Returns the description of this client.
    fn description(&self) -> Metadata {
        self.client().0.record.metadata().clone()
    }

    /// Pauses on this client's clock.
    async fn pause(&self, span: Duration) {
        let client = self.client();
        client.alarm(client.now() + span).await;
    }

    /// Runs `future` in the background, on this client's runtime. The client does not wait for it.
    fn spawn(&self, task: &'static str, future: BoxFuture<()>) {
        self.client().runtime().spawn(task, future);
    }

    /// Reports that the server refused to tell others that `primitive` is free.
    fn report_message_refused(&self, primitive: &dyn Primitive, why: &str) {
        self.client().0.releaser.message_refused(primitive, why);
    }

    /// Draws 64 random bits.
    fn random(&self) -> u64 {
        self.client().runtime().random()
    }

    /// Returns the key of `name`.
    fn key(&self, name: &Name) -> Key {
        self.client().key(name)
    }

    /// Returns the key under this client's prefix beside `key`; see [`Key::beside`].
    fn key_beside(&self, key: &Key, kind: &str) -> String {
        key.beside(&self.client().0.prefix, kind)
    }

    /// Returns the slot of `key` in a cluster, and 0 otherwise. One script can name keys with the
    /// same number.
    fn place(&self, key: &Key) -> u16 {
        if self.client().net().router.is_cluster() {
            key.slot()
        } else {
            0
        }
    }

    /// Returns the beginning of the wake channel of each client, to which the client's id is
    /// appended.
    fn wake_channels(&self) -> String {
        self.client().0.prefix.wake_channels()
    }

    /// Marks a hold of this client as ended by force. Where holds have no serials, `serial` is the
    /// token.
    fn revoked(&self, key: &Key, side: Side, serial: u64) {
        self.client().holds().revoked(key, side, serial);
    }

    /// Returns the address of the first waiter of `owner` for `key` in this process, in the form of
    /// an ordered kind.
    fn waiting(&self, key: &Key, owner: &Owner) -> Option<String> {
        let client = self.client();
        let own = owner.client() == client.id();
        let address = client.local_queues().address(key, owner.number());
        address.filter(|_| own)
    }

    /// Returns the lease to request from servers for a holder that counts on `span`. It is longer,
    /// since the clock of a server that takes over may be ahead.
    fn lease_on_server(&self, span: Duration) -> Duration {
        self.client().lease_on_server(span)
    }

    /// Returns the lease that a holder may count on, of a lease that lasts `span` on the server.
    fn lease_of_holder(&self, span: Duration) -> Duration {
        self.client().lease_of_holder(span)
    }

    /// Returns how long the server keeps the token of a freed name.
    fn retention(&self) -> Duration {
        self.client().0.retention
    }

    /// Returns how long this client keeps trying without an answer.
    fn patience(&self) -> Duration {
        self.client().0.patience
    }

    /// Returns the lease of acquisitions that specify none.
    fn default_lease(&self) -> Lease {
        self.client().0.lease
    }

    /// Tells whether the client keeps a rule. Outside of the simulator's build, it keeps all rules.
    #[inline]
    fn keeps(&self, rule: Rule) -> bool {
        self.client().keeps(rule)
    }
}

impl Internals for Client {
    fn client(&self) -> &Client {
        self
    }
}

async fn read_note(
    client: &Client,
    about: Noted,
    hold: (&str, &str),
    token: Option<Token>,
) -> Result<Option<String>, Error> {
    client.check_process()?;
    let deadline = client.now() + client.0.patience;
    let record = &client.0.record;
    record.read_note(about, hold, token, deadline).await
}

fn repeated<'a>(client: &Client, call: &'a ScriptCall) -> Repeated<'a> {
    let deadline = client.now() + client.0.patience;
    Repeated::new(call, timeouts::REQUEST, deadline).unless_broken()
}

/// The records that have been read lately, by client. Bounded, and read once each.
#[derive(Debug)]
pub struct Records {
    client: Client,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    records: HashMap<String, Option<Metadata>>,
    /// Until when no server is asked, since one did not answer.
    silent: Moment,
}

impl Records {
    /// Creates an empty table.
    pub fn new(client: &Client) -> Self {
        let client = client.clone();
        let known = Mutex::default();
        Self { client, known }
    }

    /// Returns the record of the client of `owner`, if there is one. Costs a command for a client
    /// that is not known yet, and none for 5 s after a server did not answer within a second.
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn of(&self, owner: &str) -> Result<Option<Metadata>, Error> {
        let id = owner.split(':').next().unwrap_or_default();
        let began = self.client.now();
        {
            let known = lock(&self.known);
            if let Some(record) = known.records.get(id) {
                return Ok(record.clone());
            }
            if began < known.silent {
                return Ok(None);
            }
        }
        let record = Internals::metadata(&self.client, owner).await?;
        let mut known = lock(&self.known);
        let now = self.client.now();
        if record.is_none() && now.since(began) >= timeouts::RECORD_WRITE {
            known.silent = now + SILENT;
            return Ok(None);
        }
        if known.records.len() >= MOST {
            known.records.clear();
        }
        known.records.insert(id.to_owned(), record.clone());
        Ok(record)
    }
}

/// How long no server is asked for a record after one did not answer.
const SILENT: Duration = Duration::from_secs(5);

/// The most records that are kept.
const MOST: usize = 1024;
