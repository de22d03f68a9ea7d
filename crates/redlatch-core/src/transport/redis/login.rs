//! The handshake of a connection.

use super::{
    conn::Connection,
    error::{self, Step},
};
use crate::runtime::{
    Command, DialError, DialErrorKind, Login, Outcome, Protocol, Reply, ServerError,
};

/// Whether the server already has the credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Auth {
    /// `HELLO` contained the credentials.
    Done,
    /// The rest of the handshake sends the credentials.
    Pending,
}

/// Agrees on RESP3, or on RESP2 if the server refuses RESP3. Logs in, selects the database, names
/// the connection and sends `PING`. Two round trips.
pub(super) async fn log_in(conn: &Connection, login: &Login) -> Result<Protocol, DialError> {
    let (protocol, auth) = match replies(conn, &[hello(login)]).await?.swap_remove(0) {
        Ok(_) => (Protocol::Resp3, Auth::Done),
        Err(refused) if error::refuses_resp3(&refused, login) => (Protocol::Resp2, Auth::Pending),
        Err(refused) => return Err(error::of_server(&refused, Step::Login)),
    };
    let (steps, commands): (Vec<_>, Vec<_>) = handshake(login, auth).into_iter().unzip();
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

/// One command of the handshake, classified by the effect of its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    Auth,
    Select,
    Courtesy,
    Ping,
}

impl Handshake {
    fn check(self, refused: &ServerError) -> Result<(), DialError> {
        match self {
            Self::Auth => Err(error::of_server(refused, Step::Login)),
            Self::Select => Err(error::of_server(refused, Step::Setup)),
            // The connection works without a name.
            Self::Courtesy => Ok(()),
            // The server answers. It refuses writes and `PING` while it cannot save its data.
            Self::Ping if refused.code == "MISCONF" => Ok(()),
            // Any other refusal shows that the server answers. A user without the right to `PING`
            // may have all necessary rights.
            Self::Ping => match error::of_server(refused, Step::Setup) {
                failed if failed.kind == DialErrorKind::Refused => Ok(()),
                failed => Err(failed),
            },
        }
    }
}

fn handshake(login: &Login, auth: Auth) -> Vec<(Handshake, Command)> {
    let mut steps = Vec::with_capacity(6);
    if auth == Auth::Pending {
        steps.extend(login.auth().map(|command| (Handshake::Auth, command)));
    }
    if login.database != 0 {
        let command = Command::new("SELECT").arg(login.database.to_string());
        steps.push((Handshake::Select, command));
    }
    if let Some(name) = &login.client_name {
        steps.push((Handshake::Courtesy, client("SETNAME").arg(name)));
    }
    let set_info = || client("SETINFO");
    steps.push((
        Handshake::Courtesy,
        set_info().arg("LIB-NAME").arg("redlatch"),
    ));
    let version = env!("CARGO_PKG_VERSION");
    steps.push((Handshake::Courtesy, set_info().arg("LIB-VER").arg(version)));
    steps.push((Handshake::Ping, Command::new("PING")));
    steps
}

fn client(subcommand: &str) -> Command {
    Command::new("CLIENT").arg(subcommand)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(login: &Login, auth: Auth) -> Vec<String> {
        let commands = handshake(login, auth).into_iter();
        commands
            .map(|(_, command)| command.words().join(" "))
            .collect()
    }

    #[test]
    fn the_handshake_says_only_what_is_needed() {
        let version = concat!("CLIENT SETINFO LIB-VER ", env!("CARGO_PKG_VERSION"));
        let tail = ["CLIENT SETINFO LIB-NAME redlatch", version, "PING"];
        assert_eq!(lines(&Login::default(), Auth::Pending), tail);

        let login = Login {
            username: Some("bob".into()),
            password: Some("pw".into()),
            database: 2,
            client_name: Some("app".into()),
        };
        let head = ["SELECT 2", "CLIENT SETNAME app"];
        assert_eq!(lines(&login, Auth::Done), [&head[..], &tail].concat());
        let head = ["AUTH bob pw", "SELECT 2", "CLIENT SETNAME app"];
        assert_eq!(lines(&login, Auth::Pending), [&head[..], &tail].concat());
    }

    #[test]
    fn a_refusal_means_what_its_command_was_for() {
        let kind = |step: Handshake, line: &str| {
            step.check(&ServerError::parse(line))
                .map_err(|failed| failed.kind)
        };
        let noperm = "NOPERM this user has no permissions to run this command";
        assert_eq!(kind(Handshake::Courtesy, noperm), Ok(()));
        assert_eq!(
            kind(Handshake::Courtesy, "ERR unknown subcommand 'SETINFO'"),
            Ok(())
        );
        for refusal in [
            noperm,
            "ERR unknown command 'PING'",
            "ERR not supported",
            "MISCONF no disk",
        ] {
            assert_eq!(kind(Handshake::Ping, refusal), Ok(()), "{refusal}");
        }
        assert_eq!(
            kind(Handshake::Ping, "LOADING wait"),
            Err(DialErrorKind::Busy)
        );
        assert_eq!(kind(Handshake::Ping, "NOAUTH no"), Err(DialErrorKind::Auth));
        assert_eq!(kind(Handshake::Select, noperm), Err(DialErrorKind::Refused));
        assert_eq!(
            kind(Handshake::Auth, "ERR invalid password"),
            Err(DialErrorKind::Auth)
        );
    }
}
