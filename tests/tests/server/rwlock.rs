//! The read-write lock on real servers: processes that are killed or stopped, replies and messages
//! that are lost, a server that is full.

use std::{
    env,
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use redlatch::{Client, ErrorKind, HoldState, Released};
use redlatch_lua::RWLOCK;
use redlatch_tests::{
    backend::Backend,
    child,
    fixture::{MS, SECOND, call, preload},
    proxy::{Direction, Flow, Proxy, Then},
    server::ServerBinary,
    split::SplitTransport,
    wait::{GENEROUS, eventually},
};

redlatch_tests::on_every_server!(
    lease_of_a_killed_reader_ends_while_others_stay,
    a_killed_writer_frees_the_name_with_its_lease,
    a_killed_waiting_writer_does_not_hold_readers_back_for_long,
    stopped_reader_loses_its_hold_and_learns_it_on_resuming,
    stopped_writer_loses_its_hold_and_learns_it_on_resuming,
    stopped_waiting_writer_delays_the_others_once,
    lost_replies_count_once,
    downgrade_whose_reply_is_lost_takes_effect_once,
    lost_messages_cost_one_recheck,
    full_server_accepts_releases_and_refuses_acquisitions,
);

/// A process that does something with lock `x`.
struct Victim(Child, Lines<BufReader<ChildStdout>>);

impl Victim {
    /// Starts this test binary anew as `role`, and returns when it has said that it is ready.
    fn start(backend: &Backend, role: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "rwlock::run_as_the_victim_process",
            ])
            .env(ROLE, role)
            .env(URL, backend.server().url())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut victim = Self(child, lines);
        assert_eq!(victim.says(), "ready");
        victim
    }

    /// Returns what it says next. The tests of other servers go on meanwhile.
    fn says(&mut self) -> String {
        tokio::task::block_in_place(|| {
            let mut lines = self.1.by_ref().map_while(Result::ok);
            let said =
                lines.find_map(|line| line.split_once(ROLE).map(|(_, said)| said.to_owned()));
            said.expect("it lives and speaks").trim().to_owned()
        })
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn suspend(&self) {
        child::suspend(&self.0);
    }

    fn resume(&self) {
        child::resume(&self.0);
    }
}

/// Part of the tests here: does something only when they start it.
#[tokio::test(flavor = "multi_thread")]
async fn run_as_the_victim_process() {
    let (Ok(role), Ok(url)) = (env::var(ROLE), env::var(URL)) else {
        return;
    };
    let client = Client::connect(&url).await.unwrap();
    let lock = client.read_write_lock("x");
    match role.as_str() {
        "reader" => {
            let guard = lock.read().renewed_lease(LEASE).await.unwrap();
            println!("{ROLE} ready");
            println!("{ROLE} {:?}", guard.lost().await);
        }
        "writer" => {
            let guard = lock.write().renewed_lease(LEASE).await.unwrap();
            println!("{ROLE} ready");
            println!("{ROLE} {:?}", guard.lost().await);
        }
        _ => {
            println!("{ROLE} ready");
            let _guard = lock.write().await.unwrap();
            println!("{ROLE} writes");
            std::future::pending().await
        }
    }
    std::future::pending().await
}

async fn known(client: &Client, writers: u64, readers: u64) {
    eventually("waiters to be known", GENEROUS, async || {
        let info = client.read_write_lock("x").info().await.unwrap();
        (info.waiting_writers, info.waiting_readers) == (writers, readers)
    })
    .await;
}

// L30
async fn lease_of_a_killed_reader_ends_while_others_stay(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let client = backend.client().await;
    let lock = client.read_write_lock("x");
    let stays = lock.read().await.unwrap();
    let victim = Victim::start(&backend, "reader");
    assert_eq!(lock.info().await.unwrap().readers, 2);
    backend.pass(LEASE).await;
    assert_eq!(
        lock.info().await.unwrap().readers,
        2,
        "it renews while it lives"
    );
    victim.kill();
    eventually("the dead reader to be out", GENEROUS, async || {
        lock.info().await.unwrap().readers == 1
    })
    .await;
    let writing = tokio::spawn({
        let lock = lock.clone();
        async move { lock.write().await.unwrap() }
    });
    known(&client, 1, 0).await;
    assert_eq!(stays.release().await.unwrap(), Released::Free);
    writing.await.unwrap().release().await.unwrap();
}

