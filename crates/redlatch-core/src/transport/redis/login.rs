//! The part of the handshake that the crate does not do, or does without reporting the cause of a
//! failure.

use super::{
    error::{self, Step},
    wire::Wire,
};
use crate::runtime::{Command, DialError, DialErrorKind, Login, Outcome, Reply, ServerError};

/// Whether the server already has the credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Auth {
    /// `HELLO` contained the credentials.
    Done,
    /// The rest of the handshake sends the credentials.
    Pending,
}

/// Logs in, selects the database, names the connection and sends `PING`, in one round trip.
pub(super) async fn finish(wire: &Wire, login: &Login, auth: Auth) -> Result<(), DialError> {
    let (steps, commands): (Vec<Handshake>, Vec<Command>) =
        handshake(login, auth).into_iter().unzip();
    let outcomes = wire.exchange(commands).await;
    for (step, outcome) in steps.into_iter().zip(outcomes) {
        match outcome {
            Outcome::Replied(Ok(_)) => {}
            Outcome::Replied(Err(refused)) => step.check(&refused)?,
            Outcome::NotSent(why) | Outcome::Unknown(why) => {
                return Err(error::dial(DialErrorKind::Unreachable, why));
            }
        }
    }
    Ok(())
}

/// Checks the answer to a `PING` that was sent without [`finish`].
pub(super) fn check_ping(pong: Reply) -> Result<(), DialError> {
    pong.map_or_else(|refused| Handshake::Ping.check(&refused), |_| Ok(()))
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
    if let (Auth::Pending, Some(password)) = (auth, &login.password) {
        let mut command = Command::new("AUTH");
        if let Some(username) = &login.username {
            command.push(username);
        }
        command.push(password);
        steps.push((Handshake::Auth, command));
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
        let line = |command: &Command| {
            let args: Vec<_> = command.args().map(String::from_utf8_lossy).collect();
            args.join(" ")
        };
        handshake(login, auth)
            .iter()
            .map(|(_, command)| line(command))
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
