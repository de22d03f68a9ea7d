//! How an address becomes a builder, and a builder a client: at once, or with the first call.

use std::{env, ffi::OsString, pin::pin, sync::Arc};

use tokio::sync::{Notify, watch};

use crate::{
    Client, Error, ErrorKind, Metadata,
    api::{
        address::{self, Settings},
        check,
        config::{ClientBuilder, Config},
    },
    base::{
        life::Life,
        observe,
        owner::{ClientId, Numbers},
        rules::{Rule, Rules},
        sync::{AtomicUsize, Mutex},
        timeouts,
    },
    engine::{
        Holds, LocalQueues, Releaser, Watchdog, Withdrawals,
        client_record::{ClientRecord, FirstWrite},
        context::{Core, SiblingTables},
    },
    net::{Callees, Clocks, Hub, LinkClass, Net, Reach, WakeRoutes, World, start_router},
    protocol::{
        lease::Trust,
        time::Moment,
        waiter::{Limits, RECHECKS_PER_SECOND},
    },
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
            Err(error) => Self::of(Err(error)),
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
            return Self::of(Err(address::wrong(format!(
                "no address is in the environment: neither {} is set; set one, such as {}=redis://localhost:6379",
                VARIABLES.join(" nor "),
                VARIABLES[0]
            ))));
        };
        match url.to_str() {
            Some(url) => Self::new(url).naming(name),
            None => Self::of(Err(address::wrong(format!(
                "the variable {name} is not UTF-8"
            )))),
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
        let client = Client::assemble(config, runtime);
        client.spawn_background(FirstWrite::AtFirstUse);
        Ok(C::from(client))
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
        let no = |what| address::wrong(format!("{name} in the address is {what}"));
        let span = || address::span(value);
        match name {
            "prefix" => self.prefix(value),
            "application" => self.application(value),
            "client_name" => self.client_name(value),
            "max_waiters" => {
                let waiters = value.parse().map_err(|_| no("no number"));
                self.given(waiters, Self::max_waiters)
            }
            "self_check" => {
                let check = value.parse().map_err(|_| no("neither true nor false"));
                self.given(check, Self::self_check)
            }
            "lease" => self.given(span(), Self::default_lease),
            "patience" => self.given(span(), Self::patience),
            "fail_fast" => self.given(span(), Self::fail_fast),
            "long_wait" => self.given(span(), Self::long_wait),
            "connect_timeout" => self.given(span(), Self::connect_timeout),
            "token_retention" => self.given(span(), Self::token_retention),
            _ => self.given(span(), Self::server_clock_allowance),
        }
    }

    /// Sets an option, unless its value is wrong.
    fn given<T>(self, value: Result<T, Error>, set: fn(Self, T) -> Self) -> Self {
        match value {
            Ok(value) => set(self, value),
            Err(error) => self.refuse(error),
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

impl Client {
    async fn start(config: Config, runtime: Arc<dyn Runtime>) -> Result<Self, Error> {
        let self_check = config.self_check;
        let deadline = runtime.now() + config.connect_timeout;
        let client = Self::assemble(config, runtime);
        client.net().router.want();
        client.spawn_background(if self_check {
            FirstWrite::ByConnect
        } else {
            FirstWrite::AtFirstUse
        });
        let life = Arc::clone(&client.net().world.life);
        let mut starting = Starting(Some(&life));
        let result = {
            let ready = pin!(client.get_ready(self_check, deadline));
            client.unless_closing(ready).await
        };
        // A client that was closed meanwhile knows the cause of all other errors.
        match result.map_err(|error| client.check_closing().err().unwrap_or(error)) {
            Ok(()) => {
                starting.0 = None;
                Ok(client)
            }
            Err(error) => {
                drop(starting);
                drop(client);
                // Wait for the tasks, so that no connection attempt outlives this call.
                life.idle().await;
                Err(error)
            }
        }
    }

    async fn get_ready(&self, self_check: bool, deadline: Moment) -> Result<(), Error> {
        let net = self.net();
        net.router.known(deadline).await?;
        if let Some(slots) = net.router.unserved() {
            observe::unserved(&slots);
        }
        if !self.keeps(Rule::StartWithoutSome) {
            for slot in net.router.one_slot_per_node() {
                let class = LinkClass::Command;
                net.router.session(slot, class, deadline).await?;
            }
        }
        let denied = |error| check::denied(self, error);
        net.router.any_session(deadline).await.map_err(denied)?;
        if !self_check {
            // This client may only look, or give back. The background writes its record.
            return Ok(());
        }
        check::check(self, deadline).await.map_err(denied)?;
        let others = net.router.one_slot_per_node().len() > 1;
        let patience = if others {
            deadline.min(self.now() + timeouts::RECORD_WRITE)
        } else {
            deadline
        };
        let record = &self.0.record;
        match record.announce(patience, timeouts::RECORD_TTL).await {
            Err(error) if others && error.is_silence() => {
                tracing::debug!(target: "redlatch", %error, "the server for this client's record is silent; it is written later");
                Ok(())
            }
            result => result,
        }
    }

    fn assemble(config: Config, runtime: Arc<dyn Runtime>) -> Self {
        observe::describe();
        let rules = config.rules;
        let address = config.servers.topology.to_string().into();
        let id = ClientId::from_entropy(runtime.entropy());
        let numbers = Arc::new(Numbers::new(id.clone()));
        let world = world(&config, &runtime, &numbers);
        let router = start_router(&world, config.servers, config.connect_timeout);
        let metadata = Metadata::of_this_process(config.application);
        let local_queues = Arc::new(LocalQueues::new(rules, config.prefix.clone()));
        let callees: Arc<dyn Callees> = Arc::clone(&local_queues) as _;
        let hub = Hub::new(&router, Reach::Everywhere, &callees);
        let wakes = WakeRoutes::new(&hub, &config.prefix, &id);
        let holds = Arc::new(Holds::default());
        let net = Arc::new(Net {
            world,
            router,
            hub,
            wakes,
            fail_fast: config.fail_fast,
        });
        let record = ClientRecord::new(Arc::clone(&net), &config.prefix, &id, metadata);
        let (prefix, queues) = (config.prefix.clone(), Arc::clone(&local_queues));
        let withdrawals = Withdrawals::new(prefix, queues, Arc::clone(&holds), config.patience);
        Self(Arc::new(Core {
            net,
            record: Arc::new(record),
            numbers,
            prefix: config.prefix,
            lease: config.lease,
            strategy: config.strategy,
            address,
            trust: trust(config.trust, rules),
            retention: config.retention,
            patience: config.patience,
            long_wait: config.long_wait,
            max_waiters: config.max_waiters,
            rules,
            holds,
            local_queues: Arc::clone(&local_queues),
            phase_watches: Arc::default(),
            sibling_tables: SiblingTables::default(),
            watchdog: Arc::new(Watchdog::new(runtime)),
            withdrawals: Arc::new(withdrawals),
            releaser: Arc::new(Releaser::new(config.retention, local_queues)),
            limits: Mutex::new(Limits::new(RECHECKS_PER_SECOND)),
            waiters: AtomicUsize::new(0),
            releases: AtomicUsize::new(0),
            quieter: Notify::new(),
            closing_holds: Mutex::default(),
            closing: watch::Sender::new(None),
        }))
    }

    fn spawn_background(&self, record: FirstWrite) {
        let core = &self.0;
        core.watch_over();
        let net = || Arc::clone(&core.net);
        let world = &core.net.world;
        world.spawn("watchdog", Arc::clone(&core.watchdog).run(net()));
        let (releaser, announced) = (Arc::clone(&core.releaser), Arc::clone(&core.record));
        world.life.spawn("releaser", releaser.run(net(), announced));
        world.spawn("withdrawals", Arc::clone(&core.withdrawals).run(net()));
        if let Some(changed) = &core.net.world.changed {
            let (withdrawals, changed) = (Arc::clone(&core.withdrawals), Arc::clone(changed));
            world.spawn("key watch", withdrawals.watch_keys(net(), changed));
        }
        world.spawn("client record", Arc::clone(&core.record).keep(record));
    }
}

/// Creates the environment of the code below the engine.
fn world(config: &Config, runtime: &Arc<dyn Runtime>, numbers: &Arc<Numbers>) -> World {
    let life = Life::new(Arc::clone(runtime), Arc::clone(numbers));
    World::new(
        Arc::clone(runtime),
        Arc::clone(&config.transport),
        Clocks::new(config.clock_allowance()),
        life,
        (config.watch_keys, config.rules),
    )
}

/// Returns the trust in clocks that the client applies.
fn trust(configured: Trust, rules: Rules) -> Trust {
    if rules.keeps(Rule::TakeMargin) {
        configured
    } else {
        Trust::new(0.0).unwrap_or_default()
    }
}

/// The life of a client that is not ready yet. Dropping it stops the client at once.
struct Starting<'a>(Option<&'a Life>);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if let Some(life) = self.0 {
            life.stop();
        }
    }
}

/// The variables with an address, in the order in which they are looked for.
const VARIABLES: [&str; 2] = ["REDLATCH_URL", "REDIS_URL"];

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
