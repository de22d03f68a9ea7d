//! Parses the server addresses that users write.

mod written;

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

use self::written::{Kind, Parts, Written};
pub(crate) use self::written::{Settings, span};
use crate::{
    Error, ErrorKind,
    net::{HostPort, Sentinels, Servers, Topology, host_port},
    runtime::{Address, Login, TlsOptions},
};

/// Parses an address of any form without options of the client.
fn parse(text: &str) -> Result<Servers, Error> {
    let (servers, settings) = read(text)?;
    if settings.known.is_empty() {
        return Ok(servers);
    }
    Err(wrong(
        "one address of a list has options of the client; set them on the builder",
    ))
}

/// Parses an address of any form, with the options of the client in it.
pub(crate) fn read(text: &str) -> Result<(Servers, Settings), Error> {
    let Written { url, more, scheme } = Written::split(text)?;
    let kind = Kind::of(&scheme)?;
    let port = match kind {
        Kind::Sentinel => SENTINEL_PORT,
        _ => PORT,
    };
    let mut parts = Parts::read(&url, kind)?;
    if kind == Kind::Unix {
        let address = Address::Unix(PathBuf::from(decoded(url.path())?));
        return parts.done(&url, Topology::Single(address));
    }
    let mut hosts = vec![(host(&url)?, url.port().unwrap_or(port))];
    for text in more.iter().chain(&parts.nodes) {
        hosts.push(with_port(text, port)?);
    }
    let tls = scheme.starts_with("rediss") || scheme.starts_with("valkeys");
    let mut addresses: Vec<_> = hosts.into_iter().map(|at| address(at, tls)).collect();
    let topology = match kind {
        Kind::Cluster => Topology::Cluster(addresses),
        Kind::Replicas => Topology::Replicas(addresses),
        Kind::Sentinel => Topology::Sentinel(Sentinels {
            service: parts.service(&url)?,
            addresses,
            login: parts.sentinel.clone(),
            server_tls: tls.then(TlsOptions::default),
        }),
        Kind::Single | Kind::Unix if addresses.len() == 1 => {
            Topology::Single(addresses.swap_remove(0))
        }
        Kind::Single | Kind::Unix => {
            return Err(wrong(
                "an address of one server names several; say redis+cluster://, redis+sentinel:// or redis+replicas://",
            ));
        }
    };
    parts.done(&url, topology)
}

/// Parses the addresses of several servers of this topology.
pub(crate) fn several<I: AsRef<str>>(
    servers: impl IntoIterator<Item = I>,
    topology: fn(Vec<Address>) -> Topology,
) -> Result<Servers, Error> {
    let (addresses, login) = list(servers, PORT)?;
    Ok(Servers::new(topology(addresses), login))
}

/// Parses the addresses of sentinels.
pub(crate) fn sentinel<I: AsRef<str>>(
    service: &str,
    sentinels: impl IntoIterator<Item = I>,
) -> Result<Servers, Error> {
    let (addresses, login) = list(sentinels, SENTINEL_PORT)?;
    let topology = Topology::Sentinel(Sentinels {
        service: service.to_owned(),
        addresses,
        login,
        server_tls: None,
    });
    Ok(Servers::new(topology, anybody()))
}

/// Parses `host:port`.
pub(crate) fn host_and_port(text: &str) -> Result<HostPort, Error> {
    host_port(text)
        .map(|(host, port)| (host.to_owned(), port))
        .ok_or_else(|| wrong(format!("{text:?} is not of the form host:port")))
}

/// Creates the error for an invalid address or option.
pub(crate) fn wrong(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption, why)
}

impl Servers {
    pub(super) fn new(topology: Topology, login: Login) -> Self {
        Self {
            topology,
            login,
            provider: None,
            aliases: Vec::new(),
        }
    }

    /// Returns the placeholder for servers with an invalid address.
    pub(crate) fn nowhere() -> Self {
        let topology = Topology::Single(Address::Unix(PathBuf::new()));
        Self::new(topology, Login::default())
    }

