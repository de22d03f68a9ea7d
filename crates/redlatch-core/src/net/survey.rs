//! Compares the clocks of servers that may replace each other, before a failover.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::select;

use super::{Router, query, session::time_millis};
use crate::{
    Error,
    base::timeouts,
    runtime::{Address, Command, Value},
};

/// Compares clocks until shutdown: when the servers are known, after changes, and at regular
/// intervals.
pub(super) async fn run(router: Arc<Router>) {
    let world = &router.world;
    loop {
        select! {
            biased;
            () = world.ended() => return,
            () = router.others_changed.notified() => {}
            () = world.runtime.sleep_until(world.now() + timeouts::CLOCK_COMPARISON) => {}
        }
        select! {
            biased;
            () = world.ended() => return,
            () = compare(&router) => {}
        }
        select! {
            biased;
            () = world.ended() => return,
            () = world.runtime.sleep_until(world.now() + timeouts::CLOCK_COMPARISON_MIN) => {}
        }
    }
}

/// Reads the clocks of all servers at about the same time. Ignores a server that does not answer.
async fn compare(router: &Router) {
    let deadline = router.world.now() + timeouts::CLOCK_READING;
    let sessions = router.sessions();
    join_all(sessions.iter().map(|session| session.time(deadline))).await;
    for few in router.others().chunks(AT_A_TIME) {
        let asked = few
            .iter()
            .map(|address| ask_and_read_clock(router, address, Vec::new()));
        join_all(asked).await;
    }
}

/// Sends commands followed by `TIME` over a new connection, and records the server's clock. Returns
/// the answers to the commands.
pub(super) async fn ask_and_read_clock(
    router: &Router,
    address: &Address,
    mut commands: Vec<Command>,
) -> Result<Vec<Result<Value, Error>>, Error> {
    let (world, timeout) = (&router.world, router.connect_timeout);
    commands.push(Command::new("TIME"));
    let sent = world.now();
    let mut answers = query::send(world, address, &router.access, commands, timeout).await?;
    if let Some(millis) = answers.pop().and_then(|time| time_millis(&time.ok()?)) {
        world.clocks.read(address, sent, world.now(), millis);
    }
    Ok(answers)
}

/// Maximum number of servers that are dialled at the same time.
const AT_A_TIME: usize = 4;
