//! The configuration of a client.

use std::{error, marker::PhantomData, ops::RangeInclusive, sync::Arc, time::Duration};

use crate::{
    Client, Credentials, Error, ErrorKind,
    api::address,
    base::{
        credentials::Provider,
        rules::{Rule, Rules},
    },
    engine::invalid_lease,
    net::{Servers, Topology},
    protocol::{
        lease::{Lease, Trust},
        name::Prefix,
        waiter::WaitStrategy,
    },
    runtime::{Address, Login, Runtime, TlsOptions, Transport},
    transport::RedisTransport,
};

/// Builds a client. Every option has a default. [`connect`](Self::connect) returns the error of an
/// invalid option.
///
/// `C` is the type that `connect` returns: `redlatch::ClientBuilder` is this builder with
/// `redlatch::Client`.
#[derive(Debug)]
pub struct ClientBuilder<C = Client> {
    config: Config,
    wrong: Option<Error>,
    /// The parameters of the address that redlatch does not know.
    pub(super) unknown: Vec<String>,
    client: PhantomData<fn() -> C>,
}

/// The options of a client.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) servers: Servers,
    pub(crate) prefix: Prefix,
    pub(crate) lease: Lease,
    pub(crate) strategy: WaitStrategy,
    pub(crate) trust: Trust,
    /// `None` for the default, which depends on the servers.
    pub(crate) clock_allowance: Option<Duration>,
    pub(crate) retention: Duration,
    pub(crate) patience: Duration,
    pub(crate) fail_fast: Option<Duration>,
    pub(crate) long_wait: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) application: Option<String>,
    pub(crate) max_waiters: usize,
    pub(crate) self_check: bool,
    pub(crate) watch_keys: bool,
    pub(crate) rules: Rules,
    pub(crate) runtime: Option<Arc<dyn Runtime>>,
    pub(crate) transport: Arc<dyn Transport>,
}

/// Starts from a connection of the crate `redis`: its address, its user, password and database.
/// Protocol and sockets are as with an address in text. Needs the feature `connection-info`.
///
/// [`connect`](ClientBuilder::connect) returns the error `InvalidOption` for certificates in it,
/// which only the crate `redis` can read, and for a database below zero. Give certificates with
/// [`tls`](ClientBuilder::tls), to an address in text.
#[cfg(feature = "connection-info")]
impl<C: From<Client>> From<crate::transport::ConnectionInfo> for ClientBuilder<C> {
    fn from(info: crate::transport::ConnectionInfo) -> Self {
        let found = crate::transport::address_and_login(&info);
        Self::of(found.map(|(address, login)| Servers::new(Topology::Single(address), login)))
    }
}

impl<C: From<Client>> ClientBuilder<C> {
    /// Starts from an address and a login.
    pub fn at(address: Address, login: Login) -> Self {
        Self::of(Ok(Servers::new(Topology::Single(address), login)))
    }

    /// Starts from some nodes of a cluster, each `host[:port]` or an address of one server. The
    /// first login among them applies to all.
    ///
    /// ```
    /// # mod redlatch {
    /// #     pub use redlatch_core::{*, runtime::*};
    /// #     pub type ClientBuilder = redlatch_core::ClientBuilder;
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::ClientBuilder;
    ///
    /// let nodes = ["10.0.0.1:6379", "10.0.0.2:6379"]; // the client finds the others
    /// let client = ClientBuilder::cluster(nodes).connect_lazy()?; // or connect().await?
    /// assert_eq!(client.address(), "cluster@10.0.0.1:6379,10.0.0.2:6379");
    /// # Ok(())
    /// # }
    /// ```
    pub fn cluster<I: AsRef<str>>(nodes: impl IntoIterator<Item = I>) -> Self {
        Self::of(address::several(nodes, Topology::Cluster))
    }

