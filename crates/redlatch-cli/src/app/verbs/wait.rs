//! `redlatch wait`: until names are free.

use std::time::Duration;

use redlatch::{Client, Error, ErrorKind, LatchInfo, ObjectKind, ObjectState};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{show::taken, telling};
use crate::app::{
    args::{ServerArgs, WaitArgs},
    exit::{BUSY, Failure, NO_SERVER},
    out::clean,
    session,
};

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &WaitArgs) -> Result<u8, Failure> {
    let end = args.wait.map(|wait| Instant::now() + wait);
    let mut builder = session::looker(server, "redlatch wait")?;
    if let Some(wait) = args.wait.filter(|wait| *wait < PATIENCE) {
        // The error then names the server that is silent.
        builder = builder.patience(wait.max(session::SHORTEST));
    }
    let client = session::connect_within(builder, args.wait).await?;
    let all = async {
        for name in &args.names {
            one(&client, name, args.latch, end).await?;
        }
        Ok(0)
    };
    let waited = telling((server, &client), &args.names, None, all).await;
    session::close(&client).await;
    waited
}

/// Waits for one name. The first look finds its kind, and later ones cost one command each.
async fn one(
    client: &Client,
    name: &str,
    is_latch: bool,
    end: Option<Instant>,
) -> Result<u8, Failure> {
    let mut pauses = Pauses::default();
    loop {
        let object = answer(name, end, client.object(name)).await??;
        let kind = match object {
            _ if is_latch => ObjectKind::CountDownLatch,
            Some(object) => object.kind,
            None => return Ok(0),
        };
        loop {
            if kind == ObjectKind::CountDownLatch && opens(client, name, end).await? {
                return Ok(0);
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let state = match answer(name, end, look(client, name, &kind)).await? {
                // The name has another kind by now.
                Err(error) if error.kind() == ErrorKind::WrongKind => break,
                state => state?,
            };
            let State::Held(remaining) = state else {
                return Ok(0);
            };
            if left.is_some_and(|left| left.is_zero()) {
                return Err(busy(client, name, &kind).await?);
            }
            let pause = pauses.next(remaining);
            sleep(left.map_or(pause, |left| left.min(pause))).await;
        }
        if end.is_some_and(|end| end <= Instant::now()) {
            return Err(busy(client, name, &kind).await?);
        }
    }
}

/// Asks, until shortly after `end`, or for a second if that is later.
async fn answer<T>(
    name: &str,
    end: Option<Instant>,
    asked: impl Future<Output = Result<T, Error>>,
) -> Result<Result<T, Error>, Failure> {
    let Some(end) = end else {
        return Ok(asked.await);
    };
    let last = end.max(Instant::now() + session::SHORTEST) + MOMENT;
    timeout_at(last, asked).await.map_err(|_| {
        let name = clean(name);
        let message = format!("no answer about {name} in time; check address and network");
        Failure::new(NO_SERVER, message)
    })
}

/// Waits by message until a latch opens. Returns false if the time is up, or if it is not set.
async fn opens(client: &Client, name: &str, end: Option<Instant>) -> Result<bool, Failure> {
    let latch = client.count_down_latch(name);
    let opened = match end {
        None => latch.wait().await.map(|()| true),
        Some(end) => {
            latch
                .wait_for(end.saturating_duration_since(Instant::now()))
                .await
        }
    };
    match opened {
        // It may be set later, or again.
        Err(error) if matches!(error.kind(), ErrorKind::NotSet | ErrorKind::Deleted) => Ok(false),
        opened => Ok(opened?),
    }
}

/// The result of one look at a name.
enum State {
    Free,
    /// It is held, for so long at least unless it is given back. `None` for an unknown time.
    Held(Option<Duration>),
}

/// Looks at a name of a known kind. Costs one command.
async fn look(client: &Client, name: &str, kind: &ObjectKind) -> Result<State, Error> {
    let held = |rest: Option<_>| rest.map_or(State::Free, |rest| State::Held(Some(rest)));
    let lock = match kind {
        ObjectKind::Lock => client.lock(name).info().await?,
        ObjectKind::FairLock => client.fair_lock(name).info().await?,
        ObjectKind::Election => client.election(name).info().await?,
        ObjectKind::FairElection => client.election(name).fair().info().await?,
        ObjectKind::ReadWriteLock => {
            let info = client.read_write_lock(name).info().await?;
            let is_free = info.readers == 0 && info.writer.is_none() && info.upgradable.is_none();
            return Ok(match is_free {
                true => State::Free,
                false => State::Held(None),
            });
        }
        ObjectKind::Semaphore => {
            return permits(client.semaphore(name).available_permits().await);
        }
        ObjectKind::PermitExpirableSemaphore => {
            let semaphore = client.permit_expirable_semaphore(name);
            return permits(semaphore.available_permits().await);
        }
        // Its wait has looked already.
        ObjectKind::CountDownLatch => return Ok(State::Held(None)),
        ObjectKind::Job => {
            let holder = client.once(name).holder().await?;
            return Ok(held(holder.map(|holder| holder.remaining)));
        }
        _ => return Ok(State::Free),
    };
    Ok(held(lock.map(|info| info.remaining)))
}

fn permits(available: Result<u32, Error>) -> Result<State, Error> {
    match available {
        Ok(0) => Ok(State::Held(None)),
        Ok(_) => Ok(State::Free),
        // It was deleted.
        Err(error) if error.kind() == ErrorKind::NotSet => Ok(State::Free),
        Err(error) => Err(error),
    }
}

/// Says why the wait was in vain.
async fn busy(client: &Client, name: &str, kind: &ObjectKind) -> Result<Failure, Failure> {
    let object = timeout(MOMENT, client.object(name)).await;
    let shown = clean(name);
    let Ok(object) = object else {
        return Ok(Failure::busy(BUSY, format!("busy: {shown} is held")));
    };
    let object = object?;
    let message = match object.as_ref().map(|object| &object.state) {
        None if *kind == ObjectKind::CountDownLatch => format!("busy: latch {shown} is not set"),
        Some(ObjectState::Latch(LatchInfo { count, initial, .. })) => {
            format!("busy: {shown} has {count} of {initial} to go")
        }
        _ => return Ok(taken(name, object.as_ref())),
    };
    Ok(Failure::busy(BUSY, message))
}

/// The times between looks, which become longer.
#[derive(Debug, Default)]
struct Pauses(u32);

impl Pauses {
    /// Returns the next pause. A lease that is not renewed ends it.
    fn next(&mut self, remaining: Option<Duration>) -> Duration {
        let pause = FIRST.saturating_mul(1 << self.0.min(8)).min(LONGEST);
        self.0 += 1;
        remaining.map_or(pause, |rest| pause.min(rest + Duration::from_millis(2)))
    }
}

/// A wait that is longer leaves the library its own patience.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a question may take after the end of the wait. One about the holder takes longer if the
/// server with the holder's record is silent.
const MOMENT: Duration = Duration::from_millis(300);

/// The first time between two looks.
const FIRST: Duration = Duration::from_millis(125);

/// The longest time between two looks.
const LONGEST: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer_and_come_when_a_lease_ends() {
        let mut pauses = Pauses::default();
        let ms = Duration::from_millis;
        assert_eq!(pauses.next(None), ms(125));
        assert_eq!(pauses.next(Some(ms(30_000))), ms(250));
        assert_eq!(pauses.next(Some(ms(10))), ms(12));
        assert_eq!(pauses.next(None), ms(1000));
        assert_eq!(pauses.next(None), ms(2000));
        assert_eq!(pauses.next(None), ms(2000));
    }
}
