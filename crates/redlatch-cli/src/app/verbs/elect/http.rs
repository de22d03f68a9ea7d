//! `elect --http`: says over HTTP whether this process leads.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use crate::app::{clock, exit::Failure, job::Lease, json::Json, out::clean};

/// The term of this process, if it has one, and until when.
#[derive(Clone, Debug, Default)]
pub(super) struct Leads(Arc<Mutex<Option<(u64, Duration)>>>);

/// Begins to listen.
pub(super) async fn listen(address: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .await
        .map_err(|error| Failure::usage(format!("--http cannot use {}: {error}", clean(address))))
}

/// Says whether this process leads, until the future is dropped.
pub(super) async fn serve(listener: TcpListener, name: &str, leads: &Leads) {
    let name = Arc::<str>::from(name);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (name, leads) = (Arc::clone(&name), leads.clone());
                tokio::spawn(async move {
                    // A client that goes away is no failure of the leader.
                    let _ = timeout(PATIENCE, answer(stream, &name, &leads)).await;
                });
            }
            // There may be too many files open for the moment.
            Err(_) => sleep(PAUSE).await,
        }
    }
}

impl Leads {
    /// Says that this process leads, for as long as the term lasts. Never resolves; dropping the
    /// future ends it.
    pub(super) async fn during(&self, token: u64, term: &impl Lease) {
        let _over = Over(self);
        loop {
            let now = clock::now();
            let remaining = term.remaining();
            self.set(Some((token, now + remaining)));
            sleep((remaining / 10).clamp(SHORTEST, PAUSE)).await;
        }
    }

    /// Returns the token of the term that lasts at this instant. A process that stood still does
    /// not believe in the term that it had before.
    fn token(&self) -> Option<u64> {
        let term = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        term.filter(|(_, until)| clock::now() < *until)
            .map(|(token, _)| token)
    }

    fn set(&self, term: Option<(u64, Duration)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = term;
    }
}

/// Says that this process does not lead any more.
struct Over<'a>(&'a Leads);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// Answers one request.
async fn answer(mut stream: TcpStream, name: &str, leads: &Leads) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        if head.len() > LONGEST_HEAD {
            return Ok(());
        }
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split_whitespace();
    let (method, path) = (words.next(), words.next().unwrap_or_default());
    let token = leads.token();
    let status = match (method, path.split('?').next().unwrap_or_default()) {
        (Some("GET" | "HEAD"), "/leader") if token.is_some() => "200 OK",
        (Some("GET" | "HEAD"), "/leader") => "503 Service Unavailable",
        // This process campaigns or leads.
        (Some("GET" | "HEAD"), "/ready") => "200 OK",
        (Some("GET" | "HEAD"), _) => "404 Not Found",
        _ => "405 Method Not Allowed",
    };
    let body = Json::new().with("name", name);
    let body = body.with("leads", token.is_some());
    let body = body.with_some("token", token).line();
    let length = body.len();
    let body = if method == Some("HEAD") { "" } else { &body };
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_millis(250);

const SHORTEST: Duration = Duration::from_millis(5);

/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 8192;
