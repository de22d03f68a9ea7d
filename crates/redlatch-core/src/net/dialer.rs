//! Dials servers: again and again with a pause after each failure, or once for some plain commands.

use std::time::Duration;

use super::{Access, World};
use crate::{
    Error, ErrorKind,
    base::timeouts,
    protocol::{outage::Redial, rights},
    runtime::{Address, Command, Conn, Dialed, Login, Outcome, Purpose, Reply, Value},
};

/// Dials again and again.
#[derive(Debug)]
pub(super) struct Dialer {
    world: World,
    purpose: Purpose,
    access: Access,
    timeout: Duration,
    redial: Redial,
}

impl Dialer {
    pub(super) fn new(world: World, purpose: Purpose, access: Access, timeout: Duration) -> Self {
        Self {
            world,
            purpose,
            access,
            timeout,
            redial: Redial::default(),
        }
    }

    /// Records that the server has answered on the present connection as one in use does.
    pub(super) const fn answered(&mut self) {
        self.redial.answered();
    }

    /// Makes the next connection, to the server that `target` returns. Pauses first if the last
    /// connection failed, or broke soon. Returns the address, and the connection with its login.
    /// Returns `None` in a forked process, which must not dial the parent's servers.
    pub(super) async fn next(
        &mut self,
        target: impl Future<Output = Address>,
    ) -> Option<(Address, Result<(Dialed, Login), Error>)> {
        let (world, access, timeout) = (&self.world, &self.access, self.timeout);
        let now = world.now();
        let pause = match self.redial.failures(now) {
            0 => Duration::ZERO,
            failures => timeouts::RECONNECT.delay(failures, world.runtime.random()),
        };
        if world.life.is_forked() {
            return None;
        }
        if now + pause > world.now() {
            world.runtime.sleep_until(now + pause).await;
        }
        let address = target.await;
        let dial = access.dial(world, &address, self.purpose);
        let dialed = world.until(world.now() + timeout, dial).await;
        let late = || Error::late_dial(&address, timeout);
        let result = dialed.unwrap_or_else(|| Err(access.missing().unwrap_or_else(late)));
        match &result {
            Ok(_) => self.redial.connected(world.now()),
            Err(_) => self.redial.failed(),
        }
        Some((address, result))
    }
}

/// Sends `commands` over a new connection, which closes afterwards. Returns one answer for each.
pub(super) async fn ask(
    world: &World,
    address: &Address,
    access: &Access,
    commands: Vec<Command>,
    timeout: Duration,
) -> Result<Vec<Result<Value, Error>>, Error> {
    let count = commands.len();
    let ask = async {
        let (dialed, _) = access.dial(world, address, Purpose::Command).await?;
        let outcomes = dialed.conn.send(commands).await;
        Ok::<_, Error>(values(address, outcomes, count))
    };
    let deadline = world.now() + timeout.min(timeouts::TOPOLOGY_QUERY);
    let late = || Error::unavailable(format!("no answer from {address} in time"));
    let answers = world.until(deadline, ask).await;
    answers.unwrap_or_else(|| Err(access.missing().unwrap_or_else(late)))
}

/// Sends one command on a connection for pub/sub. The error is `late` without an answer in time. A
/// forked process sends none, because both processes share the sockets.
pub(super) async fn ask_pubsub(
    world: &World,
    conn: &dyn Conn,
    command: Command,
    late: &str,
) -> Result<Reply, Error> {
    world.life.check_process()?;
    let deadline = world.now() + timeouts::PUBSUB_ANSWER;
    let outcomes = world.until(deadline, conn.send(vec![command])).await;
    let outcomes = outcomes.ok_or_else(|| Error::unavailable(late))?;
    Outcome::first_reply(outcomes).map_err(Error::unavailable)
}

/// Returns the replies to `count` commands, whatever number of outcomes a transport gives.
fn values(
    address: &Address,
    mut outcomes: Vec<Outcome>,
    count: usize,
) -> Vec<Result<Value, Error>> {
    outcomes.resize(count, Outcome::Unknown("no outcome".to_owned()));
    let outcomes = outcomes.into_iter();
    outcomes.map(|outcome| value(address, outcome)).collect()
}

fn value(address: &Address, outcome: Outcome) -> Result<Value, Error> {
    match outcome {
        Outcome::Replied(Ok(value)) => Ok(value),
        Outcome::Replied(Err(error)) if is_no_cluster(&error.message) => {
            let message = format!(
                "{address} belongs to no cluster; write redis:// instead of redis+cluster://: {error}"
            );
            let kind = ErrorKind::UnsupportedServer;
            Err(Error::with_reason(kind, message, error))
        }
        Outcome::Replied(Err(error)) => {
            let message = format!("{address} refuses a question: {error}");
            Err(Error::answered(message, error))
        }
        Outcome::NotSent(why) | Outcome::Unknown(why) => Err(Error::unavailable(format!(
            "no answer from {address}: {why}"
        ))),
    }
}

/// Tells whether a server refuses `CLUSTER` to every user. Behind the command may be its arguments.
fn is_no_cluster(refusal: &str) -> bool {
    let command = refusal.split(',').next().unwrap_or_default();
    let is_unknown = rights::is_unknown_command(command);
    refusal.contains("cluster support disabled")
        || is_unknown && command.to_ascii_lowercase().contains("cluster")
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::runtime::{
        ServerError,
        values::{any_value, many_cases},
    };

    fn outcome() -> impl Strategy<Value = Outcome> {
        let line =
            "[A-Z]{0,10} \\PC{0,20}|ERR This instance has cluster support disabled|-?[A-Z]{2,9}";
        prop_oneof![
            any_value(&["", "a"]).prop_map(|value| Outcome::Replied(Ok(value))),
            line.prop_map(|line| Outcome::Replied(Err(ServerError::parse(&line)))),
            Just(Outcome::NotSent("refused".to_owned())),
            Just(Outcome::Unknown("closed".to_owned())),
        ]
    }

    proptest! {
        #![proptest_config(many_cases())]

        #[test]
        fn each_command_has_an_answer_or_an_error(
            outcomes in vec(outcome(), 0..5), count in 0_usize..5,
        ) {
            let address = Address::Tcp { host: "h".to_owned(), port: 1 };
            let values = values(&address, outcomes.clone(), count);
            prop_assert_eq!(values.len(), count);
            for (at, value) in values.iter().enumerate() {
                match (value, outcomes.get(at)) {
                    (Ok(value), Some(Outcome::Replied(Ok(reply)))) => prop_assert_eq!(value, reply),
                    (Ok(value), other) => prop_assert!(false, "{value:?} of {other:?}"),
                    (Err(_), reply) => prop_assert!(!matches!(reply, Some(Outcome::Replied(Ok(_))))),
                }
            }
        }
    }
}
