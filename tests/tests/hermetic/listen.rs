//! redlatch's own client over TCP to the embedded server, in real time.

use redlatch::runtime::TokioRuntime;
use redlatch_embedded::{EmbeddedServer, Listening};

use crate::prelude::*;

struct World {
    server: EmbeddedServer,
    listening: Listening,
}

impl World {
    async fn new() -> Self {
        let server = EmbeddedServer::new(Arc::new(TokioRuntime::current().unwrap()));
        let listening = server.listen("127.0.0.1:0").await.unwrap();
        Self { server, listening }
    }

    async fn client(&self) -> Client {
        Client::connect(&self.listening.url()).await.unwrap()
    }
}

#[tokio::test]
async fn clients_come_back_after_a_cut() {
    let world = World::new().await;
    let (ada, bob) = (world.client().await, world.client().await);
    let guard = ada.lock("a").lock().await.unwrap();
    let lock = bob.lock("a");
    let waiter = tokio::spawn(async move { lock.lock().await });
    sleep(Duration::from_millis(150)).await;
    world.server.cut_connections();
    eventually("new connections", GENEROUS, async || {
        world.server.connection_count() > 0 && ada.lock("a").is_locked().await.is_ok_and(|is| is)
    })
    .await;
    guard.check().unwrap();
    guard.release().await.unwrap();
    let next = timeout(GENEROUS, waiter).await.unwrap().unwrap().unwrap();
    next.release().await.unwrap();
}

#[tokio::test]
async fn stopped_listener_accepts_no_connection() {
    let World { server, listening } = World::new().await;
    let url = listening.url();
    let client = Client::connect(&url).await.unwrap();
    let guard = client.lock("a").lock().await.unwrap();
    drop(listening);
    let ended = async || server.connection_count() == 0;
    eventually("the connections to end", GENEROUS, ended).await;
    let impatient = Client::builder(&url).connect_timeout(Duration::from_millis(200));
    let refused = impatient.connect().await.unwrap_err();
    assert!(refused.is_transient(), "{refused:?}");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
    // The data stays with the server: it can listen again.
    let again = server.listen("127.0.0.1:0").await.unwrap();
    let other = Client::connect(&again.url()).await.unwrap();
    assert!(other.lock("a").try_lock().await.unwrap().is_none());
    drop(guard);
}
