//! The one error type of the family.

use std::{error, fmt, sync::Arc};

use crate::{
    protocol::{classify::Refusal, hold::LossCause, rights},
    runtime::ServerError,
};

/// An error of any operation of the family. Contention is not an error: if another owner holds a
/// lock, the result is a value.
///
/// [`kind`](Self::kind) returns the class. An error is cheap to clone.
///
/// The text says what happened, to which object, and what to do, in at most 300 characters. The
/// text includes the reason, such as the server's own words. So [`source`](error::Error::source)
/// returns `None`: a printer of the whole chain, such as `{:#}` of `anyhow`, would print the reason
/// twice. [`reason`](Self::reason) returns the reason as an error.
///
/// # Examples
///
/// ```no_run
/// # use redlatch_core as redlatch;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use redlatch::{Client, Error, ErrorKind};
///
/// fn status(error: &Error) -> u16 {
///     match error.kind() {
///         ErrorKind::Lost(_) => 409,
///         ErrorKind::TooManyWaiters => 429,
///         _ if error.is_transient() => 503, // Retry-After
///         _ => 500,
///     }
/// }
///
/// let error = Client::connect("http://localhost").await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidOption);
/// assert_eq!(status(&error), 500);
/// # }
/// ```
///
/// # Errors of every call
///
/// A call that sends a request can fail with these kinds. The documentation of a method lists only
/// the kinds beyond these.
///
/// * **Without a request**: `InvalidName`, `Closed`, `Forked`. `Closed` also ends a call during
///   which the client closes.
/// * **By the server's answer**: `WrongKind`, `Auth`, `Permission`, `ServerFull`, `Protocol`.
/// * **Without an answer** within the client's [`patience`](crate::ClientBuilder::patience):
///   `Unavailable` if the server certainly executed nothing, and `OutcomeUnknown` if the server may
///   have executed a request. `NotEnoughReplicas` if the server has fewer replicas than its
///   configuration requires.
///
/// A call that changes an object and is not an acquisition, such as `Semaphore::set_permits`, waits
/// for 20 s at most.
///
/// # Errors of every acquisition
///
/// An acquisition, such as `Lock::lock`, can also fail with these kinds:
///
/// * **Without a request**: `InvalidLease`, `InvalidOption` for a note that is out of bounds,
///   `ForeignOwner` if the owner belongs to another client, and `TooManyWaiters`.
/// * **By the server's answer**: `OutOfRange` if the owner already has 1,000 guards of the hold.
/// * **Without enough replicas**: `NotEnoughReplicas` if fewer replicas have confirmed the grant
///   than the [`durability`](crate::Acquire::durability) requires.
///
/// After an error, the client releases in the background whatever the acquisition may have
/// acquired.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    /// The whole text.
    message: String,
    reason: Option<Arc<dyn error::Error + Send + Sync>>,
    /// Whether the text begins with the object.
    names_object: bool,
    /// Whether an earlier request than the failed one may have been executed.
    in_doubt: bool,
}

