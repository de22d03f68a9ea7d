//! A pool of `bb8` and a client of redlatch connect by the same `ConnectionInfo` of the crate
//! `redis`.
//!
//! The lock is acquired, held and released while the pool has no connection left, because redlatch
//! opens other connections.

use bb8_redis::{
    RedisConnectionManager,
    bb8::Pool,
    redis::{AsyncCommands, IntoConnectionInfo},
};
use redlatch::{ClientBuilder, embedded::Server};
use redlatch_recipes::Result;

#[tokio::main]
async fn main() -> Result {
    let server = Server::start();
    let listening = server.engine().listen("127.0.0.1:0").await?;
    let info = listening.url().into_connection_info()?;

    let manager = RedisConnectionManager::new(info.clone())?;
    let pool = Pool::builder().max_size(1).build(manager).await?;
    // With the feature `connection-info`.
    let client = ClientBuilder::from(info).connect().await?;

    let mut connection = pool.get().await?;
    assert_eq!(pool.state().idle_connections, 0);
    let guard = client.lock("stock:7").lock().await?;
    let write = connection.set("stock:7", 41);
    let () = guard.run(write).await??;
    let held: bool = connection.exists("redlatch:{stock:7}").await?;
    assert!(held, "both use the same server");
    guard.release().await?;
    assert_eq!(pool.state().connections, 1);

    let left: u32 = connection.get("stock:7").await?;
    assert_eq!(left, 41);
    println!("The pool and redlatch share an address, and no connections.");
    Ok(())
}
