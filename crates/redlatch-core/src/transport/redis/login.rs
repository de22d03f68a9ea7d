//! The handshake of a connection.

use super::{
    conn::Connection,
    error::{self, Step},
};
use crate::runtime::{Command, DialError, DialErrorKind, Login, Outcome, Protocol, Reply};

/// Agrees on RESP3, or on RESP2 if the server refuses RESP3. Logs in, selects the database, names
/// the connection and sends `PING`. Two round trips.
pub(super) async fn log_in(conn: &Connection, login: &Login) -> Result<Protocol, DialError> {
    let protocol = match replies(conn, &[hello(login)]).await?.swap_remove(0) {
        Ok(_) => Protocol::Resp3,
        Err(refused) if error::refuses_resp3(&refused, login) => Protocol::Resp2,
        Err(refused) => return Err(error::of_server(&refused, Step::Login)),
    };
    let (steps, commands): (Vec<_>, Vec<_>) = handshake(login, protocol).into_iter().unzip();
    let replies = replies(conn, &commands).await?;
    for (step, reply) in steps.into_iter().zip(replies) {
        reply.map_or_else(|refused| step.check(&refused), |_| Ok(()))?;
    }
    Ok(protocol)
}

/// Returns the replies, or why the connection has ended.
async fn replies(conn: &Connection, commands: &[Command]) -> Result<Vec<Reply>, DialError> {
    let outcomes = conn.exchange(commands).await.into_iter();
    let reply = |outcome| match outcome {
        Outcome::Replied(reply) => Ok(reply),
        Outcome::NotSent(why) | Outcome::Unknown(why) => {
            let closed = conn.closed();
            let kind = closed.map_or(DialErrorKind::Unreachable, |closed| closed.kind);
            Err(error::dial(kind, why))
        }
    };
    outcomes.map(reply).collect()
}

fn hello(login: &Login) -> Command {
    let hello = Command::new("HELLO").arg("3");
    match &login.password {
        None => hello,
        Some(password) => {
            let username = login.username.as_deref().unwrap_or("default");
            hello.arg("AUTH").arg(username).arg(password)
        }
    }
}

fn handshake(login: &Login, protocol: Protocol) -> Vec<(Step, Command)> {
    let mut steps = Vec::with_capacity(6);
    // With RESP3, `HELLO` contained the credentials.
    if protocol == Protocol::Resp2 {
        steps.extend(login.auth().map(|command| (Step::Login, command)));
    }
    if login.database != 0 {
        let command = Command::new("SELECT").arg(login.database.to_string());
        steps.push((Step::Select, command));
    }
    if let Some(name) = &login.client_name {
        steps.push((Step::Courtesy, client("SETNAME").arg(name)));
    }
    for (what, value) in [
        ("LIB-NAME", "redlatch"),
        ("LIB-VER", env!("CARGO_PKG_VERSION")),
    ] {
        let set_info = client("SETINFO").arg(what).arg(value);
        steps.push((Step::Courtesy, set_info));
    }
    steps.push((Step::Ping, Command::new("PING")));
    steps
}

fn client(subcommand: &str) -> Command {
    Command::new("CLIENT").arg(subcommand)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ServerError;

    fn lines(login: &Login, protocol: Protocol) -> Vec<String> {
        let commands = handshake(login, protocol).into_iter();
        commands
            .map(|(_, command)| command.words().join(" "))
            .collect()
    }

    #[test]
    fn the_handshake_says_only_what_is_needed() {
        let version = concat!("CLIENT SETINFO LIB-VER ", env!("CARGO_PKG_VERSION"));
        let tail = ["CLIENT SETINFO LIB-NAME redlatch", version, "PING"];
        assert_eq!(lines(&Login::default(), Protocol::Resp2), tail);

        let login = Login {
            username: Some("bob".into()),
            password: Some("pw".into()),
            database: 2,
            client_name: Some("app".into()),
        };
        let head = ["SELECT 2", "CLIENT SETNAME app"];
        assert_eq!(lines(&login, Protocol::Resp3), [&head[..], &tail].concat());
        let head = ["AUTH bob pw", "SELECT 2", "CLIENT SETNAME app"];
        assert_eq!(lines(&login, Protocol::Resp2), [&head[..], &tail].concat());
    }

    #[test]
    fn a_refusal_means_what_its_command_was_for() {
        use DialErrorKind::{Auth, Busy, Refused};
        let noperm = "NOPERM this user has no permissions to run this command";
        for (step, line, failure) in [
            (Step::Courtesy, noperm, None),
            (Step::Courtesy, "ERR unknown subcommand 'SETINFO'", None),
            (Step::Ping, noperm, None),
            (Step::Ping, "ERR unknown command 'PING'", None),
            (Step::Ping, "ERR not supported", None),
            (Step::Ping, "MISCONF no disk", None),
            (Step::Ping, "LOADING wait", Some(Busy)),
            (Step::Ping, "NOAUTH no", Some(Auth)),
            (Step::Select, noperm, Some(Refused)),
            (Step::Login, "ERR invalid password", Some(Auth)),
        ] {
            let checked = step.check(&ServerError::parse(line));
            assert_eq!(
                checked.err().map(|failed| failed.kind),
                failure,
                "{step:?}: {line}"
            );
        }
    }
}
