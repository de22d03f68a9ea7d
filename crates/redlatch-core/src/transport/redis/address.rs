//! Converts an address and a login to a `redis::Client`.

use std::time::Duration;

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};

use super::error;
use crate::runtime::{Address, Dial, DialError, DialErrorKind, Login, Purpose, TlsOptions};
#[cfg(feature = "connection-info")]
use crate::{Error, ErrorKind};

/// Creates the client that connects to `dial.address`. Over TLS it has the certificates of
/// `certified` unless the address has others.
///
/// Over RESP3 the crate's own handshake is `HELLO` with the credentials. Over RESP2 a command
/// connection has no handshake in the crate (see [`super::login`]). A pub/sub connection over RESP2
/// uses the crate's `AUTH` and `SELECT`, because it offers no other way to send them.
pub(super) fn client(
    dial: &Dial,
    protocol: ProtocolVersion,
    certified: Option<&ConnectionAddr>,
) -> Result<Client, DialError> {
    let settings = redis_settings(&dial.login, protocol, dial.purpose);
    match &dial.address {
        Address::Tcp { host, port } => open(ConnectionAddr::Tcp(host.clone(), *port), settings),
        Address::Tls {
            host,
            port,
            options,
        } => tls_client((host, *port), options, certified, settings),
        Address::Unix(path) if cfg!(unix) => open(ConnectionAddr::Unix(path.clone()), settings),
        Address::Unix(_) => Err(unsupported("no unix sockets on this platform")),
        Address::Embedded(name) => Err(unsupported(&format!(
            "an embedded engine (`{name}`) cannot be reached over a socket"
        ))),
    }
}

fn redis_settings(
    login: &Login,
    protocol: ProtocolVersion,
    purpose: Purpose,
) -> RedisConnectionInfo {
    let mut settings = RedisConnectionInfo::default()
        .set_protocol(protocol)
        .set_skip_set_lib_name();
    let alone = protocol == ProtocolVersion::RESP2 && purpose == Purpose::PubSub;
    if alone {
        settings = settings.set_db(i64::from(login.database));
    }
    if let Some(password) = &login.password
        && (alone || protocol == ProtocolVersion::RESP3)
    {
        settings = settings.set_password(password);
        if let Some(username) = &login.username {
            settings = settings.set_username(username);
        }
    }
    settings
}

fn open(address: ConnectionAddr, settings: RedisConnectionInfo) -> Result<Client, DialError> {
    Client::open(connection_info(address, settings)?)
        .map_err(|failed| unsupported(&failed.to_string()))
}

fn connection_info(
    address: ConnectionAddr,
    settings: RedisConnectionInfo,
) -> Result<ConnectionInfo, DialError> {
    let info = address
        .into_connection_info()
        .map_err(|failed| unsupported(&failed.to_string()))?;
    Ok(info
        .set_tcp_settings(tcp_settings())
        .set_redis_settings(settings))
}

fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER);
    let settings = TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(USER_TIMEOUT);
    settings
}

#[cfg(feature = "tls")]
fn tls_client(
    (host, port): (&str, u16),
    options: &TlsOptions,
    certified: Option<&ConnectionAddr>,
    settings: RedisConnectionInfo,
) -> Result<Client, DialError> {
    use redis::{ClientTlsConfig, TlsCertificates};

    // The crate builds its rustls configuration from the default provider of the process and
    // accepts no other one.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error says that another part of the process has just installed a provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let tls_params = match certified {
        Some(ConnectionAddr::TcpTls { tls_params, .. })
            if options.root_pem.is_none() && options.client_pem.is_none() =>
        {
            tls_params.clone()
        }
        _ => None,
    };
    let is_certified = tls_params.is_some();
    let address = ConnectionAddr::TcpTls {
        host: host.to_owned(),
        port,
        insecure: options.insecure,
        tls_params,
    };
    if is_certified {
        return open(address, settings);
    }
    let certificates = TlsCertificates {
        client_tls: options
            .client_pem
            .clone()
            .map(|(client_cert, client_key)| ClientTlsConfig {
                client_cert,
                client_key,
            }),
        root_cert: options.root_pem.clone(),
    };
    Client::build_with_tls(connection_info(address, settings)?, certificates)
        .map_err(|failed| error::dial(DialErrorKind::Tls, failed.to_string()))
}

