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
    runtime::{Address, Command, Login, Runtime, Transport, Value},
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

    /// Returns the shared cluster.
    ///
    /// # Panics
    ///
    /// Panics if this is something else.
    #[cfg(unix)]
    pub fn as_cluster(&self) -> &crate::server::Cluster {
        match self {
            Self::Shared(servers) => servers.as_cluster(),
            Self::Embedded { .. } | Self::Real(_) => panic!("this needs a cluster"),
        }
    }

    /// Returns the real servers that take writes.
    #[cfg(unix)]
    fn masters(&self) -> Vec<&crate::server::Server> {
        match self {
            Self::Shared(servers) => servers.masters(),
            _ => vec![self.server()],
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
        self.assert_swift(took, span + Duration::from_secs(2));
    }

    /// Asserts that what `took` so long was swifter than `limit`, where time is stepped.
    #[track_caller]
    pub fn assert_swift(&self, took: Duration, limit: Duration) {
        let is_stepped = matches!(self, Self::Embedded { .. });
        assert!(took < limit || !is_stepped, "{took:?}, not {limit:?}");
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
        let mut keys: Vec<String> = match self {
            Self::Embedded { server, .. } => {
                let keys = server.keys();
                keys.into_iter()
                    .map(|key| String::from_utf8_lossy(&key).into_owned())
                    .collect()
            }
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => {
                let masters = self.masters().into_iter();
                masters.flat_map(crate::server::Server::keys).collect()
            }
        };
        keys.retain(|key| !key.ends_with("}:m"));
        keys.sort();
        keys
    }

    /// Returns the fields of the hash at `key`.
    pub fn hash(&self, key: &str) -> BTreeMap<String, String> {
        let reply = self.ask(&["HGETALL", key]);
        let items: Vec<_> = reply.as_array().unwrap().iter().map(text).collect();
        items
            .chunks(2)
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect()
    }

    /// Returns the text of the string at `key`; `None` if there is none.
    pub fn string(&self, key: &str) -> Option<String> {
        let reply = self.ask(&["GET", key]);
        (reply != Value::Nil).then(|| text(&reply))
    }

    /// Returns how many members the sorted set at `key` has.
    pub fn members(&self, key: &str) -> u64 {
        let count = self.ask(&["ZCARD", key]).as_int().unwrap();
        u64::try_from(count).unwrap()
    }

    /// Returns the remaining time of `key`; `None` if it has no expiry or does not exist.
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        let millis = self.ask(&["PTTL", key]).as_int().unwrap();
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
            #[cfg(unix)]
            Self::Shared(servers) if args.len() == 1 => {
                for master in servers.masters() {
                    master.command(args).unwrap();
                }
            }
            _ => drop(self.ask(args)),
        }
    }

    /// Sends a command with a key as [`command`](Self::command) does, and returns the reply.
    fn ask(&self, args: &[&str]) -> Value {
        match self {
            Self::Embedded { server, .. } => {
                let command = Command::new(args[0]);
                let command = args[1..].iter().fold(command, Command::arg);
                server.execute(&command).unwrap()
            }
            #[cfg(unix)]
            Self::Real(server) => value(server.command(args).unwrap()),
            #[cfg(unix)]
            Self::Shared(servers) => value(servers.owner(args[1]).command(args).unwrap()),
        }
    }

    /// Returns the number of EVALSHA and EVAL calls of all clients.
    pub fn script_calls(&self) -> u64 {
        match self {
            Self::Embedded { server, .. } => {
                server.command_count("EVALSHA") + server.command_count("EVAL")
            }
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => {
                let masters = self.masters().into_iter();
                masters.map(crate::server::Server::script_calls).sum()
            }
        }
    }

    /// Loads all scripts on all masters, so that only the call itself is counted or lost.
    pub fn preload(&self) {
        match self {
            Self::Embedded { .. } => {
                for script in redlatch_lua::all() {
                    self.command(&["SCRIPT", "LOAD", script.text]);
                }
            }
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => {
                self.masters().into_iter().for_each(crate::fixture::preload);
            }
        }
    }

    /// Returns the number of connections that are subscribed to `channel`. On the embedded server
    /// it publishes an empty message to count them.
    pub fn subscribers(&self, channel: &str) -> u64 {
        let count = match self {
            Self::Embedded { .. } => self.ask(&["PUBLISH", channel, ""]).as_int().unwrap(),
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

    /// Returns the time of the servers, which share a machine, in milliseconds since 1970.
    fn server_millis(&self) -> u64 {
        match self {
            Self::Embedded { server, .. } => server.now().millis(),
            #[cfg(unix)]
            Self::Real(_) | Self::Shared(_) => self.masters()[0].millis(),
        }
    }

    /// Checks that the server holds only four kinds of data, all with an expiry: counters, marks of
    /// undone attempts, the value of a former leader, and the record of a hold that ended badly. A
    /// hold whose lease is over has ended badly.
    pub fn assert_only_counters_left(&self) {
        for key in self.keys() {
            let hash = self.hash(&key);
            let over = |until: &String| until.parse::<u64>().unwrap() <= self.server_millis();
            let nobody_holds = hash.get("h").is_none_or(|attempts| attempts == " ")
                || hash.get("u").is_some_and(over);
            let left = hash.keys().filter(|field| match field.as_str() {
                "k" | "t" | "z" | "f" | "v" | "b" | "a" => false,
                "o" | "h" | "u" => !nobody_holds,
                _ => true,
            });
            assert_eq!(left.count(), 0, "{key} still has {hash:?}");
            assert!(self.ends(&key), "{key} has no end");
        }
    }
}

fn text(reply: &Value) -> String {
    String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned()
}

/// Returns a reply of a real server as clients read it.
#[cfg(unix)]
pub fn value(reply: crate::server::Reply) -> Value {
    use crate::server::Reply;
    match reply {
        Reply::Nil => Value::Nil,
        Reply::Int(number) => Value::Int(number),
        Reply::Status(text) => Value::Status(text),
        Reply::Bulk(bytes) => Value::Bulk(bytes),
        Reply::Array(items) => Value::Array(items.into_iter().map(value).collect()),
        Reply::Error(error) => Value::Error(redlatch::runtime::ServerError::parse(&error)),
    }
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
