//! The harness itself: servers end, come back and say what is wrong.

use std::net::TcpStream;

use redlatch_tests::child::{self, Process};

use crate::prelude::*;

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
fn a_server_that_does_not_start_says_why() {
    let options = ServerOptions::new().config("no-such-option yes");
    let message = Server::try_start(&ServerBinary::any(), &options).unwrap_err();
    assert!(message.contains("no-such-option"), "{message}");
}

/// Starts this test binary anew, lets it start a server, and aborts it.
#[test]
fn servers_end_with_the_test_process() {
    let test = "lifecycle::run_and_die_with_a_server";
    let mut child = Process::start(test, &[(DIE, "yes".to_owned())]);
    let server = child.hears().expect("it says where its server is");
    let (address, dir) = server.split_once(' ').unwrap();
    assert!(!child.succeeds(), "it has dropped its server");
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
        let dir = server.dir().display();
        child::say(&format!("{} {dir}", server.address()));
        std::process::abort();
    }
}

const DIE: &str = "REDLATCH_TEST_DIE";
