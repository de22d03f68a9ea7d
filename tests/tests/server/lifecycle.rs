//! The harness itself: servers start, stop, come back and can be looked at.

use std::{
    io::{BufRead, BufReader},
    net::TcpStream,
    process::{Command, Stdio},
    time::Duration,
};

use redlatch_tests::{
    server::{ClientType, Connection, Reply, Server, ServerBinary, ServerOptions},
    wait::{GENEROUS, eventually_blocking},
};

#[test]
fn every_server_starts_and_answers() {
    for binary in ServerBinary::all() {
        let server = Server::start(&binary, ServerOptions::new());
        assert_eq!(server.command(&["PING"]).text(), "PONG", "{binary}");
        let version = &server.info("server");
        let field = version
            .get("valkey_version")
            .or_else(|| version.get("redis_version"))
            .unwrap();
        assert_eq!(*field, binary.version.to_string());
        assert!(
            server.command(&["DEBUG", "SLEEP", "0"]).error().is_none(),
            "{binary}"
        );
    }
}

#[test]
fn a_server_that_is_dropped_is_gone() {
    for binary in ServerBinary::all() {
        let server = Server::start(&binary, ServerOptions::new());
        let (address, dir) = (server.address(), server.dir().to_owned());
        drop(server);
        assert!(TcpStream::connect(address).is_err(), "{binary}");
        assert!(!dir.exists(), "{binary}");
    }
}

#[test]
fn a_suspended_server_answers_when_it_goes_on() {
    for binary in ServerBinary::all() {
        let server = Server::start(&binary, ServerOptions::new());
        for _ in 0..2 {
            server.stop();
            let mut connection =
                Connection::open(server.address(), Duration::from_millis(20)).unwrap();
            assert!(connection.command(&["PING"]).is_err(), "{binary}");
            server.cont();
            assert_eq!(server.command(&["PING"]).text(), "PONG", "{binary}");
        }
        server.stop();
    }
}

#[test]
fn crash_loses_what_was_not_persisted() {
    for binary in ServerBinary::all() {
        let forgetful = Server::start(&binary, ServerOptions::new());
        let keeping = Server::start(&binary, ServerOptions::new().append_only());
        for server in [&forgetful, &keeping] {
            let (port, pid) = (server.port(), server.pid());
            server.command(&["SET", "key", "value"]).unwrap();
            server.kill();
            assert!(TcpStream::connect(server.address()).is_err(), "{binary}");
            server.restart();
            assert_eq!(server.port(), port);
            assert_ne!(server.pid(), pid);
        }
        assert!(forgetful.keys().is_empty(), "{binary}");
        assert_eq!(keeping.keys(), ["key"], "{binary}");
        keeping.terminate();
        keeping.restart();
        assert_eq!(keeping.keys(), ["key"], "{binary}");
    }
}

#[test]
fn servers_can_be_looked_at() {
    for binary in ServerBinary::all() {
        let server = Server::start(&binary, ServerOptions::new());
        server.command(&["SET", "b", "1"]).unwrap();
        server.command(&["SET", "a", "1"]).unwrap();
        assert_eq!(server.keys(), ["a", "b"]);
        assert_eq!(server.commandstats()["set"], 2);
        server.reset_stats();
        assert!(!server.commandstats().contains_key("set"));
        assert!(server.used_memory() > 0);
        server.flushall();
        assert!(server.keys().is_empty());

        let sha = server.command(&["SCRIPT", "LOAD", "return 1"]).text();
        assert_eq!(server.command(&["EVALSHA", &sha, "0"]).int(), 1);
        server.script_flush();
        let reply = server.command(&["EVALSHA", &sha, "0"]);
        assert!(reply.error().unwrap().starts_with("NOSCRIPT"), "{reply:?}");

        server.config_set("maxmemory", "1");
        let reply = server.command(&["SET", "c", "1"]);
        assert!(reply.error().unwrap().starts_with("OOM"), "{reply:?}");
    }
}

