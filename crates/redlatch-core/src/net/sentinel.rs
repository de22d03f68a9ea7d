//! Sentinels: asks them for the master, and listens for their failover messages.

use std::{convert::Infallible, future::ready, sync::Arc};

use super::{
    Access, Router,
    dialer::{self, Dialer},
    servers::{HostPort, Sentinels, is_possible},
};
use crate::{
    Error, ErrorKind,
    base::{observe, timeouts},
    runtime::{Address, Command, Conn, Dialed, Purpose, Push, ServerError, Value},
};

/// A sentinel's information about the master.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) master: HostPort,
    /// The configuration epoch, which increases with each failover.
    pub(super) epoch: u64,
    pub(super) replicas: u32,
    /// The addresses of the replicas, as far as the sentinel knows them.
    pub(crate) followers: Vec<HostPort>,
}

/// Asks one sentinel for the master.
pub(super) async fn ask(
    router: &Router,
    sentinels: &Sentinels,
    address: &Address,
) -> Result<Watched, Error> {
    let sentinel = |what: &str| Command::new("SENTINEL").arg(what).arg(&sentinels.service);
    let commands = ["GET-MASTER-ADDR-BY-NAME", "MASTER", "REPLICAS"].map(sentinel);
    let (world, timeout) = (&router.world, router.connect_timeout);
    let access = Access::new(sentinels.login.clone(), None);
    let replies = dialer::ask(world, address, &access, commands.into(), timeout).await?;
    read(sentinels, address, replies)
}

/// Reads the replies of one sentinel.
fn read(
    sentinels: &Sentinels,
    address: &Address,
    mut replies: Vec<Result<Value, Error>>,
) -> Result<Watched, Error> {
    // The user may lack the right to this command.
    let followers = replies.pop().and_then(Result::ok);
    let state = replies.pop().transpose();
    let master = replies.pop().transpose();
    let master = master.map_err(|error| no_sentinel(address, error))?;
    let master = master.unwrap_or(Value::Nil);
    if master == Value::Nil {
        let service = &sentinels.service;
        let message = format!(
            "the sentinel at {address} knows no master called {service:?}; the address is redis+sentinel://host/name"
        );
        return Err(Error::new(ErrorKind::UnsupportedServer, message));
    }
    let strange = || Error::unavailable(format!("the sentinel at {address} answers {master:?}"));
    let watched = watched(&master, &state?.unwrap_or(Value::Nil));
    let mut watched = watched.ok_or_else(strange)?;
    watched.followers = followers.iter().flat_map(self::followers).collect();
    Ok(watched)
}

/// Reads the replies to `SENTINEL GET-MASTER-ADDR-BY-NAME` and `SENTINEL MASTER`.
pub(crate) fn watched(master: &Value, state: &Value) -> Option<Watched> {
    let [host, port] = master.as_array()? else {
        return None;
    };
    let state = state.as_array()?;
    let field = |name: &str| field(state, name)?.as_int();
    Some(Watched {
        master: server(host, port)?,
        epoch: u64::try_from(field("config-epoch").unwrap_or(0)).ok()?,
        replicas: u32::try_from(field("num-slaves").unwrap_or(0)).ok()?,
        followers: Vec::new(),
    })
}

/// Returns the value of a field in a list of alternating names and values.
fn field<'a>(state: &'a [Value], name: &str) -> Option<&'a Value> {
    let mut pairs = state.chunks_exact(2);
    let pair = pairs.find(|pair| pair[0].as_str() == Some(name))?;
    Some(&pair[1])
}

/// Reads the addresses in the reply to `SENTINEL REPLICAS`. Skips entries without a usable address.
pub(crate) fn followers(reply: &Value) -> Vec<HostPort> {
    let followers = reply.as_array().unwrap_or_default().iter();
    followers
        .filter_map(|follower| {
            let follower = follower.as_array()?;
            server(field(follower, "ip")?, field(follower, "port")?)
        })
        .collect()
}

