//! The login for connections, its changes, and its provider.

use std::{sync::Arc, time::Duration};

use super::World;
use crate::{
    Error, ErrorKind,
    base::{
        credentials::{Provided, Provider, used_for},
        observe,
        sync::Watch,
        timeouts,
    },
    protocol::time::Moment,
    runtime::{Address, Dial, DialError, DialErrorKind, Dialed, Login, Purpose},
};

/// The login for connections. A change reaches the connections that exist, too.
#[derive(Clone, Debug)]
pub(crate) struct Access(Arc<Watch<Present>>);

#[derive(Debug)]
struct Present {
    login: Login,
    standing: Standing,
    /// Whether a provider supplies the user and the password.
    provided: bool,
    /// Why the provider has failed, until it supplies credentials.
    trouble: Option<Error>,
}

/// The state of the present login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The provider has supplied nothing yet, and no connection needs anything.
    Unasked,
    /// A connection needs the first credentials of the provider.
    Needed,
    /// No server has refused the login.
    Good,
    /// A server has refused the login.
    Refused,
}

impl Access {
    /// Creates the access with `login`. User and password come from `provider`, if there is one.
    pub(super) fn new(login: Login, provider: Option<&Provider>) -> Self {
        Self(Arc::new(Watch::new(Present {
            login,
            standing: match provider {
                Some(_) => Standing::Unasked,
                None => Standing::Good,
            },
            provided: provider.is_some(),
            trouble: None,
        })))
    }

    /// Returns the user of the present login.
    pub(super) fn user(&self) -> Option<String> {
        self.0.look(|present| present.login.username.clone())
    }

    /// Changes the user and the password.
    pub(super) fn change(&self, username: Option<String>, password: Option<String>) {
        self.0.change(|present| {
            present.login.username = username;
            present.login.password = password;
            present.standing = Standing::Good;
            present.trouble = None;
            true
        });
    }

    /// Waits until the login is another one than `known`, and returns it.
    pub(super) async fn other_than(&self, known: &Login) -> Login {
        let other = |present: &Present| (present.login != *known).then(|| present.login.clone());
        self.0.find(other).await
    }

    /// Connects to `address` with the present login, which is returned with the connection. Waits
    /// for the first answer of the provider.
    pub(super) async fn dial(
        &self,
        world: &World,
        address: &Address,
        purpose: Purpose,
    ) -> Result<(Dialed, Login), Error> {
        let dial = Dial {
            address: world.tls.apply(address),
            login: self.login().await?,
            purpose,
        };
        match world.transport.dial(&dial).await {
            Ok(dialed) => Ok((dialed, dial.login)),
            Err(error) => Err(self.failed_dial(&dial, error)),
        }
    }

    /// Returns the error of a caller that cannot wait any longer, if the provider has not answered.
    pub(super) fn missing(&self) -> Option<Error> {
        self.0.look(|present| match present.standing {
            Standing::Needed => Some(present.trouble.clone().unwrap_or_else(|| {
                Error::unavailable("no credentials: their provider has not answered yet")
            })),
            _ => None,
        })
    }

    /// Records that the server at `address` has refused `login` on a connection that stays open
    /// with the login before. The first refusal is reported.
    pub(super) fn refused_again(&self, address: &Address, login: &Login, error: &Error) {
        if self.refused(login) {
            observe::login_refused(address, error);
        }
    }

    async fn login(&self) -> Result<Login, Error> {
        self.0.change(|present| {
            let first = present.standing == Standing::Unasked;
            if first {
                present.standing = Standing::Needed;
            }
            first
        });
        let login = |present: &Present| match (present.standing, &present.trouble) {
            (Standing::Good | Standing::Refused, _) => Some(Ok(present.login.clone())),
            (_, Some(trouble)) => Some(Err(trouble.clone())),
            _ => None,
        };
        self.0.find(login).await
    }

    /// Records that a server has refused `login`. Returns whether that is news.
    fn refused(&self, login: &Login) -> bool {
        self.0.change(|present| {
            let news = present.standing == Standing::Good && present.login == *login;
            if news {
                present.standing = Standing::Refused;
            }
            news
        })
    }

    fn failed_dial(&self, dial: &Dial, error: DialError) -> Error {
        let is_refused = error.kind == DialErrorKind::Auth;
        let error = Error::dial(dial, error);
        if is_refused {
            self.refused(&dial.login);
        }
        let state = |present: &Present| (present.provided, present.trouble.clone());
        let (provided, trouble) = self.0.look(state);
        if !is_refused || !provided {
            return error;
        }
        // The next credentials may be accepted.
        let message = match trouble {
            Some(trouble) => format!("{error}; {trouble}"),
            None => error.to_string(),
        };
        Error::with_reason(ErrorKind::Unavailable, message, error)
    }

    /// Resolves when a connection needs other credentials than the present ones.
    async fn wanted(&self) {
        let wanted =
            |present: &Present| matches!(present.standing, Standing::Needed | Standing::Refused);
        self.0.when(wanted).await;
    }

    /// Takes an answer of the provider. Returns how long its credentials are used.
    fn take(&self, provided: Provided, random: u64) -> Option<Duration> {
        match provided {
            Ok(supplied) => {
                self.change(supplied.username, Some(supplied.password));
                let lasts = supplied.expires_in.map(|span| used_for(span, random));
                Some(lasts.unwrap_or(Duration::MAX))
            }
            Err(why) => {
                // An error of this library has one line.
                let why = why.to_string().replace(['\r', '\n'], " ");
                let trouble = format!("the provider of the credentials has failed: {why}");
                let trouble = Error::unavailable(trouble);
                let mut is_news = false;
                self.0.change(|present| {
                    is_news = present.trouble.replace(trouble.clone()).is_none();
                    true
                });
                if is_news {
                    observe::provider_failed(&trouble);
                }
                None
            }
        }
    }

    /// Asks `provider` until the client ends: when a connection needs credentials, before the
    /// present ones end, and after a server has refused them.
    pub(super) async fn keep(self, provider: Provider, world: World) {
        let (mut due, mut earliest) = (Moment::FAR_FUTURE, world.now());
        let mut tries = 0;
        loop {
            let wanted = async {
                self.wanted().await;
                world.runtime.sleep_until(earliest).await;
            };
            let timely = world.until(due, wanted).await.is_none();
            if world.life.check_ended().is_err() {
                return;
            }
            let limit = world.now() + timeouts::CREDENTIALS;
            let late = || Err(format!("no answer within {:?}", timeouts::CREDENTIALS).into());
            let provided = world.until(limit, provider.ask()).await;
            let provided = provided.unwrap_or_else(late);
            let lasts = self.take(provided, world.runtime.random());
            // Credentials that are refused at once are no better than none.
            tries = match lasts {
                Some(_) if timely => 0,
                _ => tries + 1,
            };
            let now = world.now();
            let pause = timeouts::CREDENTIALS_RETRY.delay(tries, world.runtime.random());
            earliest = now + pause;
            due = lasts.map_or(earliest, |lasts| now + lasts);
        }
    }
}
