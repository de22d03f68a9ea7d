//! Services of axum over TCP, with clients that are idle, hang up, or ask while the lock server is
//! away.

use std::{
    env,
    net::SocketAddr,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, routing::get};
use redlatch::{Client, embedded::Server};
use redlatch_tower::{Unavailable, Until};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines, Stdin},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::{REFUSE, all_taken, eventually_available, limit, slow};

/// Serves in the background.
async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn connect(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    ask(&mut stream, "/").await;
    stream
}

async fn ask(stream: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
}

/// Reads the head of a response and its short body. Returns the first line.
async fn read(stream: &mut TcpStream) -> String {
    let mut read = String::new();
    // The last word of the handler, or the end of a refusal.
    while !read.ends_with("done") && !read.ends_with(".\n") {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "the connection ended: {read:?}");
        read.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    read.lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn client_that_hangs_up_gives_its_permit_back() {
    let client = Client::embedded().await.unwrap();
    for until in [Until::Head, Until::Body] {
        let layer = limit(&client, 1).until(until).on_unavailable(REFUSE);
        let go_on = Arc::default();
        let address = serve(slow(&go_on).layer(layer)).await;
        let stream = connect(address).await;
        all_taken(&client).await;
        drop(stream);
        eventually_available(&client, 1).await;
    }
}

/// `cargo xtask check load` sets the number of connections to 10,000. The connections belong to
/// another process, which is this program again, since a process may have too few files for both
/// ends.
#[tokio::test]
async fn many_connections_hold_no_permit_and_are_answered() {
    if let Ok(address) = env::var(CLIENT_OF) {
        return Idle::open(address.parse().unwrap()).await.obey().await;
    }
    #[cfg(unix)]
    allow_files(connections() + 100);
    let server = Server::start();
    let builder = server.builder().patience(Duration::from_secs(1));
    let client = builder.connect().await.unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let address = serve(service(&client, &served)).await;
    let mut clients = Clients::start(address);
    clients.until("connected").await;
    assert_eq!(served.load(Ordering::Relaxed), connections());
    eventually_available(&client, 1).await;

    // Each of them is alive, and can have the permit again.
    clients.order("again").await;
    assert_eq!(served.load(Ordering::Relaxed), connections() + 10);
    eventually_available(&client, 1).await;

    // One of ten works, and all of them hang up.
    clients.order("ask slow").await;
    all_taken(&client).await;
    clients.order("hang up").await;
    eventually_available(&client, 1).await;

    // Each layer answers as it was told.
    server.engine().stop();
    clients.order("ask without a server").await;
    assert_eq!(served.load(Ordering::Relaxed), connections() + 20);
    clients.end().await;
}

/// A service with one permit for all requests: `/` is done at once, `/slow` never, and `/pass` goes
/// through if the server of the permit is away.
fn service(client: &Client, served: &Arc<AtomicUsize>) -> Router {
    let layer = limit(client, 1).until(Until::Body);
    let layer = layer.wait(Duration::from_secs(60));
    let handler = || {
        let served = Arc::clone(served);
        get(async move || {
            served.fetch_add(1, Ordering::Relaxed);
            "done"
        })
    };
    let refusing = Router::new()
        .route("/", handler())
        .route("/slow", get(std::future::pending::<&str>))
        .layer(layer.clone().on_unavailable(REFUSE));
    let passing = Router::new()
        .route("/pass", handler())
        .layer(layer.on_unavailable(Unavailable::PassThrough));
    refusing.merge(passing)
}

/// The process with the other ends of the connections.
struct Clients {
    process: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Clients {
    fn start(address: SocketAddr) -> Self {
        let test = "connections::many_connections_hold_no_permit_and_are_answered";
        let mut process = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(CLIENT_OF, address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self {
            process,
            orders,
            lines,
        }
    }

    /// Waits until the process says `line`.
    async fn until(&mut self, line: &str) {
        let mut next = async || self.lines.next_line().await.unwrap();
        while next().await.expect("the process goes on") != line {}
    }

    /// Gives an order, and waits until it is carried out.
    async fn order(&mut self, order: &str) {
        let line = format!("{order}\n");
        self.orders.write_all(line.as_bytes()).await.unwrap();
        self.until(order).await;
    }

    async fn end(mut self) {
        drop(self.orders);
        assert!(self.process.wait().await.unwrap().success());
    }
}

/// Connections with a request each, in the process of the clients.
struct Idle {
    streams: Vec<TcpStream>,
    orders: Lines<BufReader<Stdin>>,
}

impl Idle {
    async fn open(address: SocketAddr) -> Self {
        #[cfg(unix)]
        allow_files(connections() + 100);
        let mut streams = Vec::new();
        for _ in 0..connections() {
            let mut stream = connect(address).await;
            assert_eq!(read(&mut stream).await, "HTTP/1.1 200 OK");
            streams.push(stream);
        }
        println!("\nconnected");
        let orders = BufReader::new(tokio::io::stdin()).lines();
        Self { streams, orders }
    }

    /// Carries out orders until their end.
    async fn obey(mut self) {
        while let Some(order) = self.orders.next_line().await.unwrap() {
            match order.as_str() {
                "again" => self.answers("/", "HTTP/1.1 200 OK").await,
                "ask slow" => {
                    for stream in self.some() {
                        ask(stream, "/slow").await;
                    }
                }
                "hang up" => {
                    let step = self.streams.len() / 10;
                    let mut at = 0..;
                    self.streams.retain(|_| at.next().unwrap() % step != 0);
                }
                "ask without a server" => {
                    self.answers("/", "HTTP/1.1 502 Bad Gateway").await;
                    self.answers("/pass", "HTTP/1.1 200 OK").await;
                }
                _ => panic!("no such order: {order}"),
            }
            println!("{order}");
        }
    }

    /// Returns ten of the connections.
    fn some(&mut self) -> impl Iterator<Item = &mut TcpStream> {
        let step = self.streams.len() / 10;
        self.streams.iter_mut().step_by(step).take(10)
    }

    /// Sends a request on ten of the connections, all at once, and checks the answers.
    async fn answers(&mut self, path: &str, expected: &str) {
        for stream in self.some() {
            ask(stream, path).await;
        }
        for stream in self.some() {
            assert_eq!(read(stream).await, expected, "{path}");
        }
    }
}

/// A multiple of ten.
fn connections() -> usize {
    let number = env::var("REDLATCH_TEST_CONNECTIONS");
    number.map_or(100, |number| number.parse().unwrap())
}

/// The variable with the address that a process opens its connections to.
const CLIENT_OF: &str = "REDLATCH_TEST_CLIENT_OF";

/// Raises the limit of open files of this process.
#[cfg(unix)]
fn allow_files(files: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let files = u64::try_from(files).unwrap();
    if limit.current.is_some_and(|current| current < files) {
        let current = Some(limit.maximum.map_or(files, |most| most.min(files)));
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    }
}