async fn a_killed_writer_frees_the_name_with_its_lease(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let client = backend.client().await;
    let lock = client.read_write_lock("x");
    let victim = Victim::start(&backend, "writer");
    let readers: Vec<_> = (0..10)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.read().await.unwrap() })
        })
        .collect();
    known(&client, 0, 10).await;
    let killed = Instant::now();
    victim.kill();
    for reader in readers {
        let guard = reader.await.unwrap();
        assert!(guard.is_after_abandonment());
        guard.release().await.unwrap();
    }
    let waited = killed.elapsed();
    println!(
        "{binary}: ten readers in {waited:?} after the writer was killed, its lease was {LEASE:?}"
    );
    assert!(waited < LEASE + 10 * SECOND);
}

async fn a_killed_waiting_writer_does_not_hold_readers_back_for_long(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let client = backend.client().await;
    let lock = client.read_write_lock("x");
    let guard = lock.read().await.unwrap();
    let victim = Victim::start(&backend, "waiter");
    known(&client, 1, 0).await;
    victim.kill();
    let killed = Instant::now();
    let readers: Vec<_> = (0..10)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.read().await.unwrap() })
        })
        .collect();
    for reader in readers {
        reader.await.unwrap().release().await.unwrap();
    }
    let waited = killed.elapsed();
    println!("{binary}: ten readers in {waited:?} after the waiting writer was killed");
    assert!(waited < 5 * SECOND + 10 * SECOND);
    guard.release().await.unwrap();
}

async fn stopped_reader_loses_its_hold_and_learns_it_on_resuming(binary: ServerBinary) {
    stopped_beyond_its_lease(&binary, "reader").await;
}

async fn stopped_writer_loses_its_hold_and_learns_it_on_resuming(binary: ServerBinary) {
    stopped_beyond_its_lease(&binary, "writer").await;
}

async fn stopped_beyond_its_lease(binary: &ServerBinary, role: &str) {
    let backend = Backend::real(binary);
    let client = backend.client().await;
    let mut victim = Victim::start(&backend, role);
    victim.suspend();
    let writer = client.read_write_lock("x").write().await.unwrap();
    victim.resume();
    let told = victim.says();
    let right = ["Expired", "Taken"].contains(&told.as_str());
    assert!(right, "it is told {told}");
    // Its late renewals touch nothing.
    backend.pass(LEASE).await;
    assert_eq!(writer.state(), HoldState::Held);
    assert_eq!(client.read_write_lock("x").info().await.unwrap().readers, 0);
    victim.kill();
    assert_eq!(writer.release().await.unwrap(), Released::Free);
}

/// For longer than a waiter's client counts as alive: the others go on without it, and it gets a
/// new place.
async fn stopped_waiting_writer_delays_the_others_once(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let client = backend.client().await;
    let lock = client.read_write_lock("x");
    let guard = lock.read().await.unwrap();
    let mut victim = Victim::start(&backend, "waiter");
    known(&client, 1, 0).await;
    victim.suspend();
    let stopped = Instant::now();
    let read = lock.read().await.unwrap();
    println!(
        "{binary}: a reader in {:?} after the waiting writer was stopped",
        stopped.elapsed()
    );
    assert!(stopped.elapsed() < 5 * SECOND + 10 * SECOND);
    victim.resume();
    known(&client, 1, 0).await;
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_eq!(read.release().await.unwrap(), Released::Free);
    assert_eq!(victim.says(), "writes");
    assert!(lock.try_read().await.unwrap().is_none());
    victim.kill();
}

// L1
async fn lost_replies_count_once(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    let proxy = Proxy::start(backend.server().address());
    let client = Client::connect(&proxy.url()).await.unwrap();
    let other = backend.client().await;
    let lock = client.read_write_lock("x");
    for then in [Then::Stall, Then::Cut] {
        let lost = proxy.drop_reply(call(backend.server(), &RWLOCK.read, "x"), then);
        let reader = lock.read().await.unwrap();
        lost.answered().await;
        assert_eq!(other.read_write_lock("x").info().await.unwrap().readers, 1);
        assert_eq!(lock.read_count(reader.owner()).await.unwrap(), 1);
        let lost = proxy.drop_reply(call(backend.server(), &RWLOCK.release, "x"), then);
        assert_eq!(reader.release().await.unwrap(), Released::Free);
        lost.answered().await;
        let lost = proxy.drop_reply(call(backend.server(), &RWLOCK.write, "x"), then);
        let writer = lock.write().await.unwrap();
        let first = lost.answered().await;
        assert_eq!(lock.write_count(writer.owner()).await.unwrap(), 1);
        let token = writer.token();
        assert_eq!(writer.release().await.unwrap(), Released::Free);
        // The first copy, come late once more.
        first.copy().deliver().await.unwrap();
        let next = other
            .read_write_lock("x")
            .try_write()
            .await
            .unwrap()
            .unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
    }
}

