//! The servers of a client, as the user configures them.

use std::fmt;

use crate::{
    base::credentials::Provider,
    runtime::{Address, Login, TlsOptions},
};

/// The servers of a client.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) topology: Topology,
    pub(crate) login: Login,
    /// Supplies user and password of the login, if present.
    pub(crate) provider: Option<Provider>,
    /// Addresses as servers announce them → addresses as this client reaches them.
    pub(crate) aliases: Vec<(HostPort, HostPort)>,
}

/// How to find the master or the masters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// One fixed server.
    Single(Address),
    /// The nodes of a cluster. Any of them knows all others.
    Cluster(Vec<Address>),
    /// Sentinels, which monitor a master and its replicas.
    Sentinel(Sentinels),
    /// One of these servers is the master, and the others are its replicas.
    Replicas(Vec<Address>),
}

/// Sentinels and the master that they monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// The name of the master in the sentinels' configuration.
    pub(crate) service: String,
    pub(crate) addresses: Vec<Address>,
    /// The credentials for the sentinels.
    pub(crate) login: Login,
    /// The TLS options for the servers, or `None` for plain TCP.
    pub(crate) server_tls: Option<TlsOptions>,
}

/// A host and a port.
pub(crate) type HostPort = (String, u16);

impl fmt::Display for Topology {
    /// Writes a text that is equal for two clients of the same servers, if both name the same
    /// nodes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, addresses) = match self {
            Self::Single(address) => return address.fmt(f),
            Self::Cluster(nodes) => ("cluster", nodes),
            Self::Sentinel(sentinels) => (sentinels.service.as_str(), &sentinels.addresses),
            Self::Replicas(servers) => ("replicas", servers),
        };
        let mut addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        addresses.sort();
        write!(f, "{what}@{}", addresses.join(","))
    }
}

impl Servers {
    /// Returns the address of the server that `asked` announces as `host` and `port`, with the
    /// protocol of `asked`. A server that does not know its own host leaves it out.
    pub(super) fn address(&self, asked: &Address, host: &str, port: u16) -> Option<Address> {
        let (own, tls) = match asked {
            Address::Tcp { host, .. } => (host.as_str(), None),
            Address::Tls { host, options, .. } => (host.as_str(), Some(options)),
            Address::Unix(_) | Address::Embedded(_) => return None,
        };
        let host = if ["", "?"].contains(&host) { own } else { host };
        Some(self.reached(tls, host, port))
    }

    /// Returns the address by which this client reaches the server that is announced as `host` and
    /// `port`.
    pub(super) fn reached(&self, tls: Option<&TlsOptions>, host: &str, port: u16) -> Address {
        let mut aliases = self.aliases.iter();
        let alias = aliases.find(|((announced, at), _)| announced == host && *at == port);
        let (host, port) = alias.map_or_else(|| (host.to_owned(), port), |(_, here)| here.clone());
        match tls.cloned() {
            None => Address::Tcp { host, port },
            Some(options) => Address::Tls {
                host,
                port,
                options,
            },
        }
    }

    /// Returns the TLS options for the servers, if they use TLS.
    pub(super) fn tls(&self) -> Option<&TlsOptions> {
        let addresses = match &self.topology {
            Topology::Single(address) => std::slice::from_ref(address),
            Topology::Cluster(addresses) | Topology::Replicas(addresses) => addresses,
            Topology::Sentinel(sentinels) => return sentinels.server_tls.as_ref(),
        };
        addresses.iter().find_map(|address| match address {
            Address::Tls { options, .. } => Some(options),
            _ => None,
        })
    }
}

/// Splits `host:port` as servers write it, with IPv6 addresses without brackets. The host may be
/// empty.
pub(crate) fn host_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    // The port of the cluster bus follows an `@`.
    let port = port.split('@').next()?.parse().ok()?;
    Some((host.trim_start_matches('[').trim_end_matches(']'), port))
}

/// Tells whether a server can have the address that it announces. An empty host means a server that
/// does not know its own.
pub(super) fn is_possible(host: &str, port: u16) -> bool {
    let strange = |letter: char| letter.is_whitespace() || letter.is_control();
    port != 0 && !host.contains(strange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_servers_write_them() {
        for (text, expected) in [
            ("10.0.0.1:7000", Some(("10.0.0.1", 7000))),
            (":7000", Some(("", 7000))),
            ("::1:7000", Some(("::1", 7000))),
            ("[::1]:7000", Some(("::1", 7000))),
            ("node.example:7000@17000", Some(("node.example", 7000))),
            ("node.example", None),
            ("a:b", None),
        ] {
            assert_eq!(host_port(text), expected, "{text}");
        }
    }

    #[test]
    fn announced_addresses_are_mapped_and_spoken_to_like_the_one_that_told() {
        let servers = Servers {
            topology: Topology::Cluster(Vec::new()),
            login: Login::default(),
            provider: None,
            aliases: vec![(("10.0.0.1".into(), 7000), ("localhost".into(), 17000))],
        };
        let tcp = |host: &str, port| Address::Tcp {
            host: host.into(),
            port,
        };
        let tls = |host: &str, port| Address::Tls {
            host: host.into(),
            port,
            options: TlsOptions {
                insecure: true,
                ..TlsOptions::default()
            },
        };
        for (asked, host, port, expected) in [
            (tcp("seed", 1), "10.0.0.1", 7000, tcp("localhost", 17000)),
            (tcp("seed", 1), "10.0.0.1", 7001, tcp("10.0.0.1", 7001)),
            (tcp("seed", 1), "", 7000, tcp("seed", 7000)),
            (tcp("seed", 1), "?", 7000, tcp("seed", 7000)),
            (tls("seed", 1), "h", 2, tls("h", 2)),
        ] {
            let address = servers.address(&asked, host, port);
            assert_eq!(address, Some(expected), "{host}:{port} of {asked}");
        }
    }
}
