//! The latch on real servers: lost replies and messages, killed clients, restarts, no memory.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Instant,
};

use redlatch::{Client, CountDownLatch, Error, ErrorKind};
use redlatch_lua::LATCH;
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, SECOND, call, preload},
    proxy::{Direction, Flow, Proxy, Then},
    server::{Server, ServerBinary, ServerOptions},
    split::SplitTransport,
    wait::{GENEROUS, eventually},
};
use tokio::task::JoinHandle;

redlatch_tests::on_every_server!(
    a_count_down_whose_reply_is_lost_counts_once,
    a_set_and_a_deletion_whose_reply_is_lost_are_done_once,
    black_hole_and_resets_count_once,
    lost_message_costs_one_recheck,
    waiter_survives_a_cut_connection,
    killed_party_has_counted_once_at_most_and_blocks_nobody,
    lost_data_is_a_typed_error,
    restart_with_data_costs_one_recheck,
    full_server_accepts_count_downs_and_deletions,
);

fn waiting(latch: CountDownLatch) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(async move { latch.wait().await })
}

/// Waits until so many connections are subscribed to the latch `x`.
async fn subscribed(backend: &Backend, connections: u64) {
    eventually("waiters to subscribe", GENEROUS, async || {
        backend.subscribers(CHANNEL) == connections
    })
    .await;
    // The look after it.
    backend.pass(100 * MS).await;
}

// L37
async fn a_count_down_whose_reply_is_lost_counts_once(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    for then in [Then::Stall, Then::Cut] {
        let proxy = Proxy::start(backend.server().address());
        let client = Client::connect(&proxy.url()).await.unwrap();
        let name = format!("{then:?}");
        let latch = client.count_down_latch(&name);
        latch.try_set_count(5).await.unwrap();
        let lost = proxy.drop_reply(call(backend.server(), &LATCH.count_down, &name), then);
        let started = Instant::now();
        assert_eq!(latch.count_down(2).await.unwrap(), 3);
        println!("{binary}, {then:?}: told after {:?}", started.elapsed());
        let first = lost.answered().await;
        let reply = String::from_utf8_lossy(first.reply()).into_owned();
        assert!(reply.contains("counted"), "it ran: {reply}");
        // Once more, on a connection of its own.
        let copy = first.copy().deliver().await.unwrap();
        let copy = String::from_utf8_lossy(&copy).into_owned();
        assert!(copy.contains("counted"), "it is remembered: {copy}");
        assert_eq!(latch.count().await.unwrap(), 3, "counted once");
        // And once more when the latch has been set anew.
        assert_eq!(latch.count_down(3).await.unwrap(), 0);
        assert!(latch.try_set_count(7).await.unwrap());
        first.copy().deliver().await.unwrap();
        assert_eq!(latch.count().await.unwrap(), 7);
    }
}

// L37
async fn a_set_and_a_deletion_whose_reply_is_lost_are_done_once(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    let proxy = Proxy::start(backend.server().address());
    let client = Client::connect(&proxy.url()).await.unwrap();
    let latch = client.count_down_latch("x");
    let lost = proxy.drop_reply(call(backend.server(), &LATCH.set, "x"), Then::Cut);
    assert!(latch.try_set_count(2).await.unwrap(), "it was this one");
    let set = lost.answered().await;
    let lost = proxy.drop_reply(call(backend.server(), &LATCH.delete, "x"), Then::Cut);
    assert!(latch.delete().await.unwrap(), "it was this one");
    let deleted = lost.answered().await;
    set.copy().deliver().await.unwrap();
    assert_eq!(latch.info().await.unwrap(), None, "a copy sets nothing");
    assert!(latch.try_set_count(4).await.unwrap());
    deleted.copy().deliver().await.unwrap();
    assert_eq!(latch.count().await.unwrap(), 4, "a copy deletes nothing");
}

