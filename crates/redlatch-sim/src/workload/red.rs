//! A lock over a majority of independent servers, each of which stops, restarts and loses data by
//! itself.

use std::{
    ops::Deref,
    sync::{Arc, Mutex},
    time::Duration,
};

use redlatch_core::{Bundle, Error, Extending, HoldState, Lockable, LossCause, Moment, Released};
use redlatch_multi::{RedGuard, RedLock};
use redlatch_reentrant::Lock;

use super::{
    Acquiring, Guard, Releases, Shown, Terms, Worker, Workload, mutants, terms::acquiring,
};
use crate::{
    exec,
    names::label,
    watch::{Claim, GRAIN, Id, Sighted, Waits},
};

/// A lock over a quorum, as a workload.
pub(super) static KIND: Workload = Workload {
    nodes: 4,
    ..Workload::of::<Quorum>("red", mutants::QUORUM)
};

/// Returns the number of servers of a name: three, or all four, where a split may be even.
const fn nodes(name: usize) -> usize {
    if name == 1 { 4 } else { 3 }
}

/// The guard in the view of the observer: each node by itself, and the number of nodes that are
/// left.
#[derive(Debug)]
struct Quorum {
    guard: RedGuard,
    name: usize,
    /// Per node, the time at which its hold was first seen lost before its deadline.
    lost: Mutex<Vec<Option<Moment>>>,
}

impl Quorum {
    fn new(guard: RedGuard, name: usize) -> Self {
        let lost = Mutex::new(vec![None; guard.holds().len()]);
        Self { guard, name, lost }
    }

    const fn needed(&self) -> usize {
        nodes(self.name) / 2 + 1
    }
}

impl Deref for Quorum {
    type Target = Bundle;

    fn deref(&self) -> &Bundle {
        &self.guard
    }
}

impl Guard for Quorum {
    const REENTRANT: bool = false;

    fn acquire(worker: &mut Worker, names: &[usize], terms: &Terms) -> Acquiring<Self> {
        let name = names[0];
        let clients = worker.nodes.iter().take(nodes(name));
        let lock = |client| Lock::new(client, label(name));
        let locks: Vec<_> = clients.map(lock).collect();
        let locks: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
        let longest = Duration::from_millis(worker.plan.lease);
        let lock = match RedLock::builder(&locks).longest_lease(longest).build() {
            Ok(lock) => lock,
            Err(error) => return Box::pin(async move { Err(error) }),
        };
        let future: Acquiring<RedGuard> = acquiring!(
            terms, lock.try_lock(), |wait| lock.try_lock_for(wait), lock.lock();
            .strategy(terms.strategy)
        );
        Box::pin(async move { Ok(future.await?.map(|guard| Self::new(guard, name))) })
    }

    fn waits(_: &Terms) -> Waits {
        Waits::Polling
    }

    /// The longest lease of the lock is half of the longest extension.
    fn extend(&self, span: Duration) -> Extending<'_> {
        Box::pin(self.guard.extend(span / 2))
    }

    async fn release(self) -> Result<Releases, Error> {
        let released = self.guard.release().await?;
        let nodes = released.into_iter().map(|(_, released)| released);
        Ok(vec![(
            label(self.name).to_owned(),
            Released::together(nodes),
        )])
    }

    /// Shows one claim, which lasts as long as a quorum does.
    fn shows(
        self: &Arc<Self>,
        worker: &Worker,
        calls: &[(usize, Id)],
        renewed: bool,
    ) -> Vec<Shown> {
        let (name, nodes, granted) = (self.name, nodes(self.name), self.holds().len());
        if granted < self.needed() {
            let (who, name) = (&worker.label, label(name));
            let what = format!("{who} is given {name} by {granted} of {nodes} nodes");
            worker.watch.violate("P1", what);
        }
        let owner = self.holds().first().map(|held| held.owner().to_string());
        let owner: Arc<str> = owner.unwrap_or_default().into();
        let sight: Arc<dyn Sighted> = Arc::<Self>::clone(self);
        let claim = Claim {
            hold: Arc::clone(&owner),
            owner,
            ..worker.claim(name, &sight, renewed)
        };
        vec![worker.shows(calls, claim, sight, self.guard.lost())]
    }
}

impl Sighted for Quorum {
    /// Returns the deadline of the node that completes the quorum. A node whose hold was lost
    /// before its deadline counts until the loss was seen. The state is not read near a deadline,
    /// because that might tell the holder.
    fn valid_until(&self) -> Moment {
        let mut lost = exec::lock(&self.lost);
        let holds = self.guard.holds().iter().zip(lost.iter_mut());
        let ends = holds.map(|(held, lost)| {
            let (now, until) = (held.client().now(), held.valid_until());
            let near = until <= now + Duration::from_micros(GRAIN);
            if !near && lost.is_none() && matches!(held.state(), HoldState::Lost(_)) {
                *lost = Some(now);
            }
            lost.map_or(until, |lost| lost.min(until))
        });
        let mut ends: Vec<_> = ends.collect();
        ends.sort_unstable();
        let at = ends.len().checked_sub(self.needed());
        at.map_or(Moment::from_origin(Duration::ZERO), |at| ends[at])
    }

    fn state(&self) -> HoldState {
        let now = self.guard.holds().first().map(|held| held.client().now());
        if now.is_some_and(|now| now < self.valid_until()) {
            HoldState::Held
        } else {
            HoldState::Lost(LossCause::Expired)
        }
    }
}
