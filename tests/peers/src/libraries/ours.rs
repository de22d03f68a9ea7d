//! The locks of this family in the layouts of the libraries, and the processes that hold them.

use std::{sync::atomic::Ordering, time::Duration};

use redlatch::{
    Acquire, Client, Error, ErrorKind, Lockable, TryAcquire,
    compat::{Redisson, SetNx, UnfencedGuard},
};

use crate::{
    Outcome,
    rslock::{input_ended, witnessed},
};

/// A lock in the layout of one library.
#[derive(Clone)]
pub(super) enum Lock {
    SetNx(SetNx),
    Redisson(Redisson),
}

impl Lock {
    pub(super) fn new(client: &Client, library: &str, name: &str) -> Self {
        Self::SetNx(match library {
            "redis-py" => SetNx::redis_py(client, name),
            "redsync" => SetNx::redsync(client, name),
            "redislock" => SetNx::redislock(client, name),
            "node-redlock" => SetNx::node_redlock(client, name),
            "rslock" => SetNx::rslock(client, name),
            _ => return Self::Redisson(Redisson::new(client, name)),
        })
    }

    /// Lets a waiter ask more often, for work under load.
    fn eager(self) -> Self {
        match self {
            Self::SetNx(lock) => Self::SetNx(lock.retry_delay(Duration::from_millis(2))),
            lock @ Self::Redisson(_) => lock,
        }
    }

    pub(super) fn lock(&self) -> Acquire<UnfencedGuard> {
        match self {
            Self::SetNx(lock) => lock.lock(),
            Self::Redisson(lock) => lock.lock(),
        }
    }

    pub(super) fn try_lock(&self) -> TryAcquire<UnfencedGuard> {
        match self {
            Self::SetNx(lock) => lock.try_lock(),
            Self::Redisson(lock) => lock.try_lock(),
        }
    }

    pub(super) fn member(&self) -> &dyn Lockable {
        match self {
            Self::SetNx(lock) => lock,
            Self::Redisson(lock) => lock,
        }
    }
}

/// A process of this family: `ours URL LIBRARY hold NAME LEASE` holds until it is killed, and
/// `ours URL LIBRARY PHASE NAME WITNESS` works as the programs of the libraries do, in a phase of a
/// deploy: `old`, `both` or `new`.
pub(crate) async fn ours(args: &[String]) -> Outcome {
    let [url, library, phase, name, rest] = args else {
        return Err("ours URL LIBRARY PHASE NAME WITNESS".into());
    };
    let client = Client::connect(url).await?;
    let lock = Lock::new(&client, library, name).eager();
    if phase == "hold" {
        let lease = rest.parse().map_err(|_| "the lease is no number")?;
        let lease = Duration::from_millis(lease);
        let guard = lock.lock().renewed_lease(lease).await?;
        println!("held");
        let cause = guard.lost().await;
        return Err(format!("lost: {cause}").into());
    }
    let answer = match work(&client, &lock, phase, name, rest, url).await {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("error {error}"),
    };
    println!("{answer}");
    client.close(Duration::from_secs(5)).await;
    Ok(())
}

async fn work(
    client: &Client,
    old: &Lock,
    phase: &str,
    name: &str,
    witness: &str,
    url: &str,
) -> Outcome {
    let ended = input_ended();
    let server = redis::Client::open(url)?;
    let mut server = server.get_multiplexed_async_connection().await?;
    let new = client.lock(name);
    let both = client.multi_lock(&[old.member(), &new]);
    let wait = Duration::from_millis(500);
    while !ended.load(Ordering::Relaxed) {
        match phase {
            "old" => {
                let guard = old.lock().await?;
                witnessed(&mut server, witness, "ours").await?;
                guard.check()?;
                guard.release().await?;
            }
            "both" => {
                let guard = match both.try_lock_for(wait).await {
                    Ok(Some(guard)) => guard,
                    Ok(None) => continue,
                    // A busy machine answered after the wait, as documented.
                    Err(error) if is_late(&error) => continue,
                    Err(error) => return Err(error.into()),
                };
                witnessed(&mut server, witness, "both").await?;
                guard.check()?;
                guard.release().await?;
            }
            "new" => {
                let guard = new.lock().await?;
                witnessed(&mut server, witness, "new").await?;
                guard.check()?;
                guard.release().await?;
            }
            other => return Err(format!("there is no phase {other}").into()),
        }
    }
    Ok(())
}

fn is_late(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::OutcomeUnknown | ErrorKind::Unavailable
    )
}
