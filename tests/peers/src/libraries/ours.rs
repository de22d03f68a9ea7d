//! The locks of this family in the layouts of the libraries, and the processes that hold them.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use redlatch::{
    AnyGuard, Client, Error, ErrorKind, Lockable,
    compat::{Redisson, SetNx},
};

use crate::{
    Outcome,
    rslock::{input_ended, witnessed},
};

/// Makes the lock in the layout of a library. An eager waiter asks more often, for work under load.
pub(super) fn lock(client: &Client, library: &str, name: &str, eager: bool) -> Arc<dyn Lockable> {
    let lock = match library {
        "redis-py" => SetNx::redis_py(client, name),
        "redsync" => SetNx::redsync(client, name),
        "redislock" => SetNx::redislock(client, name),
        "node-redlock" => SetNx::node_redlock(client, name),
        "rslock" => SetNx::rslock(client, name),
        _ => return Arc::new(Redisson::new(client, name)),
    };
    if eager {
        Arc::new(lock.retry_delay(Duration::from_millis(2)))
    } else {
        Arc::new(lock)
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
    let lock = lock(&client, library, name, true);
    if phase == "hold" {
        let lease = rest.parse().map_err(|_| "the lease is no number")?;
        let lease = Duration::from_millis(lease);
        let guard = lock.lock().renewed_lease(lease).await?;
        println!("held");
        let cause = guard.lost().await;
        return Err(format!("lost: {cause}").into());
    }
    let answer = match work(&client, &*lock, phase, name, rest, url).await {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("error {error}"),
    };
    println!("{answer}");
    client.close(Duration::from_secs(5)).await;
    Ok(())
}

async fn work(
    client: &Client,
    old: &dyn Lockable,
    phase: &str,
    name: &str,
    witness: &str,
    url: &str,
) -> Outcome {
    let ended = input_ended();
    let server = redis::Client::open(url)?;
    let mut server = server.get_multiplexed_async_connection().await?;
    let new = client.lock(name);
    let both = client.multi_lock(&[old, &new]);
    let wait = Duration::from_millis(500);
    while !ended.load(Ordering::Relaxed) {
        let guard: Box<dyn AnyGuard> = match phase {
            "old" => Box::new(old.lock().await?),
            "both" => match both.try_lock_for(wait).await {
                Ok(Some(guard)) => guard.into(),
                Ok(None) => continue,
                // A busy machine answered after the wait, as documented.
                Err(error) if is_late(&error) => continue,
                Err(error) => return Err(error.into()),
            },
            "new" => new.lock().await?.into(),
            other => return Err(format!("there is no phase {other}").into()),
        };
        let side = if phase == "old" { "ours" } else { phase };
        witnessed(&mut server, witness, side).await?;
        guard.check()?;
        guard.release().await?;
    }
    Ok(())
}

fn is_late(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::OutcomeUnknown | ErrorKind::Unavailable
    )
}
