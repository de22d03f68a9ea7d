//! `redlatch wait`: until names are free.

use std::time::Duration;

use redlatch::{Client, Object, ObjectState};
use tokio::time::{Instant, sleep};

use super::show::holders;
use crate::app::{
    args::{ServerArgs, WaitArgs},
    exit::{BUSY, Failure},
    out::clean,
    session,
};

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &WaitArgs) -> Result<u8, Failure> {
    let end = args.wait.map(|wait| Instant::now() + wait);
    let client = session::connect(server, "redlatch wait").await?;
    let mut waited = Ok(0);
    for name in &args.names {
        waited = one(&client, name, end).await;
        if waited.is_err() {
            break;
        }
    }
    session::close(&client).await;
    waited
}

async fn one(client: &Client, name: &str, end: Option<Instant>) -> Result<u8, Failure> {
    loop {
        let Some(object) = client.object(name).await? else {
            return Ok(0);
        };
        let Some(pause) = pause(&object) else {
            return Ok(0);
        };
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            let (name, holders) = (clean(name), holders(&object));
            let message = match object.state {
                ObjectState::Latch(latch) => {
                    format!(
                        "busy: {name} has {} of {} to go",
                        latch.count, latch.initial
                    )
                }
                _ => format!("busy: {name} is held by {holders}"),
            };
            return Err(Failure::new(BUSY, message));
        }
        sleep(left.map_or(pause, |left| left.min(pause))).await;
    }
}

/// Returns when to look again; `None` if the object is free.
fn pause(object: &Object) -> Option<Duration> {
    match &object.state {
        ObjectState::Latch(latch) => (!latch.is_open()).then_some(LOOK),
        ObjectState::Permits { available, .. } => (*available == 0).then_some(LOOK),
        _ => {
            let soonest = object.holders.iter().map(|holder| holder.remaining).min()?;
            Some((soonest + Duration::from_millis(2)).min(LOOK))
        }
    }
}

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(250);
