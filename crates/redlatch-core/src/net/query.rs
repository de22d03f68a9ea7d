//! Plain commands over a separate connection, to servers without a link.

use std::time::Duration;

use tokio::select;

use super::World;
use crate::{
    Error, ErrorKind,
    base::timeouts,
    protocol::classify::{Class, classify},
    runtime::{Address, Command, Dial, Login, Outcome, Purpose, Value},
};

/// Sends `commands` over a new connection, which closes afterwards.
pub(super) async fn send(
    world: &World,
    address: &Address,
    login: &Login,
    commands: Vec<Command>,
    timeout: Duration,
) -> Result<Vec<Result<Value, Error>>, Error> {
    let dial = Dial {
        address: address.clone(),
        login: login.clone(),
        purpose: Purpose::Command,
    };
    let ask = async {
        let dialed = world.transport.dial(&dial).await;
        let dialed = dialed.map_err(|error| Error::dial(address, error))?;
        Ok(dialed.conn.send(commands).await)
    };
    let deadline = world.now() + timeout.min(timeouts::TOPOLOGY_QUERY);
    let outcomes: Vec<Outcome> = select! {
        biased;
        outcomes = ask => outcomes?,
        () = world.runtime.sleep_until(deadline) => {
            return Err(Error::unavailable(format!("no answer from {address} in time")));
        }
    };
    Ok(outcomes
        .into_iter()
        .map(|outcome| value(address, outcome))
        .collect())
}

fn value(address: &Address, outcome: Outcome) -> Result<Value, Error> {
    match outcome {
        Outcome::Replied(Ok(value)) => Ok(value),
        Outcome::Replied(Err(error)) => Err(match classify(&error.code, &error.message) {
            Class::Fatal(refusal) | Class::Halted(refusal) => Error::refused(refusal, error),
            _ if error.message.contains("cluster support disabled") => Error::with_source(
                ErrorKind::UnsupportedServer,
                format!("{address} belongs to no cluster"),
                error,
            ),
            _ => Error::with_source(ErrorKind::Unavailable, format!("{address} refuses"), error),
        }),
        Outcome::NotSent(why) | Outcome::Unknown(why) => Err(Error::unavailable(format!(
            "no answer from {address}: {why}"
        ))),
    }
}
