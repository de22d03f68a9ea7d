//! Maps errors of the `redis` crate to the transport's classes.

use std::{error::Error, io, sync::Arc};

use redis::{ErrorKind, RedisError};

use super::value;
use crate::{
    protocol::{
        classify::{Class, Refusal, classify},
        rights::is_unknown_command,
    },
    runtime::{Address, DialError, DialErrorKind, Login, Outcome, ServerError},
};

/// Returns the outcome of a command that was not tried, because the connection is known to be gone.
pub(super) fn closed() -> Outcome {
    Outcome::NotSent("the connection is closed".to_owned())
}

/// Returns the server's error, if the failure is an error reply of the server.
pub(super) fn server_error(failed: &RedisError) -> Option<ServerError> {
    let errors = failed.clone().into_server_errors()?;
    errors.first().map(|(_, error)| value::server_error(error))
}

/// Creates a dial error.
pub(super) fn dial(kind: DialErrorKind, message: String) -> DialError {
    DialError { kind, message }
}

/// Returns whether the refusal of `HELLO 3`, sent with the credentials of `login`, allows a try
/// with RESP2. Any refusal does that says nothing of the login or of the server's state.
pub(super) fn refuses_resp3(failed: &RedisError, login: &Login) -> bool {
    if failed.kind() == ErrorKind::RESP3NotSupported {
        return true;
    }
    server_error(failed).is_some_and(|error| match error.code.as_str() {
        // Valkey demands a login before it reports an unknown command. `HELLO` contained the login.
        "NOAUTH" => login.password.is_some(),
        // A server in protected mode accepts nothing.
        "DENIED" => false,
        _ if is_unknown_command(&error.message) => true,
        _ => of_server(&error, Step::Login).kind == DialErrorKind::Refused,
    })
}

/// Classifies a failure to connect, or a failure of the crate's own handshake.
pub(super) fn of_connect(address: &Address, failed: &RedisError) -> DialError {
    if let Some(error) = server_error(failed) {
        return of_server(&error, Step::Login);
    }
    let tls = matches!(address, Address::Tls { .. });
    let kind = match failed.kind() {
        ErrorKind::Io if tls && is_tls_failure(failed) => DialErrorKind::Tls,
        ErrorKind::AuthenticationFailed => DialErrorKind::Auth,
        // With TLS this is a bad configuration, without TLS a name without addresses.
        ErrorKind::Client | ErrorKind::InvalidClientConfig if tls => DialErrorKind::Tls,
        ErrorKind::Io | ErrorKind::InvalidClientConfig => DialErrorKind::Unreachable,
        ErrorKind::Parse if ends_early(failed) => DialErrorKind::Unreachable,
        ErrorKind::Parse => DialErrorKind::Foreign,
        _ => DialErrorKind::Refused,
    };
    dial(kind, failed.to_string())
}

/// Returns whether the connection ended within a reply. The crate uses the same kind of error for
/// bytes that are no reply, and distinguishes the two by the text only.
fn ends_early(failed: &RedisError) -> bool {
    failed.to_string().contains("end of input")
}

/// The part of the handshake that the server refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// `HELLO` or `AUTH`.
    Login,
    /// Any later command.
    Setup,
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

