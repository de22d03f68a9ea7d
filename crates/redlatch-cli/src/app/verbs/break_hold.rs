//! `redlatch break`: the end of another client's hold.

use redlatch::{Client, Object, ObjectHolder, ObjectKind, permits::PermitRelease};
/// How a hold ends.
pub(crate) use redlatch_core::family::Force as How;
use redlatch_core::family::Internals;

use super::hold::by_user;
use crate::app::{
    args::{BreakArgs, ServerArgs},
    exit::{Failure, NO_HOLD, warn},
    out::{self, clean},
    session,
    span::short,
    view::{rows, titles, who},
};

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &BreakArgs) -> Result<u8, Failure> {
    let client = session::look(server, &by_user("redlatch break")).await?;
    session::answer(client, async |client| attempt(client, args).await).await
}

async fn attempt(client: &Client, args: &BreakArgs) -> Result<String, Failure> {
    let name = clean(&args.name);
    let Some(object) = client.object(&args.name).await? else {
        let message = format!("{name} is not held: nothing to break");
        return Err(Failure::new(NO_HOLD, message));
    };
    let how = if args.now { How::Now } else { How::AfterLease };
    check(&object, how)?;
    let named = args.token.is_some() || args.owner.is_some();
    let is_named = |holder: &&ObjectHolder| {
        let token = holder.token.map(|token| token.as_u64());
        // Readers have the token of the last write, so only their owner names one of them.
        let shared = holder.access == Some(redlatch::Access::Read) && args.owner.is_none();
        let has_token = |wanted| token == Some(wanted) && !shared;
        let has_owner = |wanted: &String| holder.owner == *wanted;
        args.token.is_none_or(has_token) && args.owner.as_ref().is_none_or(has_owner)
    };
    let chosen: Vec<_> = object.holders.iter().filter(is_named).collect();
    if chosen.is_empty() {
        let message = format!("no such hold of {name}: nothing to break");
        return Err(Failure::new(NO_HOLD, message));
    }
    if !named && !confirmed(&object, how).await? {
        return Ok("nothing was broken\n".to_owned());
    }
    let (mut told, mut ended) = (String::new(), 0);
    for holder in chosen {
        let who = who(holder);
        let (owner, token, note) = (&holder.owner, holder.token, args.note.as_deref());
        // The hold ends even if the reason cannot be left, as on a full server.
        if let Err(error) = client.note_end(owner, &args.name, token, note).await {
            let error = clean(&error.to_string());
            warn(&format!(
                "others will not see who breaks it, and why: {error}"
            ));
        }
        let has_ended = end(client, &object, holder, how).await?;
        ended += usize::from(has_ended);
        let line = match (has_ended, how) {
            (true, How::Now) => format!("{name} was taken from {who}, who may still be at work"),
            (true, How::AfterLease) => {
                let rest = short(holder.remaining);
                format!(
                    "{name} is not renewed any more for {who}, and free in {rest} at the latest"
                )
            }
            (false, _) => format!("the hold of {who} was over already"),
        };
        told.push_str(&line);
        told.push('\n');
    }
    if ended == 0 {
        return Err(Failure::new(NO_HOLD, told.trim_end()));
    }
    Ok(told)
}

/// Shows the holder and asks, if there is one holder and a terminal.
async fn confirmed(object: &Object, how: How) -> Result<bool, Failure> {
    let name = clean(&object.name);
    let table = out::table(&titles(true), &rows(object, true));
    warn(&format!("{name} is held\n{}", table.trim_end()));
    if object.holders.len() > 1 {
        return Err(Failure::usage(
            "several hold it; name one with --owner or --token",
        ));
    }
    if !out::can_ask() {
        return Err(Failure::usage(
            "without a terminal, name the hold with --token or --owner",
        ));
    }
    out::ask(match how {
        How::Now => "Free it at once, while the holder may still be at work?",
        How::AfterLease => "Forbid its renewal, so that the holder is told and the lease runs out?",
    })
    .await
}

/// Refuses what cannot be broken, and says what else to do.
pub(crate) fn check(object: &Object, how: How) -> Result<(), Failure> {
    let name = clean(&object.name);
    let why = match object.kind {
        ObjectKind::Semaphore | ObjectKind::PermitExpirableSemaphore if how == How::AfterLease => {
            "permits can only be ended at once; add --now, or stop the holder".to_owned()
        }
        ObjectKind::CountDownLatch => "a latch has no holder".to_owned(),
        ObjectKind::RateLimiter => "a rate limiter has no holder".to_owned(),
        ObjectKind::Job => "a run of a job cannot be broken; stop its process".to_owned(),
        ObjectKind::Other(ref kind) => format!("this redlatch does not know the kind {kind:?}"),
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("{name}: {why}")))
}

/// Ends one hold. Returns whether it was there.
pub(crate) async fn end(
    client: &Client,
    object: &Object,
    holder: &ObjectHolder,
    how: How,
) -> Result<bool, Failure> {
    let name = &object.name;
    let force = match object.kind {
        ObjectKind::Lock => client.lock(name).force_release(),
        ObjectKind::FairLock => client.fair_lock(name).force_release(),
        ObjectKind::Election => client.election(name).force_release(),
        ObjectKind::FairElection => client.election(name).fair().force_release(),
        ObjectKind::ReadWriteLock => return end_side(client, name, holder, how).await,
        ObjectKind::Semaphore => return Ok(client.semaphore(name).revoke(&holder.owner).await?),
        ObjectKind::PermitExpirableSemaphore => {
            let Ok(id) = holder.owner.parse() else {
                return Ok(false);
            };
            let released = client.permit_expirable_semaphore(name).release(&id).await?;
            return Ok(released == PermitRelease::Released);
        }
        _ => return Ok(false),
    };
    let Some(token) = holder.token else {
        return Ok(false);
    };
    let force = force.token(token);
    Ok(match how {
        How::Now => force.await?,
        How::AfterLease => force.after_lease().await?,
    })
}

async fn end_side(
    client: &Client,
    name: &str,
    holder: &ObjectHolder,
    how: How,
) -> Result<bool, Failure> {
    let lock = client.read_write_lock(name);
    let mut ended = 0;
    for found in lock.holders().await? {
        let same = found.owner == holder.owner
            && Some(found.access) == holder.access
            && Some(found.token) == holder.token;
        if same {
            let force = lock.force_release().holder(&found);
            ended += match how {
                How::Now => force.await?,
                How::AfterLease => force.after_lease().await?,
            };
        }
    }
    Ok(ended > 0)
}