    /// Starts from sentinels, each `host[:port]` or an address of one server. The port of `host` is
    /// 26379. `service` is the name of the master on the sentinels.
    ///
    /// A login in the addresses applies to the sentinels. [`credentials`](Self::credentials) sets
    /// the login for the servers.
    ///
    /// ```
    /// # mod redlatch {
    /// #     pub use redlatch_core::{*, runtime::*};
    /// #     pub type ClientBuilder = redlatch_core::ClientBuilder;
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::ClientBuilder;
    ///
    /// let sentinels = ["10.0.0.1:26379", "10.0.0.2:26379"];
    /// let builder = ClientBuilder::sentinel("orders", sentinels); // `orders` is the master
    /// let client = builder.credentials(Some("app"), Some("secret")).connect_lazy()?;
    /// assert_eq!(client.address(), "orders@10.0.0.1:26379,10.0.0.2:26379");
    /// # Ok(())
    /// # }
    /// ```
    pub fn sentinel<I: AsRef<str>>(service: &str, sentinels: impl IntoIterator<Item = I>) -> Self {
        Self::of(address::sentinel(service, sentinels))
    }

    /// Starts from a master and its replicas, in any order, each `host[:port]` or an address of one
    /// server. The first login among them applies to all.
    ///
    /// The client asks the servers which of them is the master. It asks again when the master is
    /// unreachable or accepts no writes. It never promotes a server.
    ///
    /// ```
    /// # mod redlatch {
    /// #     pub use redlatch_core::{*, runtime::*};
    /// #     pub type ClientBuilder = redlatch_core::ClientBuilder;
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::ClientBuilder;
    ///
    /// let servers = ["redis-0.shop:6379", "redis-1.shop:6379"]; // one of them is the master
    /// let client = ClientBuilder::replicas(servers).connect_lazy()?; // or connect().await?
    /// assert!(client.address().contains("redis-1.shop:6379"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn replicas<I: AsRef<str>>(servers: impl IntoIterator<Item = I>) -> Self {
        Self::of(address::several(servers, Topology::Replicas))
    }

    pub(super) fn of(servers: Result<Servers, Error>) -> Self {
        let (servers, wrong) = match servers {
            Ok(servers) => (servers, None),
            Err(error) => (Servers::nowhere(), Some(error)),
        };
        let config = Config {
            servers,
            prefix: Prefix::default(),
            lease: Lease::default(),
            strategy: WaitStrategy::Notify,
            trust: Trust::default(),
            clock_allowance: None,
            retention: Duration::from_secs(600),
            patience: Duration::from_secs(10),
            fail_fast: None,
            long_wait: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(3),
            application: None,
            max_waiters: 100_000,
            self_check: true,
            watch_keys: false,
            rules: Rules::default(),
            runtime: None,
            transport: Arc::new(RedisTransport::new()),
        };
        Self {
            config,
            wrong,
            unknown: Vec::new(),
            client: PhantomData,
        }
    }

    /// Sets user and password of the servers, instead of those in the address.
    /// [`Client::set_credentials`] changes them later. For credentials that expire, use
    /// [`credentials_from`](Self::credentials_from).
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// let password = std::env::var("ORDERS_PASSWORD").ok();
    /// let builder = Client::builder("redis://redis.example");
    /// let builder = builder.credentials(Some("orders"), password.as_deref());
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn credentials(mut self, username: Option<&str>, password: Option<&str>) -> Self {
        let login = &mut self.config.servers.login;
        login.username = username.map(str::to_owned);
        login.password = password.map(str::to_owned);
        self
    }

    /// Sets the provider of user and password of the servers, instead of those in the address. Use
    /// it for tokens that expire.
    ///
    /// The client calls `provider` before the first connection, then after seven to eight tenths of
    /// [`expires_in`](Credentials::expires_in), and after a server has refused the credentials. One
    /// answer serves all connections: existing ones log in again as with
    /// [`Client::set_credentials`]. If the provider fails, or has no answer after 10 s, the client
    /// keeps the old credentials and asks again, at least every 5 s. Errors of connections then
    /// contain the error of the provider. A refused login is a transient error, `Unavailable`.
    ///
    /// The client drops the provider's future when the client ends, or after 10 s. A panic of the
    /// provider closes the client. The sentinels keep
    /// [their credentials](Self::sentinel_credentials).
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # async fn token() -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::{Client, Credentials};
    ///
    /// let builder = Client::builder("rediss://redis.example").credentials_from(|| async {
    ///     Ok(Credentials {
    ///         username: Some("orders".to_owned()),
    ///         password: token().await?,
    ///         expires_in: Some(Duration::from_secs(15 * 60)),
    ///     })
    /// });
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn credentials_from<F>(mut self, provider: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Credentials, Box<dyn error::Error + Send + Sync>>>
            + Send
            + 'static,
    {
        self.config.servers.provider = Some(Provider::new(provider));
        self
    }

    /// Sets the number of the database, instead of the one in the address. A cluster has only
    /// database 0.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// let client = Client::builder("redis://localhost/0").database(3).connect_lazy()?;
    /// assert_eq!(client.database(), 3);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn database(mut self, database: u32) -> Self {
        self.config.servers.login.database = database;
        self
    }

    /// Sets user and password of the sentinels.
    ///
    /// ```
    /// # mod redlatch {
    /// #     pub use redlatch_core::{*, runtime::*};
    /// #     pub type ClientBuilder = redlatch_core::ClientBuilder;
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::ClientBuilder;
    ///
    /// let builder = ClientBuilder::sentinel("orders", ["10.0.0.1:26379", "10.0.0.2:26379"])
    ///     .credentials(Some("app"), Some("secret")) // for the servers
    ///     .sentinel_credentials(None, Some("another secret"));
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn sentinel_credentials(mut self, username: Option<&str>, password: Option<&str>) -> Self {
        match &mut self.config.servers.topology {
            Topology::Sentinel(sentinels) => {
                sentinels.login.username = username.map(str::to_owned);
                sentinels.login.password = password.map(str::to_owned);
            }
            _ => return self.refuse(address::wrong("there are no sentinels")),
        }
        self
    }

    /// Maps a server's announced address, `host:port`, to the address at which the client reaches
    /// it. Use it for nodes behind address translation or proxies, once per node.
    ///
    /// ```
    /// # mod redlatch {
    /// #     pub use redlatch_core::{*, runtime::*};
    /// #     pub type ClientBuilder = redlatch_core::ClientBuilder;
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::ClientBuilder;
    ///
    /// // A cluster in containers, whose ports are published on this machine.
    /// let builder = ClientBuilder::cluster(["localhost:7000"])
    ///     .announced_as("172.18.0.2:6379", "localhost:7000")
    ///     .announced_as("172.18.0.3:6379", "localhost:7001");
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn announced_as(self, announced: &str, reached: &str) -> Self {
        let announced = address::host_and_port(announced);
        let alias = announced.and_then(|one| Ok((one, address::host_and_port(reached)?)));
        self.option(alias, |config, alias| config.servers.aliases.push(alias))
    }

    /// Sets the first part of all keys and channels: 1 to 64 bytes without braces, `@`, white space
    /// and glob characters. Default: `redlatch`.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::{Client, ErrorKind};
    ///
    /// let builder = Client::builder("redis://localhost").prefix("tenant-7");
    /// # builder.connect_lazy()?;
    /// let wrong = Client::builder("redis://localhost").prefix("tenant-*");
    /// assert_eq!(wrong.connect_lazy().unwrap_err().kind(), ErrorKind::InvalidOption);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn prefix(self, prefix: &str) -> Self {
        let prefix = Prefix::parse(prefix).map_err(|error| {
            Error::with_reason(ErrorKind::InvalidOption, error.to_string(), error)
        });
        self.option(prefix, |config, prefix| config.prefix = prefix)
    }

    /// Sets the lease of acquisitions that specify none: 1 s to 365 days. The watchdog renews it.
    /// Default: 30 s.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::Client;
    ///
    /// // The locks of a process that dies are free after 10 s.
    /// let builder = Client::builder("redis://localhost").default_lease(Duration::from_secs(10));
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn default_lease(self, lease: Duration) -> Self {
        let lease = Lease::renewed(lease).map_err(invalid_lease);
        self.option(lease, |config, lease| config.lease = lease)
    }

    /// Sets how acquisitions wait that specify no strategy. Default: [`WaitStrategy::Notify`].
    ///
    /// If every strategy is `Poll`, the client never opens a connection for messages and needs no
    /// permission for channels.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::{Backoff, Client, WaitStrategy};
    ///
    /// // The user has no right to subscribe, so waiters ask every 200 ms.
    /// let poll = WaitStrategy::Poll(Backoff::constant(Duration::from_millis(200)));
    /// let builder = Client::builder("redis://localhost").wait_strategy(poll);
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn wait_strategy(mut self, strategy: WaitStrategy) -> Self {
        self.config.strategy = strategy;
        self
    }

    /// Sets the maximum drift of clocks from true time, this client's and the server's: 0 to 0.2.
    /// Default: 0.01 (one per cent).
    ///
    /// Holders give up 2 × drift × lease + 4 ms before the lease ends.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// // Holders give up a lease of 30 s 64 ms before its end, and by default 604 ms.
    /// let builder = Client::builder("redis://localhost").clock_drift(0.001);
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn clock_drift(self, drift: f64) -> Self {
        let trust = Trust::new(drift).ok_or_else(|| out_of_bounds("clock_drift", "0 to 0.2"));
        self.option(trust, |config, trust| config.trust = trust)
    }

    /// Sets the maximum difference between the wall clocks of servers that may take over from each
    /// other: 0 to 1 hour. Default: 1 s for a cluster, for sentinels and for a list of replicas,
    /// and 0 for one server. All clients of the same servers should use the same value.
    ///
    /// A failover or a moving slot copies the end of a lease, a time of the old server, to another
    /// server. The client therefore requests leases that are longer by this value than the leases
    /// that holders count on. A released name is free at once. The name of a dead holder is free
    /// later by this value. If several servers are behind a single address, set this option, too.
    ///
    /// The client compares the clocks of the servers that it uses. It warns when they differ by
    /// more than half of this value. It allows for the difference that it has seen if that is
    /// greater. It cannot read the clock of a server before that server is in charge. See also
    /// [`server_clock_difference`](Client::server_clock_difference).
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::Client;
    ///
    /// // A hosted service with one address, behind which a standby may take over.
    /// let second = Duration::from_secs(1);
    /// let builder = Client::builder("redis://redis.example").server_clock_allowance(second);
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn server_clock_allowance(self, difference: Duration) -> Self {
        let bounds = Duration::ZERO..=Duration::from_secs(3600);
        let span = within("server_clock_allowance", difference, bounds, "0 to 1 hour");
        self.option(span, |config, span| config.clock_allowance = Some(span))
    }

    /// Sets how long the server keeps the fencing token of a freed name: 10 s to 365 days. Default:
    /// 10 minutes.
    ///
    /// A token costs about 170 bytes per name for that time. Tokens rise even after it, unless the
    /// server's clock is set back.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::Client;
    ///
    /// // For a day, the tokens of a free name rise even if the server's clock is set back.
    /// let day = Duration::from_secs(24 * 3600);
    /// let builder = Client::builder("redis://localhost").token_retention(day);
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn token_retention(self, retention: Duration) -> Self {
        let bounds = Duration::from_secs(10)..=Lease::MAX;
        let span = within("token_retention", retention, bounds, "10 s to 365 days");
        self.option(span, |config, span| config.retention = span)
    }

    /// Sets how long an operation keeps trying without an answer from the server before it fails:
    /// 100 ms to 1 day. Default: 10 s.
    ///
    /// This does not limit the wait for a name that another owner holds, since the server answers:
    /// only the time since its last answer counts. A release, an extension or a query gives up when
    /// its own request has no answer for this long.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::{Client, ErrorKind};
    ///
    /// // No server listens at port 1.
    /// let builder = Client::builder("redis://127.0.0.1:1").patience(Duration::from_millis(200));
    /// let error = builder.connect_lazy()?.ping().await.unwrap_err(); // after 200 ms
    /// assert_eq!(error.kind(), ErrorKind::Unavailable);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        let bounds = Duration::from_millis(100)..=Duration::from_secs(86_400);
        let span = within("patience", patience, bounds, "100 ms to 1 day");
        self.option(span, |config, span| config.patience = span)
    }

    /// Refuses calls at once, with [`ErrorKind::Unavailable`], while there has been no connection
    /// to the server for `after`: 100 ms to 1 day. Default: off, so each call waits for its
    /// [`patience`](Self::patience).
    ///
    /// Calls are refused until the server answers again. The client connects by itself, after
    /// pauses of at most 1 s. In a cluster, only calls for names of the unreachable node are
    /// refused. Calls that already wait fail at their next try, mostly within 2 s. If an earlier
    /// try may have been executed, the error is `OutcomeUnknown`. Releases, renewals and extensions
    /// are not refused. A silent server counts as connected until the health check closes the
    /// connection, 6 s after the last answer at the latest. A red-lock waits for its patience.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use std::time::{Duration, Instant};
    /// use redlatch::{Client, ErrorKind};
    ///
    /// // No server listens at port 1.
    /// let builder = Client::builder("redis://127.0.0.1:1").patience(Duration::from_secs(1));
    /// let client = builder.fail_fast(Duration::from_millis(500)).connect_lazy()?;
    /// assert!(client.ping().await.is_err()); // waits for the server
    /// let start = Instant::now();
    /// let error = client.ping().await.unwrap_err(); // is refused
    /// assert_eq!(error.kind(), ErrorKind::Unavailable);
    /// assert!(start.elapsed() < Duration::from_millis(100));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fail_fast(self, after: Duration) -> Self {
        let bounds = Duration::from_millis(100)..=Duration::from_secs(86_400);
        let span = within("fail_fast", after, bounds, "100 ms to 1 day");
        self.option(span, |config, span| config.fail_fast = Some(span))
    }

    /// Logs an acquisition that has waited this long, once: 10 ms to 365 days. Default: 5 s.
    ///
    /// The event `long_wait` contains the holder with application, host, process and note, for
    /// which the client sends one or two commands. If the same task has acquired the name with
    /// another owner, the event is `waits_for_itself`. The client learns the holder from the
    /// server's next answer, so the event may be two seconds late.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::Client;
    ///
    /// // A request should wait for a second at most, so log each longer wait.
    /// let builder = Client::builder("redis://localhost").long_wait(Duration::from_secs(1));
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn long_wait(self, wait: Duration) -> Self {
        let bounds = Duration::from_millis(10)..=Lease::MAX;
        let span = within("long_wait", wait, bounds, "10 ms to 365 days");
        self.option(span, |config, span| config.long_wait = span)
    }

    /// Sets the time limit for [`connect`](Self::connect) as a whole, and for each later connection
    /// attempt: 10 ms to 1 minute. Default: 3 s.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::Client;
    ///
    /// // No server listens at port 1.
    /// let builder = Client::builder("redis://127.0.0.1:1");
    /// let builder = builder.connect_timeout(Duration::from_millis(200));
    /// let error = builder.connect().await.unwrap_err(); // after 200 ms
    /// assert!(error.is_transient());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        let bounds = Duration::from_millis(10)..=Duration::from_secs(60);
        let span = within("connect_timeout", timeout, bounds, "10 ms to 1 minute");
        self.option(span, |config, span| config.connect_timeout = span)
    }

    /// Sets the application's name, which inspection shows with every hold of this client. Default:
    /// the name of the executable.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// let builder = Client::builder("redis://localhost").application("checkout 2.4.1");
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn application(mut self, name: impl Into<String>) -> Self {
        self.config.application = Some(name.into());
        self
    }

    /// Sets the name that the server's `CLIENT LIST` shows. Default: `redlatch`.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// let pod = std::env::var("HOSTNAME").unwrap_or_else(|_| "checkout".to_owned());
    /// let builder = Client::builder("redis://localhost").client_name(pod);
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.config.servers.login.client_name = Some(name.into());
        self
    }

    /// Sets the maximum number of concurrent acquisitions of this client, waiting or not. Default:
    /// 100,000. Further acquisitions fail with [`ErrorKind::TooManyWaiters`].
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// // Under load, the acquisition after 500 others fails at once and does not wait.
    /// let builder = Client::builder("redis://localhost").max_waiters(500);
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn max_waiters(mut self, waiters: usize) -> Self {
        self.config.max_waiters = waiters;
        self
    }

    /// Sets whether `connect` checks the server's version, its eviction policy and the user's
    /// permissions. Default: on.
    ///
    /// The check costs a handful of commands once. Turn it off for a service where the check fails
    /// although locks would work. Without it, missing permissions show at first use. The first
    /// waiter has to subscribe before it can wait. In a cluster, each notification goes to all
    /// nodes. The background writes the client's record, so `connect` needs no write.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// // The proxy of a hosted service refuses the commands of the check.
    /// let builder = Client::builder("redis://proxy.example").self_check(false);
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn self_check(mut self, check: bool) -> Self {
        self.config.self_check = check;
        self
    }

    /// Sets whether the server reports changes of the keys of holds, by client-side caching.
    /// Default: off.
    ///
    /// If another program deletes or overwrites the key of a renewed hold, the hold is lost within
    /// two round trips, and not with its next renewal. If many keys change at once, 64 holds are
    /// checked at a time. Semaphores are left aside. The server has to speak RESP3 and to accept
    /// `CLIENT TRACKING`, or the event `unwatched` warns that the option has no effect. The
    /// `tracking-table-max-keys` of the server have to exceed the number of holds, or the client
    /// reads keys without end. Costs one `HGET` per hold, and one message and one `HGET` per
    /// renewal, re-entry and registration of a waiter.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// // Operators delete keys by hand now and then.
    /// let builder = Client::builder("redis://localhost").watch_keys(true);
    /// # builder.connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn watch_keys(mut self, watch: bool) -> Self {
        self.config.watch_keys = watch;
        self
    }

    /// Sets the certificates that TLS trusts and presents. Only for `rediss://` addresses, or for
    /// the servers that sentinels report. [`Client::set_tls`] changes them later.
    ///
    /// ```no_run
    /// # mod redlatch { pub use redlatch_core::{Client, runtime::TlsOptions}; }
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use redlatch::{Client, TlsOptions};
    ///
    /// let mut tls = TlsOptions::default();
    /// tls.root_pem = Some(std::fs::read("/etc/orders/ca.pem")?);
    /// let client = Client::builder("rediss://redis.example").tls(tls).connect().await?;
    /// # client.close_now().await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        let topology = &mut self.config.servers.topology;
        let set = match topology {
            Topology::Single(address) => set_tls([address], &tls),
            Topology::Cluster(addresses) | Topology::Replicas(addresses) => {
                set_tls(addresses, &tls)
            }
            Topology::Sentinel(sentinels) => {
                set_tls(&mut sentinels.addresses, &tls);
                sentinels.server_tls = Some(tls);
                true
            }
        };
        if set {
            return self;
        }
        self.refuse(address::wrong("TLS options need an address of rediss://"))
    }

    /// Sets the certificates for sentinels, if they differ from those of the servers. Call it after
    /// [`tls`](Self::tls).
    ///
    /// ```no_run
    /// # mod redlatch {
    /// #     pub use redlatch_core::runtime::TlsOptions;
    /// #     pub type ClientBuilder = redlatch_core::ClientBuilder;
    /// # }
    /// # use redlatch::TlsOptions;
    /// # async fn example(of_servers: TlsOptions) -> Result<(), Box<dyn std::error::Error>> {
    /// use redlatch::ClientBuilder;
    ///
    /// let mut of_sentinels = TlsOptions::default();
    /// of_sentinels.root_pem = Some(std::fs::read("/etc/sentinel/ca.pem")?);
    /// let builder = ClientBuilder::sentinel("orders", ["rediss://10.0.0.1:26379"]);
    /// let client = builder.tls(of_servers).sentinel_tls(of_sentinels).connect().await?;
    /// # client.close_now().await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn sentinel_tls(mut self, tls: TlsOptions) -> Self {
        let set = match &mut self.config.servers.topology {
            Topology::Sentinel(sentinels) => set_tls(&mut sentinels.addresses, &tls),
            _ => false,
        };
        if set {
            return self;
        }
        self.refuse(address::wrong(
            "TLS options for sentinels need sentinels of rediss://",
        ))
    }

    /// Sets the runtime for background work, and its clock. Default: the tokio runtime that calls
    /// [`connect`](Self::connect).
    ///
    /// If the main tokio runtime may be blocked for long, pass a [`TokioRuntime`](crate::runtime::TokioRuntime) of another one:
    /// renewals then continue.
    ///
    /// ```
    /// # mod redlatch { pub use redlatch_core::{Client, runtime::TokioRuntime}; }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use redlatch::{Client, TokioRuntime};
    ///
    /// // Renewals continue while other code blocks the main runtime.
    /// let mut background = tokio::runtime::Builder::new_multi_thread();
    /// let background = background.worker_threads(1).enable_all().build()?;
    /// let runtime = Arc::new(TokioRuntime::new(background.handle().clone()));
    /// let client = Client::builder("redis://localhost").runtime(runtime).connect_lazy()?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.config.runtime = Some(runtime);
        self
    }

    /// Sets the transport that opens connections. Default: the network. The crates of this family
    /// have the other ones, such as that of the embedded server.
    #[must_use]
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.config.transport = transport;
        self
    }

    /// Sets which rules the client keeps. Only the simulator's build has this method.
    #[cfg(redlatch_sim)]
    #[doc(hidden)]
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.config.rules = rules;
        self
    }

    /// Returns the prefix, the default lease, and the names of parameters of the address that
    /// redlatch does not know. For the command.
    #[doc(hidden)]
    pub fn chosen(&self) -> (&str, Duration, &[String]) {
        let Config { prefix, lease, .. } = &self.config;
        (prefix.as_str(), lease.span(), &self.unknown)
    }

    /// Returns host and port of the server, if it is the only one and is reached by them. For the
    /// command.
    #[doc(hidden)]
    pub fn host(&self) -> Option<(&str, u16)> {
        match &self.config.servers.topology {
            Topology::Single(Address::Tcp { host, port } | Address::Tls { host, port, .. }) => {
                Some((host, *port))
            }
            _ => None,
        }
    }

    /// Names the variable of the environment that the address comes from in the error.
    pub(super) fn naming(mut self, variable: &str) -> Self {
        self.wrong = self
            .wrong
            .map(|error| Error::new(error.kind(), format!("the variable {variable}: {error}")));
        self
    }

    /// Returns the options, unless one of them is invalid.
    pub(crate) fn into_config(self) -> Result<Config, Error> {
        match self.wrong {
            Some(error) => Err(error),
            None => Ok(self.config),
        }
    }

    /// Sets an option, unless its value is wrong.
    fn option<T>(mut self, value: Result<T, Error>, set: impl FnOnce(&mut Config, T)) -> Self {
        match value {
            Ok(value) => set(&mut self.config, value),
            Err(error) => return self.refuse(error),
        }
        self
    }

    /// Stores the error of the first invalid option.
    pub(super) fn refuse(mut self, error: Error) -> Self {
        self.wrong.get_or_insert(error);
        self
    }
}

