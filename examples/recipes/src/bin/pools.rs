//! Pools of `bb8` and `deadpool`, and a client of redlatch, connect by the same `ConnectionInfo` of
//! the crate `redis`.
//!
//! The lock is acquired, held and released while neither pool has a connection left, because
//! redlatch opens other connections.

use bb8_redis::{
    RedisConnectionManager, bb8,
    redis::{AsyncCommands, IntoConnectionInfo},
};
use deadpool_redis as deadpool;
use redlatch::{ClientBuilder, embedded::Server};
use redlatch_recipes::Result;

#[tokio::main]
async fn main() -> Result {
    let server = Server::start();
    let listening = server.engine().listen("127.0.0.1:0").await?;
    let info = listening.url().into_connection_info()?;

    let manager = RedisConnectionManager::new(info.clone())?;
    let one = bb8::Pool::builder().max_size(1).build(manager).await?;
    let manager = deadpool::Manager::new(info.clone())?;
    let other = deadpool::Pool::builder(manager).max_size(1).build()?;
    // With the feature `connection-info`.
    let client = ClientBuilder::from(info).connect().await?;

    let mut from_one = one.get().await?;
    let mut from_other = other.get().await?;
    assert_eq!(one.state().idle_connections, 0);
    assert_eq!(other.status().available, 0);
    let guard = client.lock("stock:7").lock().await?;
    let () = guard.run(from_one.set("stock:7", 41)).await??;
    let held: bool = from_other.exists("redlatch:{stock:7}").await?;
    assert!(held, "all use the same server");
    guard.release().await?;
    assert_eq!(one.state().connections, 1);
    assert_eq!(other.status().size, 1);

    let left: u32 = from_other.get("stock:7").await?;
    assert_eq!(left, 41);
    println!("The pools and redlatch share an address, and no connections.");
    Ok(())
}
