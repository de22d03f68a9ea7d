//! The errors that callers get for failed calls and connections.

use std::time::Duration;

use crate::{
    Error, ErrorKind,
    base::script::Failure,
    protocol::classify::{Class, Obstacle, classify},
    runtime::{Address, Dial, DialError, DialErrorKind, ServerError},
};

impl Failure {
    /// Returns the error for a caller whose time is over. `unknown` means that the server may have
    /// executed a request of this call.
    pub(crate) fn into_error(self, unknown: bool) -> Error {
        let kind = if unknown {
            ErrorKind::OutcomeUnknown
        } else {
            ErrorKind::Unavailable
        };
        let error = match self {
            Self::Fatal(error) | Self::Halted(_, error) => error,
            Self::Refused(Obstacle::Replicas, error) => {
                let message = format!(
                    "the server has fewer replicas than its min-replicas-to-write demands: {error}"
                );
                Error::with_reason(ErrorKind::NotEnoughReplicas, message, error)
            }
            Self::Refused(_, error) => {
                let message =
                    format!("the server cannot serve the request for the moment: {error}");
                Error::with_reason(kind, message, error)
            }
            Self::Redirected(redirect) => Error::new(
                ErrorKind::UnsupportedServer,
                format!(
                    "slot {} is served by {}: this server belongs to a cluster, so its address begins with redis+cluster://",
                    redirect.slot, redirect.address
                ),
            ),
            Self::NotSent(why) => Error::new(kind, format!("the server cannot be reached: {why}")),
            Self::Unknown(why) => Error::new(
                ErrorKind::OutcomeUnknown,
                format!("the server did not answer in time: {why}"),
            ),
            Self::Strange(error) => {
                let message = format!(
                    "the server answers, but not to this: {error}; look whether it, or a proxy before it, supports scripts and all commands of \"Give rights\" in the redlatch book"
                );
                Error::with_reason(ErrorKind::OutcomeUnknown, message, error)
            }
        };
        if unknown { error.in_doubt() } else { error }
    }
}

impl Error {
    /// Creates the error of a plain command that the server at `address` answers with `error`. A
    /// word of unknown meaning may pass, as it may for a script.
    pub(super) fn plain(address: &Address, error: ServerError) -> Self {
        let message = format!("{address} refuses a command: {error}");
        match classify(&error.code, &error.message) {
            Class::Retry(obstacle) => Failure::Refused(obstacle, error).into_error(false),
            Class::NoScript | Class::Redirect(_) => {
                Self::with_reason(ErrorKind::Protocol, message, error)
            }
            Class::Fatal(_) | Class::Halted(_) | Class::Unknown => Self::answered(message, error),
        }
    }

    /// Creates the error of a server that answers with `error`. `message` describes an answer after
    /// which the caller may try again.
    pub(super) fn answered(message: String, error: ServerError) -> Self {
        match classify(&error.code, &error.message) {
            Class::Fatal(refusal) | Class::Halted(refusal) => Self::refused(refusal, error),
            _ => Self::with_reason(ErrorKind::Unavailable, message, error),
        }
    }

    /// Creates the error of a dial of `address` that was not answered within `timeout`.
    pub(crate) fn late_dial(address: &Address, timeout: Duration) -> Self {
        let hint = tls_hint(address);
        Self::unavailable(format!(
            "cannot connect to {address}: no answer within {timeout:?}, the client's connect_timeout; the server hangs, or a firewall is in between{hint}"
        ))
    }

    /// Creates the error of a caller that has waited long enough for a connection to `address`.
    pub(crate) fn no_connection(address: &Address) -> Self {
        let hint = tls_hint(address);
        Self::unavailable(format!(
            "no connection to {address} in time; the server hangs, or a firewall is in between{hint}"
        ))
    }

    /// Creates the error of a failed `dial`.
    pub(crate) fn dial(dial: &Dial, error: DialError) -> Self {
        let address = &dial.address;
        let has_no_database = error.message.contains("DB index");
        let kind = match error.kind {
            DialErrorKind::Auth => ErrorKind::Auth,
            DialErrorKind::Unsupported => ErrorKind::InvalidOption,
            DialErrorKind::Refused if has_no_database => ErrorKind::InvalidOption,
            DialErrorKind::Refused => ErrorKind::Permission,
            DialErrorKind::Foreign => ErrorKind::UnsupportedServer,
            DialErrorKind::Tls | DialErrorKind::Busy | DialErrorKind::Unreachable => {
                ErrorKind::Unavailable
            }
        };
        let message = match error.kind {
            DialErrorKind::Auth if dial.login.password.is_none() => format!(
                "{address} demands a password, and the address has none: write {}",
                login_form(address)
            ),
            DialErrorKind::Auth => {
                let user = dial.login.username.as_deref().unwrap_or("default");
                format!("{address} refuses the user `{user}` or its password: {error}")
            }
            DialErrorKind::Unsupported => format!("cannot connect to {address}: {error}"),
            DialErrorKind::Refused if has_no_database => format!(
                "{address} has no database {}: {error}. A server has 16 by default, 0 to 15; a cluster has 0 only",
                dial.login.database
            ),
            DialErrorKind::Refused => format!("{address} refuses the connection: {error}"),
            DialErrorKind::Foreign => format!(
                "{address} does not answer like Redis or Valkey: it may be the port of another service, such as HTTP, or a port for TLS, which needs rediss://"
            ),
            DialErrorKind::Tls => {
                let why = one_line(&error.message);
                let hint = if why.contains("UnknownIssuer") {
                    ". If the authority that has signed its certificate is your own, give the client the certificate of that authority, or set SSL_CERT_FILE to its file"
                } else {
                    tls_hint(address)
                };
                format!("no TLS with {address}: {why}{hint}")
            }
            DialErrorKind::Busy => format!("{address} is not ready: {error}"),
            DialErrorKind::Unreachable => {
                format!("cannot connect to {address}: {}", one_line(&error.message))
            }
        };
        Self::with_reason(kind, message, error)
    }
}

/// Returns the forms of an address with a password.
fn login_form(address: &Address) -> String {
    match address {
        Address::Unix(_) => {
            let url = address.written("");
            format!("{url}?pass=password or {url}?user=user&pass=password")
        }
        Address::Tls { .. } => "rediss://:password@host or rediss://user:password@host".to_owned(),
        _ => "redis://:password@host or redis://user:password@host".to_owned(),
    }
}

/// Returns what to try if a server does not answer at an address with TLS. A server without TLS may
/// take the beginning of a handshake for that of a command, and wait for the rest.
const fn tls_hint(address: &Address) -> &'static str {
    match address {
        Address::Tls { .. } => ". For a server without TLS write redis:// instead of rediss://",
        _ => "",
    }
}

/// Puts a text of several lines on one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_command_with_an_unknown_answer_is_worth_another_try() {
        let address = Address::Embedded("x".to_owned());
        for (line, kind) in [
            ("WEIRD the proxy is tired", ErrorKind::Unavailable),
            ("ERR something new", ErrorKind::Unavailable),
            ("LOADING wait", ErrorKind::Unavailable),
            ("MOVED 3999 127.0.0.1:7001", ErrorKind::Protocol),
            ("NOPERM this user has no permissions", ErrorKind::Permission),
        ] {
            let error = Error::plain(&address, ServerError::parse(line));
            assert_eq!(error.kind(), kind, "{error:?}");
            assert!(error.reason().is_some(), "{error:?}");
        }
    }
}
