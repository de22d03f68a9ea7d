//! `redlatch ls`: what is held.

use std::{
    collections::BTreeMap,
    pin::Pin,
    time::{Duration, SystemTime},
};

use redlatch::{Client, Object, ObjectKind};
use tokio::{
    select,
    time::{Instant, sleep_until},
};

use super::changes::Changes;
use crate::app::{
    args::{LsArgs, ServerArgs},
    exit::{Failure, warn},
    out::{self, clean},
    session,
    span::short,
    view::{json, rows, since_1970, titles},
};

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &LsArgs) -> Result<u8, Failure> {
    if args.every < Duration::from_millis(100) {
        return Err(Failure::usage("--every is at least 100ms"));
    }
    let builder = session::over(server, |builder| {
        let looker = builder.application("redlatch ls").self_check(false);
        match args.watch {
            // A look that is not answered is told, and repeated.
            true => looker.patience(PATIENCE),
            false => looker,
        }
    })?;
    let prefix = builder.chosen().0.to_owned();
    let client = session::look_by(builder).await?;
    let done = match (args.watch, args.json) {
        (true, true) => record(&client, args).await,
        (true, false) => watch(&client, args).await,
        (false, true) => stream(&client, args).await,
        (false, false) => list(&client, &prefix, args).await,
    };
    session::close(&client).await;
    done.map(|()| 0)
}

/// Returns whether the options select an object.
fn is_wanted(args: &LsArgs, object: &Object) -> bool {
    let kind = match &object.kind {
        ObjectKind::FairElection => "election",
        // Its kind may be any text.
        ObjectKind::Other(_) => "",
        kind => kind.as_str(),
    };
    args.kind.is_empty() || args.kind.iter().any(|wanted| wanted == kind)
}

/// Prints each object as soon as it is found.
async fn stream(client: &Client, args: &LsArgs) -> Result<(), Failure> {
    let mut walk = client.objects(&args.pattern);
    while let Some(object) = walk.next().await {
        let object = object?;
        if is_wanted(args, &object) {
            out::print(&json(&object.name, Some(&object)).line())?;
        }
    }
    Ok(())
}

/// Prints all objects as one table. If a server does not answer, the table has the objects of the
/// others, and the failure names that server.
async fn list(client: &Client, prefix: &str, args: &LsArgs) -> Result<(), Failure> {
    // Rows take less memory than objects. A walk may return an object twice.
    let mut shown = BTreeMap::new();
    let mut walk = client.objects(&args.pattern);
    let mut trouble = Ok(());
    while let Some(object) = walk.next().await {
        match object {
            Ok(object) if is_wanted(args, &object) => {
                shown.insert(object.name.clone(), rows(&object, args.long));
            }
            Ok(_) => {}
            Err(error) => trouble = Err(error.into()),
        }
    }
    if shown.is_empty() && trouble.is_ok() && out::is_terminal() {
        // An empty screen might be a mistake in the pattern, or in the prefix.
        let (pattern, prefix) = (clean(&args.pattern), clean(prefix));
        let hint = match pattern.contains('*') {
            true => "",
            false => "; try a * at its end",
        };
        warn(&format!(
            "nothing matches {pattern} (prefix {prefix}){hint}"
        ));
    }
    out::print(&table(shown.into_values().flatten().collect(), args.long))?;
    trouble
}

/// Returns the table of the objects; nothing without objects.
fn table(rows: Vec<Vec<String>>, long: bool) -> String {
    if rows.is_empty() {
        return String::new();
    }
    out::table(&titles(long), &rows)
}

/// Objects by name.
pub(super) type Found = BTreeMap<String, Object>;

/// Finds all objects that match `pattern`, and says why some are missing. A walk may return one
/// twice.
pub(super) async fn all(client: &Client, pattern: &str) -> (Found, Option<redlatch::Error>) {
    let mut walk = client.objects(pattern);
    let (mut found, mut missing) = (Found::new(), None);
    while let Some(object) = walk.next().await {
        match object {
            Ok(object) => {
                found.insert(object.name.clone(), object);
            }
            Err(error) => missing = Some(error),
        }
    }
    (found, missing)
}

