//! What the tests have to know of a kind, and an object of it.

use std::fmt;

use redlatch_behaviours::election::Working;
use redlatch_tests::proxy::Request;

use super::prelude::*;

/// A primitive, or one side of it. They are in `kinds/`.
#[async_trait]
pub(super) trait Kind: fmt::Debug + Sync {
    /// Takes it, so that whoever waits for it has to wait. A lease is renewed if the kind renews.
    async fn take(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        self.get(object, lease).await
    }

    /// Gets what another has as soon as it can be had.
    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error>;

    /// Returns how many waiters the server knows of. Where it knows of none, the object's calls
    /// that have not returned are counted.
    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        Ok(object.waiting.load(Ordering::SeqCst).into())
    }

    /// Returns how many units the server says are held, each guard of an owner counted.
    async fn held(&self, object: &Object) -> Result<u64, Error>;

    /// Deletes what lasts until somebody does.
    async fn delete(&self, _: &Object) -> Result<(), Error> {
        Ok(())
    }

    /// Starts work on it for as long as `load` lasts. A side leaves that to the other side.
    async fn work(&self, load: &mut Load);

    /// Returns the number of servers that it is on.
    fn servers(&self) -> usize {
        1
    }

    /// Tells whether its lease is renewed without being asked for.
    fn renews(&self) -> bool {
        true
    }

    /// Tells whether extending it sends a request.
    fn extends(&self) -> bool {
        true
    }

    /// Returns how many units are held once it is taken.
    fn taken(&self) -> u64 {
        1
    }

    /// Returns how many units are held once a waiter has got it.
    fn handed_over(&self) -> u64 {
        1
    }

    /// Tells whether the server may count so many units when nobody holds it.
    fn is_free(&self, held: u64) -> bool {
        held == 0
    }

    /// Tells whether the token of the next holder may follow that of the one before.
    fn follows(&self, before: Option<u64>, after: Option<u64>) -> bool {
        match before {
            Some(_) => after > before,
            None => after.is_none(),
        }
    }

    /// Tells whether a holder loses it when one server is away.
    fn loses(&self) -> bool {
        true
    }

    /// Tells whether a look, whose answer has the server's time, comes before it is taken.
    fn looks_first(&self) -> bool {
        false
    }

    /// Tells whether the server knows who waits.
    fn queues(&self) -> bool {
        true
    }

    /// Does what has to be done after the death of a holder, before a waiter can be served.
    async fn after_death(&self, _: &Object) {}

    /// Checks what holder and waiter are told after its server has lost all data.
    async fn after_data_loss(&self, pair: &mut Pair) {
        pair.served().await.later(pair).await;
        assert_eq!(pair.let_go().await.unwrap(), ReleaseOutcome::WasOver);
    }

    /// Returns which request loses its reply next: by default the next script that names it.
    fn next_request(&self, _: &Backend, name: &str) -> Pick {
        let name = name.to_owned();
        Pick::matching(move |request: &Request| {
            request.command() == "EVALSHA" && request.contains(&name)
        })
    }
}

/// A kind of the table.
pub(super) type AnyKind = &'static dyn Kind;

/// Somebody who takes part: a client, and its clients of the two servers that nothing happens to.
#[derive(Clone, Debug)]
pub(super) struct Party {
    pub(super) client: Client,
    pub(super) others: Vec<Client>,
}

impl Party {
    /// A party on one server, or on several that stand for one.
    pub(super) const fn alone(client: Client) -> Self {
        let others = Vec::new();
        Self { client, others }
    }
}

/// An object of a kind, as a party sees it.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) kind: AnyKind,
    pub(super) name: String,
    pub(super) party: Party,
    /// The number of its calls that wait. Clones share it.
    waiting: Arc<AtomicU32>,
}

impl Object {
    /// Makes the object of this name.
    pub(super) fn new(kind: AnyKind, name: &str, party: &Party) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            party: party.clone(),
            waiting: Arc::default(),
        }
    }

    pub(super) async fn take(&self, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        self.kind.take(self, lease).await
    }

    pub(super) async fn get(&self, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let _waiting = Working::begin(&self.waiting);
        self.kind.get(self, lease).await
    }

    pub(super) async fn waiters(&self) -> Result<u64, Error> {
        self.kind.waiters(self).await
    }

    pub(super) async fn held(&self) -> Result<u64, Error> {
        self.kind.held(self).await
    }

    pub(super) async fn delete(&self) -> Result<(), Error> {
        self.kind.delete(self).await
    }

    /// Waits until a call waits for it.
    pub(super) async fn awaited(&self) {
        let what = format!("{:?} to be waited for", self.kind);
        wait_for(&what, || async { self.waiters().await.unwrap() > 0 }).await;
    }

    /// Waits until it is free.
    pub(super) async fn freed(&self) {
        let what = format!("{:?} to be free", self.kind);
        let is_free = || async { self.kind.is_free(self.held().await.unwrap()) };
        wait_for(&what, is_free).await;
    }
}

/// Returns the word for a kind in names.
pub(super) fn stem(kind: AnyKind) -> String {
    format!("{kind:?}").to_lowercase()
}
