//! A fleet of processes fetches pages from one web server, together with at most eight requests at
//! a time.
//!
//! The limit is a semaphore. Who watches it is the web server, which this example starts: it counts
//! the requests that it is working on. One of the processes is killed in the middle of its work,
//! and what it had comes back when its lease ends.

use std::{
    env,
    net::SocketAddr,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, extract::State, routing::get};
use redlatch::{Client, Semaphore};
use redlatch_examples::{Result, Server, http::ask, role, run};
use tokio::{net::TcpListener, process::Child, task::JoinSet, time::sleep};

const LIMIT: u32 = 8;
const FETCHERS: u32 = 5;
const TASKS: u32 = 6;
const PAGES: u32 = 12;
const LEASE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match &args[..] {
        [role, url, partner] if role == "fetcher" => run(fetcher(url, partner)).await,
        _ => run(fleet()).await,
    }
}

/// A fetcher process: some tasks that share a client and fetch page after page, each under a
/// permit.
async fn fetcher(url: &str, partner: &str) -> Result {
    let client = Client::connect(url).await?;
    let partner: SocketAddr = partner.parse()?;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let limit = client.semaphore("example:partner").permits_if_unset(LIMIT);
        tasks.spawn(fetch_pages(limit, partner));
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    client.close(LEASE).await;
    Ok(())
}

async fn fetch_pages(limit: Semaphore, partner: SocketAddr) -> Result {
    for _ in 0..PAGES {
        let permit = limit.acquire().renewed_lease(LEASE).await?;
        // Dropped at its next await, and with it the connection, should the permit be lost.
        permit.run(fetch(partner)).await??;
        permit.release().await?;
    }
    Ok(())
}

/// Fetches one page and reads it to its end.
async fn fetch(partner: SocketAddr) -> Result {
    match ask(partner, "GET /").await? {
        (200, _) => Ok(()),
        answer => Err(format!("the partner answered {answer:?}").into()),
    }
}

/// What the web server counts.
#[derive(Debug, Default)]
struct Counts {
    now: AtomicU32,
    peak: AtomicU32,
    served: AtomicU32,
}

/// One request that the web server works on.
struct Request(Arc<Counts>);

impl Request {
    fn new(counts: &Arc<Counts>) -> Self {
        let now = counts.now.fetch_add(1, Ordering::SeqCst) + 1;
        counts.peak.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(counts))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn page(State(counts): State<Arc<Counts>>) -> &'static str {
    let request = Request::new(&counts);
    sleep(Duration::from_millis(20)).await;
    drop(request);
    counts.served.fetch_add(1, Ordering::SeqCst);
    "a page\n"
}

/// The first process: starts the servers and the fleet, kills one of it, and reads the web server's
/// counters.
async fn fleet() -> Result {
    let server = Server::from_env_or_start().await?;
    let client = Client::connect(server.url()).await?;
    let limit = client.semaphore("example:partner");
    limit.set_permits(LIMIT).await?;
    let counts = Arc::<Counts>::default();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let partner = listener.local_addr()?;
    let app = Router::new()
        .route("/", get(page))
        .with_state(Arc::clone(&counts));
    tokio::spawn(async move { axum::serve(listener, app).await });

    println!(
        "{FETCHERS} processes with {TASKS} tasks each fetch from {partner}, {LIMIT} requests at a time."
    );
    let started = Instant::now();
    let mut fleet: Vec<Child> = Vec::new();
    for _ in 0..FETCHERS {
        let mut fetcher = role("fetcher")?;
        fetcher.args([server.url(), &partner.to_string()]);
        fleet.push(fetcher.spawn()?);
    }
    while counts.served.load(Ordering::SeqCst) < 60 {
        sleep(Duration::from_millis(5)).await;
    }
    if let Some(mut victim) = fleet.pop() {
        victim.kill().await?;
        let out = limit.totals().await?.acquired;
        println!("One process is killed at its work; {out} permits are out, some of them its own.");
    }
    for mut fetcher in fleet {
        if !fetcher.wait().await?.success() {
            return Err("a fetcher failed".into());
        }
    }
    let (served, peak) = (
        counts.served.load(Ordering::SeqCst),
        counts.peak.load(Ordering::SeqCst),
    );
    println!(
        "{served} pages in {:.1} s; at most {peak} requests at a time, as the web server saw it.",
        started.elapsed().as_secs_f64()
    );
    if peak > LIMIT {
        return Err(format!("the limit of {LIMIT} did not hold").into());
    }
    sleep(LEASE).await;
    let left = limit.available_permits().await?;
    println!(
        "A lease later {left} of {LIMIT} permits can be had: those of the dead process are back."
    );
    if left != LIMIT {
        return Err("permits were lost".into());
    }
    limit.delete().await?;
    client.close(LEASE).await;
    Ok(())
}