/// Returns whether an I/O error comes from the TLS layer, and not from the socket below it.
fn is_tls_failure(failed: &RedisError) -> bool {
    let Some(source) = failed.source() else {
        return false;
    };
    let io_error = source
        .downcast_ref::<Arc<dyn Error + Send + Sync>>()
        .and_then(|shared| shared.downcast_ref::<io::Error>());
    // An error of another type concerns certificates or the server's name.
    io_error.is_none_or(|error| {
        error.kind() == io::ErrorKind::InvalidData || error.kind() == io::ErrorKind::InvalidInput
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_wire(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    fn tcp() -> Address {
        Address::Tcp {
            host: "h".into(),
            port: 1,
        }
    }

    #[test]
    fn servers_refusals_are_classified_by_code() {
        use DialErrorKind::{Auth, Busy, Refused};
        let cases = [
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                Auth,
            ),
            ("NOAUTH Authentication required.", Auth),
            (
                "NOAUTH HELLO must be called with the client already authenticated",
                Auth,
            ),
            ("ERR invalid password", Auth),
            ("ERR Client sent AUTH, but no password is set", Auth),
            (
                "ERR AUTH <password> called without any password configured for the default user.",
                Auth,
            ),
            ("ERR wrong number of arguments for 'auth' command", Auth),
            ("ERR max number of clients reached", Busy),
            ("LOADING Redis is loading the dataset in memory", Busy),
            ("MASTERDOWN Link with MASTER is down", Busy),
            (
                "MISCONF Errors writing to the AOF file: No space left",
                Busy,
            ),
            ("CLUSTERDOWN The cluster is down", Busy),
            (
                "READONLY You can't write against a read only replica.",
                Busy,
            ),
            ("NOREPLICAS Not enough good replicas to write.", Busy),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Busy,
            ),
            ("BUSY Redis is busy running a script.", Busy),
            ("ERR DB index is out of range", Refused),
            (
                "NOPERM User bob has no permissions to run the 'select' command",
                Refused,
            ),
            ("DENIED Redis is running in protected mode", Refused),
        ];
        for (line, kind) in cases {
            assert_eq!(of_connect(&tcp(), &from_wire(line)).kind, kind, "{line}");
        }
        let later = ServerError::parse("ERR something about AUTH");
        assert_eq!(of_server(&later, Step::Setup).kind, Refused);
    }

    #[test]
    fn only_refusals_of_hello_itself_lead_to_resp2() {
        let nobody = Login::default();
        let refuses = |line| refuses_resp3(&from_wire(line), &nobody);
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
        assert!(refuses_resp3(&from_wire("NOAUTH no"), &login));
        let old = RedisError::from((ErrorKind::RESP3NotSupported, "no HELLO"));
        assert!(refuses_resp3(&old, &nobody));
        let io = RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert!(!refuses_resp3(&io, &nobody));
    }

    #[test]
    fn a_password_echoed_by_the_server_is_not_shown() {
        let line = "ERR unknown command 'AUTH', with args beginning with: 'hunter2'";
        let failed = of_server(&ServerError::parse(line), Step::Login);
        assert_eq!(failed.message, "ERR unknown command 'AUTH'");
    }

    #[test]
    fn failures_below_the_protocol_are_classified_by_kind() {
        let tls = Address::Tls {
            host: "h".into(),
            port: 1,
            options: Default::default(),
        };
        let io = |kind| RedisError::from(io::Error::new(kind, "x"));
        use io::ErrorKind::{ConnectionRefused, InvalidData, NotFound, UnexpectedEof};
        for kind in [ConnectionRefused, NotFound, UnexpectedEof, InvalidData] {
            assert_eq!(
                of_connect(&tcp(), &io(kind)).kind,
                DialErrorKind::Unreachable
            );
        }
        assert_eq!(
            of_connect(&tls, &io(ConnectionRefused)).kind,
            DialErrorKind::Unreachable
        );
        assert_eq!(of_connect(&tls, &io(InvalidData)).kind, DialErrorKind::Tls);
        let unresolved = RedisError::from((ErrorKind::InvalidClientConfig, "No address found"));
        assert_eq!(
            of_connect(&tcp(), &unresolved).kind,
            DialErrorKind::Unreachable
        );
        let parse = redis::parse_redis_value(b"HTTP/1.1 400\r\n").unwrap_err();
        assert_eq!(of_connect(&tcp(), &parse).kind, DialErrorKind::Foreign);
        let cut = "Parse error at 0\nUnexpected end of input\nexpected 12 more elements\n";
        let cut = RedisError::from((ErrorKind::Parse, "Incompatible type", cut.to_owned()));
        assert_eq!(of_connect(&tcp(), &cut).kind, DialErrorKind::Unreachable);
    }

    #[test]
    fn only_servers_answers_are_server_errors() {
        let moved = server_error(&from_wire("MOVED 123 host:6379"));
        assert_eq!(moved, Some(ServerError::parse("MOVED 123 host:6379")));
        assert_eq!(
            server_error(&RedisError::from(io::Error::from(
                io::ErrorKind::BrokenPipe
            ))),
            None
        );
    }
}
