//! The parts of an address as a user writes it, and the options of a client in it.

use std::time::Duration;

use url::{ParseError, Url};

use super::{anybody, decoded, wrong};
use crate::{
    Error, ErrorKind,
    net::{Servers, Topology},
    runtime::Login,
};

/// An address, split so that a URL with one host remains.
pub(super) struct Written {
    pub(super) url: Url,
    /// The other hosts, each with or without a port.
    pub(super) more: Vec<String>,
    pub(super) scheme: String,
}

impl Written {
    /// Splits the hosts off, since a URL has one host and users write several.
    pub(super) fn split(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if !authority.contains('@') && tail.starts_with(['/', '#']) && tail.contains('@') {
            return Err(unescaped_password());
        }
        let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let mut hosts = hosts.split(',').map(str::to_owned);
        let first = hosts.next().unwrap_or_default();
        let one = format!("{scheme}://{login}{first}{tail}");
        let url = Url::parse(&one).map_err(|error| not_a_url(error, (scheme, &first, tail)))?;
        if !url.has_authority() {
            return Err(no_scheme());
        }
        let more = hosts.collect();
        let scheme = url.scheme().to_owned();
        Ok(Self { url, more, scheme })
    }
}

/// Returns the error of an address that is no URL. A password may be anywhere in the text, so no
/// part of it is shown unless it cannot be one.
fn not_a_url(error: ParseError, (scheme, host, tail): (&str, &str, &str)) -> Error {
    if scheme.is_empty() {
        return no_scheme();
    }
    if tail.contains('@') {
        return unescaped_password();
    }
    if error == ParseError::InvalidPort
        && let Some(error) = wrong_port(host)
    {
        return error;
    }
    let message = format!("the address is not a URL such as redis://host:6379/0: {error}");
    Error::with_reason(ErrorKind::InvalidOption, message, error)
}

fn no_scheme() -> Error {
    wrong("the address has no scheme; it is like redis://host:6379/0")
}

fn unescaped_password() -> Error {
    wrong(
        "the address has a / or ? or # before its @; in user and password they are written as %2F, %3F and %23",
    )
}

/// Returns the error of `host:port`, if its port is a number and out of range.
pub(super) fn wrong_port(text: &str) -> Option<Error> {
    let (_, port) = text.rsplit_once(':')?;
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| {
        let port: String = port.chars().take(20).collect();
        wrong(format!(
            "the port {port} of the address is out of range: 1 to 65535"
        ))
    })
}

/// The kind of deployment that a scheme names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Single,
    Unix,
    Cluster,
    Sentinel,
    Replicas,
}

impl Kind {
    /// Reads a scheme, such as `redis+cluster`.
    pub(super) fn of(scheme: &str) -> Result<Self, Error> {
        let (base, kind) = scheme.split_once(['+', '-']).unwrap_or((scheme, ""));
        let plain = ["redis", "valkey"].contains(&base);
        let known = plain || ["rediss", "valkeys"].contains(&base);
        Ok(match kind {
            "" if base == "unix" => Self::Unix,
            "unix" if plain => Self::Unix,
            "" if known => Self::Single,
            "cluster" if known => Self::Cluster,
            "sentinel" if known => Self::Sentinel,
            "replicas" if known => Self::Replicas,
            _ => {
                return Err(wrong(format!(
                    "the scheme {scheme}:// is unknown; use redis, rediss, valkey, valkeys or unix, or one of the first four with +cluster, +sentinel or +replicas"
                )));
            }
        })
    }
}

/// The parts of an address besides the hosts.
pub(super) struct Parts {
    login: Login,
    pub(super) sentinel: Login,
    pub(super) nodes: Vec<String>,
    service: Option<String>,
    database: Option<String>,
    settings: Settings,
}