/// The class of an [`Error`]. The project has [a page with causes and remedies][errors].
/// [`Error::is_transient`] returns true for the kinds after which the same call may succeed later.
///
/// [errors]: https://github.com/redlatch/redlatch/blob/main/docs/book/src/reference/errors.md
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
    /// nothing. Or fewer have confirmed than the acquisition requires, and the client releases the
    /// grant in the background.
    NotEnoughReplicas,
    /// The server could not be reached in time, and certainly nothing was executed.
    Unavailable,
    /// The server did not answer in time, and may have executed the request. The client releases in
    /// the background whatever an abandoned acquisition may have acquired.
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
    /// Another owner held the object, or the latch was closed, in every attempt that the wait
    /// strategy allows. Only operations that cannot return `None` or `false` use this kind.
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
            message: shortened(message.into()),
            reason: None,
            names_object: false,
            in_doubt: false,
        }))
    }

    /// Creates an error whose text includes that of `reason`, and that is in doubt if `reason` is
    /// such an error. For the crates of this family.
    #[doc(hidden)]
    pub fn with_reason(
        kind: ErrorKind,
        message: impl Into<String>,
        reason: impl error::Error + Send + Sync + 'static,
    ) -> Self {
        let cause: &(dyn error::Error + 'static) = &reason;
        let cause = cause.downcast_ref::<Self>();
        let in_doubt = cause.is_some_and(|cause| cause.0.in_doubt);
        let mut error = Self::new(kind, message);
        Arc::make_mut(&mut error.0).reason = Some(Arc::new(reason));
        if in_doubt { error.in_doubt() } else { error }
    }

    /// Names the object at the beginning of the text, unless the text begins with an object
    /// already. `kind` is that of events and metrics. For the crates of this family.
    #[doc(hidden)]
    #[must_use]
    pub fn about(mut self, kind: &str, name: &str) -> Self {
        if self.0.names_object {
            return self;
        }
        let kind = kind.replace('_', " ");
        let name: String = match name.char_indices().nth(NAME) {
            Some((end, _)) => format!("{}…", &name[..end]),
            None => name.to_owned(),
        };
        let inner = Arc::make_mut(&mut self.0);
        inner.message = shortened(format!("{kind} {name:?}: {}", inner.message));
        inner.names_object = true;
        self
    }

    /// Creates the error of a name that belongs to an object of kind `found`, where `wanted` is
    /// asked for. For the crates of this family.
    #[doc(hidden)]
    pub fn wrong_kind(found: &str, wanted: &str) -> Self {
        let base = |kind: &str| kind.split(':').next().unwrap_or_default().to_owned();
        let message = if found.is_empty() {
            "a hash of another program has its key; choose another name, or another prefix"
                .to_owned()
        } else if base(found) == base(wanted) {
            format!(
                "the server keeps it as {found}, and this version of redlatch knows {wanted}; use one version everywhere, or another prefix for each"
            )
        } else {
            let (found, wanted) = (in_words(found), in_words(wanted));
            format!(
                "the name belongs to {found}, not to {wanted}: choose another name or prefix. If the old object is out of use, remove it: redlatch forget NAME, or Client::forget"
            )
        };
        Self::new(ErrorKind::WrongKind, message)
    }

    /// Creates the error of a record of a kind that this version does not know.
    pub(crate) fn unknown_kind(found: &str) -> Self {
        let message = format!(
            "the name belongs to {}, which this version of redlatch does not know; use the version that made it",
            in_words(found)
        );
        Self::new(ErrorKind::WrongKind, message)
    }

    /// Creates the error for a script reply that cannot be decoded. For the crates of this family.
    #[doc(hidden)]
    pub fn bad_reply(script: &str, reply: &impl fmt::Debug) -> Self {
        let message = format!("script {script} replied {reply:?}");
        Self::new(ErrorKind::Protocol, message)
    }

    /// Creates the error of a script that fails again and again on what the server keeps.
    pub(crate) fn broken(reply: &str) -> Self {
        let message = format!(
            "its record on the server cannot be understood; has another program written to it? {reply}"
        );
        Self::new(ErrorKind::Protocol, message).in_doubt()
    }

    /// Creates the error for a request that no server can serve at the moment.
    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, why)
    }

    /// Creates the error of a lost hold. For the crates of this family.
    #[doc(hidden)]
    pub fn lost(cause: LossCause) -> Self {
        let message = format!("the hold was lost: {cause}");
        Self::new(ErrorKind::Lost(cause), message)
    }

    pub(crate) fn refused(refusal: Refusal, error: ServerError) -> Self {
        let text = error.to_string();
        let kind = match refusal {
            Refusal::WrongType => ErrorKind::WrongKind,
            Refusal::Permission => ErrorKind::Permission,
            Refusal::Unsupported => ErrorKind::UnsupportedServer,
            Refusal::Auth => ErrorKind::Auth,
            Refusal::Full => ErrorKind::ServerFull,
            Refusal::Other => ErrorKind::Protocol,
        };
        let why = match refusal {
            Refusal::WrongType => {
                "a value of another program has its key, or that of a part of it; choose another name, or another prefix"
            }
            Refusal::Permission if rights::is_unknown_command(&error.message) => {
                "the server does not know a command, or has renamed it"
            }
            Refusal::Permission => return Self::with_reason(kind, rights::denied(&text), error),
            Refusal::Unsupported if rights::is_without_scripts(&error.message) => {
                "the server runs no Lua scripts, which redlatch needs; load the module lua into Valkey, or use another server"
            }
            Refusal::Unsupported => {
                "the server refuses a command in scripts; use a server, or a kind of this service, whose scripts accept all commands of redlatch"
            }
            Refusal::Auth => "the server has not accepted user and password",
            Refusal::Full => {
                "the server is out of memory: raise its maxmemory, and keep the policy noeviction"
            }
            Refusal::Other => "the server refuses the request",
        };
        let text = match refusal {
            // Newer servers add where in the script it was.
            Refusal::WrongType => text.split(" script: ").next().unwrap_or_default(),
            _ => &text,
        };
        Self::with_reason(kind, format!("{why}: {text}"), error)
    }

    /// Records that an earlier request than the failed one may have been executed.
    pub(crate) fn in_doubt(mut self) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.in_doubt = true;
        if inner.kind == ErrorKind::Unavailable {
            // `Unavailable` promises that nothing was executed.
            inner.kind = ErrorKind::OutcomeUnknown;
        }
        self
    }

    /// Returns the class.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
    /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
    /// use redlatch::ErrorKind;
    ///
    /// match lock.lock().await.map_err(|error| error.kind()) {
    ///     Ok(guard) => println!("held with token {}", guard.token()),
    ///     Err(ErrorKind::Permission) => eprintln!("grant the right to the user"),
    ///     Err(kind) => eprintln!("not held: {kind:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns true if the server certainly executed nothing.
    ///
    /// Otherwise a request may have been executed. The client releases in the background whatever
    /// an abandoned acquisition may have acquired.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = redlatch::Client::builder("redis://127.0.0.1:1")
    /// #     .patience(std::time::Duration::from_millis(100))
    /// #     .connect_lazy()?;
    /// let error = client.ping().await.unwrap_err(); // no server listens
    /// assert!(error.is_not_executed());
    /// # Ok(())
    /// # }
    /// ```
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

    /// Returns true if the same call may succeed later without any change.
    ///
    /// The kinds are `Unavailable`, `OutcomeUnknown`, `NotEnoughReplicas`, `ServerFull` and
    /// `TooManyWaiters`.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
    /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    ///
    /// let guard = loop {
    ///     match lock.lock().await {
    ///         Ok(guard) => break guard,
    ///         Err(error) if error.is_transient() => eprintln!("again in 5 s: {error}"),
    ///         Err(error) => return Err(error),
    ///     }
    ///     tokio::time::sleep(Duration::from_secs(5)).await;
    /// };
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "retry")]
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

    /// Tells whether a server did not answer in time, or cannot serve for the moment.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Unavailable | ErrorKind::OutcomeUnknown
        )
    }

    /// Returns the error that the text includes as the reason, such as the server's reply, or the
    /// `NodeOutcomes` of a red-lock.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
    /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
    /// if let Err(error) = lock.lock().await {
    ///     eprintln!("{error}");
    ///     if let Some(reason) = error.reason() {
    ///         eprintln!("the reason: {reason}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn reason(&self) -> Option<&(dyn error::Error + Send + Sync + 'static)> {
        self.0.reason.as_deref()
    }

    /// Returns the cause of the loss if the error is the loss of a hold.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(guard: redlatch::Held) -> Result<(), redlatch::Error> {
    /// use redlatch::LossCause;
    ///
    /// let lost = guard.check().err().and_then(|error| error.loss());
    /// if lost == Some(LossCause::Revoked) {
    ///     eprintln!("an operator has ended the hold");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn loss(&self) -> Option<LossCause> {
        match self.kind() {
            ErrorKind::Lost(cause) => Some(cause),
            _ => None,
        }
    }
}

