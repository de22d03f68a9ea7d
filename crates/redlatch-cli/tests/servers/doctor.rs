//! `redlatch doctor` against real servers with a fault each, with every server.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use redlatch_tests::{
    fixture::key,
    server::{Cluster, ClusterOptions, Replicated, Server, ServerBinary, ServerOptions},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
};

/// What doctor has printed, and its exit code.
pub(crate) fn doctor(url: &str) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_redlatch"))
        .arg("doctor")
        .env("REDLATCH_URL", url)
        .env_remove("REDIS_URL")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let told = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), told)
}

/// Asserts that doctor names this fault or warning, and what to do.
fn assert_told(url: &str, code: i32, found: &str, advice: &str) {
    let (ended, told) = doctor(url);
    assert_eq!(ended, code, "{told}");
    let mut lines = told.lines();
    assert!(
        lines.any(|line| line.contains(found)),
        "{found:?} is not in\n{told}"
    );
    let after = lines.next().unwrap_or_default();
    assert!(after.contains(advice), "{advice:?} is not in {after:?}");
}

/// Starts every server, one after the other, and returns each with its address.
fn every(options: impl Fn() -> ServerOptions) -> impl Iterator<Item = (Server, String)> {
    ServerBinary::all().into_iter().map(move |binary| {
        let server = Server::start(&binary, options());
        let url = format!("redis://{}", server.address());
        (server, url)
    })
}

/// A user that was made for locking only, and one that may do anything else as well.
const OWN: &str = "~redlatch:* resetchannels &redlatch:* +@all";
const ALL: &str = "~* &* +@all";

#[test]
fn a_fit_server_has_no_fault() {
    for (_server, url) in every(ServerOptions::new) {
        let (code, told) = doctor(&url);
        assert_eq!(code, 0, "{told}");
        // A busy machine may be slow.
        let fit = |line: &str| line.starts_with("ok ") || line.contains("round trip");
        assert!(told.lines().all(fit), "{told}");
    }
}

#[test]
fn wrong_passwords_are_told() {
    for (_server, url) in every(|| ServerOptions::new().user(format!("app on >right {ALL}"))) {
        let url = url.replace("//", "//app:wrong@");
        assert_told(&url, 77, "FAULT    login", "check user and password");
        assert!(!doctor(&url).1.contains("wrong@"));
    }
}

#[test]
fn missing_rights_are_told_with_a_line_that_grants_them() {
    for (rights, missing) in [
        (OWN, "-zadd"),
        (OWN, "-evalsha"),
        (OWN, "-publish"),
        (OWN, "resetkeys"),
        (OWN, "resetchannels"),
        (ALL, "-zadd -hset"),
    ] {
        let user = || format!("app on >secret {rights} {missing}");
        for (server, url) in every(|| ServerOptions::new().user(user())) {
            let url = url.replace("//", "//app:secret@");
            assert_told(&url, 77, "FAULT    rights", "ACL SETUSER app +eval");
            let (_, told) = doctor(&url);
            let mut lines = told.lines().map(str::trim);
            let line = lines.find_map(|line| line.strip_prefix("do: ACL")).unwrap();
            let words: Vec<_> = line.split_whitespace().collect();
            let takes = |word: &&str| word.starts_with('-') || word.contains("reset");
            assert!(!words.iter().any(takes), "{line}");
            server.command(&[&["ACL"], &words[..]].concat()).unwrap();
            let (code, told) = doctor(&url);
            assert_eq!(code, 0, "{missing}: {told}");
        }
    }
}

/// No rule of the user helps.
#[test]
fn renamed_commands_are_told_with_what_helps() {
    for command in ["EVAL", "EVALSHA", "SUBSCRIBE", "HSET", "ZADD", "TIME"] {
        let options = || ServerOptions::new().config(format!("rename-command {command} \"\""));
        for (_server, url) in every(options) {
            assert_told(&url, 77, "FAULT    rights", "remove its rename-command");
            let (_, told) = doctor(&url);
            assert!(told.contains(command) && !told.contains("ACL"), "{told}");
        }
    }
}

#[test]
fn eviction_is_a_warning() {
    let options = || ServerOptions::new().config("maxmemory-policy allkeys-lru");
    for (_server, url) in every(options) {
        assert_told(&url, 0, "WARNING  eviction", "maxmemory-policy noeviction");
    }
}

#[test]
fn a_clock_that_is_off_is_told() {
    let binaries = ServerBinary::all().into_iter();
    for binary in binaries.filter(ServerBinary::has_settable_clock) {
        let server = Server::start(&binary, ServerOptions::new().own_clock());
        let url = format!("redis://{}", server.address());
        for ahead in [10, -10] {
            server.set_clock(ahead);
            assert_told(&url, 0, "WARNING  clock", "set the wrong one of the two");
        }
    }
}

#[test]
fn a_replica_is_told_with_its_master() {
    for binary in ServerBinary::all() {
        let pair = Replicated::start(&binary, 1, &ServerOptions::new());
        let master = pair.master().address();
        let replica = pair
            .servers()
            .iter()
            .find(|server| server.address() != master);
        let url = format!("redis://{}", replica.unwrap().address());
        let port = master.port();
        assert_told(&url, 69, "FAULT    role", "connect to the master");
        assert!(
            doctor(&url)
                .1
                .contains(&format!(":{port} and takes no writes"))
        );
    }
}

#[test]
fn a_node_of_a_cluster_is_told_with_the_address_to_write() {
    for (_server, url) in every(|| ServerOptions::new().cluster()) {
        let advice = url.replace("redis:", "redis+cluster:");
        assert_told(&url, 69, "FAULT    topology", &advice);
    }
}

