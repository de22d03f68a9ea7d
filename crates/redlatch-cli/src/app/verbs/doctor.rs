//! `redlatch doctor`: what is wrong with address, server, rights or speed.

mod findings;

use std::{
    ops::Range,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redlatch::{Client, ClientBuilder, Error, ErrorKind, ServerAnswers};
use redlatch_core::family::Internals;
use tokio::select;

use self::findings::Findings;
use crate::app::{
    address,
    args::{DoctorArgs, ServerArgs},
    exit::{Failure, NO_RENAME, NO_SERVER, is_renamed, of_command},
    out, session,
};

/// The commands that a user needs, as on the page about rights.
const RIGHTS: &str = "+eval +evalsha +time +hget +hmget +hset +hdel +hgetall +hscan \
    +pexpire +pttl +persist +zadd +zrem +zremrangebyscore +zcount +zcard +zscore +zrange \
    +zrangebyscore +zrank +zpopmin +publish +subscribe +unsubscribe +ping +set +get +del +scan \
    +info +client|setname";

/// What others see of this verb.
const APPLICATION: &str = "redlatch doctor";

/// A round trip that is longer than this slows every lock down.
const FAR: Duration = Duration::from_millis(5);

/// How long the servers may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The most names that are tried.
const NAMES: u32 = 8;

/// How many pairs of acquire and release are measured.
const PAIRS: u32 = 50;

/// Runs the verb.
pub(crate) async fn run(mut server: ServerArgs, args: &DoctorArgs) -> Result<u8, Failure> {
    let mut findings = Findings::default();
    examine(&mut server, &mut findings).await;
    out::print(&if args.json {
        findings.json()
    } else {
        findings.text()
    })?;
    Ok(findings.code)
}

async fn examine(server: &mut ServerArgs, findings: &mut Findings) {
    let url = match address::find(server) {
        Ok(url) => server.found.insert(url).clone(),
        Err(failure) => return findings.failed("address", failure, "give an address of one line"),
    };
    findings.ok("address", address::without_password(&url));
    let Some(answers) = reach(server, &url, findings).await else {
        return;
    };
    if describe(&answers, &url, findings) {
        use_it(server, findings).await;
    }
}

/// The answers of all servers, and when they were asked.
type Answers = (Vec<ServerAnswers>, Range<Duration>);

/// Asks the servers what they are. Connecting in the usual way would write, which a replica
/// refuses.
async fn reach(server: &ServerArgs, url: &str, findings: &mut Findings) -> Option<Answers> {
    let builder = session::over(server, |builder| {
        builder.application(APPLICATION).patience(PATIENCE)
    });
    let builder = match builder {
        Ok(builder) => builder,
        Err(failure) => {
            findings.failed("address", failure, "see redlatch help");
            return None;
        }
    };
    let (prefix, _, unknown) = builder.chosen();
    if !unknown.is_empty() {
        let advice = "remove them, or correct their names";
        findings.warn("address", session::unknown_parameters(unknown), advice);
    }
    let prefix = prefix.to_owned();
    let refused = session::refused(&builder);
    select! {
        asked = ask(builder) => match asked {
            Ok(answers) => {
                findings.ok("reach", "the server answers and accepts user and password");
                return Some(answers);
            }
            Err(error) => unreached((&prefix, url), &error, findings),
        },
        refused = refused => findings.failed("reach", refused, UNREACHED),
    }
    None
}

async fn ask(builder: ClientBuilder) -> Result<Answers, Error> {
    let client = builder.connect_lazy()?;
    let before = now();
    let servers = client.ask_servers().await;
    let after = now().max(before);
    session::close(&client).await;
    Ok((servers?, before..after))
}

/// What to do about a server that is not reached.
const UNREACHED: &str =
    "check host and port, that the server runs, firewalls, and rediss:// against redis://";

/// Records why the servers were not reached.
fn unreached((prefix, url): (&str, &str), error: &Error, findings: &mut Findings) {
    let text = error.to_string();
    let code = session::of_address(error.clone()).code;
    let (check, advice) = match error.kind() {
        ErrorKind::Permission => return rights_missing((prefix, url), code, text, findings),
        ErrorKind::Auth => (
            "login",
            "check user and password of the address; redis-cli ACL WHOAMI shows who they are",
        ),
        ErrorKind::Unavailable if text.contains("no TLS with") => (
            "tls",
            "--cacert FILE or REDLATCH_CACERT names the authority of the server's certificate, \
             --cert and --key or REDLATCH_CERT and REDLATCH_KEY the certificate that the server asks for",
        ),
        ErrorKind::Unavailable | ErrorKind::OutcomeUnknown => ("reach", UNREACHED),
        ErrorKind::InvalidOption => (
            "address",
            "write it as redis://[user[:password]@]host[:port][/database]; check --prefix too",
        ),
        _ => ("reach", SEE_ERRORS),
    };
    findings.fault(check, code, text, advice);
}

/// What to do about any other error.
const SEE_ERRORS: &str = "see docs/book/src/reference/errors.md of redlatch";

/// Looks at what the servers say about themselves. Returns whether it is worth to go on.
fn describe((servers, asked): &Answers, url: &str, findings: &mut Findings) -> bool {
    let clustered = url.contains("+cluster://");
    let found_before = findings.code;
    if servers.len() > 1 || clustered {
        let masters = servers.len();
        findings.ok("topology", format!("a cluster of {masters} masters"));
    }
    for server in servers {
        let address = &server.address;
        if let Some(why) = &server.failed {
            let advice = "the names there cannot be used: start the server, or repair the cluster";
            findings.warn("reach", format!("{address}: {why}"), advice);
            continue;
        }
        refusals(server, findings);
        match &server.info {
            None => {
                let advice = "allow +info to have version, role and eviction policy checked";
                let text = format!("{address} does not say what it is");
                findings.warn("server", text, advice);
            }
            Some(info) => {
                let single = servers.len() == 1 && !clustered;
                look_at(address, info, single, is_direct(url), findings);
            }
        }
        let trip = server.round_trip;
        let text = format!("{address}: {} for a round trip", micros(trip));
        let advice = "every acquisition takes one: run closer to the server";
        match trip > FAR {
            true => findings.warn("round trip", text, advice),
            false => findings.ok("round trip", text),
        }
        clock(address, server.time, asked, findings);
    }
    findings.code == found_before
}

/// What to do about rights that only some functions need.
const MORE_RIGHTS: &str = "+wait is needed for durability by replicas, the others for messages by \
    shard; see the page \"Give rights\" of the book";

/// Looks at what the server refuses to the user, or to every user.
fn refusals(server: &ServerAnswers, findings: &mut Findings) {
    let address = &server.address;
    for right in &server.lacks {
        let text = format!("{address}: the user lacks {right}");
        findings.warn("rights", text, MORE_RIGHTS);
    }
    if let Some(refusal) = &server.no_wait {
        let advice = "durability by replicas does not work there, and all else does";
        findings.warn("wait", format!("{address} refuses WAIT: {refusal}"), advice);
    }
}

/// Checks version, role, topology and eviction policy.
fn look_at(address: &str, info: &str, single: bool, direct: bool, findings: &mut Findings) {
    let field = |name: &str| {
        let mut lines = info.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    };
    let version = field("redis_version").unwrap_or_default();
    look_at_version(address, version, field("valkey_version"), findings);
    if single && field("cluster_enabled") == Some("1") {
        let advice = match address.strip_prefix("tls:") {
            Some(host) => format!("write the address as rediss+cluster://{host}"),
            None => format!("write the address as redis+cluster://{address}"),
        };
        let text = format!("{address} belongs to a cluster");
        findings.fault("topology", NO_SERVER, text, &advice);
    } else if single {
        let what = match direct {
            true => "one given server",
            false => "one master in charge",
        };
        findings.ok("topology", what);
    }
    match field("role") {
        Some("slave") => {
            let host = field("master_host").unwrap_or("unknown");
            let port = field("master_port").unwrap_or_default();
            let text = format!("{address} is a replica of {host}:{port} and takes no writes");
            let advice = "connect to the master, or name all servers with redis+replicas:// or \
                 redis+sentinel://";
            findings.fault("role", NO_SERVER, text, advice);
        }
        Some(role) => findings.ok("role", format!("{address} is a {role}")),
        None => {}
    }
    match field("maxmemory_policy") {
        Some("noeviction") => findings.ok("eviction", format!("{address} evicts nothing")),
        Some(policy) => findings.warn(
            "eviction",
            format!("{address} evicts keys when it is full ({policy}), locks too"),
            "redis-cli CONFIG SET maxmemory-policy noeviction, and in its configuration file",
        ),
        None => {}
    }
}

/// Checks the version, which Valkey calls that of the Redis that it equals.
fn look_at_version(address: &str, redis: &str, valkey: Option<&str>, findings: &mut Findings) {
    let shown = match valkey {
        Some(valkey) => format!("{address} is Valkey {valkey}"),
        None => format!("{address} is of version {redis}"),
    };
    if is_old(redis) {
        let text = format!("{shown}, which is too old");
        let advice = "use Redis 6.2 or later, or Valkey";
        findings.fault("version", NO_SERVER, text, advice);
    } else {
        findings.ok("version", shown);
    }
}

/// Compares a clock with that of this machine. Holds are measured by spans, so that is a hint only.
fn clock(address: &str, time: Duration, asked: &Range<Duration>, findings: &mut Findings) {
    let late = time.saturating_sub(asked.end);
    let apart = asked.start.saturating_sub(time).max(late);
    if time < Duration::from_secs(1_000_000_000) {
        let text = format!("the clock of {address} stands before 2001");
        findings.fault("clock", NO_SERVER, text, "set the clock of the server");
    } else if apart > APART {
        let text = format!("the clock of {address} and that of this machine are {apart:.0?} apart");
        let advice =
            "locks work with that; slots of once follow the server: set the wrong one of the two";
        findings.warn("clock", text, advice);
    } else {
        let text = format!("the clock of {address} agrees with this machine");
        findings.ok("clock", text);
    }
}

/// Clocks that differ by more are worth a warning.
const APART: Duration = Duration::from_secs(5);

/// Runs the library's own check, which needs all rights, and measures a pair.
async fn use_it(server: &ServerArgs, findings: &mut Findings) {
    let Ok(builder) = session::builder(server, APPLICATION) else {
        return;
    };
    let prefix = builder.chosen().0.to_owned();
    let builder = builder.token_retention(Duration::from_secs(10));
    let client = match builder.connect().await {
        Ok(client) => client,
        Err(error) => {
            let text = of_command(error.to_string());
            let kind = error.kind();
            let code = Failure::from(error).code;
            let (check, advice) = match kind {
                ErrorKind::Permission => {
                    let url = address::find(server).unwrap_or_default();
                    return rights_missing((&prefix, &url), code, text, findings);
                }
                ErrorKind::ServerFull => (
                    "memory",
                    "raise maxmemory, or remove keys of other programs",
                ),
                ErrorKind::UnsupportedServer => (
                    "server",
                    "the page \"Where it runs\" of the redlatch book lists what a service has to accept",
                ),
                _ => ("server", SEE_ERRORS),
            };
            return findings.fault(check, code, text, advice);
        }
    };
    findings.ok("rights", "the user may do all that locks need");
    match pairs(&client).await {
        Ok(each) => {
            let text = format!("{} to acquire and release a lock", micros(each));
            findings.ok("pair", text);
        }
        Err(failure) => findings.failed("pair", failure, "see above"),
    }
    session::close(&client).await;
}

/// Returns the median time of an acquisition with its release. A name may be on a server of a
/// cluster that is away, so several are tried.
async fn pairs(client: &Client) -> Result<Duration, Failure> {
    let mut tried = Ok(Duration::ZERO);
    for n in 0..NAMES {
        tried = pairs_of(client, n).await;
        if !matches!(&tried, Err(error) if error.kind() == ErrorKind::Unavailable) {
            break;
        }
    }
    Ok(tried?)
}

async fn pairs_of(client: &Client, n: u32) -> Result<Duration, Error> {
    let lock = client.lock(format!("redlatch-doctor-{n}-{}", client.id()));
    let mut spans = Vec::new();
    for _ in 0..PAIRS {
        let began = client.now();
        lock.lock().await?.release().await?;
        spans.push(client.now() - began);
    }
    spans.sort_unstable();
    Ok(spans.get(spans.len() / 2).copied().unwrap_or_default())
}

/// Tells which rights are missing, with a line that takes none away. A server refuses a pattern for
/// a user who may use all keys or all channels, so patterns are added where they are missing.
fn rights_missing((prefix, url): (&str, &str), code: u8, text: String, findings: &mut Findings) {
    if is_renamed(&text) {
        return findings.fault("rights", code, text, NO_RENAME);
    }
    let user = user(url);
    let mut advice = format!("ACL SETUSER {user} {RIGHTS}");
    if text.contains(&format!("~{prefix}")) || text.contains(" key") {
        advice.push_str(&format!(" ~{prefix}:*"));
    }
    if text.contains(&format!("&{prefix}")) || text.contains(" channel") {
        advice.push_str(&format!(" &{prefix}:*"));
    }
    findings.fault("rights", code, text, &advice);
}

/// Returns the user of an address.
fn user(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let login = authority.rsplit_once('@').map_or("", |(login, _)| login);
    match login.split(':').next() {
        Some("") | None => "default",
        Some(user) => user,
    }
}

/// Tells whether an address names one server that is never looked for.
fn is_direct(url: &str) -> bool {
    !url.split("://").next().unwrap_or_default().contains('+')
}

fn is_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0_u32);
    (next(), next()) < (6, 2)
}

