//! The options of a client that its address has as parameters.

use super::{
    address::{self, Setting, Settings},
    config::ClientBuilder,
};
use crate::{Client, base::observe};

impl<C: From<Client>> ClientBuilder<C> {
    /// Starts from an address. These forms are possible:
    ///
    /// * One server: `redis://[user[:password]@]host[:port][/database]`, `rediss://…` for TLS,
    ///   `unix:///path[?db=n&user=…&pass=…]` or `redis+unix://…`.
    /// * A cluster, by some of its nodes:
    ///   `redis+cluster://[user[:password]@]host[:port][,host[:port]…]`.
    ///   `redis-cluster://host?node=host:port` means the same.
    /// * Sentinels:
    ///   `redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/service[/database]`. The
    ///   service is the name by which the sentinels know the master. User and password apply to the
    ///   servers; `?sentinel_username=…&sentinel_password=…` apply to the sentinels.
    ///   `redis-sentinel://…?sentinelServiceName=service` and `redis-sentinel://…/database#service`
    ///   mean the same. The default port is 26379.
    /// * A master and all of its replicas: `redis+replicas://host[:port],host[:port]…[/database]`.
    ///   The client finds out which one is the master.
    ///
    /// With `rediss` instead of `redis`, the client uses TLS for all of them. `valkey` and
    /// `valkeys` mean the same as `redis` and `rediss`.
    ///
    /// Parameters set options of the client: `redis://host?prefix=shop&lease=10s`. Their names are
    /// those of the builder's methods: `prefix`, `lease` (for [`default_lease`]), `application`,
    /// `client_name`, `patience`, `fail_fast`, `long_wait`, `connect_timeout`,
    /// `token_retention`, `server_clock_allowance`, `max_waiters`, `self_check`. Spans have a unit:
    /// `500ms`, `30s`, `5m`, `2h`, `7d`. A method of the builder that is called later has the last
    /// word. Parameters that redlatch does not know, as those of another library in a shared
    /// address, have no effect and cause a warning.
    ///
    /// [`default_lease`]: Self::default_lease
    ///
    /// ```
    /// # mod redlatch {
    /// #     pub use redlatch_core::{*, runtime::*};
    /// #     pub type ClientBuilder = redlatch_core::ClientBuilder;
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::{ClientBuilder, ErrorKind};
    ///
    /// let builder = ClientBuilder::new("redis+cluster://10.0.0.1,10.0.0.2?prefix=shop&lease=10s");
    /// let client = builder.connect_lazy()?; // or connect().await?
    /// assert_eq!(client.address(), "cluster@10.0.0.1:6379,10.0.0.2:6379");
    /// let wrong = ClientBuilder::new("redis://localhost:99999").connect_lazy();
    /// assert_eq!(wrong.unwrap_err().kind(), ErrorKind::InvalidOption);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(url: &str) -> Self {
        Self::with_defaults(url, |builder| builder)
    }

    /// Starts from an address, as [`new`](Self::new) does, over other defaults: what the address
    /// says replaces what `defaults` sets. For the command.
    #[doc(hidden)]
    pub fn with_defaults(url: &str, defaults: impl FnOnce(Self) -> Self) -> Self {
        match address::read(url) {
            Ok((servers, settings)) => defaults(Self::of(Ok(servers))).with(settings),
            Err(error) => Self::refused(error),
        }
    }

    /// Sets the options that the address has.
    fn with(mut self, settings: Settings) -> Self {
        if !settings.unknown.is_empty() {
            observe::unknown_parameters(&settings.unknown);
        }
        self.unknown = settings.unknown;
        let options = settings.known.into_iter();
        options.fold(self, |builder, (setting, value)| {
            builder.set(setting, &value)
        })
    }

    fn set(self, setting: Setting, value: &str) -> Self {
        let span = match setting {
            Setting::Prefix => return self.prefix(value),
            Setting::Application => return self.application(value),
            Setting::ClientName => return self.client_name(value),
            Setting::MaxWaiters => {
                return match value.parse() {
                    Ok(waiters) => self.max_waiters(waiters),
                    Err(_) => {
                        self.refuse(address::wrong("max_waiters in the address is no number"))
                    }
                };
            }
            Setting::SelfCheck => {
                return match value.parse() {
                    Ok(check) => self.self_check(check),
                    Err(_) => {
                        let message = "self_check in the address is neither true nor false";
                        self.refuse(address::wrong(message))
                    }
                };
            }
            _ => match address::span(value) {
                Ok(span) => span,
                Err(error) => return self.refuse(error),
            },
        };
        match setting {
            Setting::Lease => self.default_lease(span),
            Setting::Patience => self.patience(span),
            Setting::FailFast => self.fail_fast(span),
            Setting::LongWait => self.long_wait(span),
            Setting::ConnectTimeout => self.connect_timeout(span),
            Setting::TokenRetention => self.token_retention(span),
            _ => self.server_clock_allowance(span),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{ClientBuilder, ErrorKind};

    #[test]
    fn parameters_of_the_address_are_the_options_of_the_client() {
        let url = "redis://h/3?prefix=shop&lease=10s&application=checkout&patience=2s\
            &connect_timeout=500ms&token_retention=1h&server_clock_allowance=3s&max_waiters=7\
            &self_check=false&fail_fast=3s&client_name=me&protocol=resp3";
        let config = ClientBuilder::<crate::Client>::new(url)
            .into_config()
            .unwrap();
        assert_eq!(config.prefix.as_str(), "shop");
        assert_eq!(config.lease.span(), Duration::from_secs(10));
        assert_eq!(config.application.as_deref(), Some("checkout"));
        assert_eq!(config.patience, Duration::from_secs(2));
        assert_eq!(config.fail_fast, Some(Duration::from_secs(3)));
        assert_eq!(config.connect_timeout, Duration::from_millis(500));
        assert_eq!(config.retention, Duration::from_secs(3600));
        assert_eq!(config.clock_allowance, Some(Duration::from_secs(3)));
        assert_eq!(config.max_waiters, 7);
        assert!(!config.self_check);
        assert_eq!(config.servers.login.client_name.as_deref(), Some("me"));
        assert_eq!(config.servers.login.database, 3);
    }

    #[test]
    fn later_methods_have_the_last_word() {
        let builder = ClientBuilder::<crate::Client>::new("redis://h?prefix=shop").prefix("bank");
        assert_eq!(builder.into_config().unwrap().prefix.as_str(), "bank");
    }

    #[test]
    fn address_has_the_last_word_over_other_defaults() {
        let builder = |url| {
            ClientBuilder::<crate::Client>::with_defaults(url, |builder| {
                builder
                    .application("mine")
                    .default_lease(Duration::from_secs(7))
            })
        };
        let url = "redis://h?application=theirs&protocol=3&prefix=shop";
        let theirs = builder(url);
        let seven = Duration::from_secs(7);
        assert_eq!(
            theirs.chosen(),
            ("shop", seven, &["protocol".to_owned()][..])
        );
        let config = theirs.into_config().unwrap();
        assert_eq!(config.application.as_deref(), Some("theirs"));
        let config = builder("redis://h").into_config().unwrap();
        assert_eq!(config.application.as_deref(), Some("mine"));
    }

    #[test]
    fn wrong_parameters_are_refused_with_their_bounds() {
        for (parameter, kind, said) in [
            (
                "prefix=a%7B",
                ErrorKind::InvalidOption,
                "a prefix has 1 to 64 bytes",
            ),
            ("lease=10", ErrorKind::InvalidOption, "no span of time"),
            ("lease=10ms", ErrorKind::InvalidLease, "1s to 365 days"),
            ("patience=1ms", ErrorKind::InvalidOption, "100 ms to 1 day"),
            ("fail_fast=0s", ErrorKind::InvalidOption, "100 ms to 1 day"),
            ("max_waiters=x", ErrorKind::InvalidOption, "max_waiters"),
            (
                "self_check=1",
                ErrorKind::InvalidOption,
                "neither true nor false",
            ),
        ] {
            let url = format!("redis://h?{parameter}");
            let error = ClientBuilder::<crate::Client>::new(&url)
                .into_config()
                .unwrap_err();
            assert_eq!(error.kind(), kind, "{parameter}: {error}");
            assert!(error.to_string().contains(said), "{parameter}: {error}");
        }
    }
}
