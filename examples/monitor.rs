//! Warns of locks that are held longer than they should be, whoever holds them.
//!
//! `monitor [--once] [pattern] [limit in seconds]`: looks once a second, or once only. Without
//! `REDIS_URL` it starts a server and some holders to look at.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    process::ExitCode,
    time::Duration,
};

use redlatch::{Client, Holder, Token};
use redlatch_examples::{Result, Server, run};
use tokio::time::{interval, sleep};

#[tokio::main]
async fn main() -> ExitCode {
    run(monitor()).await
}

async fn monitor() -> Result {
    let mut args: Vec<String> = env::args().skip(1).collect();
    let once = args.iter().any(|arg| arg == "--once");
    args.retain(|arg| !arg.starts_with("--"));
    let pattern = args.first().map_or("*", String::as_str);
    let limit = Duration::from_secs_f64(args.get(1).map_or(Ok(2.0), |limit| limit.parse())?);

    let server = Server::from_env_or_start().await?;
    let client = Client::builder(server.url())
        .application("monitor")
        .connect()
        .await?;
    if env::var_os("REDIS_URL").is_none() {
        some_holders(server.url()).await?;
    }
    if once {
        return print_table(&find(&client, pattern).await?, limit);
    }
    println!(
        "Looking for locks like {pattern:?} held longer than {limit:?}, every second. Ctrl-C ends it."
    );
    watch(&client, pattern, limit).await
}

/// Finds what is held now. The walk is a `SCAN`, which may bring a lock twice; the map brings it
/// once.
async fn find(client: &Client, pattern: &str) -> Result<BTreeMap<String, Holder>> {
    let mut found = BTreeMap::new();
    let mut locks = client.locks(pattern);
    while let Some(holder) = locks.next().await {
        let holder = holder?;
        found.insert(holder.info.name.clone(), holder);
    }
    Ok(found)
}

/// Tells of every hold that goes over the limit, once, and of its end.
async fn watch(client: &Client, pattern: &str, limit: Duration) -> Result {
    let mut every_second = interval(Duration::from_secs(1));
    // A hold is known by name and token: the same holder may come back with another hold.
    let mut warned: BTreeSet<(String, Token)> = BTreeSet::new();
    loop {
        every_second.tick().await;
        let found = match find(client, pattern).await {
            Ok(found) => found,
            // A monitor outlives what it watches.
            Err(error) => {
                println!("ERROR {error}");
                continue;
            }
        };
        warned.retain(|(name, token)| {
            let held = found
                .get(name)
                .is_some_and(|holder| holder.info.token == *token);
            if !held {
                println!("OVER  {name}: the hold with token {token} has ended");
            }
            held
        });
        for holder in found.into_values().filter(|holder| holder.info.age > limit) {
            let line = describe(&holder);
            if warned.insert((holder.info.name, holder.info.token)) {
                println!("LONG  {line}");
            }
        }
    }
}

fn describe(holder: &Holder) -> String {
    let info = &holder.info;
    let waiting = match info.waiters {
        0 => "nobody waits".to_owned(),
        n => format!("{n} waiting"),
    };
    format!(
        "{}: held for {:.1} s by {}, {waiting}, lease ends in {:.1} s unless renewed, token {}",
        info.name,
        info.age.as_secs_f64(),
        who(holder),
        info.remaining.as_secs_f64(),
        info.token,
    )
}

fn print_table(found: &BTreeMap<String, Holder>, limit: Duration) -> Result {
    println!(
        "     {:<24} {:<32} {:>8} {:>10} {:>8}",
        "lock", "holder", "age", "remaining", "waiters"
    );
    for (name, holder) in found {
        let info = &holder.info;
        let mark = if info.age > limit { "LONG" } else { "" };
        println!(
            "{mark:<4} {name:<24} {:<32} {:>6.1} s {:>8.1} s {:>8}",
            who(holder),
            info.age.as_secs_f64(),
            info.remaining.as_secs_f64(),
            info.waiters,
        );
    }
    println!("{} held, limit {limit:?}", found.len());
    Ok(())
}

/// Host, process and application, as far as they are known: the client's record may be gone.
fn who(holder: &Holder) -> String {
    match &holder.metadata {
        Some(who) => who.to_string(),
        None => format!("client {}", holder.info.owner),
    }
}

/// Somebody to look at: one that holds for ever, one for a while with a waiter behind it, and one
/// that comes and goes.
async fn some_holders(url: &str) -> Result {
    let billing = Client::builder(url)
        .application("billing")
        .connect()
        .await?;
    let search = Client::builder(url).application("search").connect().await?;
    let forever = billing.lock("invoices:2024-11").lock().await?;
    let rebuild = search.lock("index:rebuild").lock().await?;
    tokio::spawn(async move {
        let waiter = billing.lock("index:rebuild");
        let _next = waiter.lock().await;
        sleep(Duration::MAX).await;
        drop(forever);
    });
    tokio::spawn(async move {
        sleep(Duration::from_secs(6)).await;
        drop(rebuild);
        while let Ok(guard) = search.lock("index:documents").lock().await {
            sleep(Duration::from_millis(700)).await;
            drop(guard);
        }
    });
    println!("No REDIS_URL: some holders of our own are started, two of them slow.\n");
    sleep(Duration::from_millis(2500)).await;
    Ok(())
}
