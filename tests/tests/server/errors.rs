//! What a person reads who makes a mistake: each error of a real server has the right class, names
//! the object, says what to do, and is short.

use std::{
    error::Error as _,
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::Instant,
};

use crate::prelude::*;

redlatch_tests::on_every_server!(
    wrong_and_missing_passwords_are_told_apart,
    server_of_another_role_than_the_address_says_so,
    missing_rights_are_told_with_the_line_to_paste,
    missing_right_at_first_use_is_told_with_the_line_to_paste,
    server_without_memory_says_which_setting_to_raise,
);

/// Checks what every message has in common, and that this one says all of `words`, between bars.
#[track_caller]
fn assert_says(error: &Error, kind: ErrorKind, words: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.chars().count() <= 300, "{}: {text}", text.len());
    assert!(!text.contains('\n'), "{text}");
    for word in words.split('|') {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(error.source().is_none(), "a chain prints the reason twice");
    if let Some(reason) = error.reason() {
        let reason = reason.to_string();
        let once = text.matches(reason.trim()).count();
        assert!(once <= 1, "{reason:?} is {once} times in {text:?}");
    }
}

async fn refused(url: &str) -> Error {
    Client::connect(url).await.unwrap_err()
}

async fn wrong_and_missing_passwords_are_told_apart(binary: ServerBinary) {
    let options = ServerOptions::new()
        .password("right")
        .user("app on >secret ~* &* +@all");
    let server = Server::start(&binary, options);
    let address = server.address().to_string();
    let unknown = "refuses the user `nobody` or its password";
    for (login, words) in [
        ("", "demands a password, and the address has none"),
        (":wrong@", "refuses the user `default` or its password"),
        ("app:wrong@", "refuses the user `app` or its password"),
        ("nobody:secret@", unknown),
        ("app@", ""),
    ] {
        let started = Instant::now();
        let error = refused(&format!("redis://{login}{address}")).await;
        assert!(started.elapsed() < 3 * SECOND, "not after the time-out");
        assert_says(&error, ErrorKind::Auth, &format!("{address}|{words}"));
        assert!(!error.is_transient(), "{login:?}: {error:?}");
        let shown = format!("{error} {error:#?}");
        assert!(!shown.contains("wrong@") && !shown.contains("secret"));
    }
    assert_untouched(&server).await;
    for login in [":right@", "app:secret@"] {
        let client = Client::connect(&format!("redis://{login}{address}")).await;
        drop(client.unwrap().lock("x").lock().await.unwrap());
    }
}

/// An address, the kind of the error, and what it says.
const OTHER_ROLES: &str = "
redis://PLAIN/99 | InvalidOption | PLAIN has no database 99 | 0 to 15
redis://REPLICA | UnsupportedServer | REPLICA is a replica | its master PLAIN
redis+sentinel://PLAIN/main | UnsupportedServer | PLAIN is no sentinel | write redis://PLAIN
redis://SENTINEL | UnsupportedServer | SENTINEL is a sentinel | redis+sentinel://
redis+cluster://PLAIN | UnsupportedServer | PLAIN belongs to no cluster | redis://
redis://NODE | UnsupportedServer | NODE belongs to a cluster | redis+cluster://
rediss://PLAIN | Unavailable | PLAIN | write redis:// instead of rediss://
";

async fn server_of_another_role_than_the_address_says_so(binary: ServerBinary) {
    let servers = Replicated::start(&binary, 1, &ServerOptions::new());
    let sentinel = Server::start(&binary, ServerOptions::new().sentinel());
    let cluster = Server::start(&binary, ServerOptions::new().cluster());
    let named = [
        ("PLAIN", servers.master()),
        ("REPLICA", &servers.servers()[1]),
        ("SENTINEL", &sentinel),
        ("NODE", &cluster),
    ];
    for row in OTHER_ROLES.lines().filter(|row| !row.is_empty()) {
        let row = named.iter().fold(row.to_owned(), |row, (name, server)| {
            row.replace(name, &server.address().to_string())
        });
        let cells: Vec<_> = row.split(" | ").collect();
        let error = refused(cells[0]).await;
        assert_eq!(format!("{:?}", error.kind()), cells[1], "{row}");
        assert_says(&error, error.kind(), &cells[2..].join("|"));
    }
    assert_eq!(cluster.keys(), [""; 0]);
    assert_eq!(servers.master().keys(), [""; 0]);
}

