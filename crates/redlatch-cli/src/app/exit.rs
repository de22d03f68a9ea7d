//! Exit codes, and errors with what to do about them.

use std::{
    error::Error as _,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use redlatch::{Error, ErrorKind, runtime::ServerError};

/// The command line is wrong, or names an object of another kind. As in `sysexits.h`.
pub(crate) const USAGE: u8 = 64;
/// There is no such hold.
pub(crate) const NO_HOLD: u8 = 66;
/// A slot of a job has used up its attempts.
pub(crate) const EXHAUSTED: u8 = 70;
/// No server answers.
pub(crate) const NO_SERVER: u8 = 69;
/// The name is taken.
pub(crate) const BUSY: u8 = 75;
/// The hold was lost, and the command with it.
pub(crate) const LOST: u8 = 76;
/// The server refuses user, password or command, or does not know the command.
pub(crate) const RIGHTS: u8 = 77;
/// There is no address, or a wrong one.
pub(crate) const ADDRESS: u8 = 78;
/// The command took longer than it may, as `timeout(1)` says it.
pub(crate) const OVERRAN: u8 = 124;
/// A failure of this program itself.
pub(crate) const OWN: u8 = 125;
/// The command cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command.
pub(crate) const NOT_FOUND: u8 = 127;

/// The end of the program with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
    /// A name is taken, which `--quiet` does not tell.
    pub(crate) is_busy: bool,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            is_busy: false,
        }
    }

    pub(crate) fn busy(code: u8, message: impl Into<String>) -> Self {
        Self {
            is_busy: true,
            ..Self::new(code, message)
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn own(message: impl Into<String>) -> Self {
        Self::new(OWN, message)
    }

    /// Prints the message, if there is one, and returns the code.
    pub(crate) fn end(self) -> ExitCode {
        if !self.message.is_empty() {
            warn(&self.message);
        }
        ExitCode::from(self.code)
    }
}

/// Returns the failure of a file of the command line that cannot be `done`: read or written.
pub(crate) fn no_file(what: &str, file: &Path, done: &str, error: &io::Error) -> Failure {
    let shown = file.display();
    Failure::usage(format!("the {what} {shown} cannot be {done}: {error}"))
}

/// Prints a message for whoever runs the command.
pub(crate) fn warn(message: &str) {
    let line = format!("redlatch: {message}\n");
    // `eprintln!` panics if nobody reads any more.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// What the library advises a program, and what that is for whoever runs the command.
const DOORS: [(&str, &str); 4] = [
    (", or Client::forget", ""),
    (
        "set_permits and add_permits change that",
        "redlatch resize changes that",
    ),
    (
        "call try_set_permits, or take the handle with permits_if_unset",
        "say how many with --of or redlatch resize",
    ),
    (
        "a client with WaitStrategy::Poll needs no messages",
        "?self_check=false at the end of the address does without messages",
    ),
];

/// Replaces advice of the library to programs by advice to users of the command.
pub(crate) fn of_command(message: String) -> String {
    DOORS.iter().fold(message, |message, (program, command)| {
        message.replace(program, command)
    })
}

/// Tells whether an error is about a command that the server does not know.
pub(crate) fn is_renamed(error: &str) -> bool {
    error.contains("has renamed it")
}

/// What to do about a server that does not know a command.
pub(crate) const NO_RENAME: &str =
    "remove its rename-command from the configuration of the server, or use a service that has it";

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let reason = error.reason();
        let is_answer = reason.is_some_and(|reason| reason.is::<ServerError>());
        let (code, advice) = match error.kind() {
            ErrorKind::InvalidName | ErrorKind::InvalidLease | ErrorKind::InvalidOption => {
                (USAGE, "see redlatch help")
            }
            // The text itself says what to do.
            ErrorKind::WrongKind if error.to_string().contains("another program") => (USAGE, ""),
            ErrorKind::WrongKind => (USAGE, "or use the option or the verb of its kind"),
            ErrorKind::NotSet
            | ErrorKind::Deleted
            | ErrorKind::OutOfRange
            | ErrorKind::WouldDeadlock
            | ErrorKind::ForeignOwner => (USAGE, ""),
            ErrorKind::Auth => (RIGHTS, "check user and password of the address"),
            // No rule of the user helps where the server does not know a command.
            ErrorKind::Permission if is_renamed(&error.to_string()) => (RIGHTS, NO_RENAME),
            ErrorKind::Permission => (
                RIGHTS,
                "the page \"Give rights\" of the redlatch book lists the ACL rules",
            ),
            ErrorKind::TooManyAttempts => (BUSY, "try again"),
            ErrorKind::Lost(_) => (LOST, ""),
            ErrorKind::Unavailable | ErrorKind::OutcomeUnknown if !is_answer => {
                (NO_SERVER, "check address and network")
            }
            // The server has answered, and the text itself says what to do.
            ErrorKind::Unavailable
            | ErrorKind::OutcomeUnknown
            | ErrorKind::UnsupportedServer
            | ErrorKind::ServerFull
            | ErrorKind::NotEnoughReplicas
            | ErrorKind::Protocol => (NO_SERVER, ""),
            _ => (OWN, ""),
        };
        let mut message = of_command(error.to_string());
        let mut cause = error.source();
        while let Some(inner) = cause {
            let text = inner.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = inner.source();
        }
        if !advice.is_empty() {
            message = format!("{message}; {advice}");
        }
        Self::new(code, message)
    }
}
