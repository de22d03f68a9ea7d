//! Credentials that change, and their provider.

use std::{future::pending, sync::atomic::Ordering::Relaxed};

use redlatch::{
    ClientBuilder, Credentials,
    runtime::{Protocol, Purpose},
};
use redlatch_tests::{
    fixture::{registered, waiting},
    gate::Gate,
};

use crate::prelude::*;

/// How long a token is valid.
const VALID: Duration = Duration::from_secs(10);

/// A service that issues a new token each time, and its server, which cuts each connection when its
/// token expires.
#[derive(Clone, Debug)]
struct Issuer {
    issued: Arc<Mutex<Vec<Instant>>>,
    gate: Gate,
}

impl Issuer {
    fn of(gate: &Gate) -> Self {
        Self {
            issued: Arc::default(),
            gate: gate.clone(),
        }
    }

    fn issue(&self) -> Credentials {
        self.issued.lock().unwrap().push(Instant::now());
        self.check();
        Credentials {
            username: Some("app".to_owned()),
            password: format!("token {}", self.issued()),
            expires_in: Some(VALID),
        }
    }

    /// Makes the server accept the tokens that have not expired.
    fn check(&self) {
        let issued = self.issued.lock().unwrap();
        let valid = issued
            .iter()
            .zip(1..)
            .filter(|(at, _)| at.elapsed() < VALID);
        let valid: Vec<_> = valid.map(|(_, number)| format!("token {number}")).collect();
        self.gate
            .accept(&valid.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn issued(&self) -> usize {
        self.issued.lock().unwrap().len()
    }

    /// Lets `span` pass. Returns how many connections the server has cut.
    async fn expire(&self, span: Duration) -> usize {
        let (mut cut, end) = (0, Instant::now() + span);
        while Instant::now() < end {
            self.check();
            cut += self.gate.cut_expired();
            sleep(Duration::from_millis(100)).await;
        }
        cut
    }
}

/// Starts a server behind a gate that accepts `password`. Returns a builder of its clients.
fn gated(protocol: Protocol, password: &str) -> (Backend, Gate, ClientBuilder) {
    let backend = Backend::embedded();
    let gate = Gate::new(backend.embedded_transport(), protocol, password);
    let builder = backend.builder().transport(Arc::new(gate.clone()));
    (backend, gate, builder)
}

/// Starts a server behind a gate, and connects a client that has logged in as `user`.
async fn logged_in(protocol: Protocol, user: Option<&str>) -> (Gate, Client) {
    let (_, gate, builder) = gated(protocol, "old");
    let builder = builder.credentials(user, Some("old"));
    (gate, builder.connect().await.unwrap())
}

/// Returns the open connections with `password`, of commands and of messages.
fn open(gate: &Gate, password: &str) -> [usize; 2] {
    [Purpose::Command, Purpose::PubSub].map(|purpose| gate.open(purpose, password))
}

#[tokio::test(start_paused = true)]
async fn over_twenty_tokens_no_connection_is_cut_and_no_hold_lost() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let (backend, gate, builder) = gated(protocol, "token 1");
        let issuer = Issuer::of(&gate);
        let issue = issuer.clone();
        let client = builder.credentials_from(move || {
            let credentials = issue.issue();
            async { Ok(credentials) }
        });
        let client = client.connect().await.unwrap();
        let lock = client.lock("x").lock().renewed_lease(3 * SECOND);
        let guard = lock.await.unwrap();
        let shared = client.read_write_lock("y").read().await.unwrap();
        let waiter = waiting(client.lock("x"));
        registered(&backend, "x").await;
        assert_eq!(issuer.expire(20 * VALID).await, 0, "{protocol:?}");
        // Seven to eight tenths of each token's time have passed.
        let issued = issuer.issued();
        assert!((25..=29).contains(&issued), "{issued}");
        assert_eq!(guard.state(), HoldState::Held);
        shared.check().unwrap();
        assert!(!waiter.is_finished());
        assert_eq!(open(&gate, &format!("token {issued}")), [2, 1]);
        let logins = gate.logins();
        let connections = if protocol == Protocol::Resp3 { 3 } else { 2 };
        let most = connections * (issued - 1);
        assert!((most - 1..=most).contains(&logins), "{logins} of {most}");
        guard.release().await.unwrap();
        drop((waiter.await.unwrap(), shared));
        assert_tables_empty(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn changed_password_reaches_connections_that_exist() {
    for (protocol, logins, user) in [
        (Protocol::Resp2, 1, Some("app")),
        (Protocol::Resp3, 2, Some("app")),
        (Protocol::Resp3, 2, None),
    ] {
        let (gate, client) = logged_in(protocol, user).await;
        let guard = client.lock("x").lock().await.unwrap();
        sleep(SECOND).await;
        assert_eq!(open(&gate, "old"), [1, 1]);
        gate.accept(&["old", "new"]);
        client.set_credentials(user, Some("new"));
        sleep(SECOND).await;
        assert_eq!(open(&gate, "new"), [1, 1]);
        gate.accept(&["new"]);
        assert_eq!(gate.cut_expired(), 0);
        client.set_credentials(user, Some("new"));
        sleep(SECOND).await;
        assert_eq!(gate.logins(), logins, "an equal login is not sent");
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn refused_login_leaves_the_old_one_until_the_server_cuts_it() {
    let (gate, client) = logged_in(Protocol::Resp3, Some("app")).await;
    let guard = client.lock("x").lock().await.unwrap();
    client.set_credentials(Some("app"), Some("new"));
    sleep(5 * SECOND).await;
    assert_eq!(gate.logins(), 2, "one for each connection");
    assert_eq!(open(&gate, "old"), [1, 1]);
    gate.accept(&["new"]);
    assert_eq!(gate.cut_expired(), 2);
    sleep(SECOND).await;
    assert_eq!(open(&gate, "new"), [1, 1]);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn login_is_repeated_if_its_reply_is_lost() {
    let (gate, client) = logged_in(Protocol::Resp3, Some("app")).await;
    sleep(SECOND).await;
    gate.accept(&["old", "new"]);
    gate.lose_logins(2);
    client.set_credentials(Some("app"), Some("new"));
    sleep(20 * SECOND).await;
    assert_eq!(open(&gate, "new"), [1, 1]);
    assert_eq!(open(&gate, "old"), [0, 0]);
    let guard = client.lock("x").lock().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn provider_is_asked_again_after_a_refusal_and_waiters_go_on() {
    let (backend, gate, builder) = gated(Protocol::Resp3, "token 1");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let client = builder.credentials_from(move || {
        let credentials = Credentials {
            username: None,
            password: format!("token {}", count.fetch_add(1, Relaxed) + 1),
            expires_in: None,
        };
        async { Ok(credentials) }
    });
    let client = client.connect().await.unwrap();
    let guard = client.lock("x").lock().await.unwrap();
    let waiter = waiting(client.lock("x"));
    registered(&backend, "x").await;
    sleep(3600 * SECOND).await;
    assert_eq!(asked.load(Relaxed), 1);
    // The server takes neither the first nor the second, which is refused by then.
    gate.accept(&["token 3"]);
    gate.cut_expired();
    sleep(3 * SECOND).await;
    assert_eq!(asked.load(Relaxed), 3);
    assert_eq!(open(&gate, "token 3")[1], 1);
    assert_eq!(guard.state(), HoldState::Held);
    guard.release().await.unwrap();
    drop(waiter.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn provider_that_fails_or_hangs_leaves_the_old_credentials_and_is_in_the_error() {
    for hangs in [false, true] {
        let (_, gate, builder) = gated(Protocol::Resp3, "token 1");
        let (asked, issuer) = (Arc::new(AtomicUsize::new(0)), Issuer::of(&gate));
        let count = Arc::clone(&asked);
        let client = builder.credentials_from(move || {
            let first = count.fetch_add(1, Relaxed) == 0;
            let credentials = first.then(|| issuer.issue());
            async move {
                match credentials {
                    Some(credentials) => Ok(credentials),
                    None if hangs => pending().await,
                    None => Err("the vault is sealed".into()),
                }
            }
        });
        let client = client.connect().await.unwrap();
        let guard = client.lock("x").lock().await.unwrap();
        sleep(60 * SECOND).await;
        // Asked first after 7 to 8 s, then every 2.5 to 5 s, or 12.5 to 15 s if each takes 10 s.
        let most = if hangs { 6 } else { 26 };
        let asked = asked.load(Relaxed);
        assert!((4..=most).contains(&asked), "{asked}");
        let other = client.lock("y").lock().await.unwrap();
        other.release().await.unwrap();
        gate.accept(&[]);
        assert!(gate.cut_expired() > 0);
        let error = client.lock("y").lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let why = if hangs {
            "no answer within 10s"
        } else {
            "the vault is sealed"
        };
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.to_string().contains("WRONGPASS"), "{error}");
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn connect_fails_with_the_error_of_the_provider() {
    for (hangs, why) in [(true, "has not answered"), (false, "the vault is sealed")] {
        let (_, _, builder) = gated(Protocol::Resp3, "token 1");
        let connecting = builder.credentials_from(move || async move {
            match hangs {
                true => pending().await,
                false => Err("the vault is sealed".into()),
            }
        });
        let error = connecting.connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn closed_client_drops_a_provider_that_runs_and_a_lazy_one_asks_nothing() {
    let (_, _, builder) = gated(Protocol::Resp3, "token 1");
    let running = Arc::new(());
    let provider = Arc::clone(&running);
    let client = builder.credentials_from(move || {
        let provider = Arc::clone(&provider);
        async move {
            pending::<()>().await;
            drop(provider);
            Err("never".into())
        }
    });
    let client = client.connect_lazy().unwrap();
    sleep(SECOND).await;
    assert_eq!(Arc::strong_count(&running), 2, "no connection needs any");
    let ping = timeout(SECOND, client.ping()).await;
    assert!(ping.is_err(), "{ping:?}");
    assert_eq!(Arc::strong_count(&running), 3, "it runs");
    within(SECOND, "close", client.close_now()).await;
    drop(client);
    sleep(SECOND).await;
    assert_eq!(Arc::strong_count(&running), 1);
}