// L37
async fn black_hole_and_resets_count_once(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let proxy = Proxy::start(backend.server().address());
    let client = Client::connect(&proxy.url()).await.unwrap();
    let latch = client.count_down_latch("x");
    latch.try_set_count(9).await.unwrap();
    let counting = || {
        let latch = latch.clone();
        tokio::spawn(async move { latch.count_down(2).await })
    };
    proxy.black_hole();
    let vanished = proxy.vanished();
    let count = counting();
    eventually("it to be said", GENEROUS, async || {
        proxy.vanished() > vanished
    })
    .await;
    proxy.pass();
    assert_eq!(count.await.unwrap().unwrap(), 7);
    // Executed, and the answers vanish; what is sent again comes over other connections.
    proxy.set_flow(Direction::ToClient, Flow::BlackHole);
    let count = counting();
    eventually("the server to have counted", GENEROUS, async || {
        backend.hash("redlatch:{x}")["c"] == "5"
    })
    .await;
    for _ in 0..3 {
        proxy.cut();
        backend.pass(100 * MS).await;
    }
    proxy.pass();
    proxy.cut();
    assert_eq!(count.await.unwrap().unwrap(), 5);
    assert_eq!(latch.count().await.unwrap(), 5);
}

// L7
async fn lost_message_costs_one_recheck(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    let messages = Proxy::start(backend.server().address());
    let split = Arc::new(SplitTransport::new(messages.clone()));
    let a = backend.client().await;
    let b = backend.builder().transport(split).connect().await.unwrap();
    let latch = a.count_down_latch("x");
    latch.try_set_count(1).await.unwrap();
    let waiters: Vec<_> = (0..100).map(|_| waiting(b.count_down_latch("x"))).collect();
    subscribed(&backend, 1).await;
    messages.set_flow(Direction::ToClient, Flow::BlackHole);
    let vanished = messages.vanished();
    let before = backend.script_calls();
    latch.count_down(1).await.unwrap();
    let opened = Instant::now();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    let (took, looks) = (opened.elapsed(), backend.script_calls() - before - 1);
    println!("{binary}: message lost, 100 waiters released after {took:?} by {looks} looks");
    assert!(messages.vanished() > vanished, "it was sent and lost");
    // Half a second is for a machine that is busy.
    assert!(took <= 2_400 * MS + 500 * MS, "{took:?}");
    assert!((1..=2).contains(&looks), "{looks}");
}

// L3, L7
async fn waiter_survives_a_cut_connection(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let proxy = Proxy::start(backend.server().address());
    let client = Client::connect(&proxy.url()).await.unwrap();
    let other = backend.client().await.count_down_latch("x");
    other.try_set_count(1).await.unwrap();
    let waiter = waiting(client.count_down_latch("x"));
    subscribed(&backend, 1).await;
    proxy.cut();
    other.count_down(1).await.unwrap();
    let opened = Instant::now();
    waiter.await.unwrap().unwrap();
    println!(
        "{binary}: told {:?} after cut and opening",
        opened.elapsed()
    );
    assert!(opened.elapsed() < 2_400 * MS + 10 * SECOND);
}

// L37
async fn killed_party_has_counted_once_at_most_and_blocks_nobody(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let client = backend.client().await;
    let latch = client.count_down_latch("x");
    latch.try_set_count(3).await.unwrap();
    let mut victims = [Victim::start(&backend), Victim::start(&backend)];
    eventually("both to count", GENEROUS, async || {
        latch.count().await.unwrap() == 1
    })
    .await;
    subscribed(&backend, 2).await;
    victims[0].kill();
    eventually("its subscription to end", GENEROUS, async || {
        backend.subscribers(CHANNEL) == 1
    })
    .await;
    assert_eq!(latch.count().await.unwrap(), 1, "what it counted stays");
    assert_eq!(latch.count_down(1).await.unwrap(), 0);
    assert!(victims[1].says("open"), "the other goes on");
    victims[1].kill();
    assert_eq!(backend.subscribers(CHANNEL), 0);
}