impl Parts {
    /// Reads the parts of `url`. The path of a Unix socket has no database.
    pub(super) fn read(url: &Url, kind: Kind) -> Result<Self, Error> {
        let mut parts = Self {
            login: anybody(),
            sentinel: anybody(),
            nodes: Vec::new(),
            settings: Settings::default(),
            service: url.fragment().map(decoded).transpose()?,
            database: match kind {
                Kind::Unix => None,
                _ => Some(decoded(url.path().trim_matches('/'))?),
            },
        };
        if !url.username().is_empty() {
            parts.login.username = Some(decoded(url.username())?);
        }
        parts.login.password = url.password().map(decoded).transpose()?;
        for (key, value) in url.query_pairs() {
            let value = value.into_owned();
            match &*key {
                "db" => parts.database = Some(value),
                "user" => parts.login.username = Some(value),
                "pass" => parts.login.password = Some(value),
                "node" => parts.nodes.push(value),
                "service" | "sentinelServiceName" => parts.service = Some(value),
                "sentinel_username" | "sentinelUsername" => {
                    parts.sentinel.username = Some(value);
                }
                "sentinel_password" | "sentinelPassword" => {
                    parts.sentinel.password = Some(value);
                }
                _ => parts.settings.add(&key, value),
            }
        }
        Ok(parts)
    }

    /// Takes the name of the service: the explicit one, or else the first part of the path.
    pub(super) fn service(&mut self, url: &Url) -> Result<String, Error> {
        if let Some(service) = self.service.take() {
            return Ok(service);
        }
        let path = url.path().trim_matches('/');
        let (service, database) = path.split_once('/').unwrap_or((path, ""));
        // The path is not the database if `?db=` has already set the database.
        if self.database == Some(decoded(path)?) {
            self.database = Some(database.to_owned());
        }
        if service.is_empty() {
            return Err(wrong(
                "the address lacks the name that the sentinels know the master by: redis+sentinel://host/name",
            ));
        }
        decoded(service)
    }

    /// Puts the parts and `topology` together. Fails if a part does not fit to it.
    pub(super) fn done(
        mut self,
        url: &Url,
        topology: Topology,
    ) -> Result<(Servers, Settings), Error> {
        if let Some(database) = self.database.filter(|database| !database.is_empty()) {
            // What stands before an `@` may be a part of a password.
            let parts = [Some(url.path()), url.query(), url.fragment()];
            let split = parts.into_iter().flatten().any(|part| part.contains('@'));
            self.login.database = database.parse().map_err(|_| match split {
                true => unescaped_password(),
                false => wrong(format!("{database:?} is no database number")),
            })?;
        }
        let sentinels = matches!(topology, Topology::Sentinel(_));
        let several = !matches!(topology, Topology::Single(_));
        let asks_for_more = self.service.is_some()
            || self.sentinel.username.is_some()
            || self.sentinel.password.is_some();
        if (asks_for_more && !sentinels) || (!self.nodes.is_empty() && !several) {
            return Err(wrong(format!(
                "the address has a parameter that {}:// does not take",
                url.scheme()
            )));
        }
        Ok((Servers::new(topology, self.login), self.settings))
    }
}

/// The options of a client in an address, in the order of writing.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) known: Vec<(String, String)>,
    /// The names of the parameters that redlatch does not know.
    pub(crate) unknown: Vec<String>,
}

/// The options of a client that an address may have. `ClientBuilder::set` sets them.
const OPTIONS: &str = "prefix lease application client_name patience fail_fast long_wait \
    connect_timeout token_retention server_clock_allowance max_waiters self_check";

impl Settings {
    /// Adds the parameter called `name`.
    pub(super) fn add(&mut self, name: &str, value: String) {
        if OPTIONS.split(' ').any(|option| option == name) {
            return self.known.push((name.to_owned(), value));
        }
        // A name without a value, or with other signs, may be a part of a password.
        let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let is_harmless = !value.is_empty() && name.len() <= 32 && name.bytes().all(usual);
        let shown = if is_harmless { name } else { "(not shown)" };
        self.unknown.push(shown.to_owned());
    }
}

/// Reads a span: a whole number and its unit.
pub(crate) fn span(text: &str) -> Result<Duration, Error> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 0,
    };
    let number = number.parse::<u64>().ok().filter(|_| millis > 0);
    let millis = number.and_then(|number| number.checked_mul(millis));
    millis.map(Duration::from_millis).ok_or_else(|| {
        let shown: String = text.chars().take(32).collect();
        wrong(format!(
            "{shown:?} in the address is no span of time; write 500ms, 30s, 5m, 2h or 7d"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_a_number_and_a_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(span(text).unwrap(), Duration::from_millis(millis));
        }
        for text in [
            "",
            "30",
            "s",
            "1.5s",
            "-1s",
            "30 s",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            let error = span(text).unwrap_err().to_string();
            assert!(error.contains("no span of time"), "{error}");
        }
    }
}
