//! `redlatch doctor` against real servers with a fault each, with every server.

use std::{
    ffi::OsStr,
    path::Path,
    process::{Command, Stdio},
};

use redlatch_tests::{
    fixture::key,
    proxy::{Pick, Proxy},
    server::{Cluster, ClusterOptions, Replicated, Server, ServerBinary, ServerOptions},
};

/// Runs the command to its end. Returns its exit code and its two outputs.
fn redlatch(
    url: &str,
    args: impl IntoIterator<Item: AsRef<OsStr>>,
    variables: &[(&str, &Path)],
) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlatch"));
    command.args(args).env_remove("REDIS_URL");
    command.env("REDLATCH_URL", url).stdin(Stdio::null());
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let code = output.status.code().unwrap();
    let [told, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (code, told, errors)
}

/// Returns the exit code of doctor, and what it has printed.
fn doctor(url: &str) -> (i32, String) {
    let (code, told, errors) = redlatch(url, ["doctor"], &[]);
    assert_eq!(errors, "");
    (code, told)
}

/// Asserts that doctor names this fault or warning, and what to do.
pub(crate) fn assert_told(url: &str, code: i32, found: &str, advice: &str) {
    let (ended, told) = doctor(url);
    assert_eq!(ended, code, "{told}");
    let mut lines = told.lines();
    let is_told = lines.any(|line| line.contains(found));
    assert!(is_told, "{found:?} is not in\n{told}");
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
        let mut servers = pair.servers().iter();
        let replica = servers.find(|server| server.address() != master);
        let url = format!("redis://{}", replica.unwrap().address());
        assert_told(&url, 69, "FAULT    role", "connect to the master");
        let of = format!(":{} and takes no writes", master.port());
        assert!(doctor(&url).1.contains(&of));
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
    for (server, _) in every(ServerOptions::new) {
        let info = server.command(&["INFO"]).unwrap().text();
        let (before, version) = info.split_once("redis_version:").unwrap();
        let old = format!("{before}redis_version:5{}", &version[1..]);
        let way = Proxy::start(server.address());
        way.always_answer(Pick::command("INFO"), &format!("${}\r\n{old}", old.len()));
        let told = tokio::task::spawn_blocking(move || {
            assert_told(&way.url(), 69, "FAULT    version", "use Redis 6.2 or later");
        });
        told.await.unwrap();
    }
}

/// The advice for a certificate that nobody knows is an option of the command, and works.
#[test]
fn certificates_come_from_options_and_variables() {
    let mut with_tls = ServerBinary::every();
    with_tls.retain(ServerBinary::supports_tls);
    assert!(!with_tls.is_empty(), "no server to test against has TLS");
    for binary in with_tls {
        let server = Server::start(&binary, ServerOptions::new().tls());
        let (address, certificates) = server.tls().unwrap();
        let (url, plain) = (format!("rediss://{address}"), server.address().to_string());
        assert_told(&url, 69, "FAULT    tls", "--cacert FILE or REDLATCH_CACERT");
        let ls = |url: &str, options: &[&Path], variables: &[(&str, &Path)]| {
            let (code, _, told) =
                redlatch(url, [&[Path::new("ls")][..], options].concat(), variables);
            (code, told)
        };
        let (code, told) = ls(&url, &[], &[]);
        let advises = told.contains("SSL_CERT_FILE") && !told.contains('`');
        assert!(code == 69 && advises, "{told}");
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
            let (ended, told) = ls(url, options, variables);
            assert_eq!(ended, code, "{url} {options:?} {variables:?}: {told}");
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
        let url = cluster.url();
        let redlatch = |args: &[&str]| redlatch(&url, args, &[]);
        let names: Vec<_> = (0..9).map(|n| format!("n{n}")).collect();
        for name in &names {
            assert_eq!(redlatch(&["hold", name, "--for", "1h"]).0, 0);
        }
        let dead = cluster.masters()[2];
        let (there, here): (Vec<_>, Vec<_>) = names
            .iter()
            .partition(|name| cluster.owner(&key(name)).port() == dead.port());
        assert!(!there.is_empty() && !here.is_empty());
        dead.kill();
        let (code, table, told) = redlatch(&["ls"]);
        assert_eq!(code, 69, "{told}");
        assert!(told.contains(&dead.address().to_string()), "{told}");
        let lines = table.lines().skip(1);
        let shown = lines.filter_map(|line| line.split(' ').next());
        assert!(shown.eq(here.iter().copied()), "{table}");
        let found = format!("WARNING  reach        {}", dead.address());
        assert_told(&url, 0, &found, "the names there cannot be used");
        assert_eq!(redlatch(&["show", here[0]]).0, 0);
        assert_eq!(redlatch(&["show", there[0]]).0, 69);
    }
}
