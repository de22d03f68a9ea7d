//! The client: what all handles and guards of one connection setting share.

use std::{
    fmt,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    select,
    sync::{Notify, watch},
};

use crate::{
    ClientBuilder, Error, ErrorKind, LossCause, Metadata, Owner, Token,
    api::{check, config::Config},
    base::{
        life::{End, Life},
        observe,
        owner::{ClientId, Numbers},
        rules::{Rule, Rules},
        script::ScriptCall,
        sync::lock,
        timeouts,
    },
    engine::{
        Ahead, Hold, Holds, LocalQueues, OwnerChoice, PendingRelease, Releaser, Watchdog, Watches,
        Withdrawals,
        client_record::ClientRecord,
        primitive::{Grant, Side},
    },
    net::{
        Answered, Clocks, Hub, LinkClass, Net, Reach, Repeated, WakeRoutes, Wakes, World,
        start_router,
    },
    protocol::{
        lease::{Lease, Trust},
        name::{Key, Name, Prefix},
        rate_limiter::RateLimiter,
        time::Moment,
        waiter::{QueueView, RECHECK, Step, WaitStrategy, Waiter},
    },
    runtime::{Runtime, Value},
};

/// The shared core of one client. Cheap to clone; the last clone, handle or guard that goes ends its background work.
#[derive(Clone)]
pub struct Client(Arc<Core>);

struct Core {
    net: Arc<Net>,
    numbers: Arc<Numbers>,
    prefix: Prefix,
    lease: Lease,
    strategy: WaitStrategy,
    address: Arc<str>,
    trust: Trust,
    retention: Duration,
    patience: Duration,
    max_waiters: usize,
    rules: Rules,
    record: Arc<ClientRecord>,
    holds: Holds,
    local_queues: Arc<LocalQueues>,
    watches: Arc<Watches>,
    watchdog: Arc<Watchdog>,
    withdrawals: Arc<Withdrawals>,
    releaser: Arc<Releaser>,
    rate_limiter: Mutex<RateLimiter>,
    waiters: AtomicUsize,
    /// Told whenever the last guard of a hold, or an acquisition, has gone.
    quieter: Notify,
    /// The holds that `close` has to see ended.
    closing_holds: Mutex<Vec<Weak<Hold>>>,
    /// Becomes true when no new work is taken.
    closing: watch::Sender<bool>,
}

/// What a client's tables hold, for tests and for the curious. All zero when nothing is held, waited for or under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tables {
    /// Holds with a live guard.
    pub holds: usize,
    /// Holds that the watchdog renews.
    pub renewals: usize,
    /// Acquisitions and watchers under way.
    pub waiters: usize,
    /// Names that somebody waits for.
    pub queues: usize,
    /// Listeners for wakes.
    pub listeners: usize,
    /// Releases and undos in the background that are not answered.
    pub pending_releases: usize,
}