    /// Fails if parts of the configuration contradict each other.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (what, addresses) = match &self.topology {
            Topology::Single(_) => return Ok(()),
            Topology::Cluster(nodes) => ("nodes of the cluster", nodes),
            Topology::Replicas(servers) => ("servers", servers),
            Topology::Sentinel(sentinels) if sentinels.service.is_empty() => {
                return Err(wrong(
                    "the name that the sentinels know the master by is empty",
                ));
            }
            Topology::Sentinel(sentinels) => ("sentinels", &sentinels.addresses),
        };
        let remote =
            |address: &Address| matches!(address, Address::Tcp { .. } | Address::Tls { .. });
        if addresses.is_empty() {
            return Err(wrong(format!("no {what} are named")));
        }
        if !addresses.iter().all(remote) {
            return Err(wrong(format!("{what} are reached by host and port")));
        }
        if matches!(self.topology, Topology::Cluster(_)) && self.login.database != 0 {
            return Err(wrong("a cluster has no database but 0"));
        }
        Ok(())
    }
}

/// Parses addresses of one server each. The first login among them applies to all.
fn list<I: AsRef<str>>(
    texts: impl IntoIterator<Item = I>,
    port: u16,
) -> Result<(Vec<Address>, Login), Error> {
    let mut addresses = Vec::new();
    let mut login: Option<Login> = None;
    for text in texts {
        let text = text.as_ref();
        let servers = if text.contains("://") {
            parse(text)?
        } else {
            let (host, port) = with_port(text, port)?;
            Servers::new(Topology::Single(address((host, port), false)), anybody())
        };
        let Topology::Single(address) = servers.topology else {
            return Err(wrong("each address of the list is that of one server"));
        };
        addresses.push(address);
        if servers.login.password.is_some() {
            login.get_or_insert(servers.login);
        }
    }
    Ok((addresses, login.unwrap_or_else(anybody)))
}

/// The port of a server whose address names none.
const PORT: u16 = 6379;

/// The port of a sentinel whose address names none.
const SENTINEL_PORT: u16 = 26379;

fn anybody() -> Login {
    Login {
        client_name: Some("redlatch".to_owned()),
        ..Login::default()
    }
}

fn address((host, port): HostPort, tls: bool) -> Address {
    if tls {
        Address::Tls {
            host,
            port,
            options: TlsOptions::default(),
        }
    } else {
        Address::Tcp { host, port }
    }
}

fn host(url: &Url) -> Result<String, Error> {
    let host = url.host_str().filter(|host| !host.is_empty());
    decoded(host.unwrap_or("localhost").trim_matches(['[', ']']))
}

/// Parses `host`, `host:port`, `[v6]` or `[v6]:port`.
fn with_port(text: &str, default: u16) -> Result<HostPort, Error> {
    let bare = !text.contains(':') || text.ends_with(']');
    let (host, port) = if bare {
        (text.trim_start_matches('[').trim_end_matches(']'), default)
    } else {
        host_port(text).ok_or_else(|| {
            written::wrong_port(text).unwrap_or_else(|| {
                wrong("a host of the address has no port number behind its colon")
            })
        })?
    };
    if host.is_empty() {
        return Err(wrong("a host of the address is empty"));
    }
    Ok((decoded(host)?, port))
}

fn decoded(text: &str) -> Result<String, Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|error| {
        let message = "a part of the address with % is not UTF-8";
        Error::with_reason(ErrorKind::InvalidOption, message, error)
    })
}

#[cfg(test)]
mod tests {
    use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
    use proptest::prelude::*;

    use super::*;
    use crate::runtime::values::many_cases;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn addresses_of_one_server() {
        for (url, address, database) in [
            ("redis://localhost", tcp("localhost", 6379), 0),
            ("redis://10.0.0.1:7000/3", tcp("10.0.0.1", 7000), 3),
            ("valkey://[::1]:7000", tcp("::1", 7000), 0),
            ("redis://h/?db=5", tcp("h", 6379), 5),
            (
                "unix:///run/redis.sock?db=2",
                Address::Unix("/run/redis.sock".into()),
                2,
            ),
            (
                "redis+unix:///run/redis.sock",
                Address::Unix("/run/redis.sock".into()),
                0,
            ),
        ] {
            let servers = parse(url).unwrap();
            assert_eq!(servers.topology, Topology::Single(address), "{url}");
            assert_eq!(servers.login.database, database, "{url}");
        }
        let login = parse("redis://:secret@h").unwrap().login;
        assert_eq!(
            (login.username, login.password.as_deref()),
            (None, Some("secret"))
        );
    }

