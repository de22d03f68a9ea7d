//! The server over TCP, through a tiny client of its own.

use std::{sync::Arc, time::Duration};

use redlatch_core::runtime::TokioRuntime;
use redlatch_embedded::{EmbeddedServer, Listening, LostReply, calls};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

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

    async fn connect(&self) -> Peer {
        let connected = TcpStream::connect(self.listening.local_addr()).await;
        Peer(connected.unwrap())
    }
}

/// A client.
struct Peer(TcpStream);

impl Peer {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends bytes and expects exactly these back.
    async fn check(&mut self, request: impl AsRef<[u8]>, expected: impl AsRef<[u8]>) {
        self.send(request).await;
        self.expect(expected).await;
    }

    async fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut told = vec![0; expected.len()];
        let read = timeout(GENEROUS, self.0.read_exact(&mut told)).await;
        let text = String::from_utf8_lossy;
        assert!(read.is_ok(), "no answer {:?}", text(expected));
        assert_eq!(text(&told), text(expected));
        assert_eq!(told, expected);
    }

    /// Expects the connection to end, after these bytes.
    async fn expect_end(&mut self, before: &str) {
        let mut rest = Vec::new();
        // A connection that is reset has ended as well.
        let read = timeout(GENEROUS, self.0.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "the connection stays");
        assert_eq!(String::from_utf8_lossy(&rest), before);
    }

    async fn expect_silence(&mut self) {
        let read = timeout(Duration::from_millis(50), self.0.read_u8()).await;
        assert!(read.is_err(), "{read:?}");
    }
}

const GENEROUS: Duration = Duration::from_secs(5);

