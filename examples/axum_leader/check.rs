//! The first process: starts the replicas, sends jobs, restarts and kills replicas, and looks at
//! what has become of the jobs.

use std::{
    path::Path,
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::{Method, StatusCode};
use redlatch_examples::{Result, Scratch, Server, role};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
    time::sleep,
};

use crate::{forward::ask, store::Store};

pub(crate) async fn check() -> Result {
    let server = Server::from_env_or_start().await?;
    let scratch = Scratch::new()?;
    let database = scratch.path().join("jobs.sqlite");
    let store = Store::open(&database)?;
    let balancer = Balancer::default();
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Process::start(server.url(), &database, &balancer).await?);
    }
    let leader = agreed(&balancer).await?;
    println!("Three replicas are ready, and agree that {leader} leads.");

    let ended = AtomicBool::new(false);
    let restarts = async {
        let outcome = disturb(server.url(), &database, &balancer, &mut replicas).await;
        ended.store(true, Ordering::Relaxed);
        outcome
    };
    let (restarted, sent) = tokio::join!(restarts, send_jobs(&balancer, &ended));
    restarted?;
    let sent = sent?;
    let terms = store.verify(sent.jobs)?;
    println!(
        "\n{} jobs were sent, {} of them to followers, and each is in the database once.\n\
         {terms} leaders wrote them, none after a later one. The longest job took {} ms.",
        sent.jobs,
        sent.forwarded,
        sent.longest.as_millis()
    );
    if sent.forwarded == 0 || sent.forwarded == sent.jobs {
        return Err("jobs did not reach both leader and followers".into());
    }
    if terms < 3 {
        return Err("a restart and a kill of the leader did not make new leaders".into());
    }
    for mut replica in replicas {
        replica.end(&balancer).await?;
    }
    Ok(())
}

/// Restarts each replica, the leader first. Then kills the leader.
async fn disturb(
    url: &str,
    database: &Path,
    balancer: &Balancer,
    replicas: &mut [Process],
) -> Result {
    let leader = agreed(balancer).await?;
    replicas.sort_by_key(|replica| replica.address != leader);
    for place in replicas.iter_mut() {
        let old = place.address.clone();
        place.end(balancer).await?;
        *place = Process::start(url, database, balancer).await?;
        println!("{old} ended in order; {} came for it.", place.address);
        sleep(Duration::from_millis(200)).await;
    }
    let leader = agreed(balancer).await?;
    for place in replicas.iter_mut().filter(|place| place.address == leader) {
        place.child.kill().await?;
        balancer.forget(&leader);
        println!("{leader}, who leads, is killed.");
        *place = Process::start(url, database, balancer).await?;
    }
    let next = agreed(balancer).await?;
    println!("{next} leads.");
    sleep(Duration::from_millis(500)).await;
    Ok(())
}

/// Waits until all replicas are ready and name the same leader, and returns it.
async fn agreed(balancer: &Balancer) -> Result<String> {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(20) {
        let (addresses, mut named) = (balancer.addresses(), Vec::new());
        for address in &addresses {
            if !is_ready(address).await {
                break;
            }
            if let Ok((StatusCode::OK, told)) = ask(Method::GET, address, "/leader").await {
                named.extend(told["leader"].as_str().map(str::to_owned));
            }
        }
        named.sort_unstable();
        let all = named.len() == addresses.len();
        named.dedup();
        match &named[..] {
            [leader] if all && addresses.contains(leader) => return Ok(leader.clone()),
            _ => sleep(Duration::from_millis(50)).await,
        }
    }
    Err("the replicas do not agree on a leader, or are not ready".into())
}

async fn is_ready(address: &str) -> bool {
    matches!(
        ask(Method::GET, address, "/ready").await,
        Ok((StatusCode::OK, _))
    )
}

/// Knows the replicas, and asks the next ready one each time, as a load balancer does.
#[derive(Clone, Default)]
struct Balancer(Arc<Mutex<Vec<String>>>);

impl Balancer {
    fn addresses(&self) -> Vec<String> {
        let addresses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.clone()
    }

    fn add(&self, address: &str) {
        let mut addresses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.push(address.to_owned());
    }

    fn forget(&self, address: &str) {
        let mut addresses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.retain(|other| other != address);
    }
}

#[derive(Default)]
struct Sent {
    jobs: u64,
    forwarded: u64,
    longest: Duration,
}

/// Sends job after job until `ended`. A job without an answer is sent again, to another replica.
async fn send_jobs(balancer: &Balancer, ended: &AtomicBool) -> Result<Sent> {
    let mut sent = Sent::default();
    let mut turn = 0;
    while !ended.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let path = format!("/jobs/{}", sent.jobs);
        loop {
            if begin.elapsed() > Duration::from_secs(20) {
                return Err(format!("nobody did job {}", sent.jobs).into());
            }
            turn += 1;
            let addresses = balancer.addresses();
            let Some(address) = addresses.get(turn % addresses.len().max(1)) else {
                sleep(Duration::from_millis(10)).await;
                continue;
            };
            if !is_ready(address).await {
                continue;
            }
            if let Ok((StatusCode::OK, done)) = ask(Method::POST, address, &path).await {
                sent.forwarded += u64::from(done["via"].is_string());
                break;
            }
        }
        sent.jobs += 1;
        sent.longest = sent.longest.max(begin.elapsed());
        sleep(Duration::from_millis(5)).await;
    }
    Ok(sent)
}

/// The process of a replica.
struct Process {
    address: String,
    child: Child,
}

impl Process {
    async fn start(url: &str, database: &Path, balancer: &Balancer) -> Result<Self> {
        let mut replica = role("replica")?;
        replica.arg(url).arg(database);
        replica.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = replica.spawn()?;
        let out = child.stdout.take().ok_or("a replica has an output")?;
        let address = BufReader::new(out).lines().next_line().await?;
        let address = address.ok_or("a replica has ended at once")?;
        balancer.add(&address);
        Ok(Self { address, child })
    }

    /// Tells the process to end, and waits for it.
    async fn end(&mut self, balancer: &Balancer) -> Result {
        drop(self.child.stdin.take());
        let status = self.child.wait().await?;
        balancer.forget(&self.address);
        if status.success() {
            return Ok(());
        }
        Err(format!("a replica failed: {status}").into())
    }
}
