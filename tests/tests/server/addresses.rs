//! Ways to a server: unix socket, TLS, database number, and the name that it shows.

use redlatch::{RedLock, runtime::TlsOptions};

use crate::prelude::*;

redlatch_tests::on_every_server!(
    locks_work_over_a_unix_socket,
    a_database_number_is_respected,
    databases_of_one_server_hold_apart_and_make_no_quorum,
    connections_are_named,
);

redlatch_tests::on_servers_with!("TLS", ServerBinary::supports_tls; tls_is_spoken_and_checked);

/// Two clients exclude each other and wake each other.
async fn locks_work(builder: impl Fn() -> ClientBuilder) -> [Client; 2] {
    let (a, b) = (
        builder().connect().await.unwrap(),
        builder().connect().await.unwrap(),
    );
    let guard = a.lock("x").lock().await.unwrap();
    assert!(b.lock("x").try_lock().await.unwrap().is_none());
    let waiter = waiting(b.lock("x"));
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    let guard = waiter.await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    [a, b]
}

async fn locks_work_over_a_unix_socket(binary: ServerBinary) {
    let backend = Backend::Real(Server::start(&binary, ServerOptions::new().unix_socket()));
    let path = backend.server().unix_socket().unwrap();
    let [a, b] = locks_work(|| Client::builder(&format!("unix://{}", path.display()))).await;
    assert_nothing_left(&backend, &[&a, &b]).await;
}

async fn tls_is_spoken_and_checked(binary: ServerBinary) {
    let backend = Backend::Real(Server::start(&binary, ServerOptions::new().tls()));
    let (address, certificates) = backend.server().tls().unwrap();
    let read = |path| std::fs::read(path).unwrap();
    let mut options = TlsOptions::default();
    options.root_pem = Some(read(&certificates.authority));
    let url = format!("rediss://{address}");
    let [a, b] = locks_work(|| Client::builder(&url).tls(options.clone())).await;
    options.client_pem = Some((
        read(&certificates.client_certificate),
        read(&certificates.client_key),
    ));
    let [c, d] = locks_work(|| Client::builder(&url).tls(options.clone())).await;

    // An authority that the system does not know, and a name that the certificate does not have.
    let unknown = Client::builder(&url).connect_timeout(800 * MS).connect();
    let other_name =
        Client::builder(&format!("rediss://127.0.0.2:{}", address.port())).tls(options);
    let other_name = other_name.connect_timeout(800 * MS).connect();
    for (wrong, remedy) in [
        (unknown.await, "SSL_CERT_FILE"),
        (other_name.await, "127.0.0.2"),
    ] {
        let error = wrong.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains(remedy), "{error}");
    }
    let mut blind = TlsOptions::default();
    blind.insecure = true;
    let [e, f] = locks_work(|| Client::builder(&url).tls(blind.clone())).await;
    assert_nothing_left(&backend, &[&a, &b, &c, &d, &e, &f]).await;
}

async fn a_database_number_is_respected(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let url = format!("{}/3", backend.server().url());
    let client = Client::connect(&url).await.unwrap();
    let _guard = client.lock("x").lock().await.unwrap();
    assert!(backend.server().keys().is_empty());
    let mut connection = backend.server().connect().unwrap();
    connection.command(&["SELECT", "3"]).unwrap().unwrap();
    assert_eq!(connection.command(&["EXISTS", &key("x")]).unwrap().int(), 1);
    let elsewhere = backend.client().await;
    assert!(elsewhere.lock("x").try_lock().await.unwrap().is_some());
    let [a, b] = locks_work(|| Client::builder(&format!("{}/4", backend.server().url()))).await;
    drop((a, b));
    let outside = format!("{}/99", backend.server().url());
    let error = Client::connect(&outside).await.map(drop).unwrap_err();
    assert!(!error.is_transient(), "{error:?}");
}

async fn databases_of_one_server_hold_apart_and_make_no_quorum(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let mut clients = Vec::new();
    for database in 0..3 {
        let url = format!("{}/{database}", backend.server().url());
        clients.push(Client::connect(&url).await.unwrap());
    }
    let locks: Vec<_> = clients.iter().map(|client| client.lock("x")).collect();
    let members: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    let all = clients[0].multi_lock(&members);
    assert_eq!(all.len(), 3);
    let guard = all.lock().await.unwrap();
    for lock in &locks {
        assert!(lock.is_locked().await.unwrap());
    }
    guard.release().await.unwrap();
    let error = RedLock::builder(&members).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}

async fn connections_are_named(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let plain = backend.client().await;
    let builder = backend.builder().client_name("night-shift");
    let named = builder.connect().await.unwrap();
    let list = backend.server().command(&["CLIENT", "LIST"]).text();
    for name in [" name=redlatch ", " name=night-shift "] {
        let connections = list.lines().filter(|line| line.contains(name)).count();
        assert_eq!(connections, 2, "commands and messages: {list}");
    }
    drop((plain, named));
}