impl Client {
    /// Connects to `url` with the default options; see [`ClientBuilder::new`] for its form.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::connect`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves no connection behind.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        ClientBuilder::new(url).connect().await
    }

    /// Starts to build a client for `url`.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    pub(crate) async fn start(config: Config, runtime: Arc<dyn Runtime>) -> Result<Self, Error> {
        let self_check = config.self_check;
        let deadline = runtime.now() + config.connect_timeout;
        let metadata = Metadata::of_this_process(config.application.clone());
        let client = Self::assemble(config, runtime, metadata);
        client.0.watch_over();
        client.spawn_background();
        let starting = Starting(Some(client));
        let result = starting.client().get_ready(self_check, deadline).await;
        match result {
            Ok(()) => Ok(starting.started()),
            Err(error) => {
                let life = Arc::clone(&starting.client().net().world.life);
                drop(starting);
                // Nothing dials once this has returned.
                life.idle().await;
                Err(error)
            }
        }
    }

    async fn get_ready(&self, self_check: bool, deadline: Moment) -> Result<(), Error> {
        let net = self.net();
        net.router.known(deadline).await?;
        net.session(0, LinkClass::Command, deadline).await?;
        if self_check {
            check::check(self, deadline).await?;
        }
        match self.0.record.announce(net, deadline).await {
            Err(error) if !self_check && error.kind() == ErrorKind::Permission => {
                tracing::debug!(target: "redlatch", %error, "holders will not show who this client is");
                Ok(())
            }
            result => result,
        }
    }

    fn assemble(config: Config, runtime: Arc<dyn Runtime>, metadata: Metadata) -> Self {
        let rules = config.rules;
        let address = config.servers.topology.to_string().into();
        let shutdown = watch::Sender::new(false);
        let id = ClientId::from_entropy(runtime.entropy());
        let numbers = Arc::new(Numbers::new(id.clone()));
        let life = Life::new(Arc::clone(&runtime), Arc::clone(&numbers), shutdown.clone());
        let clocks = Clocks::new(config.clock_allowance());
        let world = World::new(Arc::clone(&runtime), config.transport, clocks, life);
        let router = start_router(&world, config.servers, config.connect_timeout);
        let hub = Hub::new(&router, rules, Reach::Everywhere);
        let wakes = WakeRoutes::new(&hub, &config.prefix, &id, rules);
        let local_queues = Arc::new(LocalQueues::new(rules));
        let withdrawals = Withdrawals::new(
            &config.prefix,
            wakes.channel(),
            &local_queues,
            (timeouts::REQUEST, config.patience),
            rules,
        );
        Self(Arc::new(Core {
            net: Arc::new(Net {
                world,
                router,
                hub,
                wakes,
            }),
            record: Arc::new(ClientRecord::new(&config.prefix, &id, metadata)),
            numbers,
            prefix: config.prefix,
            lease: config.lease,
            strategy: config.strategy,
            address,
            trust: if rules.keeps(Rule::TakeMargin) {
                config.trust
            } else {
                Trust::new(0.0).unwrap_or_default()
            },
            retention: config.retention,
            patience: config.patience,
            max_waiters: config.max_waiters,
            rules,
            holds: Holds::default(),
            local_queues: Arc::clone(&local_queues),
            watches: Arc::default(),
            watchdog: Arc::new(Watchdog::new(runtime)),
            withdrawals: Arc::new(withdrawals),
            releaser: Arc::new(Releaser::new(
                shutdown,
                config.retention,
                timeouts::REQUEST,
                rules,
                local_queues,
            )),
            rate_limiter: Mutex::new(RateLimiter::new(RECHECKS_PER_SECOND)),
            waiters: AtomicUsize::new(0),
            quieter: Notify::new(),
            closing_holds: Mutex::default(),
            closing: watch::Sender::new(false),
        }))
    }

    fn spawn_background(&self) {
        let core = &self.0;
        let net = || Arc::clone(&core.net);
        let life = &core.net.world.life;
        life.spawn("watchdog", Arc::clone(&core.watchdog).run(net()));
        life.spawn(
            "releaser",
            Arc::clone(&core.releaser).run(net(), Arc::clone(&core.record)),
        );
        life.spawn("withdrawals", Arc::clone(&core.withdrawals).run(net()));
        life.spawn("client record", Arc::clone(&core.record).keep(net()));
    }

    /// Stops new work at once, tells every guard that its hold ends, gives the guards `grace` to go, then releases what is left.
    ///
    /// Waiters get [`ErrorKind::Closed`], guards [`LossCause::Closed`]. During the grace holds are renewed as before, so that nobody else gets
    /// what a guard still winds up. Returns when every hold is released and the connections are closed; at the latest after
    /// the grace, a second for acquisitions to give up, and the client's patience. What could not be released by then ends with its
    /// lease. Calling it again, or on another clone, is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the client stays closed to new work; call it again to finish.
    pub async fn close(&self, grace: Duration) {
        let core = &self.0;
        if core.life().is_forked() {
            return;
        }
        core.closing.send_replace(true);
        let deadline = self.now() + grace;
        let holds = self.closing_holds();
        for hold in &holds {
            hold.lose(LossCause::Closed);
        }
        self.wait_until(deadline, || holds.iter().all(|hold| hold.guards() == 0))
            .await;
        // Acquisitions under way give up by themselves; one that nobody polls is not waited for long.
        let waiters = || core.waiters.load(Ordering::Relaxed) == 0;
        self.wait_until(
            deadline.max(self.now() + timeouts::CLOSE_ACQUISITIONS),
            waiters,
        )
        .await;
        for hold in self.closing_holds() {
            hold.lose(LossCause::Closed);
            hold.part_all();
        }
        core.releaser.finish();
        select! {
            biased;
            () = core.net.world.ended() => {}
            () = self.alarm(self.now() + core.patience) => core.releaser.stop(),
        }
    }

    /// Returns every hold that was there when the client began to close.
    fn closing_holds(&self) -> Vec<Arc<Hold>> {
        let mut closing = lock(&self.0.closing_holds);
        closing.extend(self.0.holds.all());
        closing.iter().filter_map(Weak::upgrade).collect()
    }

    async fn wait_until(&self, deadline: Moment, done: impl Fn() -> bool) {
        loop {
            let mut quieter = std::pin::pin!(self.0.quieter.notified());
            quieter.as_mut().enable();
            // Alarms go off at once when nothing runs any more.
            if done() || self.now() >= deadline || self.0.life().is_stopped() {
                return;
            }
            select! {
                biased;
                () = quieter => {}
                () = self.alarm(deadline) => {}
            }
        }
    }

    /// Closes without grace: guards are told and their holds released at once.
    ///
    /// # Cancel safety
    ///
    /// As [`close`](Self::close).
    pub async fn close_now(&self) {
        self.close(Duration::ZERO).await;
    }

    /// Tells whether the client is closed or closing: it also is when the tokio runtime has ended in which it was made, and in a fork of its process.
    pub fn is_closed(&self) -> bool {
        self.0.life().is_forked() || self.is_closing()
    }

    /// As [`is_closed`](Self::is_closed), in the process that made it.
    pub(crate) fn is_closing(&self) -> bool {
        *self.0.closing.borrow()
    }

    /// Makes an owner that acquisitions of this client can share.
    pub fn owner(&self) -> Owner {
        self.0.numbers.owner()
    }

    /// Changes as whom servers are logged in to, from the next connection on: for passwords that change while the client lives. Connections that
    /// are up stay so. Does no I/O.
    pub fn set_credentials(&self, username: Option<&str>, password: Option<&str>) {
        self.net().router.change_credentials(username, password);
    }

    /// Returns this client's identity, the first part of its owners.
    pub fn id(&self) -> &ClientId {
        self.0.numbers.client()
    }

    /// Returns where this client was told to connect to, without user and password.
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Returns the slot of `key` where slots are on different servers, else 0: keys with the same number can be named in one script.
    pub(crate) fn place(&self, key: &Key) -> u16 {
        if self.net().router.is_cluster() {
            key.slot()
        } else {
            0
        }
    }

    /// Returns the number of the database it uses.
    pub fn database(&self) -> u32 {
        self.net().router.database()
    }

    /// Returns the largest difference that this client has seen between the wall clocks of two of
    /// its servers, as far as the time that answers take lets it tell. Zero for one server. Does
    /// no I/O.
    ///
    /// See [`server_clock_allowance`](ClientBuilder::server_clock_allowance).
    pub fn server_clock_difference(&self) -> Duration {
        self.0.net.world.clocks.difference()
    }

    /// Returns the prefix of all keys and channels.
    pub fn prefix(&self) -> &Prefix {
        &self.0.prefix
    }

    /// Returns what the tables hold at this instant.
    pub fn tables(&self) -> Tables {
        Tables {
            holds: self.0.holds.len(),
            renewals: self.0.watchdog.len(),
            waiters: self.0.waiters.load(Ordering::Relaxed),
            queues: self.0.local_queues.len() + self.0.watches.len(),
            listeners: self.0.net.hub.listeners() + self.0.net.wakes.listeners(),
            pending_releases: self.0.releaser.len(),
        }
    }

    /// Resolves when every release and undo in the background has been answered or given up: what dropped guards and dropped acquisitions
    /// left behind. The client stays open.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost; call it again.
    pub async fn settled(&self) {
        if self.0.life().is_forked() {
            return;
        }
        self.0.releaser.drained().await;
    }

    /// Reads the clock that holds are measured by.
    pub fn now(&self) -> Moment {
        self.runtime().now()
    }

    /// Returns the key of `name`.
    pub(crate) fn key(&self, name: &Name) -> Key {
        Key::new(&self.0.prefix, name)
    }

    /// Sends a script that is idempotent until it is answered, as long as the client is patient.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the script may have been executed or may still be; that is the caller's to bear in mind.
    pub(crate) async fn query(&self, call: &ScriptCall) -> Result<Value, Error> {
        self.check_closing()?;
        Ok(self.insist(call).await?.reply)
    }

    /// As [`query`](Self::query); also tells whether a copy before the one that was answered may have been executed.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the script may have been executed or may still be; that is the caller's to bear in mind.
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

    /// Returns for how long the server in charge of `slot` has surely been running. Costs one command per connection.
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

    /// Returns the channel that everybody hears who waits for something about the object at `key`: one message reaches all of them, in all
    /// clients. In the key's slot.
    pub(crate) fn broadcast_channel(&self, key: &Key) -> Arc<str> {
        key.broadcast_channel()
    }

    /// Returns the command that publishes on a broadcast channel.
    pub(crate) fn publish_verb(&self) -> &'static str {
        "PUBLISH"
    }

    /// Returns the lease that servers are asked for, where a holder believes in one of `span`: the
    /// clock of a server that takes over may be ahead.
    pub(crate) fn lease_on_server(&self, span: Duration) -> Duration {
        span + self.0.net.world.clocks.allowance()
    }

    /// Returns what a holder may believe in of a lease that lasts `span` on the server.
    pub(crate) fn lease_of_holder(&self, span: Duration) -> Duration {
        span.saturating_sub(self.0.net.world.clocks.allowance())
    }

    /// Returns how long the token of a freed name is kept.
    pub(crate) fn retention(&self) -> Duration {
        self.0.retention
    }
}

