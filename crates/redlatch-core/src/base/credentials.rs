//! Credentials, where new ones come from, and when.

use std::{error, fmt, future::Future, time::Duration};

use crate::{protocol::backoff::unit, runtime::BoxFuture};

/// A user and a password, from the provider of
/// [`credentials_from`](crate::ClientBuilder::credentials_from).
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// ACL user. `None` means the server's `default`.
    pub username: Option<String>,
    /// Password or token of the user.
    pub password: String,
    /// How long the server accepts the password from now on. `None` if the end is unknown.
    pub expires_in: Option<Duration>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("username", &self.username)
            .field("password", &"***")
            .field("expires_in", &self.expires_in)
            .finish()
    }
}

/// The function of the user that supplies credentials.
pub(crate) struct Provider(Box<dyn Fn() -> BoxFuture<Provided> + Send + Sync>);

pub(crate) type Provided = Result<Credentials, Box<dyn error::Error + Send + Sync>>;

impl Provider {
    pub(crate) fn new<F: Future<Output = Provided> + Send + 'static>(
        provide: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(move || Box::pin(provide())))
    }

    pub(crate) fn ask(&self) -> BoxFuture<Provided> {
        (self.0)()
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}

/// Returns for how long credentials that end in `expires_in` are used: between seven and eight
/// tenths of that time, and at least 1 s. The rest is for a slow provider, and the spread keeps
/// clients apart.
pub(crate) fn used_for(expires_in: Duration, random: u64) -> Duration {
    let tenth = expires_in / 10;
    (tenth * 7 + tenth.mul_f64(unit(random))).max(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_password() {
        let credentials = Credentials {
            username: Some("app".to_owned()),
            password: "hunter2".to_owned(),
            expires_in: None,
        };
        let text = format!("{credentials:?}");
        assert!(text.contains("app") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn credentials_are_replaced_before_their_end_and_not_at_the_same_time() {
        let quarter = Duration::from_secs(900);
        assert_eq!(used_for(quarter, 0), Duration::from_secs(630));
        assert!(used_for(quarter, u64::MAX) > Duration::from_secs(719));
        assert!(used_for(quarter, u64::MAX) <= Duration::from_secs(720));
        assert_eq!(used_for(Duration::ZERO, 7), Duration::from_secs(1));
        assert!(used_for(Duration::MAX, u64::MAX) < Duration::MAX);
    }
}
