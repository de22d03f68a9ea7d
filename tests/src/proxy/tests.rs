//! Tests of the proxy in front of a toy server in this process.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};

use super::{Direction, Flow, Pick, Proxy, Then, exchange::read};
use crate::{
    resp::{Frame, Framer, strings},
    wait::{GENEROUS, wait_for},
};

/// A server that answers each request with its last argument, except `SUBSCRIBE`, which it answers
/// with a push. It counts the requests.
struct Toy {
    address: SocketAddr,
    executed: Arc<AtomicUsize>,
}

struct Client {
    stream: TcpStream,
    framer: Framer,
}

#[tokio::test]
async fn bytes_that_are_not_resp_pass() {
    let (_toy, _proxy, mut client) = rig().await;
    client.stream.write_all(b"hello").await.unwrap();
    let mut echo = [0; 5];
    client.stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"hello");
}

#[tokio::test]
async fn delay_adds_latency() {
    let (_toy, proxy, mut client) = rig().await;
    let delay = Duration::from_millis(20);
    for way in [Direction::ToServer, Direction::ToClient] {
        proxy.set_flow(way, Flow::Delay(delay));
    }
    let start = Instant::now();
    for _ in 0..500 {
        client.send("a").await;
    }
    for _ in 0..500 {
        client.reply().await.unwrap();
    }
    let took = start.elapsed();
    assert!(took >= delay * 2, "{took:?}");
    assert!(took < delay * 500, "delays add up: {took:?}");
}

#[tokio::test]
async fn a_stall_ends_with_everything_delivered() {
    let (toy, proxy, mut client) = rig().await;
    client.ask("before").await.unwrap();
    proxy.stall();
    client.send("a").await;
    assert!(client.is_silent().await);
    assert_eq!(toy.executed(), 1);
    proxy.pass();
    assert_eq!(client.reply().await.unwrap(), "$1\r\na\r\n");
}

#[tokio::test]
async fn black_hole_swallows_everything() {
    let (toy, proxy, mut client) = rig().await;
    proxy.black_hole();
    client.send("a").await;
    let mut late = Client::connect(&proxy).await;
    late.send("b").await;
    wait_for("both to vanish", async || proxy.vanished() == 2).await;
    assert!(client.is_silent().await);
    proxy.pass();
    client.send("c").await;
    // A connection that lost bytes stays mute.
    assert!(client.is_silent().await);
    assert_eq!(toy.executed(), 0);
    let mut new = Client::connect(&proxy).await;
    assert_eq!(new.ask("d").await.unwrap(), "$1\r\nd\r\n");
}

#[tokio::test]
async fn a_partition_can_be_one_way() {
    let (toy, proxy, mut client) = rig().await;
    proxy.set_flow(Direction::ToClient, Flow::Stall);
    client.send("a").await;
    wait_for("the request to arrive", async || toy.executed() == 1).await;
    assert!(client.is_silent().await);
    proxy.pass();
    assert_eq!(client.reply().await.unwrap(), "$1\r\na\r\n");
}

#[tokio::test]
async fn a_dropped_reply_stalls_the_connection() {
    let (toy, proxy, mut client) = rig().await;
    let lost = proxy.drop_reply(Pick::containing("second"), Then::Stall);
    client.send("first").await;
    client.send("second").await;
    client.send("third").await;
    let exchange = lost.answered().await;
    assert_eq!(exchange.request().args().last(), Some(&&b"second"[..]));
    assert_eq!(exchange.reply(), b"$6\r\nsecond\r\n");
    assert_eq!(client.reply().await.unwrap(), "$5\r\nfirst\r\n");
    assert!(client.is_silent().await);
    wait_for("the third", async || toy.executed() == 3).await;
    let mut new = Client::connect(&proxy).await;
    assert_eq!(new.ask("x").await.unwrap(), "$1\r\nx\r\n");
}

