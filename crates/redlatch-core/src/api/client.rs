//! The client, which all handles and guards of one connection setting share, and its end.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::select;

use crate::{
    Client, ClientBuilder, Error, LossCause, Owner,
    base::{life::End, observe, sync::lock, timeouts},
    engine::{Hold, context::Core, linger},
    net::Health,
    protocol::time::Moment,
    runtime::{Command, TlsOptions},
};

/// The sizes of a client's tables, for tests and diagnostics. All are zero when nothing is held,
/// waited for or in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tables {
    /// Holds with a live guard.
    pub holds: usize,
    /// Holds that the watchdog renews.
    pub renewals: usize,
    /// Acquisitions and watchers in progress.
    pub waiters: usize,
    /// Names with waiters.
    pub queues: usize,
    /// Listeners for notifications.
    pub listeners: usize,
    /// Unanswered releases and undos in the background.
    pub pending_releases: usize,
}

impl Client {
    /// Connects to `url` with the default options; see [`ClientBuilder::new`] for its form.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// let client = Client::connect("redis://:secret@redis.example:6379/1").await?;
    /// println!("a round trip takes {:?}", client.ping().await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The same as those of [`ClientBuilder::connect`].
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no connection behind.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        ClientBuilder::new(url).connect().await
    }

    /// Creates a builder for a client of `url`.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::Client;
    ///
    /// let builder = Client::builder("redis://localhost").patience(Duration::from_secs(2));
    /// let client = builder.prefix("shop").connect_lazy()?; // or connect().await?
    /// assert_eq!(client.address(), "localhost:6379");
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    /// Creates an owner that several acquisitions of this client can share.
    ///
    /// Pass the owner to [`Acquire::owner`](crate::Acquire::owner), or open a [scope](Owner::scope)
    /// around the calls.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn transfer() {}
    /// # async fn example(client: redlatch::Client) {
    /// // All acquisitions in `transfer` have one owner, so they re-enter.
    /// client.owner().scope(transfer()).await;
    /// # }
    /// ```
    pub fn owner(&self) -> Owner {
        self.0.numbers.owner()
    }

    /// Changes user and password of the servers. Use it for passwords that change while the client
    /// lives. Call it while the server accepts the old password as well as the new one.
    ///
    /// Later connections use the new login. In the background, each existing connection logs in
    /// again, which costs one `AUTH`. With RESP2, the connection for messages is replaced, and each
    /// waiter re-checks once. If a server refuses the new login, connections keep the old one, and
    /// the event `login_refused` warns once. Without a password, existing connections keep their
    /// login. Does no I/O.
    ///
    /// [`credentials_from`](ClientBuilder::credentials_from) is for tokens that expire.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # use tokio::sync::watch::Receiver;
    /// # async fn example(client: redlatch::Client, mut passwords: Receiver<String>) {
    /// // The secret manager replaces the password every day.
    /// while passwords.changed().await.is_ok() {
    ///     let password = passwords.borrow_and_update().clone();
    ///     client.set_credentials(Some("orders"), Some(&password));
    /// }
    /// # }
    /// ```
    pub fn set_credentials(&self, username: Option<&str>, password: Option<&str>) {
        self.net().router.change_credentials(username, password);
    }

    /// Changes the certificates that TLS trusts and presents, from the next connection on. Use it
    /// before a certificate ends. Does no I/O.
    ///
    /// Existing connections stay open with the old certificates, since TLS checks certificates only
    /// at the beginning of a connection. Certificates that cannot be read are errors of the next
    /// connections. Sentinels with [other certificates](ClientBuilder::sentinel_tls) keep those.
    /// Without TLS, nothing changes.
    ///
    /// ```no_run
    /// # mod redlatch { pub use redlatch_core::{Client, runtime::TlsOptions}; }
    /// # async fn example(client: redlatch::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use redlatch::TlsOptions;
    ///
    /// let read = |name: &str| std::fs::read(format!("/etc/orders/{name}.pem"));
    /// let mut tls = TlsOptions::default();
    /// tls.root_pem = Some(read("ca")?);
    /// tls.client_pem = Some((read("client")?, read("key")?));
    /// client.set_tls(tls);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_tls(&self, tls: TlsOptions) {
        self.net().router.change_tls(tls);
    }

    /// Returns the configured address of this client, without user and password.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// let client = Client::builder("redis://app:secret@redis.example/1").connect_lazy()?;
    /// assert_eq!(client.address(), "redis.example:6379"); // safe to log
    /// # Ok(())
    /// # }
    /// ```
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Returns the number of the database that this client uses.
    pub fn database(&self) -> u32 {
        self.net().router.database()
    }

    /// Returns the largest difference that this client has seen between the wall clocks of two of
    /// its servers. The round-trip time limits the precision. Zero for one server. Does no I/O.
    ///
    /// See [`server_clock_allowance`](ClientBuilder::server_clock_allowance).
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    ///
    /// if client.server_clock_difference() > Duration::from_millis(500) {
    ///     eprintln!("the clocks of the servers are apart: check their time service");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn server_clock_difference(&self) -> Duration {
        self.0.net.world.clocks.difference()
    }

    /// Returns what the client knows about its connections. Sends no request.
    ///
    /// A silent server counts as connected until a request or the health check, every 5 s, finds it
    /// silent. [`ping`](Self::ping) sends a request.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(client: redlatch::Client) {
    /// // For a readiness probe that is called often.
    /// let status = if client.health().is_connected() { 200 } else { 503 };
    /// # }
    /// ```
    pub fn health(&self) -> Health {
        self.net().router.health()
    }

    /// Asks the server for its time, and returns the time of the round trip. In a cluster, asks one
    /// node that answers. Costs one command, and no right that locks do not need.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// println!("the server answers within {:?}", client.ping().await?);
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
    pub async fn ping(&self) -> Result<Duration, Error> {
        self.check_open()?;
        self.net().check_all_away()?;
        let deadline = self.now() + self.0.patience;
        let router = &self.net().router;
        router.known(deadline).await?;
        let session = router.any_session(deadline).await?;
        let sent = self.now();
        session.ask(Command::new("TIME"), deadline).await?;
        Ok(self.now() - sent)
    }

    /// Returns the sizes of the tables at this instant.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = redlatch::Client::builder("redis://localhost").connect_lazy()?;
    /// use redlatch::Tables;
    ///
    /// // At the end of a test: nothing is held, nothing waits, and nothing is in progress.
    /// assert_eq!(client.tables(), Tables::default());
    /// # Ok(())
    /// # }
    /// ```
    pub fn tables(&self) -> Tables {
        Tables {
            holds: self.0.holds.len(),
            renewals: self.0.watchdog.len(),
            waiters: self.0.waiters.load(Ordering::Relaxed),
            queues: self.0.local_queues.len() + self.0.phase_watches.len(),
            listeners: self.0.net.hub.listeners(),
            pending_releases: self.0.releaser.len(),
        }
    }
}

