//! Functions that each take the same lock, and call each other.
//!
//! A function that needs a lock should take it itself, whoever calls it. Between tasks of one
//! process a lock excludes as it does between machines, so re-entry has to be said: by a scope
//! around the call, or by an owner that is passed on.

use std::{process::ExitCode, time::Duration};

use redlatch::{Client, LockGuard};
use redlatch_examples::{Result, Server, run};

const NAME: &str = "example:account:7";

#[tokio::main]
async fn main() -> ExitCode {
    run(calls()).await
}

async fn calls() -> Result {
    let server = Server::from_env_or_start().await?;
    let client = Client::connect(server.url()).await?;

    println!("In a scope, calls at any depth hold as one:");
    client.owner().scope(close_account(&client)).await?;

    println!("\nThe same by hand, passing the guard's owner on:");
    let outer = client.lock(NAME).lock().await?;
    show("outer", &outer);
    let inner = client.lock(NAME).lock().owner(outer.owner()).await?;
    show("inner", &inner);
    // Guards of one hold may go in any order; the name is free when the last has gone.
    println!("  outer goes   → {:?}", outer.release().await?);
    println!("  inner goes   → {:?}", inner.release().await?);

    println!("\nWithout either, even the same task is another owner:");
    let outer = client.lock(NAME).lock().await?;
    let again = client.lock(NAME).try_lock().await?;
    println!("  a second try → {}", outcome(again.as_ref()));
    drop(outer);
    client.close(Duration::from_secs(1)).await;
    Ok(())
}

async fn close_account(client: &Client) -> Result {
    let guard = client.lock(NAME).lock().await?;
    show("close_account", &guard);
    withdraw_all(client).await?;
    // A spawned task does not inherit the scope: it runs beside us, so it had better be kept out.
    let other = client.clone();
    let other = tokio::spawn(async move { other.lock(NAME).try_lock().await });
    println!("  a task beside it → {}", outcome(other.await??.as_ref()));
    show("close_account", &guard);
    Ok(())
}

async fn withdraw_all(client: &Client) -> Result {
    let guard = client.lock(NAME).lock().await?;
    show("  withdraw_all", &guard);
    write_statement(client).await
}

async fn write_statement(client: &Client) -> Result {
    let guard = client.lock(NAME).lock().await?;
    show("    write_statement", &guard);
    Ok(())
}

fn show(place: &str, guard: &LockGuard) {
    let (count, token) = (guard.hold_count(), guard.token());
    println!("  {place:<20} holds it, count {count}, token {token}");
}

fn outcome(guard: Option<&LockGuard>) -> &'static str {
    match guard {
        Some(_) => "got it, which must not be",
        None => "kept out",
    }
}