#[cfg(not(feature = "tls"))]
fn tls_client(
    _: (&str, u16),
    _: &TlsOptions,
    _: Option<&ConnectionAddr>,
    _: RedisConnectionInfo,
) -> Result<Client, DialError> {
    Err(unsupported(
        "this build has no TLS; enable the feature `tls` of the crate redlatch",
    ))
}

/// Returns the address and the login in the crate's description of a connection.
#[cfg(feature = "connection-info")]
pub(crate) fn address_and_login(info: &ConnectionInfo) -> Result<(Address, Login), Error> {
    let address = match info.addr() {
        ConnectionAddr::Tcp(host, port) => Address::Tcp {
            host: host.clone(),
            port: *port,
        },
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure,
            ..
        } => Address::Tls {
            host: host.clone(),
            port: *port,
            options: TlsOptions {
                insecure: *insecure,
                ..TlsOptions::default()
            },
        },
        ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
        _ => {
            return Err(invalid(
                "the kind of address of the ConnectionInfo is unknown",
            ));
        }
    };
    let settings = info.redis_settings();
    let database = u32::try_from(settings.db());
    let database = database.map_err(|_| {
        invalid(&format!(
            "the database {} of the ConnectionInfo is out of range",
            settings.db()
        ))
    })?;
    let login = Login {
        username: settings.username().map(str::to_owned),
        password: settings.password().map(str::to_owned),
        database,
        client_name: None,
    };
    Ok((address, login))
}

#[cfg(feature = "connection-info")]
fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}

fn unsupported(message: &str) -> DialError {
    error::dial(DialErrorKind::Unsupported, message.to_owned())
}

const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);

