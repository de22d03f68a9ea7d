//! How a builder becomes a client: at once, or with the first call.

use std::{env, ffi::OsString, sync::Arc};

use super::{
    address,
    config::{ClientBuilder, Config},
};
use crate::{
    Client, Error, ErrorKind,
    runtime::{Runtime, TokioRuntime},
};

impl<C: From<Client>> ClientBuilder<C> {
    /// Starts from the address in the environment: that of `REDLATCH_URL`, or else of `REDIS_URL`.
    /// An empty variable counts as missing. See [`new`](Self::new) for the form of an address.
    ///
    /// ```no_run
    /// # mod redlatch {
    /// #     pub use redlatch_core::{*, runtime::*};
    /// #     pub type ClientBuilder = redlatch_core::ClientBuilder;
    /// # }
    /// # async fn example() -> Result<(), redlatch::Error> {
    /// use redlatch::ClientBuilder;
    ///
    /// // In the shell: REDLATCH_URL=redis://localhost
    /// let client = ClientBuilder::from_env().application("checkout").connect().await?;
    /// println!("connected to {}", client.address());
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_env() -> Self {
        Self::from_variables(|name| env::var_os(name))
    }

    fn from_variables(value: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &&str| value(name).filter(|value| !value.is_empty());
        let found = VARIABLES.iter().find_map(|name| Some((name, set(name)?)));
        let Some((name, url)) = found else {
            return Self::refused(address::wrong(format!(
                "no address is in the environment: neither {} is set; set one, such as {}=redis://localhost:6379",
                VARIABLES.join(" nor "),
                VARIABLES[0]
            )));
        };
        match url.to_str() {
            Some(url) => Self::new(url).naming(name),
            None => Self::refused(address::wrong(format!("the variable {name} is not UTF-8"))),
        }
    }

    /// Connects to the servers and checks them.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn serve(_: redlatch::Client) {}
    /// # async fn example() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// match Client::builder("redis://redis.example").connect().await {
    ///     Ok(client) => serve(client).await,
    ///     Err(error) if error.is_transient() => eprintln!("no server yet: {error}"),
    ///     Err(error) => return Err(error), // a wrong address, password or option
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption` or `InvalidLease` for an invalid option. `InvalidOption` without a tokio
    /// runtime. `Auth`, `Permission`, `UnsupportedServer`, `ServerFull`. `Unavailable` or
    /// `OutcomeUnknown` if the server could not be reached, or did not answer, within the connect
    /// time-out.
    ///
    /// # Panics
    ///
    /// Panics in a tokio runtime without I/O or time enabled.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no connection behind.
    pub async fn connect(self) -> Result<C, Error> {
        let (config, runtime) = self.checked()?;
        Client::start(config, runtime).await.map(C::from)
    }

    /// Returns a client at once, which connects with its first call.
    ///
    /// If the server is unreachable, refuses the login or lacks a right, calls fail. The client
    /// waits for the server as after a lost connection: a call fails after the client's
    /// [`patience`](Self::patience). So a program may start before its server. The check of
    /// version, rights and eviction policy is omitted, as without [`self_check`](Self::self_check).
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// use std::sync::LazyLock;
    /// use redlatch::Client;
    ///
    /// // For a program with one tokio runtime. The first use has to be inside that runtime.
    /// static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    ///     let lazy = Client::builder("redis://localhost").connect_lazy();
    ///     lazy.expect("the address is valid")
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption` or `InvalidLease` for an invalid option. `InvalidOption` without a tokio
    /// runtime.
    ///
    /// # Panics
    ///
    /// Panics in a tokio runtime without I/O or time enabled.
    pub fn connect_lazy(self) -> Result<C, Error> {
        let (config, runtime) = self.checked()?;
        Ok(C::from(Client::start_lazy(config, runtime)))
    }

    fn checked(self) -> Result<(Config, Arc<dyn Runtime>), Error> {
        let mut config = self.into_config()?;
        config.servers.check()?;
        let runtime = match config.runtime.take() {
            Some(runtime) => runtime,
            None => Arc::new(TokioRuntime::current().ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidOption,
                    "no tokio runtime here; connect inside one, or use redlatch::blocking::Client",
                )
            })?),
        };
        Ok((config, runtime))
    }
}

/// The variables with an address, in the order in which they are looked for.
const VARIABLES: [&str; 2] = ["REDLATCH_URL", "REDIS_URL"];

#[cfg(test)]
mod tests {
    use super::*;

    fn from(set: &'static [(&str, &str)]) -> ClientBuilder {
        ClientBuilder::from_variables(|name| {
            let found = set.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).into())
        })
    }

    fn error(builder: ClientBuilder) -> String {
        let error = builder.into_config().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        error.to_string()
    }

    #[test]
    fn environment_gives_the_address_of_the_first_variable() {
        for set in [
            &[
                ("REDLATCH_URL", "redis://a:1"),
                ("REDIS_URL", "redis://b:1"),
            ] as &[_],
            &[("REDLATCH_URL", ""), ("REDIS_URL", "redis://a:1")],
        ] {
            let config = from(set).into_config().unwrap();
            assert_eq!(config.servers.topology.to_string(), "a:1");
        }
    }

    #[test]
    fn environment_without_an_address_is_told_with_the_variables() {
        let text = error(from(&[("REDIS_URL", "")]));
        assert_eq!(
            text,
            "no address is in the environment: neither REDLATCH_URL nor REDIS_URL is set; set one, such as REDLATCH_URL=redis://localhost:6379"
        );
        let text = error(from(&[("REDIS_URL", "redis://:secret@h:99999")]));
        assert!(
            text.starts_with("the variable REDIS_URL: the port 99999"),
            "{text}"
        );
    }
}
