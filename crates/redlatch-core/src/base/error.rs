//! The one error type of the family.

use std::{error, fmt, sync::Arc};

use crate::{
    protocol::{classify::Refusal, hold::LossCause},
    runtime::{DialError, DialErrorKind, ServerError},
};

/// What went wrong. Contention is not among it: a lock that is held by another is a value, not an
/// error.
///
/// Opaque; [`kind`](Self::kind) tells the class, [`source`](error::Error::source) the cause. Cheap to clone.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn error::Error + Send + Sync>>,
    /// A request before the one that failed may have been executed.
    in_doubt: bool,
}

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The name is empty or over-long. Nothing was sent.
    InvalidName,
    /// The lease is out of bounds. Nothing was sent.
    InvalidLease,
    /// An option is out of bounds or does not fit the others, or the address cannot be understood.
    /// Nothing was sent.
    InvalidOption,
    /// The owner belongs to another client. Nothing was sent.
    ForeignOwner,
    /// The key holds something else: another kind of object, a newer version, or a value that is
    /// not ours. Nothing was changed.
    WrongKind,
    /// The server refuses user or password.
    Auth,
    /// Nobody has set the object up, or it has been removed since. Nothing was changed.
    NotSet,
    /// The object was removed while this waited for it: deleted, ended by its own time, or lost by
    /// the server.
    Deleted,
    /// More is asked for than there is at all, or the object would get more or less than it can
    /// have. Nothing was changed.
    OutOfRange,
    /// The server's user may not do this.
    Permission,
    /// The server is out of memory and took nothing.
    ServerFull,
    /// The server has fewer replicas than it is configured to need, and took nothing; or fewer have
    /// confirmed than the acquisition asked for, and what was taken is given back in the
    /// background.
    NotEnoughReplicas,
    /// The server could not be reached in time, and surely nothing was executed.
    Unavailable,
    /// The server did not answer in time; what was asked may or may not have been executed. What an
    /// abandoned acquisition took is given back in the background.
    OutcomeUnknown,
    /// The hold was lost.
    Lost(LossCause),
    /// The owner asks for what only itself keeps it from, and would wait for ever: who reads asks
    /// to write. Nothing was changed.
    WouldDeadlock,
    /// The server is too old, a replica, or of a kind that cannot be used.
    UnsupportedServer,
    /// Too many waiters in this client.
    TooManyWaiters,
    /// Another held it in every attempt that the wait strategy allows. Only where there is no other
    /// way to say so.
    TooManyAttempts,
    /// The client is closed or closing, the tokio runtime that it was made in has ended, or a
    /// background task of it has panicked; the message says which.
    Closed,
    /// The client was made in another process, of which this one is a fork. Nothing was sent.
    Forked,
    /// The server answered something that is not understood.
    Protocol,
}

impl Error {
    /// Makes an error. For the crates of this family.
    #[doc(hidden)]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            source: None,
            in_doubt: false,
        }))
    }

    /// Makes an error with its cause. For the crates of this family.
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

    /// Makes the error for a script reply that cannot be decoded. For the crates of this family.
    #[doc(hidden)]
    pub fn bad_reply(script: &str, reply: &impl fmt::Debug) -> Self {
        Self::new(
            ErrorKind::Protocol,
            format!("script {script} replied {reply:?}"),
        )
    }

    /// Returns the error of what a server cannot be asked for at the moment.
    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, why)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the client is closed")
    }

    /// Makes the error of a hold that is lost. For the crates of this family.
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

    /// Notes that a request before the one that failed may have been executed.
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

    /// Tells whether something may have been executed that this error does not speak of.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.0.in_doubt
    }

    /// Returns the class.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Tells whether surely nothing was executed.
    ///
    /// Otherwise something may have been; what an abandoned acquisition took is given back in the
    /// background.
    pub fn is_not_executed(&self) -> bool {
        !self.0.in_doubt
            && !matches!(
                self.kind(),
                ErrorKind::OutcomeUnknown
                    | ErrorKind::Protocol
                    | ErrorKind::Closed
                    | ErrorKind::Lost(_)
            )
    }

    /// Tells whether the same call may succeed later without anything being changed.
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

    /// Returns what the cause says; empty without one.
    pub(crate) fn cause(&self) -> String {
        let source = self.0.source.as_ref();
        source.map(ToString::to_string).unwrap_or_default()
    }

    /// Returns why the hold was lost, if that is what happened.
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
