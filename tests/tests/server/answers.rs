//! Errors that a server hardly ever gives, told by the proxy, before or after the server has
//! executed what it was sent; and those of servers that have too many clients or whose `WAIT` is
//! ended.

use std::time::Instant;

use redlatch_lua::{LATCH, Source};
use redlatch_tests::proxy::Exchange;

use crate::prelude::*;

redlatch_tests::on_every_server!(
    requests_that_were_not_executed_are_repeated_later,
    requests_with_unknown_outcome_count_once,
    requests_that_can_never_succeed_fail_at_once,
    full_client_table_is_retried_with_pauses,
    acquisition_whose_wait_for_replicas_is_ended_is_undone,
);

/// Not executed, and later it may be.
const LATER: [&str; 3] = [
    "-ERR max number of clients reached",
    "-TRYAGAIN Multiple keys request during rehashing of slot",
    "-CLUSTERDOWN The cluster is down",
];

/// It may have been executed: what says so in Lua, in the words of 6.2 and 7.0, and what nobody
/// knows.
const UNKNOWN: [&str; 9] = [
    "-UNBLOCKED client unblocked via CLIENT UNBLOCK",
    "-ERR Error running script (call to f_1): @user_script:3: user_script:3: attempt to compare nil with number",
    "-ERR user_script:3: attempt to compare nil with number script: 2be1, on @user_script:3.",
    "-ERR something new",
    "-EXECABORT Transaction discarded because of previous errors.",
    "-FOO bar",
    "-FOO",
    "-MOVED nobody knows where",
    "-ASK 70000 127.0.0.1:1",
];

/// Never.
const NEVER: [(&str, ErrorKind); 3] = [
    (
        "-CROSSSLOT Keys in request don't hash to the same slot",
        ErrorKind::Protocol,
    ),
    (
        "-NOPERM this user has no permissions",
        ErrorKind::Permission,
    ),
    ("-ERR unknown command 'EVALSHA'", ErrorKind::Permission),
];

/// A client behind a proxy.
struct Rig {
    backend: Backend,
    proxy: Proxy,
    client: Client,
}

impl Rig {
    async fn new(binary: &ServerBinary) -> Self {
        let backend = Backend::real(binary);
        preload(backend.server());
        let proxy = Proxy::start(backend.server().address());
        let client = Client::connect(&proxy.url()).await.unwrap();
        Self {
            backend,
            proxy,
            client,
        }
    }

    /// Has `line` told about the next call of `script` for `lock`, `executed` or not.
    fn tell(&self, line: &str, executed: bool, script: &Source, name: &str) -> Told {
        let pick = || call(self.backend.server(), script, name);
        let first = if executed {
            self.proxy.replace_reply(pick(), line)
        } else {
            self.proxy.answer(pick(), line)
        };
        // Orders are carried out one after the other.
        Told {
            first,
            second: self.proxy.observe(pick()),
        }
    }

    async fn end(self) {
        assert_nothing_left(&self.backend, &[&self.client]).await;
    }
}

/// What was answered with an error, and the call that followed it.
struct Told {
    first: redlatch_tests::proxy::Answered,
    second: redlatch_tests::proxy::Answered,
}

impl Told {
    async fn both(self) -> [Exchange; 2] {
        [self.first.answered().await, self.second.answered().await]
    }
}

// L45
async fn requests_that_were_not_executed_are_repeated_later(binary: ServerBinary) {
    let rig = Rig::new(&binary).await;
    for line in LATER {
        each_call_counts_once(&rig, line, false).await;
    }
    rig.end().await;
}

// L1, L45
async fn requests_with_unknown_outcome_count_once(binary: ServerBinary) {
    let rig = Rig::new(&binary).await;
    for line in UNKNOWN {
        each_call_counts_once(&rig, line, false).await;
        each_call_counts_once(&rig, line, true).await;
    }
    assert_nothing_left(&rig.backend, &[&rig.client]).await;
    for line in UNKNOWN {
        counts_down_once(&rig, line).await;
    }
    // A latch leaves a trace for ten minutes.
    assert_tables_empty(&rig.client).await;
}