impl Config {
    /// Returns the maximum difference between the clocks of servers that may take over from each
    /// other.
    pub(crate) fn clock_allowance(&self) -> Duration {
        if !self.rules.keeps(Rule::AllowForServerClocks) {
            return Duration::ZERO;
        }
        self.clock_allowance.unwrap_or(match self.servers.topology {
            Topology::Single(_) => Duration::ZERO,
            Topology::Cluster(_) | Topology::Sentinel(_) | Topology::Replicas(_) => CLOCK_ALLOWANCE,
        })
    }
}

/// The default for the maximum difference between the clocks of several servers.
const CLOCK_ALLOWANCE: Duration = Duration::from_secs(1);

/// Sets the TLS options of all addresses. Returns whether all of them use TLS.
fn set_tls<'a>(addresses: impl IntoIterator<Item = &'a mut Address>, tls: &TlsOptions) -> bool {
    let mut all = true;
    for address in addresses {
        match address {
            Address::Tls { options, .. } => *options = tls.clone(),
            _ => all = false,
        }
    }
    all
}

/// Checks the span of an option, whose bounds are `shown` to the user.
fn within(
    option: &str,
    span: Duration,
    bounds: RangeInclusive<Duration>,
    shown: &str,
) -> Result<Duration, Error> {
    let fits = bounds.contains(&span).then_some(span);
    fits.ok_or_else(|| out_of_bounds(option, shown))
}

fn out_of_bounds(option: &str, bounds: &str) -> Error {
    address::wrong(format!("{option} is out of bounds; it is {bounds}"))
}
