//! Where the server is.

use std::{env, fs};

use super::{
    args::ServerArgs,
    exit::{ADDRESS, Failure, warn},
};

/// The environment variables with an address, in the order in which they count.
const VARIABLES: [&str; 2] = ["REDLATCH_URL", "REDIS_URL"];

/// Returns the address: of `--url`, of `--url-file`, of `REDLATCH_URL` or of `REDIS_URL`.
pub(crate) fn find(args: &ServerArgs) -> Result<String, Failure> {
    if let Some(url) = &args.found {
        return Ok(url.clone());
    }
    if let Some(url) = &args.url {
        if has_password(url) {
            warn(
                "the password in --url is visible to other users of this machine; \
                 use --url-file or REDLATCH_URL",
            );
        }
        return check(url, "--url");
    }
    if let Some(file) = &args.url_file {
        let shown = file.display().to_string();
        let text = fs::read_to_string(file)
            .map_err(|error| wrong(format!("the address in {shown} cannot be read: {error}")))?;
        return check(&text, &shown);
    }
    for variable in VARIABLES {
        match env::var(variable) {
            Ok(url) if url.trim().is_empty() => {}
            Ok(url) => return check(&url, variable),
            Err(env::VarError::NotPresent) => {}
            Err(env::VarError::NotUnicode(_)) => {
                return Err(wrong(format!("the address in {variable} is no UTF-8")));
            }
        }
    }
    Err(wrong(
        "no address of a server; set REDLATCH_URL or REDIS_URL to redis://host:port, \
         or use --url-file",
    ))
}

/// The library checks the rest, but a second line would be a part of the address for it.
fn check(url: &str, place: &str) -> Result<String, Failure> {
    let url = url.trim();
    if url.is_empty() || url.contains(char::is_whitespace) {
        return Err(wrong(format!(
            "{place} has no address of one line like redis://host:port"
        )));
    }
    if !url.contains("://") {
        return Err(wrong(format!(
            "redis:// is missing at the beginning of the address in {place}; it is like redis://host:port"
        )));
    }
    Ok(url.to_owned())
}

fn has_password(url: &str) -> bool {
    let head = url.split('?').next().unwrap_or_default();
    let rest = head.split_once("://").map_or(head, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = authority
        .rsplit_once(':')
        .is_none_or(|(_, text)| port(text));
    if is_host && !authority.contains('@') {
        // An `@` in the path ends no login.
        let parameters = &url[head.len()..];
        let mut names = parameters.split(['?', '&']);
        return names.any(|name| name.to_ascii_lowercase().contains("pass"));
    }
    without_password(url) != url
}

/// The parameters whose values are shown. Any other may have a secret.
const SHOWN: [&str; 5] = ["db", "node", "service", "prefix", "lease"];

/// Returns the address with `***` in the place of what may be secret: the password in the login,
/// which ends with the last `@`, whatever the password contains, and the values of parameters.
pub(super) fn without_password(url: &str) -> String {
    let (head, query) = match url.split_once('?') {
        // A login may contain a question mark.
        Some((head, query)) if !query.contains('@') => (head, Some(query)),
        _ => (url, None),
    };
    let rest = head.split_once("://").map_or(head, |(_, rest)| rest);
    let scheme = &head[..head.len() - rest.len()];
    let login = rest.rsplit_once('@');
    let user = login.and_then(|(login, host)| Some((login.split_once(':')?.0, host)));
    let mut shown = match user {
        Some((user, host)) => format!("{scheme}{user}:***@{host}"),
        None => head.to_owned(),
    };
    for (number, parameter) in query.iter().flat_map(|query| query.split('&')).enumerate() {
        shown.push(if number == 0 { '?' } else { '&' });
        match parameter.split_once('=') {
            Some((name, _)) if SHOWN.contains(&name) => shown.push_str(parameter),
            Some((name, _)) => shown.push_str(&format!("{name}=***")),
            // Perhaps the end of a password with an ampersand.
            None => shown.push_str("***"),
        }
    }
    shown
}

fn wrong(message: impl Into<String>) -> Failure {
    Failure::new(ADDRESS, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_login_with_a_colon_has_a_password() {
        assert!(has_password("redis://app:secret@host:6379/0"));
        assert!(has_password("rediss://:secret@host"));
        assert!(has_password("unix:///run/redis.sock?pass=secret"));
        assert!(has_password("redis://app:pa/ss@host"));
        assert!(!has_password("redis://app@host:6379"));
        assert!(!has_password("redis://host:6379/a@b:c"));
    }

    #[test]
    fn an_address_is_one_word_with_a_scheme() {
        assert_eq!(check(" redis://h:1\n", "x").unwrap(), "redis://h:1");
        for url in ["", "localhost:6379", "redis://a\nredis://b"] {
            assert_eq!(check(url, "x").unwrap_err().code, ADDRESS, "{url}");
        }
    }

    #[test]
    fn what_may_be_secret_is_not_shown() {
        for (url, shown) in [
            ("redis://app:a@b:c@h:1/0", "redis://app:***@h:1/0"),
            ("rediss://:secret@h", "rediss://:***@h"),
            ("redis://app@h", "redis://app@h"),
            ("redis://h/x", "redis://h/x"),
            ("redis://app:secret/x@h", "redis://app:***@h"),
            ("redis://app:secret?x@h", "redis://app:***@h"),
            ("redis://h?lease=5s", "redis://h?lease=5s"),
            ("redis://h?token=secret&db=1", "redis://h?token=***&db=1"),
            (
                "redis+sentinel://h/svc?sentinel_password=secret&db=1",
                "redis+sentinel://h/svc?sentinel_password=***&db=1",
            ),
            (
                "redis://app:pw@h/1?db=2&pass=abc&SeCrEt",
                "redis://app:***@h/1?db=2&pass=***&***",
            ),
            (
                "unix:///run/r.sock?pass=secret",
                "unix:///run/r.sock?pass=***",
            ),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
