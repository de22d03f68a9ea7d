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
    runtime::{Address, Command, Login, Runtime, ServerError, Transport, Value},
};
use redlatch_embedded::{EmbeddedServer, EmbeddedTransport, Model, ServerTime, SteppedRuntime};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::{Instant, sleep},
};

use crate::{
    fixture,
    server::{Cluster, Reply, Server, ServerBinary, ServerOptions},
    shared::Shared,
    wait::by_night,
};

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
    Real(Server),
    /// Several real servers. The tests of this process share them, one test at a time.
    Shared(Shared),
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
    pub fn real(binary: &ServerBinary) -> Self {
        Self::Real(Server::start(binary, ServerOptions::new()))
    }

    /// Takes the shared cluster of three masters of this process.
    pub async fn cluster(binary: &ServerBinary) -> Self {
        Self::Shared(Shared::cluster(binary).await)
    }

    /// Takes the shared sentinels of this process, with a master and a replica.
    pub async fn sentinel(binary: &ServerBinary) -> Self {
        Self::Shared(Shared::sentinel(binary).await)
    }

    /// Returns the real server.
    ///
    /// # Panics
    ///
    /// Panics if this is the embedded server or several servers.
    pub fn server(&self) -> &Server {
        match self {
            Self::Real(server) => server,
            _ => panic!("this needs a real server"),
        }
    }

    /// Returns the shared cluster.
    ///
    /// # Panics
    ///
    /// Panics if this is something else.
    pub fn as_cluster(&self) -> &Cluster {
        match self {
            Self::Shared(servers) => servers.as_cluster(),
            _ => panic!("this needs a cluster"),
        }
    }

    /// Returns the real servers that take writes.
    fn masters(&self) -> Vec<&Server> {
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
            Self::Real(server) => Client::builder(&server.url()),
            Self::Shared(servers) => Client::builder(&servers.url()),
        }
    }

    /// Returns a transport to the embedded server.
    ///
    /// # Panics
    ///
    /// Panics if this is a real server.
    pub fn embedded_transport(&self) -> EmbeddedTransport {
        let Self::Embedded { server, name, .. } = self else {
            panic!("this needs the embedded server");
        };
        EmbeddedTransport::new().serve(name, server.clone())
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
            _ => panic!("this needs the embedded server"),
        }
    }

    /// Tells whether this is the embedded server, so that time is stepped.
    pub const fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded { .. })
    }

    /// Waits until the server has ended a lease that nobody renews. With several servers this is
    /// later by the allowance for their clocks.
    pub async fn pass_lease(&self, lease: Duration) {
        let allowance = match self {
            Self::Shared(_) => Duration::from_secs(1),
            _ => Duration::ZERO,
        };
        sleep(lease + allowance + Duration::from_millis(10)).await;
    }

    /// Lets `span` pass.
    pub async fn pass(&self, span: Duration) {
        sleep(span).await;
    }

    /// Returns `span` for a wait that may end early with an answer of the server. On a real server
    /// it is some seconds longer, because a busy machine may answer late. A wait that is to run out
    /// takes a plain span, and [`assert_not_granted`](Self::assert_not_granted).
    pub fn at_leisure(&self, span: Duration) -> Duration {
        let more = if self.is_embedded() { 0 } else { 4 };
        span + Duration::from_secs(more)
    }

    /// Asserts that a bounded wait ended without a grant and without an error, for a name that
    /// another client held all the time. A real server on a busy machine may answer a request after
    /// the end of the wait, which is then unknown.
    pub fn assert_not_granted(&self, granted: Result<bool, Error>) {
        match granted {
            Err(error) if !self.is_embedded() => {
                assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
            }
            granted => assert!(!granted.unwrap(), "it was granted"),
        }
    }

    /// Asserts that at least `span` has passed since `start`, and not much more where time is
    /// stepped.
    pub fn assert_took(&self, span: Duration, start: Instant) {
        let took = start.elapsed();
        assert!(took >= span, "{took:?}");
        self.assert_swift(took, span + Duration::from_secs(2));
    }

    /// Asserts that what `took` so long was swifter than `limit`, where time is stepped.
    #[track_caller]
    pub fn assert_swift(&self, took: Duration, limit: Duration) {
        let in_time = took < limit || !self.is_embedded();
        assert!(in_time, "{took:?}, not {limit:?}");
    }

    /// Returns the number of waiters that make a crowd: two thousand in the engine of a test build,
    /// which takes a second or two; a thousand on real servers, and ten thousand by night. On real
    /// servers only one test at a time has a crowd, until it drops the second item.
    pub async fn crowd(&self) -> (usize, Option<OwnedMutexGuard<()>>) {
        static TURN: LazyLock<Arc<Mutex<()>>> = LazyLock::new(Arc::default);
        if self.is_embedded() {
            return (2_000, None);
        }
        let turn = Arc::clone(&TURN).lock_owned().await;
        (by_night(1_000, 10_000), Some(turn))
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
                let text = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
                server.keys().into_iter().map(text).collect()
            }
            _ => self.masters().into_iter().flat_map(Server::keys).collect(),
        };
        keys.retain(|key| !key.ends_with("}:m"));
        keys.sort();
        keys
    }

    /// Returns the fields of the hash at `key`.
    pub fn hash(&self, key: &str) -> BTreeMap<String, String> {
        let reply = self.ask(&["HGETALL", key]);
        let items: Vec<_> = reply.as_array().unwrap().iter().map(text).collect();
        let pair = |pair: &[String]| (pair[0].clone(), pair[1].clone());
        items.chunks(2).map(pair).collect()
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
            Self::Real(server) => value(server.command(args).unwrap()),
            Self::Shared(servers) => value(servers.owner(args[1]).command(args).unwrap()),
        }
    }

    /// Returns the number of EVALSHA and EVAL calls of all clients.
    pub fn script_calls(&self) -> u64 {
        match self {
            Self::Embedded { server, .. } => {
                server.command_count("EVALSHA") + server.command_count("EVAL")
            }
            _ => self.masters().into_iter().map(Server::script_calls).sum(),
        }
    }

    /// Loads all scripts on all masters, so that only the call itself is counted or lost.
    pub fn preload(&self) {
        if !self.is_embedded() {
            return self.masters().into_iter().for_each(fixture::preload);
        }
        for script in redlatch_lua::all() {
            self.command(&["SCRIPT", "LOAD", script.text]);
        }
    }

    /// Returns the number of connections that are subscribed to `channel`. On the embedded server
    /// it publishes an empty message to count them.
    pub fn subscribers(&self, channel: &str) -> u64 {
        let count = match self {
            Self::Embedded { .. } => self.ask(&["PUBLISH", channel, ""]).as_int().unwrap(),
            Self::Real(server) => subscribers(server, channel),
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
            _ => self.masters()[0].millis(),
        }
    }

    /// Checks that the server holds only four kinds of data, all with an expiry: counters, marks of
    /// undone attempts, the value of a former leader, and the record of a hold that ended badly. A
    /// hold whose lease is over has ended badly. Of a read-write lock, its queues may be there.
    pub fn assert_only_counters_left(&self) {
        for key in self.keys() {
            assert!(self.ends(&key), "{key} has no end");
            let has_sides =
                |hash: &BTreeMap<String, String>| hash.get("k").is_some_and(|kind| kind == "rw:1");
            if let Some((name, "q" | "r" | "l")) = key.rsplit_once("}:")
                && has_sides(&self.hash(&format!("{name}}}")))
            {
                continue;
            }
            let hash = self.hash(&key);
            let over = |until: &String| until.parse::<u64>().unwrap() <= self.server_millis();
            let nobody_holds = hash.get("h").is_none_or(|attempts| attempts == " ")
                || hash.get("u").is_some_and(over);
            let left = hash.keys().filter(|field| match field.as_str() {
                "k" | "t" | "z" | "f" | "v" | "b" | "a" => false,
                "o" | "h" | "u" => !nobody_holds,
                field => {
                    let of_sides = ["n", "y", "c"].contains(&field) || field.starts_with('v');
                    !(has_sides(&hash) && of_sides)
                }
            });
            assert_eq!(left.count(), 0, "{key} still has {hash:?}");
        }
    }
}

fn text(reply: &Value) -> String {
    String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned()
}

/// Returns a reply of a real server as clients read it.
pub fn value(reply: Reply) -> Value {
    match reply {
        Reply::Nil => Value::Nil,
        Reply::Int(number) => Value::Int(number),
        Reply::Status(text) => Value::Status(text),
        Reply::Bulk(bytes) => Value::Bulk(bytes),
        Reply::Array(items) => Value::Array(items.into_iter().map(value).collect()),
        Reply::Error(error) => Value::Error(ServerError::parse(&error)),
    }
}

fn subscribers(server: &Server, channel: &str) -> i64 {
    let mut reply = server.command(&["PUBSUB", "NUMSUB", channel]).array();
    reply.remove(1).int()
}

/// Checks that the tables of `client` are empty once its releases are answered.
pub async fn assert_tables_empty(client: &Client) {
    client.settled().await;
    assert_eq!(client.tables(), redlatch::Tables::default());
}

/// Checks that the tables of all are empty once their releases are answered.
pub async fn assert_all_empty<'a>(clients: impl IntoIterator<Item = &'a Client>) {
    for client in clients {
        assert_tables_empty(client).await;
    }
}
