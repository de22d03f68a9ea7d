//! The options of a server.

use std::{ffi::OsString, fmt::Write, path::Path};

use super::{Certificates, ServerBinary};

/// The options of a server. By default there is no persistence and no password, and TCP on
/// 127.0.0.1 only.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    pub(super) unix_socket: bool,
    pub(super) tls: bool,
    pub(super) certificates: Option<Certificates>,
    pub(super) cluster: bool,
    pub(super) shared: bool,
    pub(super) kept: bool,
    pub(super) own_clock: bool,
    pub(super) password: Option<String>,
    pub(super) users: Vec<String>,
    pub(super) lines: Vec<String>,
    pub(super) args: Vec<OsString>,
}

impl ServerOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps data in an append-only file, so that the data survive a kill. The sync policy is the
    /// server's default.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.config("appendonly yes")
    }

    /// Listens on a unix socket too: [`Server::unix_socket`](super::Server::unix_socket).
    #[must_use]
    pub const fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Listens with TLS on a second port, with certificates made for this server. The plain port
    /// stays, for administration.
    ///
    /// It requires [`ServerBinary::supports_tls`]; without TLS the start panics.
    #[must_use]
    pub const fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Listens with TLS as [`tls`](Self::tls) does, with certificates that other servers have too:
    /// such servers trust each other.
    #[must_use]
    pub fn tls_with(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self.tls()
    }

    /// Makes the server a node of a cluster, which has no other node yet.
    #[must_use]
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self.config("cluster-enabled yes")
    }

    /// Makes the server a sentinel. A restart uses the configuration as the sentinel left it.
    #[must_use]
    pub fn sentinel(self) -> Self {
        self.keep_config().arg("--sentinel")
    }

    /// Makes a restart use the configuration that the server has written by `CONFIG REWRITE`,
    /// instead of these options.
    #[must_use]
    pub const fn keep_config(mut self) -> Self {
        self.kept = true;
        self
    }

    /// Marks the server as shared: it is never dropped, it lives as long as the test process, and
    /// its directory is removed with it.
    #[must_use]
    pub const fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Gives the server its own wall clock, which [`Server::set_clock`](super::Server::set_clock)
    /// sets. A restart resets it.
    ///
    /// It requires [`ServerBinary::has_settable_clock`]. Without it the server shows the machine's
    /// clock, or the start fails.
    #[must_use]
    pub const fn own_clock(mut self) -> Self {
        self.own_clock = true;
        self
    }

    /// Sets a password for the default user.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds a user by an ACL line, such as `alice on >secret ~locks:* &locks:* +@all`.
    #[must_use]
    pub fn user(mut self, line: impl Into<String>) -> Self {
        self.users.push(line.into());
        self
    }

    /// Adds a line to the configuration file, such as `maxmemory 100mb`. Later lines win.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Adds an argument to the command line, after the name of the configuration file.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Tells whether administration must log in.
    pub(super) fn has_access_control(&self) -> bool {
        self.password.is_some() || !self.users.is_empty()
    }

    /// Writes the text of the configuration file.
    pub(super) fn render(&self, binary: &ServerBinary, place: &Place<'_>) -> String {
        let mut text = format!(
            "bind 127.0.0.1\nport {}\ndir {}\nsave \"\"\nappendonly no\ndaemonize no\n",
            place.port,
            quoted(place.dir),
        );
        if binary.gates_debug() {
            text.push_str("enable-debug-command yes\n");
        }
        if let Some(socket) = place.unix_socket {
            // Writing to a `String` does not fail.
            let _ = writeln!(text, "unixsocket {}", quoted(socket));
        }
        if let Some((port, certificates)) = place.tls {
            let _ = writeln!(
                text,
                "tls-port {port}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\ntls-auth-clients optional",
                quoted(&certificates.server_certificate),
                quoted(&certificates.server_key),
                quoted(&certificates.authority),
            );
        }
        if self.has_access_control() {
            let _ = writeln!(text, "user {ADMIN} on >{ADMIN} ~* &* +@all");
        }
        if let Some(password) = &self.password {
            let _ = writeln!(text, "requirepass {password:?}");
        }
        for user in &self.users {
            let _ = writeln!(text, "user {user}");
        }
        text + &self.lines.join("\n") + "\n"
    }
}

/// The ports and paths of one server.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) dir: &'a Path,
    pub(super) port: u16,
    pub(super) unix_socket: Option<&'a Path>,
    pub(super) tls: Option<(u16, &'a Certificates)>,
}

/// Name and password of the harness's user on servers with access control.
pub(super) const ADMIN: &str = "redlatch-harness";

fn quoted(path: &Path) -> String {
    format!("{path:?}")
}
