//! The red-lock, over the server that fails and two others.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use redlatch::{AnyGuard, Error, Lockable, LossCause, RedGuard, RedLock, Released};
use redlatch_tests::{
    fixture::SECOND,
    hold::{Hold, ReleaseOutcome},
};

use crate::every_kind::{
    kind::{Kind, Object},
    load::Load,
    scene::Pair,
};

/// The red-lock.
#[derive(Debug)]
pub(in crate::every_kind) struct Red;

/// A guard of several nodes. A minority does not count, whatever it says.
#[derive(Debug)]
struct Quorum(RedGuard);

#[async_trait]
impl Hold for Quorum {
    fn believed(&self) -> bool {
        self.0.check().is_ok()
    }

    fn left(&self) -> Option<Duration> {
        Some(self.0.remaining())
    }

    fn lost(&self) -> BoxFuture<'static, LossCause> {
        AnyGuard::lost(&self.0)
    }

    async fn prolong(&self, span: Duration) -> Result<(), Error> {
        self.0.extend(span).await
    }

    async fn give_back(self: Box<Self>) -> Result<ReleaseOutcome, Error> {
        let nodes = self.0.release().await?;
        let outcomes = || nodes.iter().map(|(_, released)| *released);
        let ended = outcomes().filter(|it| *it == Released::Free).count();
        let majority = ended * 2 > nodes.len();
        let all = if majority {
            Released::Free
        } else {
            Released::together(outcomes())
        };
        Ok(all.into())
    }
}

#[async_trait]
impl Kind for Red {
    /// A quorum waits for a slow node as long again and no longer; here one of three is to fail
    /// later.
    async fn take(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        loop {
            let guard = red(object).lock().renewed_lease(lease).await?;
            if guard.nodes_held() == 3 {
                return Ok(Box::new(Quorum(guard)));
            }
            guard.release().await.unwrap();
        }
    }

    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let guard = red(object).lock().renewed_lease(lease).await?;
        Ok(Box::new(Quorum(guard)))
    }

    /// Asks the first node.
    async fn held(&self, object: &Object) -> Result<u64, Error> {
        let info = object.party.client.lock(&object.name).info().await?;
        Ok(info.map_or(0, |info| info.count.into()))
    }

    /// There is none: the load runs on servers that stand for one.
    async fn work(&self, _: &mut Load) {}

    fn queues(&self) -> bool {
        false
    }

    fn servers(&self) -> usize {
        3
    }

    /// Two servers more have it.
    fn loses(&self) -> bool {
        false
    }

    /// Two of three nodes know.
    async fn after_data_loss(&self, pair: &mut Pair) {
        assert_eq!(pair.let_go().await.unwrap(), ReleaseOutcome::Ended);
        pair.served().await.exclusively(pair).await;
    }
}

fn red(object: &Object) -> RedLock {
    let clients = std::iter::once(&object.party.client).chain(&object.party.others);
    let locks: Vec<_> = clients.map(|client| client.lock(&object.name)).collect();
    let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    // Two of the three remember, which is a quorum; those that have just been started count
    // from the first moment.
    let red = RedLock::builder(&nodes).durable_nodes();
    red.node_timeout(SECOND).build().unwrap()
}