/// Names the object in the error of a result. For the crates of this family.
pub trait About {
    /// See [`Error::about`].
    #[must_use]
    fn about(self, kind: &str, name: &str) -> Self;
}

impl<T> About for Result<T, Error> {
    fn about(self, kind: &str, name: &str) -> Self {
        self.map_err(|error| error.about(kind, name))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

/// One line, since a `main` that returns the error prints it so. `{:#?}` has the reason as well.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return write!(f, "{:?}: {}", self.0.kind, self.0.message);
        }
        let mut debug = f.debug_struct("Error");
        debug
            .field("kind", &self.0.kind)
            .field("message", &self.0.message);
        if let Some(reason) = &self.0.reason {
            debug.field("reason", reason);
        }
        debug.finish()
    }
}

// No source: the text includes the reason already.
impl error::Error for Error {}

/// Returns the words for a kind that the server stores, such as `fair:1`.
fn in_words(stored: &str) -> String {
    match stored.split(':').next().unwrap_or_default() {
        "lock" => "a lock",
        "fair" => "a fair lock",
        "rw" => "a read-write lock",
        "semaphore" => "a semaphore",
        "permits" => "a semaphore of permits with ids",
        "latch" => "a latch",
        "once" => "a job",
        "election" => "an election",
        "fair_election" => "an election in order",
        "fence" => "a fence",
        "limit" => "a rate limiter",
        _ => return format!("an object of kind {stored}"),
    }
    .to_owned()
}

/// Cuts a text at the length that a line of a log can bear. Texts of servers may be of any length.
fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        Some(_) => text.chars().take(LONGEST - 1).chain(['…']).collect(),
        None => text,
    }
}

/// The largest number of characters of an error's text.
const LONGEST: usize = 300;

/// The largest number of characters of an object's name in an error's text.
const NAME: usize = 64;