/// Reads the address of a server that a sentinel names.
fn server(host: &Value, port: &Value) -> Option<HostPort> {
    let host = host.as_str().filter(|host| !host.is_empty())?;
    let port = u16::try_from(port.as_int()?).ok()?;
    is_possible(host, port).then(|| (host.to_owned(), port))
}

/// Returns whether a message is about `service`. The payload is `<name> <old host> <old port> <new
/// host> <new port>`, and a name contains no blanks.
fn is_about(payload: &[u8], service: &str) -> bool {
    payload.split(|&byte| byte == b' ').next() == Some(service.as_bytes())
}

/// Returns the error of a server that does not know the questions for a sentinel, and any other
/// `error` as it is.
fn no_sentinel(address: &Address, error: Error) -> Error {
    let reason = error.reason().map(ToString::to_string).unwrap_or_default();
    if !reason.contains("unknown command") {
        return error;
    }
    let plain = address.written("");
    let message = format!(
        "{address} is no sentinel; write {plain} for a plain server, or name the port of a sentinel, 26379 by default"
    );
    Error::new(ErrorKind::UnsupportedServer, message)
}

/// Listens to one sentinel until dropped. Makes the router look for the master after each failover
/// message, and after each new connection.
pub(super) async fn watch(router: Arc<Router>, sentinels: Sentinels, address: Address) {
    let access = Access::new(sentinels.login.clone(), None);
    let (world, timeout) = (router.world.clone(), router.connect_timeout);
    let mut dialer = Dialer::new(world, Purpose::PubSub, access, timeout);
    while let Some((_, result)) = dialer.next(ready(address.clone())).await {
        let Err(error) = match result {
            Ok((dialed, _)) => live(&router, &sentinels.service, dialed).await,
            Err(error) => Err(error),
        };
        // The loss of this sentinel does not invalidate its earlier information.
        tracing::debug!(target: "redlatch", sentinel = %address, %error, "a sentinel is not heard");
    }
}

async fn live(router: &Router, service: &str, mut dialed: Dialed) -> Result<Infallible, Error> {
    let (world, conn) = (&router.world, dialed.conn.as_ref());
    send(router, conn, Command::new("SUBSCRIBE").arg(SWITCH)).await?;
    // Messages before the subscription are lost.
    router.looks.want();
    let mut ping_at = world.now() + timeouts::HEALTH_CHECK;
    loop {
        match world.until(ping_at, dialed.pushes.next()).await {
            Some(None) => return Err(Error::unavailable("it closed the connection")),
            Some(Some(Push::Message { payload, .. })) if is_about(&payload, service) => {
                observe::switched(service);
                router.looks.want();
            }
            Some(Some(_)) => {}
            None => {
                send(router, conn, Command::new("PING")).await?;
                ping_at = world.now() + timeouts::HEALTH_CHECK;
            }
        }
    }
}

async fn send(router: &Router, conn: &dyn Conn, command: Command) -> Result<(), Error> {
    let reply = dialer::ask_pubsub(&router.world, conn, command, "it does not answer").await?;
    let refused = |error: ServerError| Error::unavailable(error.to_string());
    reply.map(drop).map_err(refused)
}

