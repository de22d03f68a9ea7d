//! `redlatch hold` and `redlatch release`: a hold without a process.

use std::{env, mem, time::Duration};

use redlatch::{Client, Token};
use redlatch_core::family::Internals;
use tokio::time::{Instant, timeout_at};

use super::{
    break_hold::{How, end},
    noted,
    show::taken,
    telling,
};
use crate::app::{
    args::{HoldArgs, ReleaseArgs, ServerArgs},
    exit::{Failure, LOST, NO_HOLD, warn},
    job::Signals,
    out::{self, clean},
    session,
};

/// The longest hold without a process.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// Runs `hold`.
pub(crate) async fn hold(server: &ServerArgs, args: &HoldArgs) -> Result<u8, Failure> {
    if args.span < Duration::from_secs(1) || args.span > LONGEST {
        return Err(Failure::usage("--for is 1s to 30d"));
    }
    let end = Instant::now() + args.wait;
    let builder = session::builder(server, &by_user("redlatch hold"))?;
    let mut signals = Signals::listen()?;
    let connected = session::connect_within(builder, Some(args.wait));
    let client = signals.during(connected).await??;
    let names = std::slice::from_ref(&args.name);
    let taking = async {
        let taking = take(&client, args, session::left(end));
        match telling((server, &client), names, None, taking).await? {
            Some(held) => Ok(held),
            None => Err(taken(&args.name, client.object(&args.name).await?.as_ref())),
        }
    };
    let (token, over) = match signals.during(taking).await.flatten() {
        Ok(held) => held,
        Err(failure) => {
            session::close(&client).await;
            return Err(failure);
        }
    };
    // A hold whose handle was not shown could not be ended.
    if out::print(&format!("{token}@{}\n", args.name)).is_err() {
        give_back(&client, &args.name, token.as_u64()).await?;
        let name = clean(&args.name);
        let message = format!("the handle cannot be shown, so {name} was given back");
        return Err(Failure::own(message));
    }
    // The client is not closed: that would end the hold, and remove the record of who has it.
    if let Ok(Err(error)) = timeout_at(over, client.keep_record(args.span)).await {
        warn(&format!("others may not see who holds it: {error}"));
    }
    if over <= Instant::now() {
        let name = clean(&args.name);
        let message = format!("lost: the hold {token} of {name} was over before this could end");
        return Err(Failure::new(LOST, message));
    }
    Ok(0)
}

/// Takes the name with a fixed lease, and leaves it held. Returns when it is over, too.
async fn take(
    client: &Client,
    args: &HoldArgs,
    wait: Duration,
) -> Result<Option<(Token, Instant)>, Failure> {
    macro_rules! leave {
        ($acquire:expr) => {
            noted!($acquire.lease(args.span).whole_lease(), args.note)
                .await?
                .map(|guard| {
                    let held = (guard.token(), Instant::now() + guard.remaining());
                    mem::forget(guard);
                    held
                })
        };
    }
    let name = &args.name;
    Ok(if args.fair {
        leave!(client.fair_lock(name).try_lock_for(wait))
    } else if args.write {
        leave!(client.read_write_lock(name).try_write_for(wait))
    } else {
        leave!(client.lock(name).try_lock_for(wait))
    })
}

/// Runs `release`.
pub(crate) async fn release(server: &ServerArgs, args: &ReleaseArgs) -> Result<u8, Failure> {
    let wrong = || {
        let handle = clean(&args.handle);
        Failure::usage(format!(
            "{handle:?} is no handle; it is TOKEN@NAME, as redlatch hold has printed it"
        ))
    };
    let (token, name) = args.handle.split_once('@').ok_or_else(wrong)?;
    let token: u64 = token.parse().map_err(|_| wrong())?;
    let client = session::look(server, "redlatch release").await?;
    let released = give_back(&client, name, token).await;
    session::close(&client).await;
    released
}

async fn give_back(client: &Client, name: &str, token: u64) -> Result<u8, Failure> {
    let over = || {
        let message = format!("the hold {token} of {} is over already", clean(name));
        Failure::new(NO_HOLD, message)
    };
    let object = client.object(name).await?.ok_or_else(over)?;
    // A reader has the token of the last write, and `hold` never reads.
    let of = |holder: &&redlatch::ObjectHolder| {
        holder.access != Some(redlatch::Access::Read)
            && holder.token.map(|token| token.as_u64()) == Some(token)
    };
    let holder = object.holders.iter().find(of).ok_or_else(over)?;
    let has_ended = end(client, &object, holder, How::Now).await?;
    has_ended.then_some(0).ok_or_else(over)
}

/// Adds who is at the keyboard to the name of a verb, as far as the environment tells.
pub(super) fn by_user(verb: &str) -> String {
    let known = ["SUDO_USER", "USER", "LOGNAME"];
    let mut names = known.iter().filter_map(|name| env::var(name).ok());
    match names.find(|name| !name.is_empty()) {
        Some(user) => format!("{verb} by {user}"),
        None => verb.to_owned(),
    }
}
