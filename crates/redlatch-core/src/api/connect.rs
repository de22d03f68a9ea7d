//! How an address becomes a builder, and a builder a client: at once, or with the first call.

use std::{env, ffi::OsString, sync::Arc, time::Duration};

use super::{
    address::{self, Settings},
    config::{ClientBuilder, Config},
};
use crate::{
    Client, Error, ErrorKind,
    base::observe,
    runtime::{Runtime, TokioRuntime},
};

impl<C: From<Client>> ClientBuilder<C> {
    /// Starts from an address. These forms are possible:
    ///
    /// * One server: `redis://[user[:password]@]host[:port][/database]`, `rediss://…` for TLS,
    ///   `unix:///path[?db=n&user=…&pass=…]` or `redis+unix://…`.
    /// * A cluster, by some of its nodes:
    ///   `redis+cluster://[user[:password]@]host[:port][,host[:port]…]`.
    ///   `redis-cluster://host?node=host:port` means the same.
    /// * Sentinels:
    ///   `redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/service[/database]`. The
    ///   service is the name by which the sentinels know the master. User and password apply to the
    ///   servers; `?sentinel_username=…&sentinel_password=…` apply to the sentinels.
    ///   `redis-sentinel://…?sentinelServiceName=service` and `redis-sentinel://…/database#service`
    ///   mean the same. The default port is 26379.
    /// * A master and all of its replicas: `redis+replicas://host[:port],host[:port]…[/database]`.
    ///   The client finds out which one is the master.
    ///
    /// With `rediss` instead of `redis`, the client uses TLS for all of them. `valkey` and
    /// `valkeys` mean the same as `redis` and `rediss`.
    ///
    /// Parameters set options of the client: `redis://host?prefix=shop&lease=10s`. Their names are
    /// those of the builder's methods: `prefix`, `lease` (for [`default_lease`]), `application`,
    /// `client_name`, `patience`, `fail_fast`, `long_wait`, `connect_timeout`,
    /// `token_retention`, `server_clock_allowance`, `max_waiters`, `self_check`. Spans have a unit:
    /// `500ms`, `30s`, `5m`, `2h`, `7d`. A method of the builder that is called later has the last
    /// word. Parameters that redlatch does not know, as those of another library in a shared
    /// address, have no effect and cause a warning.
    ///
    /// [`default_lease`]: Self::default_lease
    ///
    /// ```
    /// # mod redlatch {
    /// #     pub use redlatch_core::{*, runtime::*};
    /// #     pub type ClientBuilder = redlatch_core::ClientBuilder;
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::{ClientBuilder, ErrorKind};
    ///
    /// let builder = ClientBuilder::new("redis+cluster://10.0.0.1,10.0.0.2?prefix=shop&lease=10s");
    /// let client = builder.connect_lazy()?; // or connect().await?
    /// assert_eq!(client.address(), "cluster@10.0.0.1:6379,10.0.0.2:6379");
    /// let wrong = ClientBuilder::new("redis://localhost:99999").connect_lazy();
    /// assert_eq!(wrong.unwrap_err().kind(), ErrorKind::InvalidOption);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(url: &str) -> Self {
        Self::with_defaults(url, |builder| builder)
    }

    /// Starts from an address, as [`new`](Self::new) does, over other defaults: what the address
    /// says replaces what `defaults` sets. For the command.
    #[doc(hidden)]
    pub fn with_defaults(url: &str, defaults: impl FnOnce(Self) -> Self) -> Self {
        match address::read(url) {
            Ok((servers, settings)) => defaults(Self::of(Ok(servers))).with(settings),
            Err(error) => Self::refused(error),
        }
    }

    /// Starts from the address in the environment: that of `REDLATCH_URL`, or else of `REDIS_URL`.
    /// An empty variable counts as missing. See [`new`](Self::new) for the form of an address.
    ///
    /// ```no_run
    /// # mod redlatch {
    /// #     pub use redlatch_core::{*, runtime::*};
    /// #     pub type ClientBuilder = redlatch_core::ClientBuilder;
    /// # }
    /// # async fn example() -> Result<(), redlatch::Error> {
    /// use redlatch::ClientBuilder;
    ///
    /// // In the shell: REDLATCH_URL=redis://localhost
    /// let client = ClientBuilder::from_env().application("checkout").connect().await?;
    /// println!("connected to {}", client.address());
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_env() -> Self {
        Self::from_variables(|name| env::var_os(name))
    }

    fn from_variables(value: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &&str| value(name).filter(|value| !value.is_empty());
        let found = VARIABLES.iter().find_map(|name| Some((name, set(name)?)));
        let Some((name, url)) = found else {
            return Self::refused(address::wrong(format!(
                "no address is in the environment: neither {} is set; set one, such as {}=redis://localhost:6379",
                VARIABLES.join(" nor "),
                VARIABLES[0]
            )));
        };
        match url.to_str() {
            Some(url) => Self::new(url).naming(name),
            None => Self::refused(address::wrong(format!("the variable {name} is not UTF-8"))),
        }
    }

    /// Connects to the servers and checks them.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn serve(_: redlatch::Client) {}
    /// # async fn example() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// match Client::builder("redis://redis.example").connect().await {
    ///     Ok(client) => serve(client).await,
    ///     Err(error) if error.is_transient() => eprintln!("no server yet: {error}"),
    ///     Err(error) => return Err(error), // a wrong address, password or option
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption` or `InvalidLease` for an invalid option. `InvalidOption` without a tokio
    /// runtime. `Auth`, `Permission`, `UnsupportedServer`, `ServerFull`. `Unavailable` or
    /// `OutcomeUnknown` if the server could not be reached, or did not answer, within the connect
    /// time-out.
    ///
    /// # Panics
    ///
    /// Panics in a tokio runtime without I/O or time enabled.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no connection behind.
    pub async fn connect(self) -> Result<C, Error> {
        let (config, runtime) = self.checked()?;
        Client::start(config, runtime).await.map(C::from)
    }

    /// Returns a client at once, which connects with its first call.
    ///
    /// If the server is unreachable, refuses the login or lacks a right, calls fail. The client
    /// waits for the server as after a lost connection: a call fails after the client's
    /// [`patience`](Self::patience). So a program may start before its server. The check of
    /// version, rights and eviction policy is omitted, as without [`self_check`](Self::self_check).
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// use std::sync::LazyLock;
    /// use redlatch::Client;
    ///
    /// // For a program with one tokio runtime. The first use has to be inside that runtime.
    /// static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    ///     let lazy = Client::builder("redis://localhost").connect_lazy();
    ///     lazy.expect("the address is valid")
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption` or `InvalidLease` for an invalid option. `InvalidOption` without a tokio
    /// runtime.
    ///
    /// # Panics
    ///
    /// Panics in a tokio runtime without I/O or time enabled.
    pub fn connect_lazy(self) -> Result<C, Error> {
        let (config, runtime) = self.checked()?;
        Ok(C::from(Client::start_lazy(config, runtime)))
    }

    /// Sets the options that the address has.
    fn with(mut self, settings: Settings) -> Self {
        if !settings.unknown.is_empty() {
            observe::unknown_parameters(&settings.unknown);
        }
        self.unknown = settings.unknown;
        let options = settings.known.into_iter();
        options.fold(self, |builder, (name, value)| builder.set(&name, &value))
    }

    fn set(self, name: &str, value: &str) -> Self {
        match name {
            "prefix" => self.prefix(value),
            "application" => self.application(value),
            "client_name" => self.client_name(value),
            "max_waiters" => match value.parse() {
                Ok(waiters) => self.max_waiters(waiters),
                Err(_) => self.refuse(address::wrong("max_waiters in the address is no number")),
            },
            "self_check" => match value.parse() {
                Ok(check) => self.self_check(check),
                Err(_) => {
                    let message = "self_check in the address is neither true nor false";
                    self.refuse(address::wrong(message))
                }
            },
            _ => match address::span(value) {
                Ok(span) => self.set_span(name, span),
                Err(error) => self.refuse(error),
            },
        }
    }

    fn set_span(self, name: &str, span: Duration) -> Self {
        match name {
            "lease" => self.default_lease(span),
            "patience" => self.patience(span),
            "fail_fast" => self.fail_fast(span),
            "long_wait" => self.long_wait(span),
            "connect_timeout" => self.connect_timeout(span),
            "token_retention" => self.token_retention(span),
            _ => self.server_clock_allowance(span),
        }
    }

    fn checked(self) -> Result<(Config, Arc<dyn Runtime>), Error> {
        let mut config = self.into_config()?;
        config.servers.check()?;
        let runtime = match config.runtime.take() {
            Some(runtime) => runtime,
            None => Arc::new(TokioRuntime::current().ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidOption,
                    "no tokio runtime here; connect inside one, or use redlatch::blocking::Client",
                )
            })?),
        };
        Ok((config, runtime))
    }
}