async fn missing_rights_are_told_with_the_line_to_paste(binary: ServerBinary) {
    let user = "app on >secret ~* &* +@all -set -get";
    let server = Server::start(&binary, ServerOptions::new().user(user));
    let url = format!("redis://app:secret@{}", server.address());
    let error = refused(&url).await;
    let words = "user `app` lacks +set +get; run: ACL SETUSER app +set +get";
    assert_says(&error, ErrorKind::Permission, words);
    // The line works as it stands.
    let text = error.to_string();
    let (_, line) = text.split_once("run: ").unwrap();
    let line: Vec<_> = line.split(' ').collect();
    server.command(&line).unwrap();
    Client::connect(&url).await.unwrap();
    // Nearly all rights are missing.
    let few = "ACL SETUSER app -@all +eval +evalsha +time +info +hello";
    let few: Vec<_> = few.split(' ').collect();
    server.command(&few).unwrap();
    let words = "user `app` lacks +set +get and | more; run: ACL SETUSER app +set +get +del";
    let error = refused(&url).await;
    assert_says(&error, ErrorKind::Permission, words);
    assert!(error.to_string().ends_with("+publish"), "cut: {error}");
    // Without these two, the server refuses the look at all others.
    for (rule, restored) in [("-evalsha", "+evalsha"), ("resetkeys", "~redlatch:*")] {
        lacks(&server, &url, rule, restored).await;
    }
    // Without one of these, it refuses what a connection asks first, or the subscription.
    server.command(&["ACL", "SETUSER", "app", "+@all"]).unwrap();
    for (rule, restored) in [
        ("resetchannels", "&redlatch:*"),
        ("-subscribe", "+subscribe"),
        ("-time", "+time"),
    ] {
        lacks(&server, &url, rule, restored).await;
    }
}

/// Takes a right from the user, looks whether connecting names it, and gives it back.
async fn lacks(server: &Server, url: &str, rule: &str, restored: &str) {
    server.command(&["ACL", "SETUSER", "app", rule]).unwrap();
    let words = format!("user `app` lacks {restored}; run: ACL SETUSER app {restored}");
    assert_says(&refused(url).await, ErrorKind::Permission, &words);
    server
        .command(&["ACL", "SETUSER", "app", restored])
        .unwrap();
}

async fn missing_right_at_first_use_is_told_with_the_line_to_paste(binary: ServerBinary) {
    let user = "app on >secret ~* &* +@all -evalsha";
    let server = Server::start(&binary, ServerOptions::new().user(user));
    let url = format!("redis://app:secret@{}", server.address());
    let client = Client::builder(&url).self_check(false).connect();
    let error = match client.await {
        Ok(client) => client.lock("orders:42").lock().await.map(drop).unwrap_err(),
        Err(error) => error,
    };
    assert_says(&error, ErrorKind::Permission, "lacks +evalsha");
}

async fn server_without_memory_says_which_setting_to_raise(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let client = backend.client().await;
    backend.server().config_set("maxmemory", "1");
    let error = client.lock("orders:42").lock().await.map(drop).unwrap_err();
    let words = "the server is out of memory|maxmemory|noeviction|OOM command not allowed";
    assert_says(&error, ErrorKind::ServerFull, words);
    assert_says(&error, ErrorKind::ServerFull, "lock \"orders:42\": ");
    let error = backend.builder().connect().await.unwrap_err();
    assert_says(&error, ErrorKind::ServerFull, words);
}

/// Answers each connection as a server for HTTP does.
fn http() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    address
}

#[tokio::test]
async fn port_of_a_server_for_http_is_no_server() {
    let address = http();
    for scheme in ["redis", "redis+cluster"] {
        let error = refused(&format!("{scheme}://{address}")).await;
        let words = format!("{address} does not answer like Redis|such as HTTP");
        assert_says(&error, ErrorKind::UnsupportedServer, &words);
    }
}

#[tokio::test]
async fn server_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let builder = Client::builder(&format!("redis://{address}"));
    let connect = builder.connect_timeout(Duration::from_millis(200));
    let error = connect.connect().await.unwrap_err();
    let words = format!("cannot connect to |{address}|refused");
    assert_says(&error, ErrorKind::Unavailable, &words);
}

/// The kernel accepts the connections of this listener, and nobody answers them.
#[tokio::test]
async fn address_that_never_answers_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let short = Duration::from_millis(200);
    for (scheme, hint) in [
        ("redis", ""),
        ("rediss", "write redis:// instead of rediss://"),
    ] {
        let builder = Client::builder(&format!("{scheme}://{address}"));
        let error = builder.connect_timeout(short).connect().await.unwrap_err();
        let words = format!("{address}|; the server hangs, or a firewall is in between|{hint}");
        assert_says(&error, ErrorKind::Unavailable, &words);
    }
    let builder = Client::builder(&format!("redis://{address}"));
    let lazy = builder.patience(short).connect_lazy().unwrap();
    let error = lazy.lock("orders:42").lock().await.map(drop).unwrap_err();
    let words = format!("lock \"orders:42\": |{address}|firewall");
    assert_says(&error, ErrorKind::Unavailable, &words);
}
