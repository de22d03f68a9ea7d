//! Tables of commands and their replies; each table starts on an empty server.

use redlatch_embedded::engine::Model;

use crate::support::Shell;

fn check(table: &[(&str, &str)]) {
    let mut shell = Shell::new(Model::Redis7_0);
    for (line, expected) in table {
        if let Some(millis) = line.strip_prefix("wait ") {
            shell.wait(millis.parse().unwrap());
            continue;
        }
        assert_eq!(shell.run(line), *expected, "{line}");
    }
}

#[test]
fn expiry_is_exact() {
    check(&[
        ("SET k v PX 10", "OK"),
        ("PTTL k", "10"),
        ("wait 10", ""),
        ("PTTL k", "0"),
        ("EXISTS k", "1"),
        ("wait 1", ""),
        ("PTTL k", "-2"),
        ("SET k v", "OK"),
        ("PTTL k", "-1"),
        ("PEXPIRE k 100", "1"),
        ("PERSIST k", "1"),
        ("PERSIST k", "0"),
        ("PEXPIRE k -1", "1"),
        ("EXISTS k", "0"),
        ("PEXPIRE k 1", "0"),
    ]);
}

#[test]
fn server_commands_work() {
    check(&[
        ("TIME", "[\"1700000000\" \"0\"]"),
        ("SET a 1", "OK"),
        ("HSET b f v", "1"),
        ("KEYS *", "[\"a\" \"b\"]"),
        ("FLUSHALL", "OK"),
        ("KEYS *", "[]"),
        (
            "CLIENT KILL x",
            "!ERR unknown subcommand 'KILL'. Try CLIENT HELP.",
        ),
        ("WAIT 1 10", "0"),
        ("ROLE", "[\"master\" 0 []]"),
        ("CONFIG GET maxmemory", "[\"maxmemory\" \"0\"]"),
        ("CONFIG SET maxmemory 1048576", "OK"),
        ("CONFIG GET maxmemory", "[\"maxmemory\" \"1048576\"]"),
        (
            "SUBSCRIBE a",
            "!ERR Can't execute 'subscribe': subscriptions and commands use connections of their own",
        ),
    ]);
}