async fn lost_data_is_a_typed_error(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let client = backend.client().await;
    let latch = client.count_down_latch("x");
    latch.try_set_count(2).await.unwrap();
    let waiter = waiting(latch.clone());
    let party = tokio::spawn({
        let latch = latch.clone();
        async move { latch.count_down_and_wait(1).await }
    });
    subscribed(&backend, 1).await;
    backend.server().kill();
    backend.pass(300 * MS).await;
    backend.server().restart();
    for waiter in [waiter, party] {
        let error = waiter.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deleted, "{error:?}");
    }
    assert_eq!(latch.wait().await.unwrap_err().kind(), ErrorKind::NotSet);
    assert!(latch.try_set_count(1).await.unwrap());
    assert_eq!(latch.count_down(1).await.unwrap(), 0);
}

async fn restart_with_data_costs_one_recheck(binary: ServerBinary) {
    let options = ServerOptions::new()
        .append_only()
        .config("appendfsync everysec");
    let backend = Backend::Real(Server::start(&binary, options));
    let (a, b) = (backend.client().await, backend.client().await);
    let latch = a.count_down_latch("x");
    latch.try_set_count(2).await.unwrap();
    latch.count_down(1).await.unwrap();
    let waiter = waiting(b.count_down_latch("x"));
    subscribed(&backend, 1).await;
    backend.server().kill();
    backend.pass(300 * MS).await;
    backend.server().restart();
    assert_eq!(
        latch.count_down(1).await.unwrap(),
        0,
        "nothing was forgotten"
    );
    let opened = Instant::now();
    waiter.await.unwrap().unwrap();
    println!(
        "{binary}: told {:?} after it opened, after a restart",
        opened.elapsed()
    );
    assert!(opened.elapsed() < 4 * SECOND + 10 * SECOND);
}

async fn full_server_accepts_count_downs_and_deletions(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    let client = backend.client().await;
    let (first, second) = (client.count_down_latch("x"), client.count_down_latch("y"));
    first.try_set_count(2).await.unwrap();
    second.try_set_count(2).await.unwrap();
    // The memory of operations is a key of its own, which may be there or not.
    backend.command(&["DEL", "redlatch:{x}:o"]);
    let waiter = waiting(first.clone());
    subscribed(&backend, 1).await;
    backend.server().config_set("maxmemory", "1");
    let none = client.count_down_latch("z");
    assert_eq!(
        none.count_down(1).await.unwrap_err().kind(),
        ErrorKind::NotSet
    );
    let refused = none.try_set_count(1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ServerFull);
    assert!(refused.is_not_executed());
    assert!(
        !second.try_set_count(3).await.unwrap(),
        "a refusal needs none"
    );
    assert_eq!(first.count_down(1).await.unwrap(), 1);
    assert_eq!(first.count_down(1).await.unwrap(), 0);
    waiter.await.unwrap().unwrap();
    assert!(second.delete().await.unwrap());
    backend.server().config_set("maxmemory", "0");
    assert!(none.try_set_count(1).await.unwrap());
}

/// A process that counts down and waits until it is killed, or the latch is open.
struct Victim {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Victim {
    fn start(backend: &Backend) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "latch::run_as_a_party_process"])
            .env(URL, backend.server().url())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut victim = Self { child, lines };
        assert!(victim.says("ready"));
        victim
    }

    /// Waits until it says this; `false` if it ends before.
    fn says(&mut self, word: &str) -> bool {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.any(|line| line.contains(&format!("{URL} {word}")))
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Part of the test above: does something only when that starts it.
#[tokio::test(flavor = "multi_thread")]
async fn run_as_a_party_process() {
    let Ok(url) = env::var(URL) else {
        return;
    };
    let client = Client::connect(&url).await.unwrap();
    println!("{URL} ready");
    client
        .count_down_latch("x")
        .count_down_and_wait(1)
        .await
        .unwrap();
    println!("{URL} open");
    std::future::pending().await
}

const URL: &str = "REDLATCH_TEST_PARTY_URL";

/// Where those who wait for the latch `x` listen.
const CHANNEL: &str = "redlatch:{x}:b";