/// Acquires, enters again, extends and releases, each with the error in the way.
async fn each_call_counts_once(rig: &Rig, line: &str, executed: bool) {
    let name = format!("{executed} {line}");
    let lock = rig.client.lock(&name);
    let told = rig.tell(line, executed, &REENTRANT.acquire, &name);
    let outer = lock.lock().await.unwrap();
    let [first, second] = told.both().await;
    // If the server has done nothing, the attempt may get a later number.
    assert!(!executed || attempt(&first) == attempt(&second), "{line}");
    assert_eq!(said(&first, "granted"), executed, "{first:?}");
    assert!(said(&second, "granted"), "{second:?}");
    assert_eq!(lock.hold_count(outer.owner()).await.unwrap(), 1, "{line}");
    let told = rig.tell(line, executed, &REENTRANT.acquire, &name);
    let inner = lock.lock().owner(outer.owner()).await.unwrap();
    told.both().await;
    assert_eq!(lock.hold_count(outer.owner()).await.unwrap(), 2, "{line}");
    let told = rig.tell(line, executed, &REENTRANT.renew, &name);
    outer.extend(60 * SECOND).await.unwrap();
    told.both().await;
    assert_eq!(outer.state(), HoldState::Held, "{line}");
    for (guard, left) in [(inner, Released::StillHeld(1)), (outer, Released::Free)] {
        let told = rig.tell(line, executed, &REENTRANT.release, &name);
        assert_eq!(guard.release().await.unwrap(), left, "{line}");
        told.both().await;
    }
    assert!(!lock.is_locked().await.unwrap(), "{line}");
}

async fn counts_down_once(rig: &Rig, line: &str) {
    let latch = rig.client.count_down_latch(line);
    latch.try_set_count(3).await.unwrap();
    let pick = || call(rig.backend.server(), &LATCH.count_down, line);
    for (left, executed) in [(2, false), (1, true)] {
        if executed {
            drop(rig.proxy.replace_reply(pick(), line));
        } else {
            drop(rig.proxy.answer(pick(), line));
        }
        assert_eq!(latch.count_down(1).await.unwrap(), left, "{line}");
        assert_eq!(latch.count().await.unwrap(), left, "{line}");
    }
    assert!(latch.delete().await.unwrap());
}

// L45
async fn requests_that_can_never_succeed_fail_at_once(binary: ServerBinary) {
    let rig = Rig::new(&binary).await;
    for (line, kind) in NEVER {
        let lock = rig.client.lock(line);
        let pick = |script| call(rig.backend.server(), script, line);
        drop(rig.proxy.answer(pick(&REENTRANT.acquire), line));
        let error = lock.lock().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(!error.is_transient(), "{error:?}");
        // What is not understood may be anything.
        let understood = kind != ErrorKind::Protocol;
        assert_eq!(error.is_not_executed(), understood, "{error:?}");
        println!("{line}: {error}");
        assert_tables_empty(&rig.client).await;
        let guard = lock.lock().await.unwrap();
        drop(rig.proxy.answer(pick(&REENTRANT.renew), line));
        let error = guard.extend(60 * SECOND).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert_eq!(guard.state(), HoldState::Held, "it is what it was");
        drop(rig.proxy.answer(pick(&REENTRANT.release), line));
        let error = guard.release().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        // It goes on in the background.
        rig.client.settled().await;
        assert!(!lock.is_locked().await.unwrap(), "{line}");
    }
    // A node of a cluster, taken for a server of its own.
    let lock = rig.client.lock("moved");
    let pick = call(rig.backend.server(), &REENTRANT.acquire, "moved");
    drop(rig.proxy.answer(pick, "-MOVED 3999 127.0.0.1:1"));
    let error = lock.lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedServer, "{error:?}");
    assert!(error.is_not_executed() && !lock.is_locked().await.unwrap());
    rig.end().await;
}