#[tokio::test]
async fn a_dropped_reply_cuts_the_connection() {
    let (toy, proxy, mut client) = rig().await;
    // Messages do not count as replies.
    client.send_as("SUBSCRIBE", "news").await;
    assert_eq!(client.reply().await.unwrap(), ">1\r\n$4\r\nnews\r\n");
    let lost = proxy.drop_reply(Pick::containing("precious"), Then::Cut);
    assert_eq!(client.ask("cheap").await.unwrap(), "$5\r\ncheap\r\n");
    assert!(client.ask("precious").await.is_err());
    let exchange = lost.answered().await;
    assert_eq!(exchange.reply(), b"$8\r\nprecious\r\n");
    assert_eq!(toy.executed(), 3);
    assert_eq!(exchange.copy().deliver().await.unwrap(), exchange.reply());
    assert_eq!(toy.executed(), 4);
}

#[tokio::test]
async fn refused_command_stays_refused() {
    let (toy, proxy, mut client) = rig().await;
    proxy.always_answer(Pick::containing("b"), "-ERR no");
    for _ in 0..2 {
        assert_eq!(client.ask("a").await.unwrap(), "$1\r\na\r\n");
        assert_eq!(client.ask("b").await.unwrap(), "-ERR no\r\n");
        client.send_as("SUBSCRIBE", "b").await;
        assert_eq!(client.reply().await.unwrap(), "-ERR no\r\n");
    }
    assert_eq!(toy.executed(), 6, "each, or a PING instead");
    proxy.withdraw_orders();
    assert_eq!(client.ask("b").await.unwrap(), "$1\r\nb\r\n");
}

#[tokio::test]
async fn only_new_connections_go_to_another_server() {
    let (old, proxy, mut before) = rig().await;
    let new = Toy::start().await;
    before.ask("a").await.unwrap();
    proxy.lead_to(new.address);
    let mut after = Client::connect(&proxy).await;
    for client in [&mut before, &mut after] {
        client.ask("b").await.unwrap();
    }
    assert_eq!((old.executed(), new.executed()), (2, 1));
}

#[tokio::test]
async fn client_receives_a_forged_answer() {
    let (_toy, proxy, mut client) = rig().await;
    let replaced = proxy.replace_reply(Pick::containing("b"), "-ERR no");
    let answered = proxy.answer(Pick::containing("c"), "-LOADING wait");
    for text in ["a", "b", "c", "d", "b"] {
        client.send(text).await;
    }
    for told in ["$1\r\na", "-ERR no", "-LOADING wait", "$1\r\nd", "$1\r\nb"] {
        let reply = client.reply().await.unwrap();
        assert_eq!(reply, format!("{told}\r\n"), "in order, and once each");
    }
    assert_eq!(replaced.answered().await.reply(), b"$1\r\nb\r\n");
    assert_eq!(answered.answered().await.reply(), b"$4\r\nPING\r\n");
}

#[tokio::test]
async fn delivered_copies_are_preceded_by_their_session() {
    let (toy, proxy, mut client) = rig().await;
    client.send_as("AUTH", "secret").await;
    client.reply().await.unwrap();
    let observed = proxy.observe(Pick::command("echo"));
    assert_eq!(client.ask("a").await.unwrap(), "$1\r\na\r\n");
    let exchange = observed.answered().await;
    assert_eq!(exchange.reply(), b"$1\r\na\r\n");
    assert_eq!(exchange.copy().deliver().await.unwrap(), exchange.reply());
    assert_eq!(toy.executed(), 4);
}