// The end of a client: by `close`, by a failure of its tasks, or by the drop of its last clone,
// handle and guard.
impl Client {
    /// Closes the client: rejects new work at once, signals every guard that its hold ends, gives
    /// the guards `grace` to finish, and then releases the remaining holds.
    ///
    /// Waiters get [`ErrorKind::Closed`](crate::ErrorKind::Closed), guards get
    /// [`LossCause::Closed`]. So [`Held::run`](crate::Held::run) drops its work at once. Work that
    /// awaits [`Held::ending`](crate::Held::ending) or [`Held::lost`](crate::Held::lost) instead may
    /// finish. During the grace, holds are renewed as before, so no other owner gets the name while
    /// a guard finishes its work.
    ///
    /// Returns when every hold is released and the connections are closed. The time limit is the
    /// grace, plus 1 s for acquisitions to give up, plus the client's `patience`. Holds that could
    /// not be released by then end with their leases. You may call the method again, also on
    /// another clone.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn signal() {}
    /// # async fn example(client: redlatch::Client) {
    /// use std::time::Duration;
    ///
    /// signal().await; // SIGTERM
    /// // The last call of the program: without it, locks may stay held until their leases end.
    /// client.close(Duration::from_secs(5)).await;
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the client still rejects new work. Call the method again to
    /// finish.
    #[doc(alias = "shutdown")]
    pub async fn close(&self, grace: Duration) {
        let core = &self.0;
        if core.life().is_forked() {
            return;
        }
        let deadline = self.now() + grace;
        core.closes_by(deadline);
        let holds = self.closing_holds();
        for hold in &holds {
            hold.lose(LossCause::Closed);
            // A second call may be earlier than the first, and work under the hold follows it.
            hold.tell_change();
        }
        self.wait_until(deadline, || holds.iter().all(|hold| hold.guards() == 0))
            .await;
        // Acquisitions in progress give up by themselves. The wait for an acquisition that nothing
        // polls is short.
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
        // Releases that callers await use the connections. What they leave behind goes to the
        // releaser.
        let patience_ends = self.now() + core.patience;
        let releases = || core.releases.load(Ordering::SeqCst) == 0;
        self.wait_until(patience_ends, releases).await;
        core.releaser.finish();
        select! {
            biased;
            () = core.net.world.ended() => {}
            () = self.alarm(patience_ends) => core.life().stop(),
        }
    }

