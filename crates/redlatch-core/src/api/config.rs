//! How a client is set up.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use crate::{
    Client, Error, ErrorKind,
    api::address,
    base::rules::{Rule, Rules},
    engine::invalid_lease,
    net::{Servers, Topology},
    protocol::{
        lease::{Lease, Trust},
        name::Prefix,
        waiter::WaitStrategy,
    },
    runtime::{Address, Login, Runtime, TlsOptions, TokioRuntime, Transport},
    transport::RedisTransport,
};

/// Builds a client. Every option has a default; wrong ones are told by [`connect`](Self::connect).
///
/// `C` is what connecting gives: a facade may put its own type around the core's.
#[derive(Debug)]
pub struct ClientBuilder<C = Client> {
    config: Config,
    wrong: Option<Error>,
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
    /// By default it depends on the servers.
    pub(crate) clock_allowance: Option<Duration>,
    pub(crate) retention: Duration,
    pub(crate) patience: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) application: Option<String>,
    pub(crate) max_waiters: usize,
    pub(crate) self_check: bool,
    pub(crate) rules: Rules,
    pub(crate) runtime: Option<Arc<dyn Runtime>>,
    pub(crate) transport: Arc<dyn Transport>,
}

impl<C: From<Client>> ClientBuilder<C> {
    /// Starts from an address:
    ///
    /// * One server: `redis://[user[:password]@]host[:port][/database]`, `rediss://…` for TLS,
    ///   `unix:///path[?db=n&user=…&pass=…]` or `redis+unix://…`.
    /// * A cluster: `redis+cluster://[user[:password]@]host[:port][,host[:port]…]`, some of its
    ///   nodes. `redis-cluster://host?node=host:port` means the same.
    /// * Sentinels:
    ///   `redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/service[/database]`, the
    ///   service being the name that the sentinels know the master by; user and password are the
    ///   servers', `?sentinel_username=…&sentinel_password=…` the sentinels'.
    ///   `redis-sentinel://…?sentinelServiceName=service` and `redis-sentinel://…/database#service`
    ///   mean the same. The port is 26379 by default.
    /// * A master and its replicas: `redis+replicas://host[:port],host[:port]…[/database]`, all of
    ///   them; which one is the master is found out.
    ///
    /// With `rediss` instead of `redis`, all are spoken to by TLS. `valkey` and `valkeys` mean the
    /// same as `redis` and `rediss`.
    pub fn new(url: &str) -> Self {
        Self::of(address::parse(url))
    }

    /// Starts from an address and a login.
    pub fn at(address: Address, login: Login) -> Self {
        Self::of(Ok(Servers {
            topology: Topology::Single(address),
            login,
            aliases: Vec::new(),
        }))
    }

    /// Starts from some nodes of a cluster, each `host[:port]` or an address of one server; the
    /// first login among them holds for all.
    pub fn cluster<I: AsRef<str>>(nodes: impl IntoIterator<Item = I>) -> Self {
        Self::of(address::cluster(nodes))
    }

    /// Starts from sentinels, each `host[:port]` or an address of one server, and the name that
    /// they know the master by.
    ///
    /// A login among the addresses is the sentinels'; the servers' is set by [`credentials`](Self::credentials).
    pub fn sentinel<I: AsRef<str>>(service: &str, sentinels: impl IntoIterator<Item = I>) -> Self {
        Self::of(address::sentinel(service, sentinels))
    }

    /// Starts from a master and its replicas, in any order, each `host[:port]` or an address of one
    /// server; the first login among them holds for all.
    ///
    /// They are asked which of them is the master, and asked again when that one is away or takes
    /// no writes. Nobody is promoted by this.
    pub fn replicas<I: AsRef<str>>(servers: impl IntoIterator<Item = I>) -> Self {
        Self::of(address::replicas(servers))
    }

