//! The servers on which a behaviour is tested. A behaviour is written once, over [`Backend`], and
//! runs once per backend; see `redlatch-behaviours`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redlatch::{
    Client, ClientBuilder, Error, ErrorKind,
    runtime::{Address, Command, Login, Runtime, Transport},
};
use redlatch_embedded::{EmbeddedServer, EmbeddedTransport, Model, ServerTime, SteppedRuntime};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::wait::by_night;

/// An empty server to test on.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a test has one or two of them")]
pub enum Backend {
    /// The engine inside this process, with a clock that a paused test steps.
    Embedded {
        /// The handle with which a test causes trouble.
        server: EmbeddedServer,
        /// The clock of the engine.
        runtime: Arc<dyn Runtime>,
        /// The address, which is unique.
        name: String,
    },
    /// A real server.
    #[cfg(unix)]
    Real(crate::server::Server),
    /// Several real servers. The tests of this process share them, one test at a time.
    #[cfg(unix)]
    Shared(crate::shared::Shared),
}

/// The number of embedded servers that have been started.
static STARTED: AtomicU64 = AtomicU64::new(0);

impl Backend {
    /// Starts an embedded server inside of a tokio runtime, preferably a paused one. Its clock
    /// starts at 10:00:10 on a Tuesday, so no test depends on the time of day at which it runs.
    pub fn embedded() -> Self {
        let runtime: Arc<dyn Runtime> = Arc::new(SteppedRuntime::new());
        let start = ServerTime::default().after(Duration::from_secs(1_795_514_410));
        Self::Embedded {
            server: EmbeddedServer::starting_at(Arc::clone(&runtime), Model::default(), start),
            runtime,
            name: format!("test-{}", STARTED.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Starts a real server.
    #[cfg(unix)]
    pub fn real(binary: &crate::server::ServerBinary) -> Self {
        Self::Real(crate::server::Server::start(
            binary,
            crate::server::ServerOptions::new(),
        ))
    }

    /// Takes the shared cluster of three masters of this process.
    #[cfg(unix)]
    pub async fn cluster(binary: &crate::server::ServerBinary) -> Self {
        Self::Shared(crate::shared::Shared::cluster(binary).await)
    }

    /// Takes the shared sentinels of this process, with a master and a replica.
    #[cfg(unix)]
    pub async fn sentinel(binary: &crate::server::ServerBinary) -> Self {
        Self::Shared(crate::shared::Shared::sentinel(binary).await)
    }

    /// Returns the real server.
    ///
    /// # Panics
    ///
    /// Panics if this is the embedded server or several servers.
    #[cfg(unix)]
    pub fn server(&self) -> &crate::server::Server {
        match self {
            Self::Embedded { .. } | Self::Shared(_) => panic!("this needs a real server"),
            Self::Real(server) => server,
        }
    }

    /// Returns the real server that serves `key`.
    #[cfg(unix)]
    fn owner(&self, key: &str) -> &crate::server::Server {
        match self {
            Self::Shared(servers) => servers.owner(key),
            _ => self.server(),
        }
    }

    /// Returns a builder of a client of this server.
    pub fn builder(&self) -> ClientBuilder {
        match self {
            Self::Embedded { runtime, name, .. } => {
                ClientBuilder::at(Address::Embedded(name.clone()), Login::default())
                    .transport(Arc::new(self.embedded_transport()))
                    .runtime(Arc::clone(runtime))
            }
            #[cfg(unix)]
            Self::Real(server) => Client::builder(&server.url()),
            #[cfg(unix)]
            Self::Shared(servers) => Client::builder(&servers.url()),
        }
    }

    /// Returns a transport to the embedded server.
    ///
    /// # Panics
    ///
    /// Panics if this is a real server.
    pub fn embedded_transport(&self) -> EmbeddedTransport {
        match self {
            Self::Embedded { server, name, .. } => {
                EmbeddedTransport::new().serve(name, server.clone())
            }
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => panic!("this needs the embedded server"),
        }
    }

    /// Connects a client to the embedded server over `transport`, on this backend's clock.
    pub async fn client_over(&self, transport: impl Transport) -> Client {
        let builder = self.builder().transport(Arc::new(transport));
        builder.connect().await.unwrap()
    }

    /// Connects a client of this server.
    pub async fn client(&self) -> Client {
        self.builder().connect().await.unwrap()
    }

    /// Returns the handle of the embedded server.
    ///
    /// # Panics
    ///
    /// Panics if this is a real server.
    pub fn embedded_server(&self) -> &EmbeddedServer {
        match self {
            Self::Embedded { server, .. } => server,
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => panic!("this needs the embedded server"),
        }
    }

    /// Waits until the server has ended a lease that nobody renews. With several servers this is
    /// later by the allowance for their clocks.
    pub async fn pass_lease(&self, lease: Duration) {
        let allowance = match self {
            Self::Embedded { .. } => Duration::ZERO,
            #[cfg(unix)]
            Self::Real(_) => Duration::ZERO,
            #[cfg(unix)]
            Self::Shared(_) => Duration::from_secs(1),
        };
        self.pass(lease + allowance + Duration::from_millis(10))
            .await;
    }

    /// Lets `span` pass.
    pub async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    /// Returns `span` for a wait that may end early with an answer of the server. On a real server
    /// it is some seconds longer, because a busy machine may answer late. A wait that is to run out
    /// takes a plain span, and [`assert_not_granted`](Self::assert_not_granted).
    pub fn at_leisure(&self, span: Duration) -> Duration {
        match self {
            Self::Embedded { .. } => span,
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => span + Duration::from_secs(4),
        }
    }

    /// Asserts that a bounded wait ended without a grant and without an error, for a name that
    /// another client held all the time. A real server on a busy machine may answer a request after
    /// the end of the wait, which is then unknown.
    pub fn assert_not_granted(&self, granted: Result<bool, Error>) {
        match (self, granted) {
            (Self::Embedded { .. }, granted) => assert!(!granted.unwrap(), "it was granted"),
            #[cfg(unix)]
            (_, Err(error)) => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}"),
            #[cfg(unix)]
            (_, Ok(granted)) => assert!(!granted, "it was granted"),
        }
    }

    /// Asserts that at least `span` has passed since `start`, and not much more where time is
    /// stepped.
    pub fn assert_took(&self, span: Duration, start: tokio::time::Instant) {
        let took = start.elapsed();
        assert!(took >= span, "{took:?}");
        if let Self::Embedded { .. } = self {
            assert!(took < span + Duration::from_secs(2), "{took:?}");
        }
    }

    /// Returns the number of waiters that make a crowd: two thousand in the engine of a test build,
    /// which takes a second or two; a thousand on real servers, and ten thousand by night. On real
    /// servers only one test at a time has a crowd, until it drops the second item.
    pub async fn crowd(&self) -> (usize, Option<OwnedMutexGuard<()>>) {
        static TURN: LazyLock<Arc<Mutex<()>>> = LazyLock::new(Arc::default);
        match self {
            Self::Embedded { .. } => (2_000, None),
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => (
                by_night(1_000, 10_000),
                Some(Arc::clone(&TURN).lock_owned().await),
            ),
        }
    }

    /// Connects a client that tolerates a busy machine and allows a crowd of waiters.
    pub async fn patient_client(&self) -> Client {
        let builder = self.builder().patience(Duration::from_secs(60));
        builder.max_waiters(20_000).connect().await.unwrap()
    }

    /// Returns all keys except the clients' records.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = match self {
            Self::Embedded { server, .. } => {
                let keys = server.keys();
                keys.into_iter()
                    .map(|key| String::from_utf8_lossy(&key).into_owned())
                    .collect()
            }
            #[cfg(unix)]
            Self::Real(server) => server.keys(),
            #[cfg(unix)]
            Self::Shared(servers) => {
                let masters = servers.masters().into_iter();
                masters.flat_map(crate::server::Server::keys).collect()
            }
        };
        keys.retain(|key| !key.ends_with("}:m"));
        keys.sort();
        keys
    }

