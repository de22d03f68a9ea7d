//! The one error type of the family.

use std::{error, fmt, sync::Arc};

use crate::{
    protocol::{classify::Refusal, hold::LossCause},
    runtime::{DialError, DialErrorKind, ServerError},
};

/// An error of any operation of the family. Contention is not an error: if another owner holds a
/// lock, the result is a value.
///
/// Opaque: [`kind`](Self::kind) returns the class, and [`source`](error::Error::source) returns the
/// cause. Cheap to clone.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn error::Error + Send + Sync>>,
    /// Whether an earlier request than the failed one may have been executed.
    in_doubt: bool,
}

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The name is empty or too long. Nothing was sent.
    InvalidName,
    /// The lease is out of bounds. Nothing was sent.
    InvalidLease,
    /// An option is out of bounds or contradicts another one, or the address is invalid. Nothing
    /// was sent.
    InvalidOption,
    /// The owner belongs to another client. Nothing was sent.
    ForeignOwner,
    /// The key holds a different object: another kind, a newer version, or a value of another
    /// program. Nothing was changed.
    WrongKind,
    /// The server rejects the user or the password.
    Auth,
    /// The object has not been set up, or has been removed since. Nothing was changed.
    NotSet,
    /// The object was removed during the wait: deleted, expired, or lost by the server.
    Deleted,
    /// The request exceeds the capacity of the object, or would set the object out of its bounds.
    /// Nothing was changed.
    OutOfRange,
    /// The server's user lacks a permission.
    Permission,
    /// The server is out of memory and executed nothing.
    ServerFull,
    /// Too few replicas. Either the server has fewer than its configuration requires, and executed
    /// nothing. Or fewer have confirmed than the acquisition requires, and the background gives the
    /// grant back.
    NotEnoughReplicas,
    /// The server could not be reached in time, and certainly nothing was executed.
    Unavailable,
    /// The server did not answer in time. The request may or may not have been executed. The
    /// background gives back anything that an abandoned acquisition took.
    OutcomeUnknown,
    /// The hold was lost.
    Lost(LossCause),
    /// The owner would wait forever for itself: it holds the read side and requests the write side.
    /// Nothing was changed.
    WouldDeadlock,
    /// The server is too old, a replica, or of an unsupported kind.
    UnsupportedServer,
    /// The client has too many concurrent acquisitions.
    TooManyWaiters,
    /// Another owner held the object in every attempt that the wait strategy allows. Only
    /// operations that cannot return `None` use this kind.
    TooManyAttempts,
    /// The client is closed or closing, the tokio runtime that created it has ended, or one of its
    /// background tasks has panicked. The message names the cause.
    Closed,
    /// Another process created the client, and this process is a fork of it. Nothing was sent.
    Forked,
    /// A script of the caller has failed. Its writes before the error stay.
    ScriptFailed,
    /// The server's reply cannot be understood.
    Protocol,
}

impl Error {
    /// Creates an error. For the crates of this family.
    #[doc(hidden)]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            source: None,
            in_doubt: false,
        }))
    }

    /// Creates an error with its cause. For the crates of this family.
    #[doc(hidden)]
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl error::Error + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            source: Some(Arc::new(source)),
            in_doubt: false,
        }))
    }

    /// Creates the error for a script reply that cannot be decoded. For the crates of this family.
    #[doc(hidden)]
    pub fn bad_reply(script: &str, reply: &impl fmt::Debug) -> Self {
        Self::new(
            ErrorKind::Protocol,
            format!("script {script} replied {reply:?}"),
        )
    }

    /// Creates the error of a name whose object is of the kind `found`, and not `own`. For the
    /// crates of this family.
    #[doc(hidden)]
    pub fn wrong_kind(found: &str, own: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::WrongKind,
            format!("the name belongs to an object of kind {found}, not to {own}"),
        )
    }

    /// Creates the error for a request that no server can serve at the moment.
    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, why)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the client is closed")
    }

    /// Creates the error of a lost hold. For the crates of this family.
    #[doc(hidden)]
    pub fn lost(cause: LossCause) -> Self {
        Self::new(
            ErrorKind::Lost(cause),
            format!("the hold was lost: {cause}"),
        )
    }

    pub(crate) fn refused(refusal: Refusal, error: ServerError) -> Self {
        let (kind, message) = match refusal {
            Refusal::WrongType => (
                ErrorKind::WrongKind,
                "the key holds a value that is not ours",
            ),
            Refusal::Permission => {
                let message = format!("the server's user may not do this: {}", error.message);
                return Self::with_source(ErrorKind::Permission, message, error);
            }
            Refusal::Auth => (ErrorKind::Auth, "the server refuses user or password"),
            Refusal::Full => (ErrorKind::ServerFull, "the server is out of memory"),
            Refusal::Other => (ErrorKind::Protocol, "the server refuses the request"),
        };
        Self::with_source(kind, message, error)
    }

    pub(crate) fn dial(address: &impl fmt::Display, error: DialError) -> Self {
        let kind = match error.kind {
            DialErrorKind::Auth => ErrorKind::Auth,
            DialErrorKind::Unsupported => ErrorKind::InvalidOption,
            DialErrorKind::Refused if error.message.contains("DB index") => {
                ErrorKind::InvalidOption
            }
            DialErrorKind::Refused => ErrorKind::Permission,
            _ => ErrorKind::Unavailable,
        };
        Self::with_source(kind, format!("cannot connect to {address}"), error)
    }

    /// Records that an earlier request than the failed one may have been executed.
    pub(crate) fn in_doubt(self) -> Self {
        let Inner {
            kind,
            message,
            source,
            ..
        } = &*self.0;
        Self(Arc::new(Inner {
            kind: *kind,
            message: message.clone(),
            source: source.clone(),
            in_doubt: true,
        }))
    }

    /// Tells whether an earlier request than the failed one may have been executed.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.0.in_doubt
    }

    /// Returns the class.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Tells whether certainly nothing was executed.
    ///
    /// Otherwise a request may have been executed. The background gives back anything that an
    /// abandoned acquisition took.
    pub fn is_not_executed(&self) -> bool {
        !self.0.in_doubt
            && !matches!(
                self.kind(),
                ErrorKind::OutcomeUnknown
                    | ErrorKind::Protocol
                    | ErrorKind::ScriptFailed
                    | ErrorKind::Closed
                    | ErrorKind::Lost(_)
            )
    }

    /// Tells whether the same call may succeed later without any change.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Unavailable
                | ErrorKind::OutcomeUnknown
                | ErrorKind::NotEnoughReplicas
                | ErrorKind::ServerFull
                | ErrorKind::TooManyWaiters
        )
    }

    /// Returns the message of the cause; empty without one.
    pub(crate) fn cause(&self) -> String {
        let source = self.0.source.as_ref();
        source.map(ToString::to_string).unwrap_or_default()
    }

    /// Returns the cause of the loss if the error is the loss of a hold.
    pub fn loss(&self) -> Option<LossCause> {
        match self.kind() {
            ErrorKind::Lost(cause) => Some(cause),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug
            .field("kind", &self.0.kind)
            .field("message", &self.0.message);
        if let Some(source) = &self.0.source {
            debug.field("source", source);
        }
        debug.finish()
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0
            .source
            .as_ref()
            .map(|source| &**source as &(dyn error::Error + 'static))
    }
}
