//! Sentinels: asks them for the master, and listens for their failover messages.

use std::{convert::Infallible, future::ready, sync::Arc};

use tokio::select;

use super::{
    Access, Router,
    dialer::Dialer,
    query,
    replies::{self, Watched},
    servers::Sentinels,
};
use crate::{
    Error, ErrorKind,
    base::{observe, timeouts},
    runtime::{Address, Command, Conn, Dialed, Purpose, Push, Value},
};

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
    let replies = query::send(world, address, &access, commands.into(), timeout).await?;
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
    replies::watched(&master, &state?.unwrap_or(Value::Nil))
        .map(|watched| Watched {
            followers: followers.iter().flat_map(replies::followers).collect(),
            ..watched
        })
        .ok_or_else(|| Error::unavailable(format!("the sentinel at {address} answers {master:?}")))
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
        select! {
            biased;
            push = dialed.pushes.next() => match push {
                None => return Err(Error::unavailable("it closed the connection")),
                Some(Push::Message { payload, .. }) if replies::is_about(&payload, service) => {
                    observe::switched(service);
                    router.looks.want();
                }
                Some(_) => {}
            },
            () = world.runtime.sleep_until(ping_at) => {
                send(router, conn, Command::new("PING")).await?;
                ping_at = world.now() + timeouts::HEALTH_CHECK;
            }
        }
    }
}

async fn send(router: &Router, conn: &dyn Conn, command: Command) -> Result<(), Error> {
    let reply = query::on_pubsub(&router.world, conn, command, "it does not answer").await?;
    match reply {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::unavailable(error.to_string())),
    }
}

const SWITCH: &str = "+switch-master";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{
            replies::tests::{WORDS, list},
            servers::is_possible,
        },
        *,
    };
    use crate::runtime::{
        Login,
        values::{any_value, damaged, many_cases},
    };

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
            state in answer(list(&["config-epoch", "4", "num-slaves", "2"])),
            followers in answer(Value::Array(vec![list(&["ip", "b", "port", "7"])])),
        ) {
            let sentinels = Sentinels {
                service: "main".to_owned(),
                addresses: Vec::new(),
                login: Login::default(),
                server_tls: None,
            };
            let address = Address::Tcp { host: "s".to_owned(), port: 1 };
            let answers = [master.clone(), state, followers.clone()];
            let answers = answers.map(|answer| answer.ok_or_else(|| Error::unavailable("refused")));
            match read(&sentinels, &address, answers.into()) {
                Ok(watched) => {
                    for (host, port) in watched.followers.iter().chain([&watched.master]) {
                        prop_assert!(!host.is_empty() && is_possible(host, *port));
                    }
                    prop_assert!(followers.is_some() || watched.followers.is_empty());
                }
                Err(error) if master == Some(Value::Nil) => {
                    prop_assert_eq!(error.kind(), ErrorKind::UnsupportedServer);
                }
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Unavailable),
            }
        }
    }
}