// L1
async fn downgrade_whose_reply_is_lost_takes_effect_once(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    let proxy = Proxy::start(backend.server().address());
    let client = Client::connect(&proxy.url()).await.unwrap();
    let other = backend.client().await.read_write_lock("x");
    for then in [Then::Stall, Then::Cut] {
        let writer = client.read_write_lock("x").write().await.unwrap();
        let waits = tokio::spawn({
            let other = other.clone();
            async move { other.write().await.unwrap() }
        });
        known(&client, 1, 0).await;
        let lost = proxy.drop_reply(call(backend.server(), &RWLOCK.downgrade, "x"), then);
        let token = writer.token();
        let reader = writer.downgrade().await.unwrap();
        lost.answered().await;
        assert_eq!(reader.token(), token);
        assert!(!waits.is_finished(), "nobody wrote in between");
        let info = other.info().await.unwrap();
        assert_eq!((info.writer, info.readers), (None, 1));
        assert_eq!(reader.release().await.unwrap(), Released::Free);
        waits.await.unwrap().release().await.unwrap();
    }
}

// L7
async fn lost_messages_cost_one_recheck(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let holder = backend.client().await;
    let messages = Proxy::start(backend.server().address());
    let split = Arc::new(SplitTransport::new(messages.clone()));
    let client = backend.builder().transport(split).connect().await.unwrap();
    let writer = holder.read_write_lock("x").write().await.unwrap();
    let lock = client.read_write_lock("x");
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.read().await.unwrap() })
        })
        .collect();
    known(&holder, 0, 20).await;
    messages.set_flow(Direction::ToClient, Flow::BlackHole);
    let vanished = messages.vanished();
    let released = Instant::now();
    writer.release().await.unwrap();
    for reader in readers {
        reader.await.unwrap().release().await.unwrap();
    }
    let waited = released.elapsed();
    println!("{binary}: 20 readers in {waited:?} without a message");
    // One look brings in all of them, and not each a look of its own.
    assert!(waited < 2_400 * MS + 10 * SECOND, "{waited:?}");
    assert!(
        messages.vanished() > vanished,
        "the message was sent and lost"
    );
    messages.pass();
}

// L12
async fn full_server_accepts_releases_and_refuses_acquisitions(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let (a, b) = (backend.client().await, backend.client().await);
    let lock = a.read_write_lock("x");
    let look = lock.upgradable_read().renewed_lease(SECOND).await.unwrap();
    let reader = lock.read().renewed_lease(SECOND).await.unwrap();
    let writer = a
        .read_write_lock("y")
        .write()
        .renewed_lease(SECOND)
        .await
        .unwrap();
    server.config_set("maxmemory", "1");
    for refused in [
        b.read_write_lock("x").read().await.map(drop).unwrap_err(),
        b.read_write_lock("y").write().await.map(drop).unwrap_err(),
        b.read_write_lock("z")
            .try_write()
            .await
            .map(drop)
            .unwrap_err(),
        look.upgrade().await.map(drop).unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::ServerFull, "{refused}");
    }
    backend.pass(2 * SECOND).await;
    for state in [look.state(), reader.state(), writer.state()] {
        assert_eq!(state, HoldState::Held, "renewed on a full server");
    }
    assert_eq!(reader.release().await.unwrap(), Released::Free);
    assert_eq!(b.read_write_lock("y").force_release().await.unwrap(), 1);
    assert_eq!(writer.release().await.unwrap(), Released::Revoked);
    assert_eq!(look.release().await.unwrap(), Released::Free);
    server.config_set("maxmemory", "0");
    assert!(b.read_write_lock("x").try_write().await.unwrap().is_some());
}

const ROLE: &str = "REDLATCH_TEST_RW_VICTIM";
const URL: &str = "REDLATCH_TEST_RW_VICTIM_URL";
const LEASE: Duration = Duration::from_secs(2);
