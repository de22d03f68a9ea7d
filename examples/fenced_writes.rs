//! A holder that is late writes to a database and to Redis, and both refuse it.
//!
//! `ada` takes a lock with a fixed lease, reads the stock, and stops for longer than the lease, as
//! a process does that is paused. `bob` takes the lock meanwhile and writes. When `ada` goes on, it
//! believes that it is still its turn, and does not ask. Its token is lower than `bob`'s.

use std::{process::ExitCode, time::Duration};

use redlatch::{
    Client, Token,
    fence::{
        Fenced,
        sql::{self, RowWrite, sqlite},
    },
};
use redlatch_examples::{Result, Scratch, Server, run};
use rusqlite::Connection;
use tokio::time::sleep;

const LEASE: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> ExitCode {
    run(writes()).await
}

async fn writes() -> Result {
    let server = Server::from_env_or_start().await?;
    let scratch = Scratch::new()?;
    let path = scratch.path().join("shop.sqlite");
    let mut database = Connection::open(&path)?;
    database.execute_batch(sqlite::CREATE_MARKS)?;
    database
        .execute_batch("CREATE TABLE stock (item TEXT PRIMARY KEY, pieces INTEGER NOT NULL)")?;
    database.execute("INSERT INTO stock VALUES ('lamp', 10)", [])?;
    let (ada, bob) = (
        Client::connect(server.url()).await?,
        Client::connect(server.url()).await?,
    );

    let early = ada.lock("example:stock").lock().lease(LEASE).await?;
    let seen = pieces(&database)?;
    println!(
        "ada has the lock with token {}, sees {seen} lamps, and stops.",
        early.token()
    );
    sleep(2 * LEASE).await;

    let late = bob.lock("example:stock").lock().await?;
    let now = pieces(&database)?;
    let sold = sell(&mut database, late.token(), now - 4)?;
    println!(
        "bob has the lock with token {}, sells 4: {sold:?}",
        late.token()
    );
    let shown = bob.fence("example:{stock}:lamp");
    let wrote = shown.set(late.token(), (now - 4).to_string()).await?;
    println!("bob shows the number in Redis: {wrote:?}");

    // Nothing here looks at the guard: this is code that does not check.
    let sold = sell(&mut database, early.token(), seen - 1)?;
    println!("ada goes on and sells 1 of {seen}: {sold:?}");
    let shown = ada.fence("example:{stock}:lamp");
    let wrote = shown.set(early.token(), (seen - 1).to_string()).await?;
    println!("ada shows its number in Redis: {wrote:?}");

    let left = pieces(&database)?;
    println!("\n{left} lamps are left, as bob has written.");
    let refused = RowWrite::Fenced { mark: late.token() };
    let in_redis = Fenced::Refused { mark: late.token() };
    if (left, sold, wrote) != (6, refused, in_redis) {
        return Err("a late write was not refused".into());
    }
    late.release().await?;
    Ok(())
}

fn pieces(database: &Connection) -> Result<i64> {
    let read = "SELECT pieces FROM stock WHERE item = 'lamp'";
    Ok(database.query_row(read, [], |row| row.get(0))?)
}

/// Writes the number of lamps, unless a later holder has written.
fn sell(database: &mut Connection, token: Token, pieces: i64) -> Result<RowWrite> {
    let transaction = database.transaction()?;
    let name_and_token = ("stock", sql::stored(token));
    let stored = transaction.query_row(sqlite::ADVANCE, name_and_token, |row| row.get(0))?;
    let outcome = sql::judge(token, Some(stored));
    if outcome == RowWrite::Written {
        let write = "UPDATE stock SET pieces = ?1 WHERE item = 'lamp'";
        transaction.execute(write, [pieces])?;
        transaction.commit()?;
    }
    Ok(outcome)
}
