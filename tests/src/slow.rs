//! Servers that are slow but alive. One is busy: commands queue, each takes its time, and all are
//! answered in order. The other is far away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use redlatch::{
    Client,
    runtime::{Command, Conn, Dial, DialError, Dialed, Outcome, Purpose, Transport},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use crate::backend::Backend;

/// A transport to a busy server, on top of a transport to a fast one. Messages are not delayed.
#[derive(Debug)]
pub struct SlowTransport {
    inner: Arc<dyn Transport>,
    work: Work,
}

impl SlowTransport {
    /// Makes every command of a connection take `service`, one after another.
    pub fn new(inner: Arc<dyn Transport>, service: Duration) -> Self {
        let work = Work::default();
        work.takes(service);
        Self { inner, work }
    }

    /// Returns a handle that changes the service time and reports the length of the queue.
    pub fn work(&self) -> Work {
        self.work.clone()
    }
}

/// The load of a slow server. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Work {
    service: Arc<AtomicU64>,
    in_line: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    served: Arc<AtomicUsize>,
}

impl Work {
    /// Makes every command take `service` from now on for each object that it is about.
    pub fn takes(&self, service: Duration) {
        let micros = u64::try_from(service.as_micros()).unwrap();
        self.service.store(micros, Ordering::Relaxed);
    }

    /// Returns the number of objects that all commands so far were about.
    pub fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    /// Returns the greatest number of objects that were queued at once since the last call.
    pub fn most_in_line(&self) -> usize {
        let now = self.in_line.load(Ordering::Relaxed);
        self.most.swap(now, Ordering::Relaxed)
    }

    fn service(&self) -> Duration {
        Duration::from_micros(self.service.load(Ordering::Relaxed))
    }

    fn comes(&self, objects: usize) {
        let in_line = self.in_line.fetch_add(objects, Ordering::Relaxed) + objects;
        self.most.fetch_max(in_line, Ordering::Relaxed);
    }

    fn done(&self, objects: usize) {
        self.in_line.fetch_sub(objects, Ordering::Relaxed);
        self.served.fetch_add(objects, Ordering::Relaxed);
    }
}

#[async_trait]
impl Transport for SlowTransport {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let mut dialed = self.inner.dial(dial).await?;
        if dial.purpose == Purpose::Command {
            let (line, requests) = mpsc::unbounded_channel();
            let work = self.work.clone();
            tokio::spawn(serve(Arc::clone(&dialed.conn), requests, work.clone()));
            dialed.conn = Arc::new(SlowConn { line, work });
        }
        Ok(dialed)
    }
}

/// A transport to a server that is far away. Each request and each reply is delayed, any number of
/// them at once.
#[derive(Debug)]
pub struct FarTransport {
    inner: Arc<dyn Transport>,
    way: Duration,
}

impl FarTransport {
    /// Delays each message to and from the server behind `inner` by `way`. Messages of pub/sub are
    /// not delayed.
    pub fn new(inner: Arc<dyn Transport>, way: Duration) -> Self {
        Self { inner, way }
    }
}

/// Connects a client to an embedded server to which each message takes `way`, as do replies.
pub async fn far_client(backend: &Backend, way: Duration) -> Client {
    let transport = FarTransport::new(Arc::new(backend.embedded_transport()), way);
    backend.client_over(transport).await
}

#[async_trait]
impl Transport for FarTransport {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let mut dialed = self.inner.dial(dial).await?;
        if dial.purpose == Purpose::Command {
            let (inner, way) = (Arc::clone(&dialed.conn), self.way);
            dialed.conn = Arc::new(FarConn { inner, way });
        }
        Ok(dialed)
    }
}

#[derive(Debug)]
struct FarConn {
    inner: Arc<dyn Conn>,
    way: Duration,
}

#[async_trait]
impl Conn for FarConn {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        let commands = batch.len();
        let (inner, way) = (Arc::clone(&self.inner), self.way);
        // A request on the way arrives, even if its sender no longer waits.
        let journey = tokio::spawn(async move {
            tokio::time::sleep(way).await;
            let outcomes = inner.send(batch).await;
            tokio::time::sleep(way).await;
            outcomes
        });
        let lost = || vec![Outcome::Unknown("the far server has gone".to_owned()); commands];
        journey.await.unwrap_or_else(|_| lost())
    }
}

#[derive(Debug)]
struct SlowConn {
    line: mpsc::UnboundedSender<Request>,
    work: Work,
}

#[derive(Debug)]
struct Request {
    batch: Vec<Command>,
    came_at: Instant,
    answer: oneshot::Sender<Vec<Outcome>>,
}

impl Request {
    fn objects(&self) -> usize {
        self.batch.iter().map(objects).sum()
    }
}

/// Returns the number of objects that a command is about: the keys of a script that are not parts
/// of another one, and 1 for any other command.
fn objects(command: &Command) -> usize {
    let mut args = command.args();
    let script = args.next().is_some_and(|verb| verb.starts_with(b"EVAL"));
    let count = args
        .nth(1)
        .and_then(|count| str::from_utf8(count).ok()?.parse().ok());
    match count {
        Some(count) if script => args.take(count).filter(|key| key.ends_with(b"}")).count(),
        _ => 1,
    }
}

#[async_trait]
impl Conn for SlowConn {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        let commands = batch.len();
        let (answer, answered) = oneshot::channel();
        let request = Request {
            batch,
            came_at: Instant::now(),
            answer,
        };
        self.work.comes(request.objects());
        // A queued request is executed, even if its sender no longer waits. One to a server that
        // has gone is dropped, and its answer with it.
        drop(self.line.send(request));
        let lost = || vec![Outcome::Unknown("the slow server has gone".to_owned()); commands];
        answered.await.unwrap_or_else(|_| lost())
    }
}

async fn serve(conn: Arc<dyn Conn>, mut requests: mpsc::UnboundedReceiver<Request>, work: Work) {
    let mut done_at = Instant::now();
    while let Some(request) = requests.recv().await {
        let objects = request.objects();
        let takes = work.service() * u32::try_from(objects).unwrap();
        // The end is computed from the clock and not as a sum of sleeps, because timers are rounded
        // up to milliseconds.
        done_at = done_at.max(request.came_at) + takes;
        tokio::time::sleep_until(done_at).await;
        let outcomes = conn.send(request.batch).await;
        work.done(objects);
        drop(request.answer.send(outcomes));
    }
}
