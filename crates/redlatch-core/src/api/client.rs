//! The client, which all handles and guards of one connection setting share.

use std::{sync::atomic::Ordering, time::Duration};

use crate::{
    Client, ClientBuilder, Error, Owner,
    net::Health,
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
