//! A master that was replaced while it was away, and comes back as a master that has forgotten
//! everything.

use std::future::pending;

use async_trait::async_trait;
use redlatch::{
    ClientBuilder,
    runtime::{
        Address, Command, Conn, Dial, DialError, DialErrorKind, Dialed, Outcome, Purpose,
        Transport, Value,
    },
};
use redlatch_embedded::{EmbeddedTransport, SteppedRuntime};

use crate::prelude::*;

/// Without the look behind a new connection, both have the lock in each round.
#[tokio::test(start_paused = true)]
async fn a_master_that_comes_back_is_not_asked_once_it_is_replaced() {
    for round in 0..40 {
        let group = Group::new();
        let client = group.client().await;
        let lock = client.lock("x");
        lock.lock().await.unwrap().release().await.unwrap();
        let [before, after] = group.servers.each_ref();
        let rival = after.client().await;
        let _held = rival.lock("x").lock().await.unwrap();
        before.embedded_server().refuse_connections(true);
        before.embedded_server().cut_connections();
        // The pauses between two tries to connect, and between two looks, have grown to a second.
        sleep(Duration::from_millis(5_000 + round * 29)).await;
        *group.master.lock().unwrap() = 1;
        before.embedded_server().refuse_connections(false);
        let taken = lock.try_lock().await.unwrap();
        assert!(taken.is_none(), "round {round}: both have it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_master_that_comes_back_is_asked_while_no_sentinel_answers() {
    let group = Group::new();
    let client = group.client().await;
    let server = group.servers[0].embedded_server();
    *group.master.lock().unwrap() = AWAY;
    server.cut_connections();
    let guard = client.lock("x").lock().await.unwrap();
    guard.release().await.unwrap();
}

/// Without the end of a look after most answers, the lock is granted a second later.
#[tokio::test(start_paused = true)]
async fn one_silent_sentinel_of_three_does_not_delay_a_new_connection() {
    let group = Group::new();
    let sentinels = ["redis://sentinel:1", "redis://sentinel:2", SILENT];
    let client = group.client_of(sentinels).await;
    let cut = Instant::now();
    group.servers[0].embedded_server().cut_connections();
    let guard = client.lock("x").lock().await.unwrap();
    assert!(cut.elapsed() < 400 * MS, "{:?}", cut.elapsed());
    guard.release().await.unwrap();
}

/// Two servers that say that they are masters, and a sentinel that names one of them as the master
/// and the other as its replica.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) servers: Arc<[Backend; 2]>,
    transport: EmbeddedTransport,
    /// The index of the master; [`AWAY`] if the sentinel does not answer.
    master: Arc<Mutex<u16>>,
}

const AWAY: u16 = 9;

/// The sentinel that takes connections and never answers.
const SILENT: &str = "redis://sentinel:3";

impl Group {
    pub(crate) fn new() -> Self {
        let servers = [Backend::embedded(), Backend::embedded()];
        let transport = EmbeddedTransport::new();
        let transport = transport.serve("0", servers[0].embedded_server().clone());
        let transport = transport.serve("1", servers[1].embedded_server().clone());
        Self {
            servers: Arc::new(servers),
            transport,
            master: Arc::default(),
        }
    }

    async fn client(&self) -> Client {
        self.client_of(["redis://sentinel:1"]).await
    }

    async fn client_of<const N: usize>(&self, sentinels: [&str; N]) -> Client {
        ClientBuilder::sentinel("main", sentinels)
            .transport(Arc::new(self.clone()))
            .runtime(Arc::new(SteppedRuntime::new()))
            .connect()
            .await
            .unwrap()
    }
}

#[async_trait]
impl Transport for Group {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let mut dial = dial.clone();
        let master = *self.master.lock().unwrap();
        let (Address::Tcp { host, port } | Address::Tls { host, port, .. }) = &dial.address else {
            unreachable!("it is {}", dial.address);
        };
        let sentinel = host == "sentinel";
        let silent = sentinel && *port == 3;
        // The sentinel sends no message about the change.
        if sentinel && (dial.purpose == Purpose::PubSub || master == AWAY) {
            return Err(DialError {
                kind: DialErrorKind::Unreachable,
                message: "away".to_owned(),
            });
        }
        let name = if sentinel { 0 } else { *port - 1 };
        dial.address = Address::Embedded(name.to_string());
        let mut dialed = self.transport.dial(&dial).await?;
        dialed.conn = Arc::new(Answering {
            inner: dialed.conn,
            master,
            silent,
        });
        Ok(dialed)
    }
}

/// A connection that knows the commands of a sentinel, and the role of a master.
#[derive(Debug)]
struct Answering {
    inner: Arc<dyn Conn>,
    master: u16,
    silent: bool,
}

#[async_trait]
impl Conn for Answering {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        if self.silent {
            pending::<()>().await;
        }
        let text = |text: &str| Value::Bulk(text.into());
        let answers = batch.iter().map(|command| {
            let mut words = command.args();
            let words = [(); 2].map(|()| words.next().unwrap_or_default());
            match words {
                [b"ROLE", _] => Some(vec![text("master"), Value::Int(0), Value::Array(vec![])]),
                [b"SENTINEL", b"MASTER"] => Some(vec![]),
                [b"SENTINEL", b"REPLICAS"] => {
                    let port = (2 - self.master).to_string();
                    let fields = [text("ip"), text("server"), text("port"), text(&port)];
                    Some(vec![Value::Array(fields.into())])
                }
                [b"SENTINEL", _] => {
                    Some(vec![text("server"), text(&(self.master + 1).to_string())])
                }
                _ => None,
            }
        });
        match answers.collect::<Option<Vec<_>>>() {
            Some(answers) => answers
                .into_iter()
                .map(|answer| Outcome::Replied(Ok(Value::Array(answer))))
                .collect(),
            None => self.inner.send(batch).await,
        }
    }
}
