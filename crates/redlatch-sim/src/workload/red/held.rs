//! A delivered guard of a quorum.

use std::sync::{Arc, Mutex};

use redlatch_core::{HoldState, LossCause, Moment};
use redlatch_multi::RedGuard;

use crate::{
    exec::lock,
    names::label,
    watch::{Claim, GRAIN, Id, Sight, Sighted, Watch},
    workload::{Terms, Worker, steps::End, worker::fragile},
};

/// A delivered guard with its holder. Dropping it drops the guard.
#[derive(Debug)]
pub(super) struct Held {
    watch: Arc<Watch>,
    id: Id,
    sight: Option<Arc<Quorum>>,
}

/// The guard in the view of the observer: each node by itself, and the number of nodes that are
/// left.
#[derive(Debug)]
struct Quorum {
    guard: RedGuard,
    needed: usize,
    /// Per node, the time at which its hold was first seen lost before its deadline.
    lost: Mutex<Vec<Option<Moment>>>,
}

impl Held {
    /// Shows a guard to the observer.
    pub(super) fn new(
        worker: &Worker,
        call: Id,
        name: usize,
        nodes: usize,
        guard: RedGuard,
        terms: &Terms,
    ) -> Self {
        let needed = nodes / 2 + 1;
        let granted = guard.holds().len();
        if granted < needed {
            let (who, name) = (&worker.label, label(name));
            let what = format!("{who} is given {name} by {granted} of {nodes} nodes");
            worker.watch().violate("P1", what);
        }
        let owner = guard.holds().first().map(|held| held.owner().to_string());
        let owner: Arc<str> = owner.unwrap_or_default().into();
        let lost = guard.lost();
        let sight = Arc::new(Quorum {
            needed,
            lost: Mutex::new(vec![None; granted]),
            guard,
        });
        let seen: Arc<Quorum> = Arc::clone(&sight);
        let claim = Claim {
            hold: Arc::clone(&owner),
            owner,
            ..worker.claim(name, Arc::downgrade(&seen) as Sight, terms.renewed)
        };
        Self {
            watch: Arc::clone(&worker.life.shared.watch),
            id: worker.shows(call, claim, lost),
            sight: Some(sight),
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "it is there until it is ended, which takes this by value"
    )]
    pub(super) fn guard(&self) -> &RedGuard {
        let sight = self.sight.as_ref().expect("it is there until it is ended");
        &sight.guard
    }

    /// Gives the guard up in one of the many ways.
    pub(super) async fn end(self, worker: &mut Worker) {
        match worker.draw_end() {
            End::Drop => drop(self),
            End::DropRelease { polls } => {
                if let Some(guard) = self.take() {
                    let _ = fragile(Box::pin(guard.release()), polls).await;
                }
            }
            End::Release => self.release(worker).await,
        }
    }

    pub(super) async fn release(self, worker: &Worker) {
        if let Some(guard) = self.take() {
            let released = worker
                .timed("release", worker.patience(), guard.release())
                .await;
            worker.say(|| format!("has released: {released:?}"));
        }
    }

    /// Takes the guard out. It no longer belongs to the holder.
    fn take(mut self) -> Option<RedGuard> {
        self.watch.leaves(self.id);
        let sight = self.sight.take().and_then(Arc::into_inner);
        sight.map(|sight| sight.guard)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.watch.leaves(self.id);
    }
}

impl Sighted for Quorum {
    /// Returns the deadline of the node that completes the quorum. A node whose hold was lost
    /// before its deadline counts until the loss was seen. The state is not read near a deadline,
    /// because that might tell the holder.
    fn valid_until(&self) -> Moment {
        let mut lost = lock(&self.lost);
        let holds = self.guard.holds().iter().zip(lost.iter_mut());
        let mut ends: Vec<_> = holds
            .map(|(held, lost)| {
                let (now, until) = (held.client().now(), held.valid_until());
                let near = until <= now + std::time::Duration::from_micros(GRAIN);
                if !near && lost.is_none() && matches!(held.state(), HoldState::Lost(_)) {
                    *lost = Some(now);
                }
                lost.map_or(until, |lost| lost.min(until))
            })
            .collect();
        ends.sort_unstable();
        let at = ends.len().checked_sub(self.needed);
        at.map_or(Moment::from_origin(std::time::Duration::ZERO), |at| {
            ends[at]
        })
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
