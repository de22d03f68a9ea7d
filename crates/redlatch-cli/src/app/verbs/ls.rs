//! `redlatch ls`: what is held.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use redlatch::{Client, Object};
use tokio::time::{Instant, sleep_until};

use super::changes::Changes;
use crate::app::{
    args::{LsArgs, ServerArgs},
    exit::{Failure, warn},
    out::{self, clean},
    session,
    view::{ObjectView, rows, since_1970, titles},
};

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &LsArgs) -> Result<u8, Failure> {
    if args.every < Duration::from_millis(100) {
        return Err(Failure::usage("--every is at least 100ms"));
    }
    let client = session::connect(server, "redlatch ls").await?;
    let done = match (args.watch, args.json) {
        (true, true) => record(&client, args).await,
        (true, false) => watch(&client, args).await,
        (false, true) => stream(&client, args).await,
        (false, false) => list(&client, server, args).await,
    };
    session::close(&client).await;
    done.map(|()| 0)
}

/// Returns whether the options select an object.
fn is_wanted(args: &LsArgs, object: &Object) -> bool {
    args.kind.is_empty() || args.kind.iter().any(|kind| kind.is(&object.kind))
}

/// Prints each object as soon as it is found.
async fn stream(client: &Client, args: &LsArgs) -> Result<(), Failure> {
    let mut walk = client.objects(&args.pattern);
    while let Some(object) = walk.next().await {
        let object = object?;
        if is_wanted(args, &object) {
            out::print(&ObjectView::of(&object).line())?;
        }
    }
    Ok(())
}

async fn list(client: &Client, server: &ServerArgs, args: &LsArgs) -> Result<(), Failure> {
    let all = all(client, args).await?;
    if all.is_empty() && out::is_terminal() {
        // An empty screen might be a mistake in the pattern, or in the prefix.
        let (pattern, prefix) = (clean(&args.pattern), clean(&server.prefix));
        let hint = if pattern.contains('*') {
            ""
        } else {
            "; try a * at its end"
        };
        warn(&format!(
            "nothing matches {pattern} (prefix {prefix}){hint}"
        ));
    }
    out::print(&table(&all, args.long))
}

/// Returns the table of the objects; nothing without objects.
fn table(all: &BTreeMap<String, Object>, long: bool) -> String {
    let rows: Vec<_> = all.values().flat_map(|object| rows(object, long)).collect();
    if rows.is_empty() {
        return String::new();
    }
    out::table(&titles(long), &rows)
}

/// Finds all objects by name. A walk may return one twice.
async fn all(client: &Client, args: &LsArgs) -> Result<BTreeMap<String, Object>, Failure> {
    let mut walk = client.objects(&args.pattern);
    let mut found = BTreeMap::new();
    while let Some(object) = walk.next().await {
        let object = object?;
        if is_wanted(args, &object) {
            found.insert(object.name.clone(), object);
        }
    }
    Ok(found)
}

/// Shows the table again and again.
async fn watch(client: &Client, args: &LsArgs) -> Result<(), Failure> {
    // Home, and clear to the end.
    let clear = if out::is_terminal() {
        "\x1b[H\x1b[J"
    } else {
        ""
    };
    loop {
        let next = Instant::now() + args.every;
        let shown = table(&all(client, args).await?, args.long);
        let shown = if shown.is_empty() {
            "nothing is held\n"
        } else {
            &shown
        };
        let end = if clear.is_empty() { "\n" } else { "" };
        out::print(&format!("{clear}{shown}{end}"))?;
        sleep_until(next).await;
    }
}

/// Prints what has changed since the last look, one line per change.
async fn record(client: &Client, args: &LsArgs) -> Result<(), Failure> {
    let mut changes = Changes::default();
    loop {
        let next = Instant::now() + args.every;
        let began = since_1970(SystemTime::now());
        let all = all(client, args).await?;
        let at = since_1970(SystemTime::now());
        for line in changes.look((began, at), all.values()) {
            out::print(&line)?;
        }
        sleep_until(next).await;
    }
}