    /// Returns the fields of the hash at `key`.
    pub fn hash(&self, key: &str) -> BTreeMap<String, String> {
        let items = match self {
            Self::Embedded { server, .. } => {
                let reply = server.execute(&Command::new("HGETALL").arg(key)).unwrap();
                let items = reply.as_array().unwrap().iter();
                items
                    .map(|item| item.as_str().unwrap().to_owned())
                    .collect::<Vec<_>>()
            }
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => {
                let items = self.owner(key).command(&["HGETALL", key]).array();
                items.into_iter().map(crate::server::Reply::text).collect()
            }
        };
        items
            .chunks(2)
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect()
    }

    /// Returns the text of the string at `key`; `None` if there is none.
    pub fn string(&self, key: &str) -> Option<String> {
        match self {
            Self::Embedded { server, .. } => {
                let reply = server.execute(&Command::new("GET").arg(key)).unwrap();
                reply.as_str().map(str::to_owned)
            }
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => {
                match self.owner(key).command(&["GET", key]).unwrap() {
                    crate::server::Reply::Nil => None,
                    reply => Some(reply.text()),
                }
            }
        }
    }

    /// Returns how many members the sorted set at `key` has.
    pub fn members(&self, key: &str) -> u64 {
        let count = match self {
            Self::Embedded { server, .. } => {
                let reply = server.execute(&Command::new("ZCARD").arg(key)).unwrap();
                reply.as_int().unwrap()
            }
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => self.owner(key).command(&["ZCARD", key]).int(),
        };
        u64::try_from(count).unwrap()
    }