const SWITCH: &str = "+switch-master";

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::runtime::{
        Login,
        values::{any_value, bulk, damaged, host_and_port, many_cases},
    };

    fn list(items: &[&str]) -> Value {
        Value::Array(items.iter().map(|item| bulk(item)).collect())
    }

    /// Returns the reply to `SENTINEL MASTER`, or one entry of the reply to `SENTINEL REPLICAS`.
    fn state(host: &str, port: u16, epoch: u32, replicas: u32) -> Value {
        let (port, epoch, replicas) = (port.to_string(), epoch.to_string(), replicas.to_string());
        let address = ["name", "ip", "ip", host, "port", &port];
        let rest = ["config-epoch", &epoch, "num-slaves", &replicas];
        list(&[&address[..], &rest].concat())
    }

    const WORDS: &[&str] = &[
        "",
        "a",
        "a b",
        "\r\n",
        "0",
        "7",
        "70000",
        "ip",
        "port",
        "config-epoch",
        "num-slaves",
    ];

    #[test]
    fn a_switch_of_another_master_is_not_ours() {
        assert!(is_about(b"main 10.0.0.1 1 10.0.0.2 1", "main"));
        assert!(!is_about(b"mainly 10.0.0.1 1 10.0.0.2 1", "main"));
    }

    /// Returns answers like `valid`, and refusals.
    fn answer(valid: Value) -> impl Strategy<Value = Option<Value>> {
        let reply = prop_oneof![
            2 => Just(valid.clone()),
            2 => damaged(Just(valid), WORDS),
            1 => any_value(WORDS),
        ];
        proptest::option::weighted(0.9, reply)
    }

    proptest! {
        #![proptest_config(many_cases())]

        #[test]
        fn any_answers_of_a_sentinel_are_read_or_refused(
            master in answer(list(&["a", "7"])),
            entry in answer(state("a", 7, 4, 2)),
            replicas in answer(Value::Array(vec![list(&["ip", "b", "port", "7"])])),
        ) {
            let sentinels = Sentinels {
                service: "main".to_owned(),
                addresses: Vec::new(),
                login: Login::default(),
                server_tls: None,
            };
            let address = Address::Tcp { host: "s".to_owned(), port: 1 };
            let refused = || Error::unavailable("refused");
            let answers = [&master, &entry, &replicas];
            let answers = answers.map(|answer| answer.clone().ok_or_else(refused));
            let mut servers = Vec::new();
            match read(&sentinels, &address, answers.into()) {
                Ok(watched) => {
                    let host = master.as_ref().and_then(|master| master.as_array()?[0].as_str());
                    prop_assert_eq!(Some(watched.master.0.as_str()), host);
                    prop_assert!(entry.as_ref().is_some_and(|entry| entry.as_array().is_some()));
                    prop_assert!(replicas.is_some() || watched.followers.is_empty());
                    servers = watched.followers;
                    servers.push(watched.master);
                }
                Err(error) if master == Some(Value::Nil) => {
                    prop_assert_eq!(error.kind(), ErrorKind::UnsupportedServer);
                }
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Unavailable),
            }
            let twice = entry.map(|entry| followers(&Value::Array(vec![entry; 2])));
            let twice = twice.unwrap_or_default();
            prop_assert!([0, 2].contains(&twice.len()));
            for (host, port) in servers.iter().chain(&twice) {
                prop_assert!(!host.is_empty() && is_possible(host, *port), "{host:?}:{port}");
            }
        }

        #[test]
        fn sentinels_are_read_as_they_write(
            ((host, port), epoch) in (host_and_port(), any::<u32>()),
            nodes in vec(host_and_port(), 0..4),
        ) {
            let count = u32::try_from(nodes.len()).unwrap();
            let master = list(&[&host, &port.to_string()]);
            let expected = Watched {
                master: (host.clone(), port),
                epoch: epoch.into(),
                replicas: count,
                followers: Vec::new(),
            };
            prop_assert_eq!(watched(&master, &state(&host, port, epoch, count)), Some(expected));
            let entries = nodes.iter().map(|(host, port)| state(host, *port, epoch, 0));
            let portless = [list(&["ip", "a"]), state("a", 0, epoch, 0)];
            let entries = entries.chain(portless).collect();
            prop_assert_eq!(followers(&Value::Array(entries)), nodes);
        }

        #[test]
        fn switch_message_is_about_its_first_word(
            name in "[a-z-]{0,8}", rest in vec(any::<u8>(), 0..12), other in "[a-z-]{0,8}",
        ) {
            let payload = [name.as_bytes(), b" ", &rest].concat();
            prop_assert_eq!(is_about(&payload, &other), name == other);
        }
    }
}