/// Shows the table again and again.
async fn watch(client: &Client, args: &LsArgs) -> Result<(), Failure> {
    let mut looks = Looks::every(args.every);
    // Home, and clear to the end.
    let (clear, end) = match out::is_terminal() {
        true => ("\x1b[H\x1b[J", ""),
        false => ("", "\n"),
    };
    loop {
        let (found, missing, _) = looks.next(client, args).await?;
        if missing.is_none() || !found.is_empty() {
            let shown = found.values().flat_map(|object| rows(object, args.long));
            let shown = table(shown.collect(), args.long);
            let shown = match shown.as_str() {
                "" => "nothing is held\n",
                shown => shown,
            };
            out::print(&format!("{clear}{shown}{end}"))?;
        }
        looks.tell(missing.as_deref());
    }
}

/// Prints what has changed since the last look, one line per change.
async fn record(client: &Client, args: &LsArgs) -> Result<(), Failure> {
    let mut changes = Changes::default();
    let mut looks = Looks::every(args.every);
    loop {
        let (found, missing, span) = looks.next(client, args).await?;
        looks.tell(missing.as_deref());
        for line in changes.look(span, found.values(), missing.as_deref()) {
            out::print(&line)?;
        }
    }
}

/// Looks at all objects again and again.
struct Looks {
    every: Duration,
    next: Instant,
    /// The looks in a row of which a part or all was not answered.
    unanswered: u32,
    pause: Duration,
    closed: Pin<Box<dyn Future<Output = ()>>>,
}

/// The result of a look: what was found, why that is not all, and when the look began and ended, in
/// ms since 1970.
type Look = (Found, Option<String>, (u64, u64));

impl Looks {
    fn every(every: Duration) -> Self {
        Self {
            every,
            next: Instant::now(),
            unanswered: 0,
            pause: every,
            closed: Box::pin(out::closed()),
        }
    }

    /// Looks when it is time. A server that does not answer may be back later. If there is nothing
    /// from another one, the next look comes later.
    async fn next(&mut self, client: &Client, args: &LsArgs) -> Result<Look, Failure> {
        select! {
            () = sleep_until(self.next) => {}
            () = &mut self.closed => return Err(Failure::new(0, "")),
        }
        let (start, began) = (Instant::now(), since_1970(SystemTime::now()));
        let (mut found, error) = all(client, &args.pattern).await;
        found.retain(|_, object| is_wanted(args, object));
        let missing = match error {
            Some(error) if !error.is_transient() => return Err(error.into()),
            Some(error) => {
                self.unanswered += 1;
                Some(clean(&error.to_string()))
            }
            None => {
                if self.unanswered > 0 {
                    warn("the server answers again");
                }
                self.unanswered = 0;
                None
            }
        };
        self.pause = match found.is_empty() {
            true => pause(self.every, self.unanswered),
            false => self.every,
        };
        self.next = match missing {
            Some(_) => Instant::now() + self.pause,
            None => start + self.every,
        };
        let span = (began, since_1970(SystemTime::now()));
        Ok((found, missing, span))
    }

    /// Tells of a look without an answer.
    fn tell(&self, missing: Option<&str>) {
        if let Some(why) = missing {
            let pause = short(self.pause);
            warn(&format!("no answer: {why}; looking again in {pause}"));
        }
    }
}

/// Returns the pause after so many looks in a row without an answer.
fn pause(every: Duration, unanswered: u32) -> Duration {
    let longer = every.saturating_mul(1 << unanswered.min(16));
    longer.min(LONGEST.max(every))
}

/// The longest pause after a look without an answer, unless `--every` is longer.
const LONGEST: Duration = Duration::from_secs(15);

/// How long a look of `--watch` insists on its answers.
const PATIENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_without_an_answer_become_rarer_up_to_a_bound() {
        let s = Duration::from_secs;
        let pauses: Vec<_> = (1..6).map(|n| pause(s(1), n)).collect();
        assert_eq!(pauses, [s(2), s(4), s(8), s(15), s(15)]);
        assert_eq!(pause(s(60), 3), s(60));
        assert_eq!(pause(s(1), u32::MAX), s(15));
    }
}
