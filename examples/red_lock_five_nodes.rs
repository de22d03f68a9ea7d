//! One name over five independent servers: what happens when two of them stop, and when a third
//! does.
//!
//! Starts five servers: redlatch's engine in this process, or with `-- --real` five processes of
//! `redis-server` or `valkey-server`.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use redlatch::{Client, Lock, Lockable, RedLock};
use redlatch_examples::{Result, Server, run};

const NODES: usize = 5;
const LEASE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    run(five_nodes()).await
}

async fn five_nodes() -> Result {
    let mut servers = Vec::new();
    for _ in 0..NODES {
        servers.push(Server::start().await?);
    }
    let (mine, theirs) = (red_lock(&servers).await?, red_lock(&servers).await?);

    let guard = mine.lock().renewed_lease(LEASE).await?;
    println!(
        "Held on {} of {NODES} nodes, good for {:.1} s.",
        guard.nodes_held(),
        guard.remaining().as_secs_f64()
    );
    if theirs.try_lock().await?.is_some() {
        return Err("two held it".into());
    }
    println!("Nobody else can have it.\n");

    println!("Two nodes stop answering.");
    for server in &servers[..2] {
        server.stop()?;
    }
    tokio::time::sleep(LEASE * 2).await;
    guard.check()?;
    println!(
        "Two leases later it is held on {} nodes, and still good.\n",
        guard.nodes_held()
    );

    println!("A third one stops.");
    servers[2].stop()?;
    let stopped = Instant::now();
    let cause = guard.lost().await;
    println!(
        "Told after {:.1} s, within its lease: {cause}.",
        stopped.elapsed().as_secs_f64()
    );
    let error = theirs.try_lock().await.err().ok_or("two held it")?;
    println!("And nobody can have it now:\n  {error}\n");

    println!("All nodes answer again.");
    for server in &servers[..3] {
        server.resume()?;
    }
    guard.release().await?;
    let next = theirs.lock().renewed_lease(LEASE).await?;
    println!("The next one has it, on {} nodes.", next.nodes_held());
    next.release().await?;
    Ok(())
}

/// A red-lock with clients of its own, as another process would have.
async fn red_lock(servers: &[Server]) -> Result<RedLock> {
    let mut locks: Vec<Lock> = Vec::new();
    for server in servers {
        locks.push(Client::connect(server.url()).await?.lock("example:leader"));
    }
    let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    // These servers were started a moment ago and have nothing to forget. In earnest only nodes
    // with `appendfsync always` are durable.
    Ok(RedLock::builder(&nodes).durable_nodes().build()?)
}
