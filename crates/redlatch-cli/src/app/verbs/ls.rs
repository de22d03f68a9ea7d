//! `redlatch ls`: what is held.

use std::{
    collections::BTreeMap,
    pin::Pin,
    time::{Duration, SystemTime},
};

use redlatch::{Client, Object};
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
    view::{ObjectView, rows, since_1970, titles},
};

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &LsArgs) -> Result<u8, Failure> {
    if args.every < Duration::from_millis(100) {
        return Err(Failure::usage("--every is at least 100ms"));
    }
    let builder = if args.watch {
        // A look that is not answered is told, and repeated.
        session::over(server, |builder| {
            let looker = builder.application("redlatch ls").self_check(false);
            looker.patience(PATIENCE)
        })?
    } else {
        session::looker(server, "redlatch ls")?
    };
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
        let hint = if pattern.contains('*') {
            ""
        } else {
            "; try a * at its end"
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

/// Finds all objects by name. A walk may return one twice.
async fn all(client: &Client, args: &LsArgs) -> Result<BTreeMap<String, Object>, redlatch::Error> {
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
    let mut looks = Looks::every(args.every);
    // Home, and clear to the end.
    let clear = if out::is_terminal() {
        "\x1b[H\x1b[J"
    } else {
        ""
    };
    loop {
        let all = match looks.next(client, args).await? {
            Look::Answered(all, _) => all,
            Look::Unanswered(..) => continue,
        };
        let shown = all.values().flat_map(|object| rows(object, args.long));
        let shown = table(shown.collect(), args.long);
        let shown = if shown.is_empty() {
            "nothing is held\n"
        } else {
            &shown
        };
        let end = if clear.is_empty() { "\n" } else { "" };
        out::print(&format!("{clear}{shown}{end}"))?;
    }
}

/// Prints what has changed since the last look, one line per change.
async fn record(client: &Client, args: &LsArgs) -> Result<(), Failure> {
    let mut changes = Changes::default();
    let mut looks = Looks::every(args.every);
    loop {
        let lines = match looks.next(client, args).await? {
            Look::Answered(all, span) => changes.look(span, all.values()),
            Look::Unanswered(why, span) => vec![changes.unanswered(span, &why)],
        };
        for line in lines {
            out::print(&line)?;
        }
    }
}

/// Looks at all objects again and again.
struct Looks {
    every: Duration,
    next: Instant,
    /// The looks in a row that the server has not answered.
    unanswered: u32,
    closed: Pin<Box<dyn Future<Output = ()>>>,
}

/// The result of a look.
enum Look {
    /// The objects, and when the look began and ended, in ms since 1970.
    Answered(BTreeMap<String, Object>, (u64, u64)),
    /// Why there are none, and when the look began and ended.
    Unanswered(String, (u64, u64)),
}

impl Looks {
    fn every(every: Duration) -> Self {
        Self {
            every,
            next: Instant::now(),
            unanswered: 0,
            closed: Box::pin(out::closed()),
        }
    }

    /// Looks when it is time. A server that does not answer may be back later, so that is told, and
    /// the next look comes later.
    async fn next(&mut self, client: &Client, args: &LsArgs) -> Result<Look, Failure> {
        select! {
            () = sleep_until(self.next) => {}
            () = &mut self.closed => return Err(Failure::new(0, "")),
        }
        let began = since_1970(SystemTime::now());
        self.next = Instant::now() + self.every;
        match all(client, args).await {
            Ok(all) => {
                if self.unanswered > 0 {
                    warn("the server answers again");
                }
                self.unanswered = 0;
                Ok(Look::Answered(all, (began, since_1970(SystemTime::now()))))
            }
            Err(error) if error.is_transient() => {
                self.unanswered += 1;
                let pause = pause(self.every, self.unanswered);
                self.next = Instant::now() + pause;
                let why = clean(&error.to_string());
                warn(&format!(
                    "no answer: {why}; looking again in {}",
                    short(pause)
                ));
                Ok(Look::Unanswered(
                    why,
                    (began, since_1970(SystemTime::now())),
                ))
            }
            Err(error) => Err(error.into()),
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
