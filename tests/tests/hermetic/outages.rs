//! What is told of connections that cannot be made.

use async_trait::async_trait;
use redlatch::runtime::{
    Command, Dial, DialError, DialErrorKind, Dialed, Purpose, ServerError, Transport,
};
use redlatch_embedded::EmbeddedTransport;
use tracing::Level;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::{lock::observability::Log, prelude::*};

#[tokio::test(start_paused = true)]
async fn outage_is_logged_at_its_begin_every_ten_seconds_and_at_its_end() {
    let (told, _listening) = Log::listen(Level::INFO, FmtSpan::NONE);
    let (backend, [client]) = embedded().await;
    let server = backend.embedded_server();
    // Connections that have lived long enough to end what was before.
    sleep(Duration::from_secs(5)).await;
    server.refuse_connections(true);
    server.cut_connections();
    sleep(Duration::from_millis(25_000)).await;
    let warned = told.lines("WARN");
    // For each of the two connections: the first failure, and one line after ten and after twenty
    // seconds.
    assert_eq!(warned.len(), 6, "{warned:#?}");
    assert!(warned[2].contains("not connected for 1"), "{warned:#?}");
    assert!(warned[2].contains(" tries"), "{warned:#?}");
    for connection in ["commands", "messages"] {
        let words = format!("connection=\"{connection}\"");
        let of = warned.iter().filter(|line| line.contains(&words));
        assert_eq!(of.count(), 3, "{warned:#?}");
    }
    server.refuse_connections(false);
    sleep(Duration::from_secs(3)).await;
    let again = told.lines("connected again after 2");
    assert_eq!(again.len(), 2, "{again:#?}");
    assert_eq!(told.lines("WARN").len(), 6);
    drop(client);
}

/// A user may listen to some channels only. After a reconnection, the client asks for all at once.
#[tokio::test(start_paused = true)]
async fn refused_channel_makes_the_client_deaf_to_no_other() {
    let (backend, [client]) = embedded().await;
    let server = backend.embedded_server();
    let latch = client.count_down_latch("latch");
    assert!(latch.try_set_count(1).await.unwrap());
    for _ in 0..9 {
        let refused = |command: &Command| {
            let mut args = command.args();
            args.next() == Some(b"SUBSCRIBE") && args.any(|arg| arg == b"redlatch:{latch}:b")
        };
        let denial = ServerError::parse("NOPERM No permissions to access a channel");
        server.fail_next(refused, denial);
    }
    let waiting = tokio::spawn(latch.wait().into_future());
    backend.pass(SECOND).await;
    let owner = client.owner().to_string();
    let own = format!("redlatch:w:{}", owner.split(':').next().unwrap());
    assert_eq!(backend.subscribers(&own), 1);
    server.cut_connections();
    backend.pass(2 * SECOND).await;
    assert_eq!(backend.subscribers(&own), 1);
    assert_eq!(backend.subscribers("redlatch:{latch}:b"), 0);
    latch.count_down(1).await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn failed_connect_dials_no_more() {
    let (told, _listening) = Log::listen(Level::INFO, FmtSpan::NONE);
    let backend = Backend::embedded();
    let server = backend.embedded_server();
    server.refuse_connections(true);
    let (counting, dials) = Refusing::of(&backend, |_| false);
    let connecting = backend.builder().transport(counting).connect();
    let error = connecting.await.unwrap_err();
    let (dialled, warned) = (*dials.lock().unwrap(), told.lines("WARN").len());
    assert!(dialled > 1, "{error}");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(*dials.lock().unwrap(), dialled, "it dials on");
    assert_eq!(told.lines("WARN").len(), warned);
}

#[tokio::test(start_paused = true)]
async fn connect_without_a_subscription_reports_the_reason() {
    let backend = Backend::embedded();
    let (refusing, _) = Refusing::of(&backend, |purpose| purpose == Purpose::PubSub);
    let connecting = backend.builder().transport(refusing).connect();
    let error = connecting.await.unwrap_err();
    for words in ["no subscription in time", "Too many open files"] {
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// A transport that counts what it dials, and refuses some of it.
#[derive(Debug)]
pub(crate) struct Refusing {
    inner: EmbeddedTransport,
    dials: Arc<Mutex<u32>>,
    refuses: fn(Purpose) -> bool,
}

impl Refusing {
    /// Returns the transport, and how often it has dialled.
    pub(crate) fn of(
        backend: &Backend,
        refuses: fn(Purpose) -> bool,
    ) -> (Arc<dyn Transport>, Arc<Mutex<u32>>) {
        let dials = Arc::default();
        let transport = Self {
            inner: backend.embedded_transport(),
            dials: Arc::clone(&dials),
            refuses,
        };
        (Arc::new(transport), dials)
    }
}

#[async_trait]
impl Transport for Refusing {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        *self.dials.lock().unwrap() += 1;
        if (self.refuses)(dial.purpose) {
            return Err(DialError {
                kind: DialErrorKind::Unreachable,
                message: "Too many open files (os error 24)".to_owned(),
            });
        }
        self.inner.dial(dial).await
    }
}

/// The server kills the connections of a client again and again, and is there all the time.
#[tokio::test(start_paused = true)]
async fn connections_that_break_soon_cost_no_pause() {
    let (backend, [client, other]) = embedded().await;
    let server = backend.embedded_server();
    for _ in 0..20 {
        let guard = client.fair_lock("x").lock().await.unwrap();
        let waiting = tokio::spawn(other.fair_lock("x").lock().into_future());
        sleep(Duration::from_millis(30)).await;
        server.cut_connections();
        let start = Instant::now();
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        let took = start.elapsed();
        assert!(took < Duration::from_millis(300), "{took:?}");
    }
}
