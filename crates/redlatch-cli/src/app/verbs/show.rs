//! `redlatch show`: one name.

use std::fmt::Write as _;

use redlatch::{Client, Object, ObjectKind, ObjectState};

use crate::app::{
    args::{ServerArgs, ShowArgs},
    exit::{BUSY, Failure},
    out::{self, clean},
    session,
    span::short,
    view::{self, rows, titles, who},
};

/// How many waiters are listed.
const MOST_WAITERS: usize = 50;

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &ShowArgs) -> Result<u8, Failure> {
    let builder = session::looker(server, "redlatch show")?;
    let prefix = builder.chosen().0.to_owned();
    let client = session::look_by(builder).await?;
    session::answer(client, async |client| show(client, &prefix, args).await).await
}

async fn show(client: &Client, prefix: &str, args: &ShowArgs) -> Result<String, Failure> {
    let name = &args.name;
    let object = client.object(name).await?;
    if args.json {
        return Ok(view::json(name, object.as_ref()).line());
    }
    let Some(object) = object else {
        let (name, prefix) = (clean(name), clean(prefix));
        return Ok(format!("{name} is not held (prefix {prefix})\n"));
    };
    let mut text = out::table(&titles(true), &rows(&object, true));
    if let ObjectState::Job {
        last: Some(last), ..
    } = &object.state
    {
        let _ = writeln!(text, "last run: {}", clean(&last.to_string()));
    }
    text.push_str(&waiters(client, &object).await?);
    Ok(text)
}

/// Lists the waiters in order, where the server knows the order.
async fn waiters(client: &Client, object: &Object) -> Result<String, Failure> {
    if object.kind != ObjectKind::FairLock || object.waiters == 0 {
        return Ok(String::new());
    }
    let mut walk = client.fair_lock(&object.name).waiters();
    let mut rows = Vec::new();
    while let Some(waiter) = walk.next().await {
        let waiter = waiter?;
        let of = waiter.metadata.as_ref();
        rows.push(vec![
            (waiter.position + 1).to_string(),
            of.map_or_else(|| "-".to_owned(), |of| clean(&of.to_string())),
            short(waiter.waiting),
            clean(&waiter.owner),
        ]);
        if rows.len() == MOST_WAITERS {
            break;
        }
    }
    let mut text = out::table(&["PLACE", "WAITS", "SINCE", "OWNER"], &rows);
    let rest = object.waiters.saturating_sub(rows.len() as u64);
    if rest > 0 {
        let _ = writeln!(text, "and {rest} more");
    }
    Ok(text)
}

/// Says that a name is taken. Its holder may be gone by now.
pub(super) fn taken(name: &str, object: Option<&Object>) -> Failure {
    let name = clean(name);
    let message = match object.map(holders) {
        Some(holders) => format!("busy: {name} is held by {holders}"),
        None => format!("busy: {name} was held until just now; try again"),
    };
    Failure::busy(BUSY, message)
}

/// Names the holders of an object, in one line.
pub(crate) fn holders(object: &Object) -> String {
    match object.holders.as_slice() {
        [] => "nobody".to_owned(),
        [one] => who(one),
        [first, rest @ ..] => format!("{} and {} more", who(first), rest.len()),
    }
}
