//! How a client is set up.

use std::{marker::PhantomData, path::PathBuf, sync::Arc, time::Duration};

use percent_encoding::percent_decode_str;
use url::Url;

use crate::{
    Client, Error, ErrorKind,
    engine::invalid_lease,
    protocol::{
        acquisition::WaitStrategy,
        lease::{Lease, Trust},
        name::Prefix,
    },
    rules::Rules,
    seam::{Address, Login, Runtime, TlsOptions, TokioRuntime, Transport},
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
    pub(crate) address: Address,
    pub(crate) login: Login,
    pub(crate) prefix: Prefix,
    pub(crate) lease: Lease,
    pub(crate) strategy: WaitStrategy,
    pub(crate) trust: Trust,
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
    /// Starts from an address: `redis://[user[:password]@]host[:port][/database]`, `rediss://…` for TLS,
    /// `unix:///path[?db=n&user=…&pass=…]`. `valkey://` and `valkeys://` mean the same as `redis://` and `rediss://`.
    pub fn new(url: &str) -> Self {
        match parse_url(url) {
            Ok((address, login)) => Self::at(address, login),
            Err(error) => {
                let nowhere = Address::Unix(PathBuf::new());
                Self::at(nowhere, Login::default()).refuse(error)
            }
        }
    }

    /// Starts from an address and a login.
    pub fn at(address: Address, login: Login) -> Self {
        let config = Config {
            address,
            login,
            prefix: Prefix::default(),
            lease: Lease::default(),
            strategy: WaitStrategy::Notify,
            trust: Trust::default(),
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
            wrong: None,
            client: PhantomData,
        }
    }

    /// Sets the first part of all keys and channels: 1 to 64 bytes without braces, `@`, white space and glob characters.
    /// Default `redlatch`.
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

    /// Sets the lease of acquisitions that name none; the watchdog renews it. 1 s to 365 days, default 30 s.
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
    /// With `Poll` here and nowhere anything else, the client never opens a connection for messages and needs no right to channels.
    #[must_use]
    pub const fn wait_strategy(mut self, strategy: WaitStrategy) -> Self {
        self.config.strategy = strategy;
        self
    }

    /// Sets how far clocks may run from true time, ours and the server's: 0 to 0.2, default 0.01 (one per cent).
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

    /// Sets how long the fencing token of a freed name is kept: 10 s to 365 days, default 10 minutes.
    ///
    /// It costs about 110 bytes per name for that time. Tokens rise beyond it too, as long as the server's clock is not set back.
    #[must_use]
    pub fn token_retention(mut self, retention: Duration) -> Self {
        if retention < Duration::from_secs(10) || retention > Lease::MAX {
            return self.refuse(out_of_bounds("token_retention", "10 s to 365 days"));
        }
        self.config.retention = retention;
        self
    }

    /// Sets how long an operation goes on without an answer from the server before it fails: 100 ms to 1 day, default 10 s.
    ///
    /// Waiting for a name that is held by another is not bounded by this, since the server answers: what counts is the time since its last
    /// answer. A release, an extension or a look gives up when its own request has not been answered for so long.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        if patience < Duration::from_millis(100) || patience > Duration::from_secs(86_400) {
            return self.refuse(out_of_bounds("patience", "100 ms to 1 day"));
        }
        self.config.patience = patience;
        self
    }

    /// Sets how long [`connect`](Self::connect) may take in all, and each try to connect again later: 10 ms to 1 minute, default 3 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        if timeout < Duration::from_millis(10) || timeout > Duration::from_secs(60) {
            return self.refuse(out_of_bounds("connect_timeout", "10 ms to 1 minute"));
        }
        self.config.connect_timeout = timeout;
        self
    }

    /// Sets the application's name, which is shown with every hold of this client. Default: the name of the executable.
    #[must_use]
    pub fn application(mut self, name: impl Into<String>) -> Self {
        self.config.application = Some(name.into());
        self
    }

    /// Sets the name that the server's `CLIENT LIST` shows. Default `redlatch`.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.config.login.client_name = Some(name.into());
        self
    }

    /// Sets how many acquisitions of this client may be under way at a time, waiting or not. Default 100,000; more get
    /// [`ErrorKind::TooManyWaiters`].
    #[must_use]
    pub fn max_waiters(mut self, waiters: usize) -> Self {
        self.config.max_waiters = waiters;
        self
    }

    /// Sets whether connecting looks at the server's version, its eviction policy and the user's rights. Default on.
    ///
    /// Costs a handful of commands once. Turn it off for a service where it fails and locking would not; missing rights then show at first
    /// use, and the first waiter has to subscribe before it can wait.
    #[must_use]
    pub fn self_check(mut self, check: bool) -> Self {
        self.config.self_check = check;
        self
    }

    /// Sets what TLS trusts and shows. Only for `rediss://`.
    #[must_use]
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        match &mut self.config.address {
            Address::Tls { options, .. } => *options = tls,
            _ => {
                return self.refuse(Error::new(
                    ErrorKind::InvalidOption,
                    "TLS options need an address of rediss://",
                ));
            }
        }
        self
    }

    /// Sets where background work runs and what clock counts. Default: the tokio runtime that [`connect`](Self::connect) is called in.
    ///
    /// Give it a [`TokioRuntime`] of another tokio runtime when the main one may be blocked for long: renewals then go on.
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

    /// Sets which rules the client keeps. For the simulator.
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
    /// `InvalidOption` or `InvalidLease` for a wrong option, or without a tokio runtime; `Auth`, `Permission`, `UnsupportedServer`, `ServerFull`;
    /// `Unavailable` or `OutcomeUnknown` when the server could not be reached, or did not answer, within the connect time-out.
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

