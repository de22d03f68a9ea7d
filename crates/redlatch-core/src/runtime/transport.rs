//! The traits for connections.

use std::{borrow::Cow, error, fmt, net::Ipv6Addr, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Command, Outcome};

/// A factory for connections. There are implementations over sockets, over the embedded engine, and
/// over the simulator's network.
#[async_trait]
pub trait Transport: Send + Sync + fmt::Debug + 'static {
    /// Connects, authenticates, selects the database and names the connection.
    ///
    /// The method has no deadline. A caller that has waited long enough drops the future, which
    /// must leave no connection behind.
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError>;
}

/// A connection for commands. Dropping the last handle closes it.
#[async_trait]
pub trait Conn: Send + Sync + fmt::Debug + 'static {
    /// Sends `batch` as one pipeline and returns one outcome per command, in order.
    ///
    /// Concurrent calls share the connection. The method has no deadline.
    ///
    /// A connection dialled for [`Purpose::PubSub`] accepts only `SUBSCRIBE`, `UNSUBSCRIBE`,
    /// `SSUBSCRIBE`, `SUNSUBSCRIBE` and `PING`, and with RESP3 also `AUTH`. [`Pushes`] report the
    /// results of subscriptions, and not the outcomes.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the outcome of every command of the batch is unknown. Later calls
    /// are not affected.
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome>;
}

/// The messages that a server sends without a request.
#[async_trait]
pub trait Pushes: Send + fmt::Debug + 'static {
    /// Waits for the next push. Returns `None` once the connection is gone, and at every later
    /// call.
    ///
    /// # Cancel safety
    ///
    /// A push is lost only if this object is dropped.
    async fn next(&mut self) -> Option<Push>;
}

/// The channel of the messages about changed keys, on a connection that has asked for them.
pub(crate) const INVALIDATED: &str = "__redis__:invalidate";

/// A message or a change of subscription on a pub/sub connection, or a message about a changed key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// A message on a subscribed channel.
    Message {
        /// The channel of the message.
        channel: Vec<u8>,
        /// The content of the message.
        payload: Vec<u8>,
    },
    /// The server confirms the subscription to this channel.
    Subscribed(Vec<u8>),
    /// The subscription to this channel has ended, whether the client asked for that or not.
    Unsubscribed(Vec<u8>),
}

/// The parameters of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// The address of the server.
    pub address: Address,
    /// The credentials and the setup of the connection.
    pub login: Login,
    /// The purpose of the connection.
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
        /// Host name or IP address, without brackets. The certificate must be valid for this name.
        host: String,
        /// Port.
        port: u16,
        /// The certificates to trust and to present.
        options: TlsOptions,
    },
    /// A unix domain socket.
    Unix(PathBuf),
    /// An engine inside this process, under a name that its transport knows.
    Embedded(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => f.write_str(&authority(host, port)),
            Self::Tls { host, port, .. } => write!(f, "tls:{}", authority(host, port)),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Embedded(name) => write!(f, "embedded:{name}"),
        }
    }
}

impl Address {
    /// Returns the address as a user writes it, with a scheme of this kind, such as `+cluster`.
    pub(crate) fn written(&self, kind: &str) -> String {
        match self {
            Self::Tcp { host, port } => format!("redis{kind}://{}", authority(&in_url(host), port)),
            Self::Tls { host, port, .. } => {
                format!("rediss{kind}://{}", authority(&in_url(host), port))
            }
            Self::Unix(path) => {
                let path = path.to_string_lossy();
                format!("unix://{}", utf8_percent_encode(&path, &PATH))
            }
            Self::Embedded(_) => self.to_string(),
        }
    }
}

/// Returns a host as it is in a URL. A colon is only that of an IPv6 address without a zone.
fn in_url(host: &str) -> Cow<'_, str> {
    match host.parse::<Ipv6Addr>() {
        Ok(_) => host.into(),
        Err(_) => utf8_percent_encode(host, &HOST).into(),
    }
}

/// The characters that have a meaning in a URL, or may have one.
const HOST: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
const PATH: AsciiSet = HOST.remove(b'/').remove(b':').remove(b'~');

/// Returns `host:port`. An IPv6 address has brackets, as in a URL.
pub(crate) fn authority(host: &str, port: impl fmt::Display) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// The certificates that a TLS connection trusts and presents. The default trusts the system's
/// roots and presents no certificate.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct TlsOptions {
    /// Root certificates in PEM that replace the system's.
    pub root_pem: Option<Vec<u8>>,
    /// Certificate chain and private key in PEM that the client presents.
    pub client_pem: Option<(Vec<u8>, Vec<u8>)>,
    /// Accepts any certificate. For tests only, because any host can then impersonate the server.
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

/// The credentials and the setup of a connection.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// ACL user. `None` means the server's `default`.
    pub username: Option<String>,
    /// Password of the user, or of the server as a whole.
    pub password: Option<String>,
    /// Database number, 0 by default.
    pub database: u32,
    /// The name that `CLIENT LIST` shows.
    pub client_name: Option<String>,
}

impl Login {
    /// Returns the `AUTH` command. `None` without a password.
    pub(crate) fn auth(&self) -> Option<Command> {
        let words = self.username.iter().chain(&self.password);
        let auth = || words.fold(Command::new("AUTH"), |auth, word| auth.arg(word));
        self.password.is_some().then(auth)
    }
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

/// The purpose of a connection. One connection never serves both, because confirmations of
/// subscriptions would be taken for replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Commands and their replies; no subscriptions.
    Command,
    /// Subscriptions and their messages; no other commands.
    PubSub,
}

/// A new connection.
#[derive(Debug)]
pub struct Dialed {
    /// The connection for commands.
    pub conn: Arc<dyn Conn>,
    /// The pushes of the connection. Their end is the end of the connection.
    pub pushes: Box<dyn Pushes>,
    /// The negotiated protocol.
    pub protocol: Protocol,
}

/// The version of the wire protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, used when the server refuses RESP3.
    Resp2,
    /// RESP3.
    Resp3,
}

/// The error of a failed dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialError {
    /// The class of the failure.
    pub kind: DialErrorKind,
    /// The description of the failure.
    pub message: String,
}

/// Classes of [`DialError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DialErrorKind {
    /// No server answers at the address (refused, unreachable, reset, unknown host). May be
    /// temporary.
    Unreachable,
    /// The TLS handshake failed.
    Tls,
    /// The server refuses the user or the password, or demands a login.
    Auth,
    /// The server refuses the database, or denies a command of the handshake to the user.
    Refused,
    /// The answer is outside of the protocol, as that of a server for HTTP is.
    Foreign,
    /// The server is not ready (loading its data, too many clients). Temporary.
    Busy,
    /// This build does not support that kind of address.
    Unsupported,
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for DialError {}
