//! How connections are made and used.

use std::{error, fmt, path::PathBuf, sync::Arc};

use async_trait::async_trait;

use super::{Command, Outcome};

/// Makes connections. One implementation stands over the `redis` crate, one over the embedded
/// engine, one over the simulator's network.
#[async_trait]
pub trait Transport: Send + Sync + fmt::Debug + 'static {
    /// Connects, authenticates, selects the database and names the connection.
    ///
    /// Has no deadline of its own: the caller drops the future when it has waited long enough,
    /// which must leave no connection behind.
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError>;
}

/// A connection that takes commands. Dropping the last handle closes it.
#[async_trait]
pub trait Conn: Send + Sync + fmt::Debug + 'static {
    /// Sends `batch` as one pipeline and returns one outcome per command, in order.
    ///
    /// Concurrent calls are multiplexed over the one connection. Has no deadline of its own. When
    /// the future is dropped the outcome of every command of the batch is unknown; later calls are
    /// not disturbed. On a connection dialled for [`Purpose::PubSub`] only `SUBSCRIBE`,
    /// `UNSUBSCRIBE`, `SSUBSCRIBE`, `SUNSUBSCRIBE` and `PING` may be sent, and what they did is
    /// told by [`Pushes`], not by their outcome.
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome>;
}

/// What a server sends unasked.
#[async_trait]
pub trait Pushes: Send + fmt::Debug + 'static {
    /// Waits for the next push; `None` once the connection is gone, then and for ever.
    ///
    /// Cancel safe: a push is lost only if this object is dropped.
    async fn next(&mut self) -> Option<Push>;
}

/// A message or a change of subscription, told by the server on a pub/sub connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// A message on a channel this connection is subscribed to.
    Message {
        /// The channel it was published to.
        channel: Vec<u8>,
        /// What was published.
        payload: Vec<u8>,
    },
    /// The server confirms the subscription to this channel.
    Subscribed(Vec<u8>),
    /// The subscription to this channel has ended, whether asked for or not.
    Unsubscribed(Vec<u8>),
}

/// Everything a transport needs to make one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// Where to.
    pub address: Address,
    /// As whom.
    pub login: Login,
    /// For what.
    pub purpose: Purpose,
}

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Address {
    /// Plain TCP.
    Tcp {
        /// Host name or IP address, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// TLS over TCP.
    Tls {
        /// Host name or IP address, without brackets; also the name that the certificate must
        /// carry.
        host: String,
        /// Port.
        port: u16,
        /// What to trust and what to show.
        options: TlsOptions,
    },
    /// A unix domain socket.
    Unix(PathBuf),
    /// An engine inside this process, by a name its transport knows.
    Embedded(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Tls { host, port, .. } => write!(f, "tls:{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Embedded(name) => write!(f, "embedded:{name}"),
        }
    }
}

/// What a TLS connection trusts and shows. The default trusts the system's roots and shows nothing.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct TlsOptions {
    /// Root certificates in PEM that are trusted instead of the system's.
    pub root_pem: Option<Vec<u8>>,
    /// Certificate chain and private key in PEM that the client shows.
    pub client_pem: Option<(Vec<u8>, Vec<u8>)>,
    /// Accept any certificate. For tests only: anybody can be the server then.
    pub insecure: bool,
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("root_pem", &self.root_pem.is_some())
            .field("client_pem", &self.client_pem.is_some())
            .field("insecure", &self.insecure)
            .finish()
    }
}

/// Who the connection is.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// ACL user; the server's `default` if absent.
    pub username: Option<String>,
    /// Password, of the user or of the server as a whole.
    pub password: Option<String>,
    /// Database number, 0 by default.
    pub database: u32,
    /// What `CLIENT LIST` shows.
    pub client_name: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("database", &self.database)
            .field("client_name", &self.client_name)
            .finish()
    }
}

/// What a connection is for. The two never mix (a subscription's confirmations would be taken for
/// replies).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Commands and their replies; no subscriptions.
    Command,
    /// Subscriptions and their messages; no other commands.
    PubSub,
}

/// A connection just made.
#[derive(Debug)]
pub struct Dialed {
    /// Where commands go.
    pub conn: Arc<dyn Conn>,
    /// What comes unasked; its end is the end of the connection.
    pub pushes: Box<dyn Pushes>,
    /// The protocol that was agreed.
    pub protocol: Protocol,
}

/// The version of the wire protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, spoken when the server refuses RESP3.
    Resp2,
    /// RESP3.
    Resp3,
}

/// Why no connection could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialError {
    /// The class of the failure.
    pub kind: DialErrorKind,
    /// What happened, in words.
    pub message: String,
}

/// Classes of [`DialError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DialErrorKind {
    /// Nobody answers there (refused, unreachable, reset, unknown host): may pass.
    Unreachable,
    /// The TLS handshake failed.
    Tls,
    /// The server refuses user or password, or asks for one.
    Auth,
    /// The server refuses the database, the user may not run a command of the handshake, or answers
    /// something that is not the protocol.
    Refused,
    /// The server is not ready yet (loading its data, too many clients): passes.
    Busy,
    /// This build has no support for that kind of address.
    Unsupported,
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for DialError {}
