//! A process that holds and is killed.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use redlatch::Client;
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, SECOND, assert_nothing_left, registered, waiting},
    server::ServerBinary,
};

redlatch_tests::on_every_server!(
    a_killed_holder_frees_its_names_with_its_lease,
    killed_waiter_blocks_nobody,
);

/// A process that does something with lock `x` until it is killed.
struct Victim(Child);

impl Victim {
    /// Starts this test binary anew as `role`, and returns when it has said that it is ready.
    fn start(backend: &Backend, role: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "death::run_as_the_victim_process"])
            .env(ROLE, role)
            .env(URL, backend.server().url())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines
            .map_while(Result::ok)
            .find(|line| line.contains(ROLE))
            .expect("the child says when it is ready");
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

// L2, L21
async fn a_killed_holder_frees_its_names_with_its_lease(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let client = backend.client().await;
    let victim = Victim::start(&backend, "holder");
    let waiter = waiting(client.lock("x"));
    registered(&backend, "x").await;
    backend.pass(LEASE).await;
    assert!(!waiter.is_finished(), "it renews while it lives");
    victim.kill();
    let killed = Instant::now();
    let next = waiter.await.unwrap();
    let waited = killed.elapsed();
    println!("{binary}: served {waited:?} after the holder was killed, its lease was {LEASE:?}");
    assert!(waited < LEASE + 10 * SECOND);
    assert!(next.is_after_abandonment());
    next.release().await.unwrap();
    assert_nothing_left(&backend, &[&client]).await;
}

// L24
async fn killed_waiter_blocks_nobody(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().await.unwrap();
    let victim = Victim::start(&backend, "waiter");
    registered(&backend, "x").await;
    let waiter = waiting(b.lock("x"));
    victim.kill();
    backend.pass(100 * MS).await;
    guard.release().await.unwrap();
    let released = Instant::now();
    let next = waiter.await.unwrap();
    println!(
        "{binary}: served {:?} after the release, a dead waiter before it",
        released.elapsed()
    );
    // The wake may have gone to the dead one; then the next look finds the name free.
    assert!(released.elapsed() < 2_400 * MS + 10 * SECOND);
    next.release().await.unwrap();
    assert_nothing_left(&backend, &[&a, &b]).await;
}

/// Part of the tests above: does something only when they start it.
#[tokio::test(flavor = "multi_thread")]
async fn run_as_the_victim_process() {
    let (Ok(role), Ok(url)) = (env::var(ROLE), env::var(URL)) else {
        return;
    };
    let client = Client::connect(&url).await.unwrap();
    let lock = client.lock("x").lock().renewed_lease(LEASE);
    if role == "holder" {
        let _guard = lock.await.unwrap();
        println!("{ROLE}");
        std::future::pending().await
    } else {
        println!("{ROLE}");
        let _guard = lock.await.unwrap();
    }
}

const ROLE: &str = "REDLATCH_TEST_VICTIM";
const URL: &str = "REDLATCH_TEST_VICTIM_URL";
const LEASE: Duration = Duration::from_secs(2);