impl Client {
    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.0.net.world.runtime
    }

    /// Returns what resolves at `at`, or when the client has stopped.
    pub(crate) fn alarm(&self, at: Moment) -> impl Future<Output = ()> + Send + use<> {
        self.0.net.world.alarm(at)
    }

    pub(crate) fn net(&self) -> &Net {
        &self.0.net
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.0.numbers
    }

    pub(crate) fn holds(&self) -> &Holds {
        &self.0.holds
    }

    pub(crate) fn local_queues(&self) -> &Arc<LocalQueues> {
        &self.0.local_queues
    }

    pub(crate) fn watches(&self) -> &Arc<Watches> {
        &self.0.watches
    }

    pub(crate) fn withdrawals(&self) -> &Withdrawals {
        &self.0.withdrawals
    }

    pub(crate) fn watchdog(&self) -> &Watchdog {
        &self.0.watchdog
    }

    /// Tells whether it keeps a rule; all of them, unless the simulator wants otherwise.
    #[inline]
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.0.rules.keeps(rule)
    }

    /// Returns what the holder of `grant` may believe in, who asked for `lease`.
    pub(crate) fn believed(&self, grant: &Grant, lease: Lease) -> Duration {
        let shorter = grant.lasts.map(|lasts| self.lease_of_holder(lasts));
        shorter.unwrap_or_else(|| lease.span())
    }

    pub(crate) fn trust(&self) -> Trust {
        self.0.trust
    }

    /// Returns how long this client goes on without an answer.
    pub(crate) fn patience(&self) -> Duration {
        self.0.patience
    }

    /// Returns the lease of acquisitions that name none.
    pub(crate) fn default_lease(&self) -> Lease {
        self.0.lease
    }

    pub(crate) fn wait_strategy(&self) -> WaitStrategy {
        self.0.strategy
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        timeouts::REQUEST
    }

    /// Returns where wakes go for those who wait for what is in `slot`.
    pub(crate) fn wakes(&self, slot: u16) -> Arc<Wakes> {
        self.net().wakes.of(slot)
    }

    /// Returns how long a waiter that registers now should count as alive: until well after its next look.
    pub(crate) fn registration(&self) -> Duration {
        let backlog = self.rate_limiter(|limiter| limiter.backlog(self.now()));
        RECHECK.mul_f64(2.5).max(backlog * 2)
    }

    pub(crate) fn next_step(&self, waiter: &mut Waiter, queue: &QueueView, now: Moment) -> Step {
        let random = self.runtime().random();
        self.rate_limiter(|limiter| waiter.step(now, queue, random, limiter))
    }

    /// The last guard of a hold, or an acquisition, has gone.
    pub(crate) fn quieter(&self) {
        self.0.quieter.notify_waiters();
    }

    /// Hands a release to the background releaser. Works in any context.
    pub(crate) fn enqueue_release(&self, pending: PendingRelease) {
        if self.0.life().is_forked() {
            return;
        }
        self.0.releaser.push(pending);
    }

    /// Waits until the releases and undos of `key` that are queued are ahead of what is sent over a link of `class` after that; until `deadline` at the latest.
    ///
    /// # Cancel safety
    ///
    /// They are sent all the same.
    pub(crate) async fn let_go_first(&self, key: &Key, class: LinkClass, deadline: Moment) {
        let ahead = match class {
            LinkClass::Command => Ahead::Sent,
            // Links do not wait for each other.
            _ => Ahead::Settled,
        };
        if let Some(ahead) = self.0.releaser.ahead(key, ahead) {
            let late = self.alarm(deadline);
            Box::pin(async move {
                select! {
                    biased;
                    () = ahead => {}
                    () = late => {}
                }
            })
            .await;
        }
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.check_process()?;
        self.check_closing()
    }

    /// As [`check_open`](Self::check_open), for who has looked already which process this is.
    pub(crate) fn check_closing(&self) -> Result<(), Error> {
        if self.is_closing() {
            Err(self.closed())
        } else {
            Ok(())
        }
    }

    /// Fails in another process than the one that the client was made in.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.0.life().check_process()
    }

    /// Resolves when it is polled in another process than the one that the client was made in.
    pub(crate) fn forked(&self) -> impl Future<Output = ()> + Send {
        self.0.life().forked()
    }

    /// Tells whether this process is another than the one that the client was made in.
    pub(crate) fn is_forked(&self) -> bool {
        self.0.life().is_forked()
    }

    /// Returns the error of a client that takes no work any more.
    pub(crate) fn closed(&self) -> Error {
        self.0.life().closed()
    }

    /// Resolves when the client takes no new work any more.
    pub(crate) async fn closing(&self) {
        let mut closing = self.0.closing.subscribe();
        // The sender lives as long as the client does.
        let _ = closing.wait_for(|&closing| closing).await;
    }

    pub(crate) fn resolve(&self, choice: &OwnerChoice) -> Result<Owner, Error> {
        let owner = match choice {
            OwnerChoice::Given(owner) => owner.clone(),
            // A scope of another client says nothing about this one.
            OwnerChoice::Scope => {
                match Owner::current().filter(|owner| owner.client() == self.id()) {
                    Some(owner) => owner,
                    None => self.owner(),
                }
            }
            OwnerChoice::Fresh => self.owner(),
        };
        if owner.client() == self.id() {
            return Ok(owner);
        }
        Err(Error::new(
            ErrorKind::ForeignOwner,
            format!("owner {owner} belongs to another client than {}", self.id()),
        ))
    }

    /// Counts one more acquisition under way.
    pub(crate) fn admit(&self) -> Result<WaiterTicket, Error> {
        let ticket = WaiterTicket(self.clone());
        if self.0.waiters.fetch_add(1, Ordering::Relaxed) < self.0.max_waiters {
            return Ok(ticket);
        }
        Err(Error::new(
            ErrorKind::TooManyWaiters,
            format!(
                "{} acquisitions are under way in this client, as many as it allows",
                self.0.max_waiters
            ),
        ))
    }

    fn rate_limiter<R>(&self, look: impl FnOnce(&mut RateLimiter) -> R) -> R {
        look(&mut lock(&self.0.rate_limiter))
    }
}