    /// An address, the kind of its servers if several are meant, and the form in which it is shown.
    const WRITTEN: &str = "
    redis://h:7000 redis://h:7000
    redis://[::1]:7000 redis://[::1]:7000
    valkey://[::1]:7000 +sentinel redis+sentinel://[::1]:7000
    rediss://[::1]:7000 +cluster rediss+cluster://[::1]:7000
    unix:///run/r.sock unix:///run/r.sock
    unix:///a%3Fdb=1 unix:///a%3Fdb%3D1
    redis://a%2Fb:7000 redis://a%2Fb:7000
    redis://fe80%3A%3A1%25eth0:7000 redis://fe80%3A%3A1%25eth0:7000
";

    #[test]
    fn addresses_are_shown_as_they_are_written() {
        for row in WRITTEN.trim().lines() {
            let words: Vec<_> = row.split_whitespace().collect();
            let (url, kind, written) = match words[..] {
                [url, written] => (url, "", written),
                [url, kind, written] => (url, kind, written),
                _ => panic!("{row}"),
            };
            let Topology::Single(address) = parse(url).unwrap().topology else {
                panic!("{url} names one server")
            };
            assert_eq!(address.written(kind), written);
            assert!(kind == "+sentinel" || parse(&address.written(kind)).is_ok());
        }
    }

    #[test]
    fn addresses_of_clusters_and_replicas() {
        let nodes = || vec![tcp("a", 7000), tcp("b", 6379), tcp("::1", 7001)];
        for url in [
            "redis+cluster://ann:pw@a:7000,b,[::1]:7001",
            "redis-cluster://ann:pw@a:7000?node=b&node=[::1]:7001",
            "valkey+cluster://ann:pw@a:7000,b,[::1]:7001/0",
        ] {
            let servers = parse(url).unwrap();
            assert_eq!(servers.topology, Topology::Cluster(nodes()), "{url}");
            assert_eq!(servers.login.password.as_deref(), Some("pw"), "{url}");
        }
        let servers = parse("redis+replicas://a:7000,b,[::1]:7001/2").unwrap();
        assert_eq!(servers.topology, Topology::Replicas(nodes()));
        assert_eq!(servers.login.database, 2);
        let written = ["redis://ann:pw@a:7000", "b", "redis://[::1]:7001"];
        let servers = several(written, Topology::Cluster).unwrap();
        assert_eq!(servers.topology, Topology::Cluster(nodes()));
        assert_eq!(servers.login.username.as_deref(), Some("ann"));
        let Topology::Cluster(nodes) = parse("rediss+cluster://a,b").unwrap().topology else {
            panic!("it is a cluster")
        };
        let tls = |node: &Address| matches!(node, Address::Tls { port: 6379, .. });
        assert!(nodes.iter().all(tls) && nodes.len() == 2, "{nodes:?}");
    }

    #[test]
    fn addresses_of_sentinels() {
        for url in [
            "redis+sentinel://ann:pw@a,b:7/main/3?sentinel_username=eve&sentinel_password=s",
            "redis-sentinel://ann:pw@a?node=b:7&sentinelServiceName=main&sentinelUsername=eve&sentinelPassword=s&db=3",
            "redis-sentinel://ann:pw@a,b:7/3?sentinel_username=eve&sentinel_password=s#main",
            "redis+sentinel://ann:pw@a,b:7/main?db=3&sentinel_username=eve&sentinel_password=s",
        ] {
            let servers = parse(url).unwrap();
            let Topology::Sentinel(sentinels) = servers.topology else {
                panic!("{url} names sentinels")
            };
            assert_eq!(sentinels.service, "main", "{url}");
            assert_eq!(sentinels.addresses, [tcp("a", 26379), tcp("b", 7)], "{url}");
            assert_eq!(sentinels.login.username.as_deref(), Some("eve"), "{url}");
            assert_eq!(sentinels.login.password.as_deref(), Some("s"), "{url}");
            assert_eq!(sentinels.server_tls, None, "{url}");
            assert_eq!(servers.login.username.as_deref(), Some("ann"), "{url}");
            assert_eq!(servers.login.database, 3, "{url}");
        }
        let Topology::Sentinel(sentinels) = sentinel("main", ["a", "b:7"]).unwrap().topology else {
            panic!("these are sentinels")
        };
        assert_eq!(sentinels.addresses, [tcp("a", 26379), tcp("b", 7)]);
    }