/// No old server is at hand, so a way to a new one changes its version.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_server_is_told() {
    for binary in ServerBinary::all() {
        let server = Server::start(&binary, ServerOptions::new());
        let target = server.address();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let way = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(target).await.unwrap();
                tokio::spawn(age(near, far));
            }
        });
        let told = tokio::task::spawn_blocking(move || {
            assert_told(&url, 69, "FAULT    version", "use Redis 6.2 or later");
        });
        told.await.unwrap();
        way.abort();
    }
}

/// Passes everything on, and makes a 5 of the first digit of the version.
async fn age(near: TcpStream, far: TcpStream) {
    const FIELD: &[u8] = b"redis_version:";
    let (mut near_reader, mut near_writer) = near.into_split();
    let (mut far_reader, mut far_writer) = far.into_split();
    tokio::spawn(async move { copy(&mut near_reader, &mut far_writer).await });
    let mut bytes = vec![0; 1 << 16];
    while let Ok(n @ 1..) = far_reader.read(&mut bytes).await {
        let found = bytes[..n]
            .windows(FIELD.len())
            .position(|part| part == FIELD);
        if let Some(at) = found {
            bytes[at + FIELD.len()] = b'5';
        }
        if near_writer.write_all(&bytes[..n]).await.is_err() {
            return;
        }
    }
}

/// The advice for a certificate that nobody knows is an option of the command, and works.
#[test]
fn certificates_come_from_options_and_variables() {
    let with_tls = ServerBinary::every()
        .into_iter()
        .filter(ServerBinary::supports_tls);
    let with_tls: Vec<_> = with_tls.collect();
    assert!(!with_tls.is_empty(), "no server to test against has TLS");
    for binary in with_tls {
        let server = Server::start(&binary, ServerOptions::new().tls());
        let (address, certificates) = server.tls().unwrap();
        let (url, plain) = (format!("rediss://{address}"), server.address().to_string());
        assert_told(&url, 69, "FAULT    tls", "--cacert FILE or REDLATCH_CACERT");
        let ls = |url: &str, options: &[&Path], variables: &[(&str, &Path)]| {
            let output = Command::new(env!("CARGO_BIN_EXE_redlatch"))
                .args(["ls", "--url", url])
                .args(options)
                .envs(variables.iter().copied())
                .stdin(Stdio::null())
                .output()
                .unwrap();
            (
                output.status.code().unwrap(),
                String::from_utf8(output.stderr).unwrap(),
            )
        };
        let (code, told) = ls(&url, &[], &[]);
        assert!(
            code == 69 && told.contains("SSL_CERT_FILE") && !told.contains('`'),
            "{told}"
        );
        let option = |name| Path::new(name);
        let authority = certificates.authority.as_path();
        let (certificate, key) = (&certificates.client_certificate, &certificates.client_key);
        let plain = format!("redis://{plain}");
        let own = [option("--cacert"), authority, option("--cert"), certificate];
        for (url, options, variables, code) in [
            (&url, &[option("--cacert"), authority][..], &[][..], 0),
            (&url, &[], &[("REDLATCH_CACERT", authority)], 0),
            (&url, &[], &[("SSL_CERT_FILE", authority)], 0),
            (&url, &[&own[..], &[option("--key"), key]].concat(), &[], 0),
            (&url, &own, &[("REDLATCH_KEY", key)], 0),
            (&url, &own, &[], 64),
            (&url, &[option("--cacert"), option("none")], &[], 78),
            (&plain, &[], &[("REDLATCH_CACERT", authority)], 0),
            (&plain, &[option("--cacert"), authority], &[], 78),
        ] {
            let ended = ls(url, options, variables);
            assert_eq!(
                ended.0, code,
                "{url} {options:?} {variables:?}: {}",
                ended.1
            );
        }
    }
}

/// What looks at a cluster shows the names of its living masters, and names the dead one.
#[test]
fn dead_master_hides_its_own_names_only() {
    for binary in ServerBinary::all() {
        let options = ClusterOptions {
            node: ServerOptions::new().config("cluster-require-full-coverage no"),
            ..ClusterOptions::default()
        };
        let cluster = Cluster::start(&binary, &options);
        let redlatch = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_redlatch"));
            let command = command.args(args).env("REDLATCH_URL", cluster.url());
            command.stdin(Stdio::null()).output().unwrap()
        };
        let names: Vec<_> = (0..9).map(|n| format!("n{n}")).collect();
        for name in &names {
            assert!(redlatch(&["hold", name, "--for", "1h"]).status.success());
        }
        let dead = cluster.masters()[2];
        let (there, here): (Vec<_>, Vec<_>) = names
            .iter()
            .partition(|name| cluster.owner(&key(name)).port() == dead.port());
        assert!(!there.is_empty() && !here.is_empty());
        dead.kill();
        let listed = redlatch(&["ls"]);
        let told = String::from_utf8(listed.stderr).unwrap();
        assert_eq!(listed.status.code(), Some(69), "{told}");
        assert!(told.contains(&dead.address().to_string()), "{told}");
        let table = String::from_utf8(listed.stdout).unwrap();
        let shown = table
            .lines()
            .skip(1)
            .filter_map(|line| line.split(' ').next());
        assert!(shown.eq(here.iter().copied()), "{table}");
        let found = format!("WARNING  reach        {}", dead.address());
        assert_told(&cluster.url(), 0, &found, "the names there cannot be used");
        assert!(redlatch(&["show", here[0]]).status.success());
        assert_eq!(redlatch(&["show", there[0]]).status.code(), Some(69));
    }
}
