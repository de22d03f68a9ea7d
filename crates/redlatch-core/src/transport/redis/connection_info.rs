//! The description of a connection in the crate `redis`.

use redis::{ConnectionAddr, ConnectionInfo};

use crate::{
    Error, ErrorKind,
    runtime::{Address, Login, TlsOptions},
};

/// Returns the address and the login in the crate's description of a connection.
pub(crate) fn address_and_login(info: &ConnectionInfo) -> Result<(Address, Login), Error> {
    let address = match info.addr() {
        ConnectionAddr::Tcp(host, port) => Address::Tcp {
            host: host.clone(),
            port: *port,
        },
        ConnectionAddr::TcpTls {
            tls_params: Some(_),
            ..
        } => {
            return Err(invalid(
                "the certificates of the ConnectionInfo cannot be read from it; write an address of rediss:// and give the certificates with `tls`",
            ));
        }
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

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}

#[cfg(test)]
mod tests {
    use redis::{IntoConnectionInfo, RedisConnectionInfo};

    use super::*;

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

    #[test]
    fn certificates_of_a_connection_info_are_refused_and_the_error_says_what_to_do() {
        let certificates = redis::TlsCertificates {
            client_tls: None,
            root_cert: Some(AUTHORITY.into()),
        };
        let theirs = redis::Client::build_with_tls("rediss://h:1", certificates);
        let theirs = theirs.expect("a client");
        let refused = address_and_login(theirs.get_connection_info()).expect_err("an error");
        assert_eq!(refused.kind(), ErrorKind::InvalidOption);
        assert!(refused.to_string().contains("`tls`"), "{refused}");
    }

    /// The certificate of an authority. Its key is nowhere.
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
}