// L45
async fn full_client_table_is_retried_with_pauses(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let proxy = Proxy::start(backend.server().address());
    let client = Client::connect(&proxy.url()).await.unwrap();
    let guard = client.lock("held").lock().await.unwrap();
    let mut admin = backend.server().connect().unwrap();
    ask(&mut admin, &["CONFIG", "SET", "maxclients", "1"]);
    // Who is in stays: it is for newcomers that there is no room.
    let free = client.lock("free").lock().await.unwrap();
    free.release().await.unwrap();
    for kind in ["normal", "pubsub"] {
        let kill = ["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"];
        ask(&mut admin, &kill);
    }
    let (began, connections) = (Instant::now(), proxy.connections());
    let waiter = waiting(client.lock("free"));
    let error = client.lock("short").try_lock_for(300 * MS).await;
    let error = error.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let newcomer = Client::builder(&proxy.url()).connect_timeout(300 * MS);
    let error = newcomer.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    println!("{binary}: {error:?}");
    backend.pass(SECOND.saturating_sub(began.elapsed())).await;
    assert!(!waiter.is_finished());
    let connections = proxy.connections() - connections;
    assert!(connections < 60, "{connections} in {:?}", began.elapsed());
    ask(&mut admin, &["CONFIG", "SET", "maxclients", "1000"]);
    waiter.await.unwrap().release().await.unwrap();
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_nothing_left(&backend, &[&client]).await;
}

/// Somebody ends the `WAIT` of an acquisition with an error: nobody has confirmed it, and it is
/// undone.
// L48
async fn acquisition_whose_wait_for_replicas_is_ended_is_undone(binary: ServerBinary) {
    let servers = Replicated::start(&binary, 1, &ServerOptions::new());
    let client = Client::connect(&servers.url()).await.unwrap();
    let lock = client.lock("x");
    // The connection that waits is there before.
    let guard = lock.lock().durability(DURABLE).await.unwrap();
    guard.release().await.unwrap();
    servers.servers()[1].stop();
    let acquiring = tokio::spawn(lock.try_lock().durability(DURABLE).into_future());
    let mut admin = servers.master().connect().unwrap();
    let mut ended = 0;
    let began = Instant::now();
    while !acquiring.is_finished() {
        assert!(began.elapsed() < GENEROUS);
        let list = ask(&mut admin, &["CLIENT", "LIST"]);
        for line in list.lines().filter(|line| line.contains(" cmd=wait ")) {
            let id = line.split(' ').find_map(|field| field.strip_prefix("id="));
            let unblock = ["CLIENT", "UNBLOCK", id.unwrap(), "ERROR"];
            ended += admin.command(&unblock).unwrap().unwrap().int();
        }
        sleep(MS).await;
    }
    let error = acquiring.await.unwrap().unwrap_err();
    println!("{binary}: after {ended} ended waits: {error}");
    assert!(ended > 0);
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error:?}");
    assert!(!error.is_not_executed(), "it was taken");
    client.settled().await;
    assert!(!lock.is_locked().await.unwrap(), "it is undone");
    servers.servers()[1].cont();
    let guard = lock.lock().durability(DURABLE).await.unwrap();
    assert_eq!(guard.acknowledged(), 1);
    guard.release().await.unwrap();
    assert_tables_empty(&client).await;
}

fn ask(admin: &mut Connection, args: &[&str]) -> String {
    match admin.command(args).unwrap().unwrap() {
        redlatch_tests::server::Reply::Int(n) => n.to_string(),
        reply => reply.text(),
    }
}

/// Which attempt an acquisition is for: the third argument behind the keys.
fn attempt(exchange: &Exchange) -> Vec<u8> {
    let args = exchange.request().args();
    let keys: usize = std::str::from_utf8(args[2]).unwrap().parse().unwrap();
    args[3 + keys + 2].to_vec()
}

fn said(exchange: &Exchange, word: &str) -> bool {
    let reply = exchange.reply();
    reply
        .windows(word.len())
        .any(|part| part == word.as_bytes())
}

const DURABLE: Durability = Durability::Replicas(1);
