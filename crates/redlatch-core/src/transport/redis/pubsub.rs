//! The commands of a connection for pub/sub.

use super::conn::{Awaited, Connection};
use crate::runtime::{Command, Outcome, Value};

/// Sends subscriptions, pings and logins. Returns one outcome for each, which only says that the
/// server has processed the command; pushes report the result of a subscription.
pub(super) async fn send(conn: &Connection, batch: &[Command]) -> Vec<Outcome> {
    let parsed: Vec<_> = batch.iter().map(parts).collect();
    let parts = parsed.iter().flatten().flatten().cloned();
    let (commands, awaited): (Vec<_>, _) = parts.unzip();
    let mut outcomes = conn.call(&commands, awaited).await.into_iter();
    let outcome = |parts: &Result<Vec<_>, &str>| match parts {
        Ok(parts) => one(&mut outcomes, parts.len()),
        Err(why) => Outcome::NotSent((*why).to_owned()),
    };
    parsed.iter().map(outcome).collect()
}

/// Splits a command into one for each channel, since the server answers each by itself. The error
/// says why the command must not be sent.
fn parts(command: &Command) -> Result<Vec<(Command, Awaited)>, &'static str> {
    let mut args = command.args();
    let name = args.next().unwrap_or_default();
    if name.eq_ignore_ascii_case(b"PING") && args.len() == 0 {
        return Ok(vec![(command.clone(), Awaited::Reply)]);
    }
    if name.eq_ignore_ascii_case(b"AUTH") && args.len() > 0 {
        return Ok(vec![(command.clone(), Awaited::Reply)]);
    }
    let word = WORDS
        .iter()
        .find(|word| name.eq_ignore_ascii_case(word.as_bytes()));
    let word = word.ok_or("not a command for a connection for pub/sub")?;
    // Without channels, the number of answers would depend on the server's subscriptions.
    if args.len() == 0 {
        return Err("no channel is named");
    }
    let part = |channel: &[u8]| {
        let confirmation = Awaited::Confirmation(word.as_bytes(), channel.to_vec());
        let mut part = Command::with_capacity(2, name.len() + channel.len());
        part.push(name);
        part.push(channel);
        (part, confirmation)
    };
    Ok(args.map(part).collect())
}

/// Takes the outcomes of one command's `count` parts. The first failure of a part is the failure of
/// the whole.
fn one(outcomes: &mut impl Iterator<Item = Outcome>, count: usize) -> Outcome {
    let mut whole = Outcome::Replied(Ok(Value::Nil));
    for part in outcomes.take(count) {
        if let Outcome::Replied(Ok(_)) = whole {
            whole = part;
        }
    }
    whole
}

const WORDS: [&str; 4] = ["subscribe", "unsubscribe", "ssubscribe", "sunsubscribe"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ServerError;

    #[test]
    fn only_subscriptions_and_pings_may_be_sent() {
        let parse = |line: &str| {
            let mut command = Command::with_capacity(3, 16);
            line.split_whitespace().for_each(|word| command.push(word));
            parts(&command)
        };
        let ping = Command::new("PING");
        assert_eq!(parse("PING"), Ok(vec![(ping, Awaited::Reply)]));
        let auth = Command::new("AUTH").arg("app").arg("pw");
        assert_eq!(parse("AUTH app pw"), Ok(vec![(auth, Awaited::Reply)]));
        for word in WORDS {
            let part = |channel: &str| {
                let awaited = Awaited::Confirmation(word.as_bytes(), channel.into());
                (Command::new(&word.to_uppercase()).arg(channel), awaited)
            };
            let line = format!("{} a b", word.to_uppercase());
            assert_eq!(parse(&line), Ok(vec![part("a"), part("b")]));
        }
        for refused in [
            "",
            "GET a",
            "PING a",
            "AUTH",
            "PSUBSCRIBE a",
            "SUBSCRIBE",
            "UNSUBSCRIBE",
        ] {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn split_command_fails_with_any_of_its_parts() {
        let ok = || Outcome::Replied(Ok(Value::Nil));
        let refused = || Outcome::Replied(Err(ServerError::parse("NOPERM no")));
        let pong = || Outcome::Replied(Ok(Value::Status("PONG".into())));
        let closed = || Outcome::NotSent("closed".to_owned());
        let one = |parts: Vec<_>| {
            let count = parts.len();
            let mut outcomes = parts.into_iter().chain([pong()]);
            let whole = one(&mut outcomes, count);
            assert_eq!(outcomes.next(), Some(pong()), "the next command's");
            whole
        };
        assert_eq!(one(vec![ok(), ok()]), ok());
        assert_eq!(one(vec![ok(), refused(), ok()]), refused());
        assert_eq!(one(vec![pong()]), pong());
        assert_eq!(one(vec![closed(), closed()]), closed());
    }
}
