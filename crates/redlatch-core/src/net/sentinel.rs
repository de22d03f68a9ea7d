//! Sentinels: asks them for the master, and listens for their failover messages.

use std::{convert::Infallible, sync::Arc};

use tokio::select;

use super::{
    Router,
    dialer::{Dialer, Target},
    query,
    servers::{Credentials, HostPort, Sentinels},
};
use crate::{
    Error, ErrorKind,
    base::{observe, timeouts},
    runtime::{Address, Command, Conn, Dialed, Outcome, Purpose, Push, Value},
};

/// A sentinel's information about the master.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) master: HostPort,
    /// The configuration epoch, which increases with each failover.
    pub(super) epoch: u64,
    pub(super) replicas: u32,
    /// The addresses of the replicas, as far as the sentinel knows them.
    pub(super) followers: Vec<HostPort>,
}

/// Asks one sentinel for the master.
pub(super) async fn ask(
    router: &Router,
    sentinels: &Sentinels,
    address: &Address,
) -> Result<Watched, Error> {
    let sentinel = |what: &str| Command::new("SENTINEL").arg(what).arg(&sentinels.service);
    let commands = vec![
        sentinel("GET-MASTER-ADDR-BY-NAME"),
        sentinel("MASTER"),
        sentinel("REPLICAS"),
    ];
    let (world, timeout) = (&router.world, router.connect_timeout);
    let mut replies = query::send(world, address, &sentinels.login, commands, timeout).await?;
    // The user may lack the right to this command.
    let followers = replies.pop().and_then(Result::ok);
    let state = replies.pop().transpose();
    let master = replies.pop().transpose()?.unwrap_or(Value::Nil);
    if master == Value::Nil {
        return Err(Error::new(
            ErrorKind::UnsupportedServer,
            format!(
                "the sentinel at {address} knows no master called {:?}",
                sentinels.service
            ),
        ));
    }
    read(&master, &state?.unwrap_or(Value::Nil))
        .map(|watched| Watched {
            followers: followers.iter().flat_map(read_followers).collect(),
            ..watched
        })
        .ok_or_else(|| Error::unavailable(format!("the sentinel at {address} answers {master:?}")))
}

fn read(master: &Value, state: &Value) -> Option<Watched> {
    let [host, port] = master.as_array()? else {
        return None;
    };
    let state = state.as_array()?;
    let field = |name: &str| field(state, name)?.as_int();
    Some(Watched {
        master: (
            host.as_str()?.to_owned(),
            u16::try_from(port.as_int()?).ok()?,
        ),
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

/// Returns the addresses of the replicas.
fn read_followers(reply: &Value) -> Vec<HostPort> {
    let followers = reply.as_array().unwrap_or_default().iter();
    followers
        .filter_map(|follower| {
            let follower = follower.as_array()?;
            let host = field(follower, "ip")?.as_str()?.to_owned();
            let port = u16::try_from(field(follower, "port")?.as_int()?).ok()?;
            Some((host, port))
        })
        .collect()
}

/// Listens to one sentinel until shutdown. Makes the router look for the master after each failover
/// message, and after each new connection.
pub(super) async fn watch(router: Arc<Router>, sentinels: Sentinels, address: Address) {
    let world = router.world.clone();
    let mut dialer = Dialer::new(
        world.clone(),
        Target::Fixed(address.clone()),
        Purpose::PubSub,
        Credentials::new(sentinels.login.clone()),
        router.connect_timeout,
    );
    while let Some(result) = dialer.next().await {
        let error = match result {
            Ok(dialed) => select! {
                biased;
                () = world.ended() => return,
                Err(error) = live(&router, &sentinels.service, dialed) => error,
            },
            Err(error) => error,
        };
        // The loss of this sentinel does not invalidate its earlier information.
        tracing::debug!(target: "redlatch", sentinel = %address, %error, "a sentinel is not heard");
    }
}

async fn live(router: &Router, service: &str, dialed: Dialed) -> Result<Infallible, Error> {
    let Dialed {
        conn, mut pushes, ..
    } = dialed;
    let world = &router.world;
    send(router, conn.as_ref(), Command::new("SUBSCRIBE").arg(SWITCH)).await?;
    // Messages before the subscription are lost.
    router.stale.notify_one();
    let mut ping_at = world.now() + timeouts::HEALTH_CHECK;
    loop {
        select! {
            biased;
            push = pushes.next() => match push {
                None => return Err(Error::unavailable("it closed the connection")),
                Some(Push::Message { payload, .. }) if is_about(&payload, service) => {
                    observe::switched(service);
                    router.stale.notify_one();
                }
                Some(_) => {}
            },
            () = world.runtime.sleep_until(ping_at) => {
                send(router, conn.as_ref(), Command::new("PING")).await?;
                ping_at = world.now() + timeouts::HEALTH_CHECK;
            }
        }
    }
}

async fn send(router: &Router, conn: &dyn Conn, command: Command) -> Result<(), Error> {
    let world = &router.world;
    let outcomes = select! {
        biased;
        outcomes = conn.send(vec![command]) => outcomes,
        () = world.runtime.sleep_until(world.now() + timeouts::PUBSUB_ANSWER) => {
            return Err(Error::unavailable("it does not answer"));
        }
    };
    match outcomes.into_iter().next() {
        Some(Outcome::Replied(Ok(_))) => Ok(()),
        Some(Outcome::Replied(Err(error))) => Err(Error::unavailable(error.to_string())),
        Some(Outcome::NotSent(why) | Outcome::Unknown(why)) => Err(Error::unavailable(why)),
        None => Err(Error::unavailable("no outcome")),
    }
}

/// Returns whether a message is about `service`. The payload is `<name> <old host> <old port> <new
/// host> <new port>`, and a name contains no blanks.
fn is_about(payload: &[u8], service: &str) -> bool {
    payload.split(|&byte| byte == b' ').next() == Some(service.as_bytes())
}

const SWITCH: &str = "+switch-master";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sentinel_says_is_read() {
        let bulk = |text: &str| Value::Bulk(text.into());
        let list = |items: &[&str]| Value::Array(items.iter().map(|item| bulk(item)).collect());
        let master = list(&["10.0.0.7", "6380"]);
        let state = list(&["name", "main", "config-epoch", "4", "num-slaves", "2"]);
        let expected = Watched {
            master: ("10.0.0.7".into(), 6380),
            epoch: 4,
            replicas: 2,
            followers: Vec::new(),
        };
        assert_eq!(read(&master, &state), Some(expected));
        assert_eq!(read(&list(&["x"]), &state), None);
        assert_eq!(read(&master, &Value::Nil), None);
    }

    #[test]
    fn the_replicas_a_sentinel_names_are_read() {
        let bulk = |text: &str| Value::Bulk(text.into());
        let list = |items: &[&str]| Value::Array(items.iter().map(|item| bulk(item)).collect());
        let one = list(&["name", "x", "ip", "10.0.0.8", "port", "6381"]);
        let reply = Value::Array(vec![one, list(&["ip", "10.0.0.9"])]);
        assert_eq!(read_followers(&reply), [("10.0.0.8".to_owned(), 6381)]);
        assert_eq!(read_followers(&Value::Nil), []);
    }

    #[test]
    fn a_switch_of_another_master_is_not_ours() {
        assert!(is_about(b"main 10.0.0.1 1 10.0.0.2 1", "main"));
        assert!(!is_about(b"mainly 10.0.0.1 1 10.0.0.2 1", "main"));
    }
}
