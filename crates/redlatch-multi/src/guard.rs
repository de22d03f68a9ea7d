//! The guard of a multi-lock.

use std::fmt;

use redlatch_core::{Bundle, Error, Held, Owned, Released, Token, guards_of_several};

/// All members of a [`MultiLock`](crate::MultiLock), held as one. The loss of any member is the
/// loss of the whole. Dropping the guard releases all of them in the background.
/// [`release`](Self::release) also returns the outcome of each.
///
/// After a loss, the remaining members are still held and renewed until this guard is dropped.
#[must_use = "a guard that is dropped at once releases at once"]
pub struct MultiGuard {
    pub(crate) bundle: Bundle,
}

impl MultiGuard {
    /// Returns the members' guards, in the order of acquisition: by kind, then by name. A hash tag
    /// counts before the rest of its name.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (ledger, invoice) = (client.lock("ledger"), client.lock("invoice:7"));
    /// let guard = client.multi_lock(&[&ledger, &invoice]).lock().await?;
    /// for member in guard.members() {
    ///     println!("{} with token {}", member.name(), member.token());
    /// }
    /// # assert_eq!(guard.members()[0].name(), "invoice:7");
    /// # Ok(())
    /// # }
    /// ```
    pub fn members(&self) -> &[Held] {
        self.bundle.holds()
    }

    /// Splits the guard: each member is held on its own from then on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (one, two) = (client.lock("step:1"), client.lock("step:2"));
    /// let both = client.multi_lock(&[&one, &two]).lock().await?;
    /// for member in both.into_members() {
    ///     println!("{} with token {}", member.name(), member.token());
    ///     member.release().await?; // step by step
    /// }
    /// assert!(!one.is_locked().await? && !two.is_locked().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_members(self) -> Vec<Held> {
        self.bundle.into_holds()
    }

    /// Returns the fencing token of the member called `name`. If members of different servers share
    /// the name, returns the token of the first one. A read side has the token of the last write. A
    /// member in the layout of another library has no token. If a lock of this library has the same
    /// name, the method returns the token of that lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (invoice, ledger) = (client.lock("invoice:7"), client.lock("ledger"));
    /// let guard = client.multi_lock(&[&invoice, &ledger]).lock().await?;
    /// if let Some(token) = guard.token("invoice:7") {
    ///     println!("write the invoice with token {token}");
    /// }
    /// assert_eq!(guard.token("invoice:8"), None); // no member
    /// # assert!(guard.token("invoice:7").is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self, name: &str) -> Option<Token> {
        let members = self.members().iter();
        let mut tokens = members
            .filter(|member| member.name() == name)
            .map(Held::granted_token);
        tokens.find(|&token| token != Token::NONE)
    }

    /// Releases all members at once. Returns the outcome of each by name, in the order of
    /// [`members`](Self::members). Costs one command per member. An earlier loss of a member is an
    /// outcome and not an error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let server = redlatch::embedded::Server::start();
    /// # let client = server.client().await?;
    /// use redlatch::Released;
    ///
    /// let (invoice, ledger) = (client.lock("invoice:7"), client.lock("ledger"));
    /// let guard = client.multi_lock(&[&invoice, &ledger]).lock().await?;
    /// server.lose("ledger"); // the server loses its data
    /// let outcomes = guard.release().await?;
    /// assert_eq!(outcomes[0], ("invoice:7".to_owned(), Released::Free));
    /// assert_eq!(outcomes[1], ("ledger".to_owned(), Released::Forgotten));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Held::release`], if the release of any member was not answered. The text names
    /// these members. Their releases continue in the background, and the other members are
    /// released. For the outcome of each member, release those of
    /// [`into_members`](Self::into_members).
    ///
    /// # Cancel safety
    ///
    /// After a drop, the releases continue in the background.
    pub async fn release(self) -> Result<Vec<(String, Released)>, Error> {
        let name = |member: &Held| member.name().to_owned();
        let names: Vec<_> = self.members().iter().map(name).collect();
        let members = names.len();
        let (mut outcomes, mut failed) = (Vec::new(), Vec::new());
        for (name, released) in names.into_iter().zip(self.bundle.release().await) {
            match released {
                Ok(released) => outcomes.push((name, released)),
                Err(error) => failed.push((name, error)),
            }
        }
        match failed.len() {
            0 => Ok(outcomes),
            // It names its object.
            1 => Err(failed.remove(0).1),
            _ => Err(unanswered(&failed, members)),
        }
    }
}

guards_of_several!(
    MultiGuard,
    Held,
    Bundle::extend,
    async |guard: MultiGuard| guard.release().await.map(together)
);

impl Owned for MultiGuard {}

/// Returns the outcome of a release of several.
pub(crate) fn together(outcomes: Vec<(String, Released)>) -> Released {
    Released::together(outcomes.into_iter().map(|(_, released)| released))
}

/// Returns the error of several members whose releases have failed.
fn unanswered(failed: &[(String, Error)], members: usize) -> Error {
    let names: Vec<_> = failed.iter().map(|(name, _)| format!("{name:?}")).collect();
    let first = &failed[0].1;
    let message = format!(
        "{} of {members} members ({}) may be held until their leases end: {first}",
        failed.len(),
        names.join(", ")
    );
    Error::with_reason(first.kind(), message, first.clone())
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGuard")
            .field("members", &self.members())
            .field("state", &self.state())
            .finish()
    }
}