#[tokio::test]
async fn connections_are_cut_and_closed() {
    let (_toy, proxy, mut client) = rig().await;
    client.ask("a").await.unwrap();
    proxy.cut();
    let error = client.reply().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

    let mut client = Client::connect(&proxy).await;
    client.ask("a").await.unwrap();
    proxy.close();
    let error = client.reply().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_cut_comes_after_exactly_so_many_bytes() {
    let (_toy, proxy, mut client) = rig().await;
    for bytes in [0, 1, 5, 6] {
        client.ask("a").await.unwrap();
        proxy.cut_after(Direction::ToClient, bytes);
        client.send("abcdef").await;
        let mut received = Vec::new();
        let read = client.stream.read_to_end(&mut received);
        timeout(GENEROUS, read).await.unwrap().unwrap();
        assert_eq!(received, b"$6\r\nabcdef\r\n"[..bytes]);
        client = Client::connect(&proxy).await;
    }
}

#[tokio::test]
async fn a_server_that_goes_takes_its_connections_along() {
    let (toy, _proxy, mut client) = rig().await;
    client.send_as("QUIT", "bye").await;
    assert_eq!(client.reply().await.unwrap(), "$3\r\nbye\r\n");
    assert!(client.reply().await.is_err());
    assert_eq!(toy.executed(), 1);
}

#[tokio::test]
async fn the_last_handle_ends_the_proxy() {
    let (_toy, proxy, mut client) = rig().await;
    let clone = proxy.clone();
    let address = proxy.address();
    drop(proxy);
    assert!(client.ask("a").await.is_ok());
    drop(clone);
    assert!(client.reply().await.is_err());
    let closed = async || TcpStream::connect(address).await.is_err();
    wait_for("the port to close", closed).await;
}

async fn rig() -> (Toy, Proxy, Client) {
    let toy = Toy::start().await;
    let proxy = Proxy::start(toy.address);
    let client = Client::connect(&proxy).await;
    (toy, proxy, client)
}

impl Toy {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let executed = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&executed);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&counter)));
            }
        });
        Self { address, executed }
    }

    fn executed(&self) -> usize {
        self.executed.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, executed: Arc<AtomicUsize>) -> io::Result<()> {
    let mut framer = Framer::default();
    loop {
        let request = match read(&mut stream, &mut framer).await? {
            Frame::Value(request) => request,
            Frame::Opaque(bytes) => {
                stream.write_all(&bytes).await?;
                continue;
            }
        };
        executed.fetch_add(1, Ordering::SeqCst);
        let args = strings(&request).unwrap();
        let last = String::from_utf8_lossy(args[args.len() - 1]).into_owned();
        let push = match args[0] {
            b"SUBSCRIBE" => ">1\r\n",
            _ => "",
        };
        let reply = format!("{push}${}\r\n{last}\r\n", last.len());
        stream.write_all(reply.as_bytes()).await?;
        if args[0] == b"QUIT" {
            return Ok(());
        }
    }
}

impl Client {
    async fn connect(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(proxy.address()).await.unwrap();
        let framer = Framer::default();
        Self { stream, framer }
    }

    async fn ask(&mut self, text: &str) -> io::Result<String> {
        self.send(text).await;
        self.reply().await
    }

    async fn send(&mut self, text: &str) {
        self.send_as("ECHO", text).await;
    }

    async fn send_as(&mut self, command: &str, text: &str) {
        let [command, text] = [command, text].map(|arg| format!("${}\r\n{arg}\r\n", arg.len()));
        let bytes = format!("*2\r\n{command}{text}");
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
    }

    async fn reply(&mut self) -> io::Result<String> {
        let reply = timeout(GENEROUS, self.next()).await;
        reply.expect("an answer or an end")
    }

    /// Tells whether nothing arrives for a moment. For data that is certain to arrive, a test has
    /// other assertions.
    async fn is_silent(&mut self) -> bool {
        timeout(A_MOMENT, self.next()).await.is_err()
    }

    async fn next(&mut self) -> io::Result<String> {
        loop {
            if let Frame::Value(reply) = read(&mut self.stream, &mut self.framer).await? {
                return Ok(String::from_utf8(reply).unwrap());
            }
        }
    }
}

const A_MOMENT: Duration = Duration::from_millis(30);