fn request(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

#[tokio::test]
async fn pipelines_keep_order_and_errors_have_their_place() {
    let world = World::new().await;
    let mut stream = world.connect().await;
    let sent =
        "SET k v\r\nGET k\r\nNOPE\r\nINCR k\r\nGET none\r\nEVAL return{1,KEYS[1]} 1 x\r\nPING\r\n";
    let told = "+OK\r\n$1\r\nv\r\n-ERR unknown command 'NOPE', with args beginning with: \r\n\
         -ERR value is not an integer or out of range\r\n$-1\r\n*2\r\n:1\r\n$1\r\nx\r\n+PONG\r\n";
    stream.check(sent, told).await;
    let many = "INCR n\r\n".repeat(5000);
    let replies: String = (1..=5000).map(|n| format!(":{n}\r\n")).collect();
    stream.check(many, replies).await;
}

#[tokio::test]
async fn values_are_binary_safe_and_packets_may_be_split() {
    let world = World::new().await;
    let mut stream = world.connect().await;
    let value: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mut bytes = request(&[b"SET", b"\r\n\0", &value]);
    bytes.extend(request(&[b"GET", b"\r\n\0"]));
    stream.0.set_nodelay(true).unwrap();
    let (head, tail) = bytes.split_at(70);
    for byte in head {
        stream.send([*byte]).await;
        tokio::task::yield_now().await;
    }
    let expected = [b"+OK\r\n$100000\r\n", &value[..], b"\r\n"].concat();
    stream.check(tail, expected).await;
}

#[tokio::test]
async fn clients_introduce_themselves() {
    let world = World::new().await;
    let mut stream = world.connect().await;
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    for (request, reply) in [
        ("HELLO 3", "-NOPROTO unsupported protocol version"),
        ("CLIENT SETINFO LIB-NAME x", "+OK"),
        ("CLIENT SETNAME app", "+OK"),
        ("CLIENT GETNAME", "$3\r\napp"),
        ("SELECT 0", "+OK"),
        ("SELECT 1", "-ERR DB index is out of range"),
        ("AUTH default pw", "+OK"),
        ("AUTH bob pw", wrong),
    ] {
        let (request, reply) = (format!("{request}\r\n"), format!("{reply}\r\n"));
        stream.check(request, reply).await;
    }
    stream.send(b"AUTH pw\r\nQUIT\r\nPING\r\n").await;
    let told = "-ERR AUTH <password> called without any password configured for the default user. \
         Are you sure your configuration is correct?\r\n+OK\r\n";
    stream.expect_end(told).await;
}

#[tokio::test]
async fn garbage_is_answered_and_ends_the_connection() {
    let world = World::new().await;
    for (garbage, error) in [
        ("*1\r\n:7\r\n", "expected '$', got something else"),
        ("*9999999\r\n", "invalid multibulk length"),
        ("*1\r\n$999999999\r\n", "invalid bulk length"),
    ] {
        let mut stream = world.connect().await;
        stream.send(format!("PING\r\n{garbage}")).await;
        let expected = format!("+PONG\r\n-ERR Protocol error: {error}\r\n");
        stream.expect_end(&expected).await;
    }
    let mut stream = world.connect().await;
    stream.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    drop(stream);
    world.connect().await.check("PING\r\n", "+PONG\r\n").await;
}

#[tokio::test]
async fn subscriptions_confirm_and_deliver_in_order() {
    let world = World::new().await;
    let mut listener = world.connect().await;
    let sent = "PING\r\nUNSUBSCRIBE\r\nSUBSCRIBE a b\r\nPING\r\nGET k\r\n";
    let told = "+PONG\r\n*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n\
         *3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n\
         *2\r\n$4\r\npong\r\n$0\r\n\r\n\
         -ERR Can't execute 'get': subscriptions and commands use connections of their own\r\n";
    listener.check(sent, told).await;
    let publish = request(&[b"PUBLISH", b"a", b"\r\n"]);
    world.connect().await.check(publish, ":1\r\n").await;
    let message = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\n\r\n\r\n";
    listener.expect(message).await;
    let told = "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n\
         *3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n$-1\r\n";
    listener.check("UNSUBSCRIBE\r\nGET k\r\n", told).await;
}

#[tokio::test]
async fn a_stopped_server_is_silent_and_then_runs_what_was_sent() {
    let world = World::new().await;
    let mut stream = world.connect().await;
    stream.check("PING\r\n", "+PONG\r\n").await;
    world.server.stop();
    stream.send(b"INCR n\r\nINCR n\r\n").await;
    stream.expect_silence().await;
    // One that comes and goes meanwhile.
    let mut passer_by = world.connect().await;
    passer_by.send(b"SET left 1\r\n").await;
    drop(passer_by);
    stream.expect_silence().await;
    world.server.resume();
    stream.expect(":1\r\n:2\r\n").await;
    let seen = async {
        while !world.server.keys().contains(&b"left".to_vec()) {
            tokio::task::yield_now().await;
        }
    };
    timeout(GENEROUS, seen).await.unwrap();
}

#[tokio::test]
async fn faults_affect_socket_connections() {
    let world = World::new().await;
    let mut hanging = world.connect().await;
    let incr = calls::named("INCR");
    world.server.drop_reply(incr, LostReply::Hangs);
    let sent = "PING\r\nINCR n\r\nSET after 1\r\n";
    hanging.check(sent, "+PONG\r\n").await;
    hanging.expect_silence().await;
    assert_eq!(world.server.keys(), [b"after".to_vec(), b"n".to_vec()]);

    let mut cut = world.connect().await;
    let incr = calls::named("INCR");
    world.server.drop_reply(incr, LostReply::Cuts);
    cut.send(b"PING\r\nINCR n\r\nPING\r\n").await;
    cut.expect_end("+PONG\r\n").await;

    world.server.cut_connections();
    hanging.expect_end("").await;
    world.server.refuse_connections(true);
    world.connect().await.expect_end("").await;
    world.server.refuse_connections(false);

    let mut last = world.connect().await;
    last.check("GET n\r\n", "$1\r\n2\r\n").await;
    drop(world.listening);
    last.expect_end("").await;
}

#[tokio::test]
async fn client_that_does_not_read_is_delayed_or_closed() {
    let world = World::new().await;
    let mut reader = world.connect().await;
    let value = vec![b'x'; 1 << 20];
    let set = request(&[b"SET", b"k", &value]);
    reader.check(set, "+OK\r\n").await;
    // Some 500 MiB of replies, of which no more are made than are read.
    reader.send(b"GET k\r\n".repeat(500)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let served = world.server.command_count("get");
    assert!((1..100).contains(&served), "{served}");

    let mut subscriber = world.connect().await;
    let subscribed = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    subscriber.check("SUBSCRIBE c\r\n", subscribed).await;
    let mut speaker = world.connect().await;
    let publish = request(&[b"PUBLISH", b"c", &value]);
    let mut rounds = 0;
    while world.server.connection_count() == 3 {
        rounds += 1;
        assert!(rounds < 100, "nobody closes the one that does not read");
        speaker.check(&publish, ":1\r\n").await;
    }
}