    #[test]
    fn wrong_addresses_say_what_is_allowed_and_keep_secrets() {
        for url in [
            "redis://a?node=b",
            "redis://a?service=b",
            "redis+cluster://a,/",
            "redis+cluster://a,b:x",
            "redis+moon://a",
            "redis+sentinel://:secret@a/main/x",
            "redis://a:b@c/secret@h",
            "redis://a:b@c/secret?d@h",
            "redis://a:b@c/secret#d@h",
            "redis:?secret=://h",
            "unix:a?secret=://b",
            "redis+sentinel://a/main/1/2",
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}");
            assert!(!format!("{error:#?}").contains("secret"), "{url}");
        }
    }

    #[test]
    fn parameters_are_options_of_the_client_or_tolerated() {
        let url = "redis://h/3?prefix=shop&protocol=resp3&lease=10s&ssl_cert_reqs=none&SeCrEt";
        let (servers, settings) = read(url).unwrap();
        assert_eq!(servers.login.database, 3);
        let known = [("prefix", "shop"), ("lease", "10s")];
        let known = known.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(settings.known, known);
        assert_eq!(
            settings.unknown,
            ["protocol", "ssl_cert_reqs", "(not shown)"]
        );
        assert!(several(["redis://a", "redis://b?prefix=x"], Topology::Cluster).is_err());
    }

    #[test]
    fn what_does_not_go_together_is_told() {
        let wrong = |servers: Result<Servers, Error>| {
            let error = servers.and_then(|servers| servers.check()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error:?}");
        };
        wrong(several([""; 0], Topology::Cluster));
        wrong(several(["unix:///x"], Topology::Cluster));
        wrong(several(["redis+cluster://a"], Topology::Cluster));
        wrong(sentinel("", ["a"]));
        wrong(sentinel("main", [""; 0]));
        wrong(several([""; 0], Topology::Replicas));
        wrong(parse("redis+cluster://a/3"));
    }

    proptest! {
        #![proptest_config(many_cases())]

        #[test]
        fn any_text_is_an_address_or_refused(
            text in prop_oneof![
                "(redis|valkeys|unix|x)?([+-](cluster|sentinel|replicas|unix))?(://)?\\PC{0,30}",
                "redis([+-](cluster|sentinel|replicas))?://[a-c:@/?#,%&=0-9\\[\\]]{0,24}",
            ],
        ) {
            if let Err(error) = parse(&text).and_then(|servers| servers.check()) {
                prop_assert_eq!(error.kind(), ErrorKind::InvalidOption);
            }
        }

        #[test]
        fn address_is_read_as_it_was_written(
            user in "[a-z]{1,8}", password in "\\PC{1,12}", host in "[a-z][a-z0-9.-]{0,12}[a-z]",
            port in 1_u16.., database in 0_u32..16,
        ) {
            let secret = percent_encode(password.as_bytes(), NON_ALPHANUMERIC);
            let servers = parse(&format!("redis://{user}:{secret}@{host}:{port}/{database}")).unwrap();
            prop_assert_eq!(servers.topology, Topology::Single(tcp(&host, port)));
            prop_assert_eq!(servers.login.username, Some(user));
            prop_assert_eq!(servers.login.password, Some(password));
            prop_assert_eq!(i64::from(servers.login.database), i64::from(database));
        }
    }
}
