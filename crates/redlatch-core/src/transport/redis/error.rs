//! Classifies failures of sockets, and what a server refuses in the handshake.

use std::io;

use crate::{
    protocol::{
        classify::{Class, Refusal, classify},
        rights::is_unknown_command,
    },
    runtime::{DialError, DialErrorKind, Login, ServerError},
};

/// Creates a dial error.
pub(super) fn dial(kind: DialErrorKind, message: String) -> DialError {
    DialError { kind, message }
}

/// Returns the error of a failure of a socket, or of the TLS over it.
pub(super) fn failure(failed: io::Error) -> DialError {
    #[cfg(feature = "tls")]
    let is_tls = failed
        .get_ref()
        .is_some_and(|inner| inner.is::<rustls::Error>());
    #[cfg(not(feature = "tls"))]
    let is_tls = false;
    let kind = if is_tls {
        DialErrorKind::Tls
    } else {
        DialErrorKind::Unreachable
    };
    dial(kind, failed.to_string())
}

/// Returns whether the refusal of `HELLO 3`, sent with the credentials of `login`, allows a try
/// with RESP2. Any refusal does that says nothing of the login or of the server's state.
pub(super) fn refuses_resp3(error: &ServerError, login: &Login) -> bool {
    match error.code.as_str() {
        // Valkey demands a login before it reports an unknown command. `HELLO` contained the login.
        "NOAUTH" => login.password.is_some(),
        // A server in protected mode accepts nothing.
        "DENIED" => false,
        _ if is_unknown_command(&error.message) => true,
        _ => of_server(error, Step::Login).kind == DialErrorKind::Refused,
    }
}

/// One command of the handshake, classified by the effect of its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// `HELLO` or `AUTH`.
    Login,
    Select,
    Courtesy,
    Ping,
}

impl Step {
    /// Fails if the connection is of no use after the refusal.
    pub(super) fn check(self, refused: &ServerError) -> Result<(), DialError> {
        let failed = of_server(refused, self);
        match self {
            // The connection works without a name.
            Self::Courtesy => Ok(()),
            // The server answers. It refuses writes and `PING` while it cannot save its data.
            Self::Ping if refused.code == "MISCONF" => Ok(()),
            // Any other refusal shows that the server answers. A user without the right to `PING`
            // may have all necessary rights.
            Self::Ping if failed.kind == DialErrorKind::Refused => Ok(()),
            Self::Login | Self::Select | Self::Ping => Err(failed),
        }
    }
}

/// Classifies an error reply to a command of the handshake.
pub(super) fn of_server(error: &ServerError, step: Step) -> DialError {
    let kind = match classify(&error.code, &error.message) {
        Class::Fatal(Refusal::Auth) => DialErrorKind::Auth,
        Class::Retry(_) | Class::Fatal(Refusal::Full) => DialErrorKind::Busy,
        // Servers before version 6 have only `ERR` for this. Version 6 and later use it for a
        // password that is not needed.
        _ if step == Step::Login && error.code == "ERR" && speaks_of_password(&error.message) => {
            DialErrorKind::Auth
        }
        _ => DialErrorKind::Refused,
    };
    dial(kind, error.to_string())
}

fn speaks_of_password(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("password") || message.contains("auth")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_refusals_are_classified_by_code() {
        use DialErrorKind::{Auth, Busy, Refused};
        let auth = [
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOAUTH Authentication required.",
            "NOAUTH HELLO must be called with the client already authenticated",
            "ERR invalid password",
            "ERR Client sent AUTH, but no password is set",
            "ERR AUTH <password> called without any password configured for the default user.",
            "ERR wrong number of arguments for 'auth' command",
        ];
        let busy = [
            "ERR max number of clients reached",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down",
            "MISCONF Errors writing to the AOF file: No space left",
            "CLUSTERDOWN The cluster is down",
            "READONLY You can't write against a read only replica.",
            "NOREPLICAS Not enough good replicas to write.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "BUSY Redis is busy running a script.",
        ];
        let refused = [
            "ERR DB index is out of range",
            "NOPERM User bob has no permissions to run the 'select' command",
            "DENIED Redis is running in protected mode",
        ];
        for (kind, lines) in [(Auth, &auth[..]), (Busy, &busy), (Refused, &refused)] {
            for line in lines {
                let failed = of_server(&ServerError::parse(line), Step::Login);
                assert_eq!(failed.kind, kind, "{line}");
            }
        }
        let later = ServerError::parse("ERR something about AUTH");
        assert_eq!(of_server(&later, Step::Select).kind, Refused);
    }

    #[test]
    fn only_refusals_of_hello_itself_lead_to_resp2() {
        let nobody = Login::default();
        let refuses = |line| refuses_resp3(&ServerError::parse(line), &nobody);
        for line in [
            "NOPROTO unsupported protocol version",
            "ERR unknown command 'HELLO', with args beginning with: '3' ",
            "ERR unknown command `HELLO`, with args beginning with: `3`, ",
            "ERR Unknown command",
            "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `u`, `password`, ",
            "ERR unsupported command",
            "ERR Protocol version 3 is not supported by this proxy",
            "ERR syntax error in HELLO",
            "PROXY no such thing",
            "NOPERM User default has no permissions to run the 'hello' command",
        ] {
            assert!(refuses(line), "{line}");
        }
        for line in [
            "WRONGPASS no",
            "NOAUTH no",
            "LOADING no",
            "MISCONF no",
            "DENIED Redis is running in protected mode",
            "ERR invalid password",
            "ERR max number of clients reached",
        ] {
            assert!(!refuses(line), "{line}");
        }
        let login = Login {
            password: Some("pw".into()),
            ..Login::default()
        };
        assert!(refuses_resp3(&ServerError::parse("NOAUTH no"), &login));
    }

    #[test]
    fn a_password_echoed_by_the_server_is_not_shown() {
        let line = "ERR unknown command 'AUTH', with args beginning with: 'hunter2'";
        let failed = of_server(&ServerError::parse(line), Step::Login);
        assert_eq!(failed.message, "ERR unknown command 'AUTH'");
    }

    #[test]
    fn only_failures_of_tls_itself_are_about_tls() {
        for kind in [io::ErrorKind::ConnectionRefused, io::ErrorKind::InvalidData] {
            let failed = io::Error::new(kind, "x");
            assert_eq!(failure(failed).kind, DialErrorKind::Unreachable);
        }
        #[cfg(feature = "tls")]
        {
            let refused = rustls::Error::NoCertificatesPresented;
            let failed = io::Error::new(io::ErrorKind::InvalidData, refused);
            assert_eq!(failure(failed).kind, DialErrorKind::Tls);
        }
    }
}
