//! Clients, connections and trouble.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use redlatch_core::runtime::{
    Address, Conn, Dial, DialError, DialErrorKind, Dialed, Login, Outcome, Purpose, Push,
    ServerError, Transport, Value,
};
use redlatch_embedded::{EmbeddedServer, EmbeddedTransport, LostReply, SteppedRuntime, calls};

use crate::support::command;

struct World {
    server: EmbeddedServer,
    transport: EmbeddedTransport,
}

impl World {
    fn new() -> Self {
        let server = EmbeddedServer::new(Arc::new(SteppedRuntime::new()));
        let transport = EmbeddedTransport::new().serve("a", server.clone());
        Self { server, transport }
    }

    async fn try_dial(&self, purpose: Purpose) -> Result<Dialed, DialError> {
        let dial = Dial {
            address: Address::Embedded("a".to_owned()),
            login: Login::default(),
            purpose,
        };
        self.transport.dial(&dial).await
    }

    async fn dial(&self, purpose: Purpose) -> Dialed {
        self.try_dial(purpose).await.unwrap()
    }
}

async fn send(conn: &dyn Conn, line: &str) -> Outcome {
    let args: Vec<_> = line.split(' ').collect();
    conn.send(vec![command(&args)]).await.remove(0)
}

/// Tells whether a call has no answer within a time. The call is dropped then.
async fn hangs(call: impl Future<Output = Outcome>, millis: u64) -> bool {
    let span = Duration::from_millis(millis);
    tokio::time::timeout(span, call).await.is_err()
}

/// A subscriber to the channel `c`, whose subscription is confirmed.
async fn subscriber(world: &World) -> Dialed {
    let mut listener = world.dial(Purpose::PubSub).await;
    send(&*listener.conn, "SUBSCRIBE c").await;
    let confirmed = listener.pushes.next().await;
    assert_eq!(confirmed, Some(Push::Subscribed(b"c".to_vec())));
    listener
}

fn message(payload: &str) -> Option<Push> {
    Some(Push::Message {
        channel: b"c".to_vec(),
        payload: payload.into(),
    })
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
    assert_eq!(send(&*two.conn, "EXISTS h").await, int(1));
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
    let mut listener = subscriber(&world).await;
    assert_eq!(send(&*client.conn, "PUBLISH c m").await, int(1));
    assert_eq!(listener.pushes.next().await, message("m"));
    world.server.cut_connections();
    assert_eq!(listener.pushes.next().await, None);
    let late = send(&*client.conn, "PING").await;
    assert!(matches!(late, Outcome::NotSent(_)), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_runs_what_was_sent_even_if_the_sender_has_gone() {
    let world = World::new();
    let client = world.dial(Purpose::Command).await;
    world.server.stop_for(Duration::from_secs(1));
    assert!(hangs(send(&*client.conn, "SET k v"), 500).await);
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
        let mut call = pin!(send(&*client.conn, "SET k v"));
        let once = poll_fn(|context| Poll::Ready(call.as_mut().poll(context)));
        assert!(once.await.is_pending());
    }
    assert_eq!(send(&*client.conn, "EXISTS k").await, int(1));
}

#[tokio::test(start_paused = true)]
async fn lost_replies_hang_or_cut_after_the_command_ran() {
    let world = World::new();
    let client = world.dial(Purpose::Command).await;
    world.server.drop_next_reply();
    assert!(hangs(send(&*client.conn, "INCR a"), 9_000).await);
    let next = hangs(send(&*client.conn, "INCR a"), 9_000).await;
    assert!(next, "after a lost reply none can follow");
    let client = world.dial(Purpose::Command).await;
    let is_incr = calls::named("incr");
    world.server.drop_reply(is_incr, LostReply::Cuts);
    assert_eq!(send(&*client.conn, "EXISTS a").await, int(1));
    let cut = send(&*client.conn, "INCR a").await;
    assert!(matches!(cut, Outcome::Unknown(_)), "{cut:?}");
    let late = send(&*client.conn, "INCR a").await;
    assert!(matches!(late, Outcome::NotSent(_)), "{late:?}");
    let again = world.dial(Purpose::Command).await;
    assert_eq!(send(&*again.conn, "INCR a").await, int(4));
}

#[tokio::test(start_paused = true)]
async fn planned_failures_happen_once() {
    let world = World::new();
    let client = world.dial(Purpose::Command).await;
    let error = ServerError::parse("BUSY wait");
    let script = calls::of_script("return 1");
    world.server.fail_next(script, error.clone());
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
    let mut listener = subscriber(&world).await;
    world.server.drop_messages(1);
    assert_eq!(send(&*client.conn, "PUBLISH c lost").await, int(1));
    assert_eq!(send(&*client.conn, "PUBLISH c kept").await, int(1));
    assert_eq!(listener.pushes.next().await, message("kept"));
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
    assert!(hangs(send(&*client.conn, "SET k v"), 1_000).await);
    world.server.restart_empty();
    assert!(world.server.keys().is_empty());
    let again = world.dial(Purpose::Command).await;
    assert_eq!(send(&*again.conn, "EXISTS k").await, int(0));
}
