//! Clients, connections and trouble.

use std::{sync::Arc, time::Duration};

use redlatch_core::runtime::{
    Address, Conn, Dial, DialError, DialErrorKind, Dialed, Login, Outcome, Purpose, Push,
    ServerError, Transport, Value,
};
use redlatch_embedded::{EmbeddedServer, EmbeddedTransport, LostReply, calls};

use crate::support::{TestRuntime, command};

struct World {
    server: EmbeddedServer,
    transport: EmbeddedTransport,
}

impl World {
    fn new() -> Self {
        let server = EmbeddedServer::new(Arc::new(TestRuntime::new()));
        let transport = EmbeddedTransport::new().serve("a", server.clone());
        Self { server, transport }
    }

    async fn try_dial(&self, purpose: Purpose) -> Result<Dialed, DialError> {
        let address = Address::Embedded("a".to_owned());
        self.transport
            .dial(&Dial {
                address,
                login: Login::default(),
                purpose,
            })
            .await
    }

    async fn dial(&self, purpose: Purpose) -> Dialed {
        self.try_dial(purpose).await.unwrap()
    }
}

async fn send(conn: &dyn Conn, line: &str) -> Outcome {
    let args: Vec<_> = line.split(' ').collect();
    conn.send(vec![command(&args)]).await.remove(0)
}

fn int(value: i64) -> Outcome {
    Outcome::Replied(Ok(Value::Int(value)))
}