/// One acquisition under way; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct WaiterTicket(Client);

impl Drop for WaiterTicket {
    fn drop(&mut self) {
        self.0.0.waiters.fetch_sub(1, Ordering::Relaxed);
        if self.0.is_closing() {
            self.0.quieter();
        }
    }
}

/// A client that is not ready yet: dropped, it ends at once.
struct Starting(Option<Client>);

impl Starting {
    #[expect(
        clippy::expect_used,
        reason = "`started` takes this away with the client"
    )]
    const fn client(&self) -> &Client {
        self.0.as_ref().expect("it has not started")
    }

    #[expect(clippy::expect_used, reason = "it takes this away with the client")]
    fn started(mut self) -> Client {
        self.0.take().expect("it has not started")
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(client) = &self.0 {
            client.0.life().stop();
        }
    }
}

impl Core {
    fn life(&self) -> &Life {
        &self.net.world.life
    }

    /// Closes the client when it ends by itself.
    fn watch_over(self: &Arc<Self>) {
        let (core, releaser) = (Arc::downgrade(self), Arc::downgrade(&self.releaser));
        self.life().on_end(move |end| {
            if let Some(core) = core.upgrade() {
                core.ended(end);
            } else if let Some(releaser) = releaser.upgrade() {
                releaser.abandon();
            }
        });
    }

    /// The client has ended by itself: tells whoever holds or waits, and releases what can be released.
    fn ended(&self, end: &End) {
        self.closing.send_replace(true);
        if *end == End::Runtime {
            observe::runtime_ended();
        }
        let releases = matches!(end, End::Panic(task) if *task != "releaser");
        let holds = self.holds.all();
        for hold in holds.iter().filter_map(Weak::upgrade) {
            hold.lose(LossCause::Closed);
            if releases {
                hold.part_all();
            }
        }
        if releases {
            self.releaser.finish();
        } else {
            self.life().stop();
            self.releaser.abandon();
        }
        self.quieter.notify_waiters();
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Nobody can hold or wait any more; what guards left behind is still worked off. A fork may find locks taken for ever.
        if !self.life().is_forked() {
            self.releaser.finish();
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", self.id())
            .field("prefix", &self.0.prefix.as_str())
            .finish_non_exhaustive()
    }
}

/// Re-checks that a client makes per second at most.
const RECHECKS_PER_SECOND: u32 = 1000;