fn out_of_bounds(option: &str, bounds: &str) -> Error {
    Error::new(
        ErrorKind::InvalidOption,
        format!("{option} is out of bounds; it is {bounds}"),
    )
}

fn parse_url(text: &str) -> Result<(Address, Login), Error> {
    let url = Url::parse(text).map_err(|error| {
        // The text may hold a password, so it is not shown.
        Error::with_source(
            ErrorKind::InvalidOption,
            "the address is not a URL; it is like redis://host:6379/0",
            error,
        )
    })?;
    let host = || {
        let host = url
            .host_str()
            .filter(|host| !host.is_empty())
            .unwrap_or("localhost");
        decoded(host.trim_start_matches('[').trim_end_matches(']'))
    };
    let port = url.port().unwrap_or(6379);
    let address = match url.scheme() {
        "redis" | "valkey" => Address::Tcp {
            host: host()?,
            port,
        },
        "rediss" | "valkeys" => Address::Tls {
            host: host()?,
            port,
            options: TlsOptions::default(),
        },
        "unix" | "redis+unix" | "valkey+unix" => Address::Unix(PathBuf::from(decoded(url.path())?)),
        scheme => {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                format!(
                    "the scheme {scheme}:// is unknown; use redis, rediss, valkey, valkeys or unix"
                ),
            ));
        }
    };
    Ok((address, parse_login(&url)?))
}

fn parse_login(url: &Url) -> Result<Login, Error> {
    let mut login = Login {
        client_name: Some("redlatch".to_owned()),
        ..Login::default()
    };
    if !url.username().is_empty() {
        login.username = Some(decoded(url.username())?);
    }
    login.password = url.password().map(decoded).transpose()?;
    let mut database = match url.scheme() {
        "unix" | "redis+unix" | "valkey+unix" => None,
        _ => Some(url.path().trim_matches('/').to_owned()).filter(|path| !path.is_empty()),
    };
    for (key, value) in url.query_pairs() {
        match &*key {
            "db" => database = Some(value.into_owned()),
            "user" => login.username = Some(value.into_owned()),
            "pass" => login.password = Some(value.into_owned()),
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidOption,
                    format!("the address has an unknown parameter {key}"),
                ));
            }
        }
    }
    if let Some(database) = database {
        login.database = database.parse().map_err(|_| {
            Error::new(
                ErrorKind::InvalidOption,
                format!("{database:?} is no database number"),
            )
        })?;
    }
    Ok(login)
}

fn decoded(text: &str) -> Result<String, Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|error| {
        Error::with_source(ErrorKind::InvalidOption, "the address is not UTF-8", error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn addresses() {
        for (url, address, database) in [
            ("redis://localhost", tcp("localhost", 6379), 0),
            ("redis://10.0.0.1:7000/3", tcp("10.0.0.1", 7000), 3),
            ("valkey://[::1]:7000", tcp("::1", 7000), 0),
            ("redis://h/?db=5", tcp("h", 6379), 5),
            (
                "unix:///run/redis.sock?db=2",
                Address::Unix("/run/redis.sock".into()),
                2,
            ),
        ] {
            let (parsed, login) = parse_url(url).unwrap();
            assert_eq!((parsed, login.database), (address, database), "{url}");
        }
        let (_, login) = parse_url("redis://ann:p%40ss@h").unwrap();
        assert_eq!(
            (login.username.as_deref(), login.password.as_deref()),
            (Some("ann"), Some("p@ss"))
        );
        let (_, login) = parse_url("redis://:secret@h").unwrap();
        assert_eq!(
            (login.username, login.password.as_deref()),
            (None, Some("secret"))
        );
    }

    #[test]
    fn wrong_addresses_say_what_is_allowed_and_keep_secrets() {
        for url in [
            "",
            "localhost:6379",
            "http://h",
            "redis://h/x",
            "redis://h?x=1",
            "redis://:secret@h:99999",
        ] {
            let error = parse_url(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}");
            assert!(!format!("{error:?}").contains("secret"));
        }
    }
}