fn micros(span: Duration) -> String {
    format!("{:.2} ms", span.as_secs_f64() * 1000.0)
}

fn now() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_that_of_the_login() {
        assert_eq!(user("redis://app:x@h"), "app");
        assert_eq!(user("redis://:x@h"), "default");
    }

    #[test]
    fn the_address_of_a_cluster_is_written_as_it_is_pasted() {
        for (address, advice) in [
            ("h:6379", "write the address as redis+cluster://h:6379"),
            ("tls:h:6379", "write the address as rediss+cluster://h:6379"),
        ] {
            let mut findings = Findings::default();
            look_at(address, "cluster_enabled:1", true, true, &mut findings);
            let text = findings.text();
            assert!(text.contains(advice), "{text}");
        }
    }

    #[test]
    fn the_rights_are_those_of_the_book() {
        let page = include_str!("../../../../../docs/book/src/how-to/rights.md");
        let line = page.split("ACL SETUSER app").nth(1).unwrap();
        let line = line.split("```").next().unwrap();
        let wanted: Vec<_> = line
            .split_whitespace()
            .map(|word| word.trim_matches('\''))
            .filter(|word| word.contains('+'))
            .collect();
        let ours: Vec<_> = RIGHTS
            .split_whitespace()
            .filter(|word| word.contains('+'))
            .collect();
        assert_eq!(wanted, ours);
    }
}