#[tokio::test(start_paused = true)]
async fn two_clients_share_a_server() {
    let world = World::new();
    let (one, two) = (
        world.dial(Purpose::Command).await,
        world.dial(Purpose::Command).await,
    );
    assert_eq!(send(&*one.conn, "HSET h f v").await, int(1));
    assert_eq!(send(&*two.conn, "HLEN h").await, int(1));
    assert_eq!(world.server.command_count("HSET"), 1);
    assert_eq!(world.server.connection_count(), 2);
    drop(one);
    assert_eq!(world.server.connection_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn keys_expire_by_the_servers_clock() {
    let world = World::new();
    let client = world.dial(Purpose::Command).await;
    send(&*client.conn, "SET k v PX 1000").await;
    tokio::time::advance(Duration::from_millis(600)).await;
    let rest = world.server.ttl("k").flatten().unwrap();
    assert!((399..=400).contains(&rest.as_millis()), "{rest:?}");
    world.server.advance(Duration::from_millis(402));
    assert_eq!(world.server.ttl("k"), None);
}

#[tokio::test(start_paused = true)]
async fn pushes_reach_subscribers() {
    let world = World::new();
    let client = world.dial(Purpose::Command).await;
    let mut listener = world.dial(Purpose::PubSub).await;
    send(&*listener.conn, "SUBSCRIBE c").await;
    assert_eq!(
        listener.pushes.next().await,
        Some(Push::Subscribed(b"c".to_vec()))
    );
    assert_eq!(send(&*client.conn, "PUBLISH c m").await, int(1));
    let message = Push::Message {
        channel: b"c".to_vec(),
        payload: b"m".to_vec(),
    };
    assert_eq!(listener.pushes.next().await, Some(message));
    world.server.cut_connections();
    assert_eq!(listener.pushes.next().await, None);
    assert!(matches!(
        send(&*client.conn, "PING").await,
        Outcome::NotSent(_)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_runs_what_was_sent_even_if_the_sender_has_gone() {
    let world = World::new();
    let client = world.dial(Purpose::Command).await;
    world.server.stop_for(Duration::from_secs(1));
    let call = send(&*client.conn, "SET k v");
    assert!(
        tokio::time::timeout(Duration::from_millis(500), call)
            .await
            .is_err()
    );
    drop(client);
    assert!(world.server.keys().is_empty());
    let start = tokio::time::Instant::now();
    let late = world.dial(Purpose::Command).await;
    assert_eq!(start.elapsed().as_millis() / 100, 5);
    assert_eq!(send(&*late.conn, "EXISTS k").await, int(1));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_still_runs() {
    let world = World::new();
    let client = world.dial(Purpose::Command).await;
    {
        let mut call = std::pin::pin!(send(&*client.conn, "SET k v"));
        assert!(futures_poll_once(call.as_mut()).await.is_none());
    }
    assert_eq!(send(&*client.conn, "EXISTS k").await, int(1));
}

async fn futures_poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        let polled = std::pin::Pin::new(&mut future).poll(context);
        std::task::Poll::Ready(match polled {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn lost_replies_hang_or_cut_after_the_command_ran() {
    let world = World::new();
    let client = world.dial(Purpose::Command).await;
    world.server.drop_next_reply();
    let call = send(&*client.conn, "INCR a");
    assert!(
        tokio::time::timeout(Duration::from_secs(9), call)
            .await
            .is_err()
    );
    let call = send(&*client.conn, "INCR a");
    let hanging = tokio::time::timeout(Duration::from_secs(9), call);
    assert!(hanging.await.is_err(), "after a lost reply none can follow");
    let client = world.dial(Purpose::Command).await;
    let is_incr = calls::named("incr");
    world.server.drop_reply(is_incr, LostReply::Cuts);
    assert_eq!(send(&*client.conn, "STRLEN a").await, int(1));
    assert!(matches!(
        send(&*client.conn, "INCR a").await,
        Outcome::Unknown(_)
    ));
    assert!(matches!(
        send(&*client.conn, "INCR a").await,
        Outcome::NotSent(_)
    ));
    let again = world.dial(Purpose::Command).await;
    assert_eq!(send(&*again.conn, "INCR a").await, int(4));
}

#[tokio::test(start_paused = true)]
async fn planned_failures_happen_once() {
    let world = World::new();
    let client = world.dial(Purpose::Command).await;
    let error = ServerError::parse("BUSY wait");
    world
        .server
        .fail_next(calls::of_script("return 1"), error.clone());
    assert_eq!(send(&*client.conn, "INCR a").await, int(1));
    let eval = || client.conn.send(vec![command(&["EVAL", "return 1", "0"])]);
    assert_eq!(eval().await, [Outcome::Replied(Err(error))]);
    assert_eq!(eval().await, [int(1)]);
}

#[tokio::test(start_paused = true)]
async fn connections_can_be_refused() {
    let world = World::new();
    world.server.refuse_connections(true);
    let refused = world.try_dial(Purpose::Command).await.unwrap_err();
    assert_eq!(refused.kind, DialErrorKind::Unreachable);
    world.server.refuse_connections(false);
    world.dial(Purpose::Command).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_ends_connections_and_forgets() {
    let world = World::new();
    let mut client = world.dial(Purpose::Command).await;
    send(&*client.conn, "SET k v").await;
    let saved = world.server.snapshot();
    world.server.restart_empty();
    assert_eq!(client.pushes.next().await, None);
    assert!(world.server.keys().is_empty());
    world.server.restore(&saved);
    assert_eq!(world.server.keys(), [b"k"]);
    assert!(world.server.delete_key("k"));
}

#[tokio::test(start_paused = true)]
async fn lost_messages_reach_nobody() {
    let world = World::new();
    let client = world.dial(Purpose::Command).await;
    let mut listener = world.dial(Purpose::PubSub).await;
    send(&*listener.conn, "SUBSCRIBE c").await;
    world.server.drop_messages(1);
    assert_eq!(send(&*client.conn, "PUBLISH c lost").await, int(1));
    assert_eq!(send(&*client.conn, "PUBLISH c kept").await, int(1));
    assert_eq!(
        listener.pushes.next().await,
        Some(Push::Subscribed(b"c".to_vec()))
    );
    let kept = Push::Message {
        channel: b"c".to_vec(),
        payload: b"kept".to_vec(),
    };
    assert_eq!(listener.pushes.next().await, Some(kept));
}

#[tokio::test(start_paused = true)]
async fn uptime_and_replicas_are_the_servers() {
    let world = World::new();
    world.server.set_replicas(2);
    let client = world.dial(Purpose::Command).await;
    assert_eq!(send(&*client.conn, "WAIT 1 0").await, int(2));
    world.server.advance(Duration::from_secs(90));
    let info = async || match send(&*client.conn, "INFO server").await {
        Outcome::Replied(Ok(text)) => text.as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    assert!(info().await.contains("uptime_in_seconds:90"));
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_stopped_server_end_with_its_process() {
    let world = World::new();
    let client = world.dial(Purpose::Command).await;
    world.server.stop();
    let call = send(&*client.conn, "SET k v");
    assert!(
        tokio::time::timeout(Duration::from_secs(1), call)
            .await
            .is_err()
    );
    world.server.restart_empty();
    assert!(world.server.keys().is_empty());
    let again = world.dial(Purpose::Command).await;
    assert_eq!(send(&*again.conn, "EXISTS k").await, int(0));
}