/// The variables with an address, in the order in which they are looked for.
const VARIABLES: [&str; 2] = ["REDLATCH_URL", "REDIS_URL"];

#[cfg(test)]
mod tests {
    use super::*;

    fn from(set: &'static [(&str, &str)]) -> ClientBuilder {
        ClientBuilder::from_variables(|name| {
            let found = set.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).into())
        })
    }

    fn error(builder: ClientBuilder) -> String {
        let error = builder.into_config().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        error.to_string()
    }

    #[test]
    fn environment_gives_the_address_of_the_first_variable() {
        for set in [
            &[
                ("REDLATCH_URL", "redis://a:1"),
                ("REDIS_URL", "redis://b:1"),
            ] as &[_],
            &[("REDLATCH_URL", ""), ("REDIS_URL", "redis://a:1")],
        ] {
            let config = from(set).into_config().unwrap();
            assert_eq!(config.servers.topology.to_string(), "a:1");
        }
    }

    #[test]
    fn environment_without_an_address_is_told_with_the_variables() {
        let text = error(from(&[("REDIS_URL", "")]));
        assert_eq!(
            text,
            "no address is in the environment: neither REDLATCH_URL nor REDIS_URL is set; set one, such as REDLATCH_URL=redis://localhost:6379"
        );
        let text = error(from(&[("REDIS_URL", "redis://:secret@h:99999")]));
        assert!(
            text.starts_with("the variable REDIS_URL: the port 99999"),
            "{text}"
        );
    }

    #[test]
    fn parameters_of_the_address_are_the_options_of_the_client() {
        let url = "redis://h/3?prefix=shop&lease=10s&application=checkout&patience=2s\
            &connect_timeout=500ms&token_retention=1h&server_clock_allowance=3s&max_waiters=7\
            &self_check=false&fail_fast=3s&client_name=me&protocol=resp3";
        let config = ClientBuilder::<Client>::new(url).into_config().unwrap();
        assert_eq!(config.prefix.as_str(), "shop");
        assert_eq!(config.lease.span(), Duration::from_secs(10));
        assert_eq!(config.application.as_deref(), Some("checkout"));
        assert_eq!(config.patience, Duration::from_secs(2));
        assert_eq!(config.fail_fast, Some(Duration::from_secs(3)));
        assert_eq!(config.connect_timeout, Duration::from_millis(500));
        assert_eq!(config.retention, Duration::from_secs(3600));
        assert_eq!(config.clock_allowance, Some(Duration::from_secs(3)));
        assert_eq!(config.max_waiters, 7);
        assert!(!config.self_check);
        assert_eq!(config.servers.login.client_name.as_deref(), Some("me"));
        assert_eq!(config.servers.login.database, 3);
    }

    #[test]
    fn later_methods_have_the_last_word() {
        let builder = ClientBuilder::<Client>::new("redis://h?prefix=shop").prefix("bank");
        assert_eq!(builder.into_config().unwrap().prefix.as_str(), "bank");
    }

    #[test]
    fn address_has_the_last_word_over_other_defaults() {
        let builder = |url| {
            ClientBuilder::<Client>::with_defaults(url, |builder| {
                builder
                    .application("mine")
                    .default_lease(Duration::from_secs(7))
            })
        };
        let url = "redis://h?application=theirs&protocol=3&prefix=shop";
        let theirs = builder(url);
        let seven = Duration::from_secs(7);
        assert_eq!(
            theirs.chosen(),
            ("shop", seven, &["protocol".to_owned()][..])
        );
        let config = theirs.into_config().unwrap();
        assert_eq!(config.application.as_deref(), Some("theirs"));
        let config = builder("redis://h").into_config().unwrap();
        assert_eq!(config.application.as_deref(), Some("mine"));
    }

    #[test]
    fn wrong_parameters_are_refused_with_their_bounds() {
        for (parameter, said) in [
            ("prefix=a%7B", "a prefix has 1 to 64 bytes"),
            ("lease=10", "no span of time"),
            ("lease=10ms", "1s to 365 days"),
            ("patience=1ms", "100 ms to 1 day"),
            ("fail_fast=0s", "100 ms to 1 day"),
            ("max_waiters=x", "max_waiters"),
            ("self_check=1", "neither true nor false"),
        ] {
            let builder = ClientBuilder::<Client>::new(&format!("redis://h?{parameter}"));
            let error = builder.into_config().unwrap_err();
            let kind = match parameter {
                "lease=10ms" => ErrorKind::InvalidLease,
                _ => ErrorKind::InvalidOption,
            };
            assert_eq!(error.kind(), kind, "{parameter}: {error}");
            assert!(error.to_string().contains(said), "{parameter}: {error}");
        }
    }
}