/// Time for which sent bytes may stay unacknowledged before the kernel closes the connection.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const USER_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    /// The certificate of an authority. Its key is nowhere.
    #[cfg(all(feature = "tls", feature = "connection-info"))]
    const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\n\
        MIIBdTCCARugAwIBAgIUZiH8t82jKk49Se4Mzn2iNd5YSRYwCgYIKoZIzj0EAwIw\n\
        DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjYwMjQ1MTJaGA8yMTI2MTEwMjAyNDUx\n\
        MlowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABP0C\n\
        wwtIHTniMpFMkWQS2qRU28pe9ODdApmhgnm1U1ddBIw2uOPZeB8vXTZWyGNvLJBa\n\
        AeXkB5mJbK7uJ6CBj0ajUzBRMB0GA1UdDgQWBBT9Ax8xp96/xWY+rF1lKjWpgIel\n\
        3TAfBgNVHSMEGDAWgBT9Ax8xp96/xWY+rF1lKjWpgIel3TAPBgNVHRMBAf8EBTAD\n\
        AQH/MAoGCCqGSM49BAMCA0gAMEUCIExmXVHdinywcwTcO11yUp++Z8QbCEFdPOAz\n\
        gY8t4JffAiEAxiCzCdYbVn0lxgqFEAHYmETYwoPT0wkjj3VfuON976k=\n\
        -----END CERTIFICATE-----";

    fn dial(address: Address) -> Dial {
        Dial {
            address,
            login: Login {
                username: Some("u".into()),
                password: Some("p".into()),
                database: 3,
                client_name: None,
            },
            purpose: Purpose::Command,
        }
    }

    #[test]
    fn an_embedded_address_is_unsupported() {
        let failed = client(
            &dial(Address::Embedded("x".into())),
            ProtocolVersion::RESP3,
            None,
        );
        assert_eq!(
            failed.map(|_| ()).map_err(|e| e.kind),
            Err(DialErrorKind::Unsupported)
        );
    }

    #[cfg(feature = "connection-info")]
    #[test]
    fn connection_info_has_an_address_and_a_login() {
        let read = |info: ConnectionInfo| address_and_login(&info).map_err(|error| error.kind());
        let settings = RedisConnectionInfo::default()
            .set_username("app")
            .set_password("secret")
            .set_db(3);
        let info = |addr: ConnectionAddr| addr.into_connection_info().expect("a valid address");
        let tcp = info(ConnectionAddr::Tcp("h".into(), 7000)).set_redis_settings(settings);
        let (address, login) = read(tcp).expect("an address");
        assert_eq!(format!("{address:?}"), r#"Tcp { host: "h", port: 7000 }"#);
        assert_eq!(login.username.as_deref(), Some("app"));
        assert_eq!(login.password.as_deref(), Some("secret"));
        assert_eq!(login.database, 3);
        let unix = read(info(ConnectionAddr::Unix("/run/redis".into())));
        let (address, _) = unix.expect("an address");
        assert!(matches!(address, Address::Unix(path) if path.as_os_str() == "/run/redis"));
        let tls = ConnectionAddr::TcpTls {
            host: "h".into(),
            port: 1,
            insecure: true,
            tls_params: None,
        };
        let (address, _) = read(info(tls)).expect("an address");
        assert!(matches!(address, Address::Tls { options, .. } if options.insecure));
        let negative = RedisConnectionInfo::default().set_db(-1);
        let negative = info(ConnectionAddr::Tcp("h".into(), 1)).set_redis_settings(negative);
        assert_eq!(read(negative).err(), Some(ErrorKind::InvalidOption));
    }

    #[cfg(all(feature = "tls", feature = "connection-info"))]
    #[test]
    fn certificates_of_a_connection_info_are_used_unless_others_are_set() {
        let certificates = redis::TlsCertificates {
            client_tls: None,
            root_cert: Some(AUTHORITY.into()),
        };
        let theirs = Client::build_with_tls("rediss://h:1", certificates).expect("a client");
        let info = theirs.get_connection_info();
        let (address, _) = address_and_login(info).expect("an address");
        let certified = |address: Address| {
            let ours = client(&dial(address), ProtocolVersion::RESP3, Some(info.addr()));
            let ours = ours.expect("a client").get_connection_info().addr().clone();
            format!("{ours:?}")
        };
        assert_eq!(certified(address), format!("{:?}", info.addr()));
        let others = Address::Tls {
            host: "h".into(),
            port: 1,
            options: TlsOptions {
                root_pem: Some(Vec::new()),
                ..TlsOptions::default()
            },
        };
        assert_ne!(certified(others), format!("{:?}", info.addr()));
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_without_the_feature_is_unsupported_and_says_what_to_do() {
        let address = Address::Tls {
            host: "h".into(),
            port: 1,
            options: TlsOptions::default(),
        };
        let failed = client(&dial(address), ProtocolVersion::RESP3, None).map(|_| ());
        let Err(failed) = failed else {
            panic!("must fail")
        };
        assert_eq!(failed.kind, DialErrorKind::Unsupported);
        assert!(failed.message.contains("`tls`"), "{failed}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn invalid_certificate_is_a_tls_error() {
        let options = TlsOptions {
            client_pem: Some((b"junk".to_vec(), b"junk".to_vec())),
            ..TlsOptions::default()
        };
        let address = Address::Tls {
            host: "h".into(),
            port: 1,
            options,
        };
        let failed = client(&dial(address), ProtocolVersion::RESP3, None).map(|_| ());
        assert_eq!(failed.map_err(|e| e.kind), Err(DialErrorKind::Tls));
    }

    #[test]
    fn protocol_and_purpose_decide_who_sends_credentials() {
        let login = dial(Address::Embedded(String::new())).login;
        let of = |protocol, purpose| redis_settings(&login, protocol, purpose);
        let hello = of(ProtocolVersion::RESP3, Purpose::Command);
        assert_eq!(
            (hello.username(), hello.password(), hello.db()),
            (Some("u"), Some("p"), 0)
        );
        let ours = of(ProtocolVersion::RESP2, Purpose::Command);
        assert_eq!(
            (ours.username(), ours.password(), ours.db()),
            (None, None, 0)
        );
        let alone = of(ProtocolVersion::RESP2, Purpose::PubSub);
        assert_eq!(
            (alone.username(), alone.password(), alone.db()),
            (Some("u"), Some("p"), 3)
        );
    }

    #[test]
    fn sockets_do_not_wait_for_more_bytes() {
        let settings = tcp_settings();
        assert!(settings.nodelay());
        assert!(settings.keepalive().is_some());
    }
}