    fn of(servers: Result<Servers, Error>) -> Self {
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
            connect_timeout: Duration::from_secs(3),
            application: None,
            max_waiters: 100_000,
            self_check: true,
            rules: Rules::default(),
            runtime: None,
            transport: Arc::new(RedisTransport::new()),
        };
        Self {
            config,
            wrong,
            client: PhantomData,
        }
    }

    /// Sets user and password of the servers, instead of what the address says.
    /// [`Client::set_credentials`] changes them later.
    #[must_use]
    pub fn credentials(mut self, username: Option<&str>, password: Option<&str>) -> Self {
        let login = &mut self.config.servers.login;
        login.username = username.map(str::to_owned);
        login.password = password.map(str::to_owned);
        self
    }

    /// Sets the database's number, instead of what the address says. A cluster has none but 0.
    #[must_use]
    pub const fn database(mut self, database: u32) -> Self {
        self.config.servers.login.database = database;
        self
    }

    /// Sets user and password of the sentinels.
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

    /// Says that the server which is announced as `announced`, `host:port`, is reached at
    /// `reached`: for nodes behind address translation or proxies. May be called once per node.
    #[must_use]
    pub fn announced_as(mut self, announced: &str, reached: &str) -> Self {
        match (
            address::host_and_port(announced),
            address::host_and_port(reached),
        ) {
            (Ok(announced), Ok(reached)) => {
                self.config.servers.aliases.push((announced, reached));
                self
            }
            (Err(error), _) | (_, Err(error)) => self.refuse(error),
        }
    }

    /// Sets the first part of all keys and channels: 1 to 64 bytes without braces, `@`, white space
    /// and glob characters. Default `redlatch`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        match Prefix::parse(prefix) {
            Ok(prefix) => self.config.prefix = prefix,
            Err(error) => {
                let error = Error::with_source(ErrorKind::InvalidOption, error.to_string(), error);
                return self.refuse(error);
            }
        }
        self
    }

    /// Sets the lease of acquisitions that name none; the watchdog renews it. 1 s to 365 days,
    /// default 30 s.
    #[must_use]
    pub fn default_lease(mut self, lease: Duration) -> Self {
        match Lease::renewed(lease) {
            Ok(lease) => self.config.lease = lease,
            Err(error) => return self.refuse(invalid_lease(error)),
        }
        self
    }

    /// Sets how acquisitions that say nothing about it wait. Default: [`WaitStrategy::Notify`].
    ///
    /// With `Poll` here and nowhere anything else, the client never opens a connection for messages
    /// and needs no right to channels.
    #[must_use]
    pub const fn wait_strategy(mut self, strategy: WaitStrategy) -> Self {
        self.config.strategy = strategy;
        self
    }

    /// Sets how far clocks may run from true time, ours and the server's: 0 to 0.2, default 0.01
    /// (one per cent).
    ///
    /// Holders give up 2 × drift × lease + 4 ms before the lease ends.
    #[must_use]
    pub fn clock_drift(mut self, drift: f64) -> Self {
        match Trust::new(drift) {
            Some(trust) => self.config.trust = trust,
            None => return self.refuse(out_of_bounds("clock_drift", "0 to 0.2")),
        }
        self
    }

    /// Sets by how much the wall clocks of servers may differ that take over from each other: 0 to
    /// 1 hour. Default 1 s for a cluster, for sentinels and for a list of replicas, and 0 for one
    /// server. All clients of the same servers should set the same.
    ///
    /// A failover, or a slot that moves, carries the end of a lease to another server as a time of
    /// the old one. So the servers are asked for leases that are longer by this than what holders
    /// believe in. What is released is free at once; what a dead holder leaves is free this much
    /// later. Set it for a single address, too, if several servers are behind it.
    ///
    /// The client compares the clocks of the servers it speaks to. It warns when they differ by
    /// more than half of this, and allows for the difference it has seen where that is more. It
    /// cannot see a server before that server is in charge. See also
    /// [`server_clock_difference`](Client::server_clock_difference).
    #[must_use]
    pub fn server_clock_allowance(mut self, difference: Duration) -> Self {
        if difference > Duration::from_secs(3600) {
            return self.refuse(out_of_bounds("server_clock_allowance", "0 to 1 hour"));
        }
        self.config.clock_allowance = Some(difference);
        self
    }

    /// Sets how long the fencing token of a freed name is kept: 10 s to 365 days, default 10
    /// minutes.
    ///
    /// It costs about 110 bytes per name for that time. Tokens rise beyond it too, as long as the
    /// server's clock is not set back.
    #[must_use]
    pub fn token_retention(mut self, retention: Duration) -> Self {
        if retention < Duration::from_secs(10) || retention > Lease::MAX {
            return self.refuse(out_of_bounds("token_retention", "10 s to 365 days"));
        }
        self.config.retention = retention;
        self
    }

    /// Sets how long an operation goes on without an answer from the server before it fails: 100 ms
    /// to 1 day, default 10 s.
    ///
    /// Waiting for a name that is held by another is not bounded by this, since the server answers:
    /// what counts is the time since its last answer. A release, an extension or a look gives up
    /// when its own request has not been answered for so long.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        if patience < Duration::from_millis(100) || patience > Duration::from_secs(86_400) {
            return self.refuse(out_of_bounds("patience", "100 ms to 1 day"));
        }
        self.config.patience = patience;
        self
    }

    /// Sets how long [`connect`](Self::connect) may take in all, and each try to connect again later: 10 ms to 1
    /// minute, default 3 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        if timeout < Duration::from_millis(10) || timeout > Duration::from_secs(60) {
            return self.refuse(out_of_bounds("connect_timeout", "10 ms to 1 minute"));
        }
        self.config.connect_timeout = timeout;
        self
    }

    /// Sets the application's name, which is shown with every hold of this client. Default: the
    /// name of the executable.
    #[must_use]
    pub fn application(mut self, name: impl Into<String>) -> Self {
        self.config.application = Some(name.into());
        self
    }

    /// Sets the name that the server's `CLIENT LIST` shows. Default `redlatch`.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.config.servers.login.client_name = Some(name.into());
        self
    }

    /// Sets how many acquisitions of this client may be under way at a time, waiting or not.
    /// Default 100,000; more get [`ErrorKind::TooManyWaiters`].
    #[must_use]
    pub fn max_waiters(mut self, waiters: usize) -> Self {
        self.config.max_waiters = waiters;
        self
    }

    /// Sets whether connecting looks at the server's version, its eviction policy and the user's
    /// rights. Default on.
    ///
    /// Costs a handful of commands once. Turn it off for a service where it fails and locking would
    /// not; missing rights then show at first use, the first waiter has to subscribe before it can
    /// wait, and in a cluster each wake goes to all nodes.
    #[must_use]
    pub fn self_check(mut self, check: bool) -> Self {
        self.config.self_check = check;
        self
    }

    /// Sets what TLS trusts and shows. Only for addresses of `rediss://`, or for the servers that
    /// sentinels tell of.
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

    /// Sets what TLS trusts and shows to sentinels, where that differs from the servers; call it
    /// after [`tls`](Self::tls).
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

    /// Sets where background work runs and what clock counts. Default: the tokio runtime that
    /// [`connect`](Self::connect) is called in.
    ///
    /// Give it a [`TokioRuntime`] of another tokio runtime when the main one may be blocked for
    /// long: renewals then go on.
    #[must_use]
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.config.runtime = Some(runtime);
        self
    }

    /// Sets what makes connections. Default: the network.
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

    /// Connects and checks what it finds.
    ///
    /// # Errors
    ///
    /// `InvalidOption` or `InvalidLease` for a wrong option, or without a tokio runtime; `Auth`,
    /// `Permission`, `UnsupportedServer`, `ServerFull`; `Unavailable` or `OutcomeUnknown` when the
    /// server could not be reached, or did not answer, within the connect time-out.
    ///
    /// # Panics
    ///
    /// In a tokio runtime without I/O or time enabled.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves no connection behind.
    pub async fn connect(self) -> Result<C, Error> {
        if let Some(error) = self.wrong {
            return Err(error);
        }
        let mut config = self.config;
        config.servers.check()?;
        let runtime = match config.runtime.take() {
            Some(runtime) => runtime,
            None => Arc::new(TokioRuntime::current().ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidOption,
                    "no tokio runtime here; call it inside of one or give it one",
                )
            })?),
        };
        Client::start(config, runtime).await.map(C::from)
    }

    /// Remembers the first wrong option.
    fn refuse(mut self, error: Error) -> Self {
        self.wrong.get_or_insert(error);
        self
    }
}

impl Config {
    /// Returns by how much the clocks of servers may differ that take over from each other.
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

/// By how much the clocks of several servers may differ, unless the client says otherwise.
const CLOCK_ALLOWANCE: Duration = Duration::from_secs(1);

/// Sets the options of all addresses; returns whether all of them are of TLS.
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

fn out_of_bounds(option: &str, bounds: &str) -> Error {
    Error::new(
        ErrorKind::InvalidOption,
        format!("{option} is out of bounds; it is {bounds}"),
    )
}