#[test]
fn connections_are_killed_by_type() {
    for binary in ServerBinary::all() {
        let server = Server::start(&binary, ServerOptions::new());
        let mut normal = server.connect().unwrap();
        let mut subscriber = server.connect().unwrap();
        normal.command(&["PING"]).unwrap();
        subscriber.command(&["SUBSCRIBE", "news"]).unwrap();
        assert_eq!(server.client_kill(ClientType::PubSub), 1, "{binary}");
        assert!(subscriber.read_reply().is_err());
        assert!(normal.command(&["PING"]).is_ok());
        assert!(server.client_kill(ClientType::Normal) >= 1, "{binary}");
        assert!(normal.command(&["PING"]).is_err());
    }
}

#[test]
fn access_can_be_controlled() {
    for binary in ServerBinary::all() {
        let options = ServerOptions::new()
            .password("pass word\"")
            .user("alice on >secret ~locks:* resetchannels -@all +set");
        let server = Server::start(&binary, options);
        let mut connection = Connection::open(server.address(), GENEROUS).unwrap();
        let refused = connection.command(&["SET", "locks:1", "x"]).unwrap();
        assert!(
            refused.error().unwrap().starts_with("NOAUTH"),
            "{refused:?}"
        );
        connection
            .command(&["AUTH", "pass word\""])
            .unwrap()
            .unwrap();
        connection
            .command(&["AUTH", "alice", "secret"])
            .unwrap()
            .unwrap();
        connection
            .command(&["SET", "locks:1", "x"])
            .unwrap()
            .unwrap();
        let refused = connection.command(&["SET", "other", "x"]).unwrap();
        assert!(
            refused.error().unwrap().starts_with("NOPERM"),
            "{refused:?}"
        );
        assert_eq!(server.keys(), ["locks:1"]);
        server.restart();
        assert!(server.keys().is_empty());
    }
}

#[test]
fn options_reach_the_server() {
    for binary in ServerBinary::all() {
        let options = ServerOptions::new()
            .unix_socket()
            .config("maxclients 77")
            .arg("--hz")
            .arg("50");
        let server = Server::start(&binary, options);
        let value = |name| {
            server
                .command(&["CONFIG", "GET", name])
                .array()
                .pop()
                .map(Reply::text)
        };
        assert_eq!(value("maxclients").as_deref(), Some("77"), "{binary}");
        assert_eq!(value("hz").as_deref(), Some("50"), "{binary}");
        std::os::unix::net::UnixStream::connect(server.unix_socket().unwrap()).unwrap();
    }
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let options = ServerOptions::new().config("no-such-option yes");
    let message = Server::try_start(&ServerBinary::any(), &options).unwrap_err();
    assert!(message.contains("no-such-option"), "{message}");
}

#[test]
fn servers_built_with_tls_serve_it() {
    for binary in ServerBinary::all()
        .into_iter()
        .filter(ServerBinary::supports_tls)
    {
        let server = Server::start(&binary, ServerOptions::new().tls());
        let (address, certificates) = server.tls().unwrap();
        assert!(certificates.authority.is_file() && certificates.client_key.is_file());
        TcpStream::connect(address).unwrap();
        server.restart();
        TcpStream::connect(address).unwrap();
    }
}

/// Starts this test binary anew, lets it start a server, and aborts it.
#[test]
fn servers_end_with_the_test_process() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "lifecycle::run_and_die_with_a_server",
        ])
        .env(DIE, "yes")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let server = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once(DIE)?.1.trim().to_owned()))
        .expect("the child says where its server is");
    let (address, dir) = server.split_once(' ').unwrap();
    assert!(!child.wait().unwrap().success());
    eventually_blocking("the server to die", GENEROUS, || {
        TcpStream::connect(address).err()
    });
    std::fs::remove_dir_all(dir).unwrap();
}

/// Part of the test above: does something only when that one starts it.
#[test]
fn run_and_die_with_a_server() {
    if std::env::var_os(DIE).is_some() {
        let server = Server::start(&ServerBinary::any(), ServerOptions::new());
        println!("{DIE} {} {}", server.address(), server.dir().display());
        std::process::abort();
    }
}

const DIE: &str = "REDLATCH_TEST_DIE";