    /// Returns the remaining time of `key`; `None` if it has no expiry or does not exist.
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        let millis = match self {
            Self::Embedded { server, .. } => server
                .execute(&Command::new("PTTL").arg(key))
                .unwrap()
                .as_int()
                .unwrap(),
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => self.owner(key).command(&["PTTL", key]).int(),
        };
        u64::try_from(millis).ok().map(Duration::from_millis)
    }

    /// Tells whether `key`, which [`keys`](Self::keys) has returned, has an expiry or has expired
    /// since.
    pub fn ends(&self, key: &str) -> bool {
        self.ttl(key).is_some() || !self.keys().iter().any(|there| there == key)
    }

    /// Sends a command without redlatch. With several servers it goes to the server of its first
    /// argument, or to all servers if it has no argument. An error of the server fails the test.
    pub fn command(&self, args: &[&str]) {
        match self {
            Self::Embedded { server, .. } => {
                let command = args
                    .iter()
                    .fold(Command::with_capacity(args.len(), 64), |command, arg| {
                        command.arg(arg)
                    });
                server.execute(&command).unwrap();
            }
            #[cfg(unix)]
            Self::Real(server) => drop(server.command(args).unwrap()),
            #[cfg(unix)]
            Self::Shared(servers) => {
                let to = match args.get(1) {
                    Some(key) => vec![servers.owner(key)],
                    None => servers.masters(),
                };
                for server in to {
                    server.command(args).unwrap();
                }
            }
        }
    }

    /// Returns the number of EVALSHA and EVAL calls of all clients.
    pub fn script_calls(&self) -> u64 {
        match self {
            Self::Embedded { server, .. } => {
                server.command_count("EVALSHA") + server.command_count("EVAL")
            }
            #[cfg(unix)]
            Self::Real(server) => script_calls(server),
            #[cfg(unix)]
            Self::Shared(servers) => servers.masters().into_iter().map(script_calls).sum(),
        }
    }

    /// Loads all scripts on all masters, so that only the call itself is counted or lost.
    pub fn preload(&self) {
        let scripts = redlatch_lua::all().map(|script| ["SCRIPT", "LOAD", script.text]);
        match self {
            Self::Embedded { .. } => scripts.for_each(|load| self.command(&load)),
            #[cfg(unix)]
            Self::Real(server) => scripts.for_each(|load| drop(server.command(&load).unwrap())),
            #[cfg(unix)]
            Self::Shared(servers) => {
                let masters = servers.masters();
                for load in scripts {
                    for master in &masters {
                        master.command(&load).unwrap();
                    }
                }
            }
        }
    }

    /// Returns the number of connections that are subscribed to `channel`. On the embedded server
    /// it publishes an empty message to count them.
    pub fn subscribers(&self, channel: &str) -> u64 {
        let count = match self {
            Self::Embedded { server, .. } => {
                let command = Command::new("PUBLISH").arg(channel).arg("");
                server.execute(&command).unwrap().as_int().unwrap()
            }
            #[cfg(unix)]
            Self::Real(server) => subscribers(server, channel),
            #[cfg(unix)]
            Self::Shared(servers) => {
                let servers = servers.servers().iter();
                servers.map(|server| subscribers(server, channel)).sum()
            }
        };
        u64::try_from(count).unwrap()
    }

    /// Returns the time of the server of `key`, in milliseconds since 1970.
    fn server_millis(&self, key: &str) -> u64 {
        let parts: Vec<u64> = match self {
            Self::Embedded { server, .. } => {
                let reply = server.execute(&Command::new("TIME")).unwrap();
                let parts = reply.as_array().unwrap().iter();
                parts
                    .map(|part| part.as_str().unwrap().parse().unwrap())
                    .collect()
            }
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => {
                let parts = self.owner(key).command(&["TIME"]).array().into_iter();
                parts.map(|part| part.text().parse().unwrap()).collect()
            }
        };
        parts[0] * 1000 + parts[1] / 1000
    }

    /// Checks that the server holds only four kinds of data, all with an expiry: counters, marks of
    /// undone attempts, the value of a former leader, and the record of a hold that ended badly. A
    /// hold whose lease is over has ended badly.
    pub fn assert_only_counters_left(&self) {
        for key in self.keys() {
            let hash = self.hash(&key);
            let over = |until: &String| until.parse::<u64>().unwrap() <= self.server_millis(&key);
            let nobody_holds = hash.get("h").is_none_or(|attempts| attempts == " ")
                || hash.get("u").is_some_and(over);
            let left = hash.keys().filter(|field| match field.as_str() {
                "k" | "t" | "z" | "f" | "v" | "b" | "a" => false,
                "o" | "h" | "u" => !nobody_holds,
                mark => mark
                    .strip_prefix('v')
                    .is_none_or(|mark| !mark.starts_with(':') && mark.parse::<u64>().is_err()),
            });
            assert_eq!(left.count(), 0, "{key} still has {hash:?}");
            assert!(self.ends(&key), "{key} has no end");
        }
    }
}

#[cfg(unix)]
fn script_calls(server: &crate::server::Server) -> u64 {
    let stats = server.commandstats();
    let calls = ["evalsha", "eval"].iter();
    calls.filter_map(|name| stats.get(*name)).sum()
}

#[cfg(unix)]
fn subscribers(server: &crate::server::Server, channel: &str) -> i64 {
    let mut reply = server.command(&["PUBSUB", "NUMSUB", channel]).array();
    reply.remove(1).int()
}

/// Checks that the tables of `client` are empty once its releases are answered.
pub async fn assert_tables_empty(client: &Client) {
    client.settled().await;
    let tables = client.tables();
    assert_eq!(tables, redlatch::Tables::default());
}
