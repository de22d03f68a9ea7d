//! A delivered guard of several names.

use std::{ops::Deref, sync::Arc};

use redlatch_core::{HoldState, Owner, Released};
use redlatch_multi::MultiGuard;

use crate::{
    names::{label, name_of},
    watch::{Claim, Id, Sight, Watch},
    workload::{Worker, steps::End, worker::fragile},
};

/// A delivered guard of several names with its holder. Dropping it drops the guard.
#[derive(Debug)]
pub(super) struct Held {
    watch: Arc<Watch>,
    guard: Option<Arc<MultiGuard>>,
    members: Vec<Shown>,
}

/// One member in the view of the observer.
#[derive(Debug)]
struct Shown {
    id: Id,
    name: usize,
    token: u64,
    _sight: Arc<Member>,
}

/// One member of a guard.
#[derive(Debug)]
struct Member {
    guard: Arc<MultiGuard>,
    at: usize,
}

impl Deref for Member {
    type Target = redlatch_core::Held;

    fn deref(&self) -> &Self::Target {
        &self.guard.members()[self.at]
    }
}

impl Held {
    /// Shows a guard to the observer, member by member.
    pub(super) fn new(
        worker: &Worker,
        calls: &[(usize, Id)],
        guard: MultiGuard,
        renewed: bool,
    ) -> Self {
        // No time has passed since it was returned.
        if let HoldState::Lost(cause) = guard.state() {
            let what = format!(
                "{} is given several as one, and one is lost: {cause}",
                worker.label
            );
            worker.watch().violate("P4", what);
        }
        let guard = Arc::new(guard);
        let members = (0..guard.members().len()).map(|at| {
            let member = Arc::new(Member {
                guard: Arc::clone(&guard),
                at,
            });
            let name = name_of(member.name()).unwrap_or(0);
            let call = calls.iter().find(|(asked, _)| *asked == name);
            let sight: Arc<Member> = Arc::clone(&member);
            let claim = Claim {
                hold: member.token().to_string().into(),
                owner: member.owner().to_string().into(),
                token: Some(member.token().as_u64()),
                ..worker.claim(name, Arc::downgrade(&sight) as Sight, renewed)
            };
            Shown {
                id: worker.shows(call.map_or(0, |&(_, call)| call), claim, member.lost()),
                name,
                token: member.token().as_u64(),
                _sight: member,
            }
        });
        Self {
            watch: Arc::clone(&worker.life.shared.watch),
            members: members.collect(),
            guard: Some(guard),
        }
    }

    pub(super) fn owner(&self) -> &Owner {
        self.guard().members()[0].owner()
    }

    #[expect(
        clippy::expect_used,
        reason = "it is there until it is ended, which takes this by value"
    )]
    pub(super) fn guard(&self) -> &MultiGuard {
        self.guard.as_ref().expect("it is there until it is ended")
    }

    /// Writes to each name if the guard's check passes, or sends writes that arrive late, after the
    /// check.
    pub(super) fn write(&self, worker: &mut Worker) {
        let fit = self.guard().check().is_ok();
        let late = worker.rng.chance(100);
        for member in &self.members {
            if fit {
                let rightful = worker.watch().is_rightful(member.id);
                worker
                    .watch()
                    .writes(&worker.label, member.name, member.token, rightful);
            }
            if late {
                let late = worker.rng.between(0, worker.plan().lease * 3000);
                worker.writes_late(late, member.name, member.token);
            }
        }
    }

    /// Checks P4: the loss of one member is the loss of all.
    pub(super) fn check(&self, worker: &Worker) {
        let lost = |member: &&redlatch_core::Held| matches!(member.state(), HoldState::Lost(_));
        if let Some(member) = self.guard().members().iter().find(lost)
            && self.guard().check().is_ok()
        {
            let (who, name) = (&worker.label, member.name());
            let what = format!("{who} has lost {name}, and all of them are said to be held");
            worker.watch().violate("P4", what);
        }
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

    /// Checks P5: releases, and compares the reply for each member with the delivered guards.
    pub(super) async fn release(self, worker: &Worker) {
        let holds: Vec<_> = self
            .members
            .iter()
            .map(|member| (member.name, member.token.to_string()))
            .collect();
        let Some(guard) = self.take() else { return };
        let companions = || -> Vec<_> {
            let holds = holds.iter();
            holds
                .map(|(name, hold)| worker.watch().companions(*name, hold))
                .collect()
        };
        let before = companions();
        let released = worker
            .timed("release", worker.patience(), guard.release())
            .await;
        let after = companions();
        let released = match released {
            Ok(released) => released,
            Err(error) => return worker.say(|| format!("has not released all: {error}")),
        };
        if released.len() != holds.len() {
            let what = format!("{} members, {} results", holds.len(), released.len());
            worker.watch().violate("P5", what);
        }
        for (at, (name, released)) in released.into_iter().enumerate() {
            let stayed = before[at].intersection(&after[at]).count();
            let left = match released {
                Released::Free => 0,
                Released::StillHeld(left) => left as usize,
                _ => usize::MAX,
            };
            if left < stayed || name_of(&name) != Some(holds[at].0) {
                let (who, of) = (&worker.label, label(holds[at].0));
                let what = format!(
                    "{who} released {of} and is told of {name}: {left} left, {stayed} are out"
                );
                worker.watch().violate("P5", what);
            }
            worker.say(|| format!("has released {name}: {released:?}"));
        }
    }

    /// Takes the guard out. It no longer belongs to the holder.
    fn take(mut self) -> Option<MultiGuard> {
        self.leave();
        self.guard.take().and_then(Arc::into_inner)
    }

    fn leave(&mut self) {
        for member in self.members.drain(..) {
            self.watch.leaves(member.id);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.leave();
    }
}