    /// Closes the client without grace: tells the guards and releases their holds at once.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = redlatch::Client::builder("redis://localhost").connect_lazy()?;
    /// client.close_now().await; // the guards are lost, and their names are free
    /// assert!(client.is_closed());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The same as that of [`close`](Self::close).
    pub async fn close_now(&self) {
        self.close(Duration::ZERO).await;
    }

    /// Tells whether the client is closed or closing. That is also true after the end of the tokio
    /// runtime that created it, and in a fork of its process.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = redlatch::Client::builder("redis://localhost").connect_lazy()?;
    /// use redlatch::ErrorKind;
    ///
    /// assert!(!client.is_closed());
    /// client.close_now().await;
    /// assert!(client.is_closed());
    /// assert_eq!(client.ping().await.unwrap_err().kind(), ErrorKind::Closed);
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_closed(&self) -> bool {
        self.0.life().is_forked() || self.is_closing()
    }

    /// Resolves when every background release and undo of dropped guards and acquisitions has been
    /// answered or given up. The client stays open.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
    /// # use redlatch::{Client, Error};
    /// # async fn example(lock: &impl Lock, client: Client) -> Result<(), Error> {
    /// let guard = lock.lock().await?;
    /// drop(guard); // releases in the background
    /// client.settled().await;
    /// assert_eq!(client.tables().pending_releases, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. Call it again.
    pub async fn settled(&self) {
        if self.0.life().is_forked() {
            return;
        }
        self.0.releaser.drained().await;
    }

    /// Returns every hold that existed when the client began to close.
    fn closing_holds(&self) -> Vec<Arc<Hold>> {
        let mut closing = lock(&self.0.closing_holds);
        closing.extend(self.0.holds.all());
        closing.iter().filter_map(Weak::upgrade).collect()
    }

    async fn wait_until(&self, deadline: Moment, done: impl Fn() -> bool) {
        loop {
            let mut quieter = std::pin::pin!(self.0.quieter.notified());
            quieter.as_mut().enable();
            // After the end of the client, alarms fire at once, so check for that.
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
}

impl Core {
    /// Closes the client if its runtime ends or one of its tasks panics.
    pub(super) fn watch_over(self: &Arc<Self>) {
        let (core, releaser) = (Arc::downgrade(self), Arc::downgrade(&self.releaser));
        self.life().on_end(move |end| {
            if let Some(core) = core.upgrade() {
                core.ended(end);
            } else if let Some(releaser) = releaser.upgrade() {
                releaser.abandon();
            }
        });
    }

    /// Rejects new work, and sets when the holds that are left are released. A later call can only
    /// bring that forward.
    fn closes_by(&self, deadline: Moment) {
        self.closing.send_modify(|closes_at| {
            *closes_at = Some(closes_at.map_or(deadline, |earlier| earlier.min(deadline)));
        });
    }

    /// Handles an end without a call of `close`: tells all guards and waiters, and releases the
    /// holds if the releaser still runs.
    fn ended(&self, end: &End) {
        self.closes_by(self.net.world.runtime.now());
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
        // No guard or waiter is left. The releaser still sends the releases that dropped guards
        // have queued. A fork must skip this, since its locks may be held forever.
        if !self.life().is_forked() {
            self.releaser.finish();
            let life = Arc::clone(&self.net.world.life);
            linger(&self.net.world.runtime, || {
                Some(Box::pin(async move { life.idle().await }))
            });
        }
    }
}
