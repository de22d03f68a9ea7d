//! The state that the observer knows: the waiting calls, the believed guards, the subscriptions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use redlatch_core::{HoldState, Moment};

use crate::{
    exec::{Exec, ProcId},
    faults::{Fault, Faults},
    runtime::{Clock, micros},
    scenarios::Scenario,
    scripts::{Act, Seen},
};

/// The number of a call or of a delivered guard.
pub type Id = u64;

/// A guard that the observer may inspect while its holder has it.
pub type Sight = Weak<dyn Sighted>;

/// The part of a guard that the observer inspects. Only methods that send nothing and change
/// nothing are allowed.
pub trait Sighted: Send + Sync {
    /// Returns the deadline by its client's clock.
    fn valid_until(&self) -> Moment;

    /// Returns the state that its client knows. Near the end of a hold this call may tell the
    /// holder of its loss, so the observer does not call it then.
    fn state(&self) -> HoldState;
}

/// How a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// For a notification, without a time limit.
    Patiently,
    /// For a notification, with a short time limit or none at all.
    Briefly,
    /// By polling. Later waiters in its client's queue proceed at its pace.
    Polling,
}

/// The share of the object that a hold takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole object.
    Whole,
    /// A share beside others that share.
    Shared,
    /// A number of units.
    Units {
        /// The units of this hold.
        taken: u64,
        /// The units in total.
        of: u64,
    },
}

/// A running acquisition.
#[derive(Debug)]
pub struct Call {
    /// The calling process.
    pub proc: ProcId,
    /// The name.
    pub name: usize,
    /// The time at which it began.
    pub since: u64,
    /// The way in which it waits.
    pub waits: Waits,
    /// The greatest token that any client had when it began.
    pub acked: u64,
}

/// A delivered guard.
#[derive(Debug)]
pub struct Claim {
    /// The holding process.
    pub proc: ProcId,
    /// The holder in words.
    pub who: String,
    /// The name.
    pub name: usize,
    /// The hold to which it belongs.
    pub hold: Arc<str>,
    /// The owner of the hold, as the server stores it.
    pub owner: Arc<str>,
    /// Its fencing token, if it has one.
    pub token: Option<u64>,
    /// The share that it takes.
    pub part: Part,
    /// Its client's clock.
    pub clock: Clock,
    /// The guard.
    pub sight: Sight,
    /// The time of its delivery.
    pub delivered: u64,
    /// Whether the watchdog renews it.
    pub renewed: bool,
    /// Whether its holder was told of its loss.
    pub told: bool,
}

/// The conditions under which promises hold in this run.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// No fault affects messages, server or processes.
    pub calm: bool,
    /// Faults affect subscriptions only.
    pub calm_but_for_pubsub: bool,
    /// Faults affect messages only; single messages are lost, too.
    pub calm_but_for_messages: bool,
    /// Two holders are expected.
    pub expects_trouble: bool,
    /// The server may lose acknowledged writes.
    pub loses_writes: bool,
    /// Several servers may answer at one time, each with writes that the others lack.
    pub forks: bool,
    /// Holds are ended by force.
    pub forced: bool,
    /// The longest usual delay of a message in µs.
    pub delay: u64,
    /// The greatest difference between the clocks of servers that replace each other, in µs.
    pub servers_differ: u64,
}

/// The known state.
#[derive(Debug)]
pub struct View {
    /// Clock and processes of the run.
    pub exec: Arc<Exec>,
    /// The true time in µs.
    pub now: u64,
    /// The conditions.
    pub conditions: Conditions,
    /// The running acquisitions.
    pub calls: BTreeMap<Id, Call>,
    /// The delivered guards.
    pub claims: BTreeMap<Id, Claim>,
    /// Per name, the greatest token that was delivered.
    pub acked: Vec<u64>,
    /// Holds (name, hold) that were forced. The value tells whether the hold was ended; otherwise
    /// only its renewal was forbidden.
    pub forced: BTreeMap<(usize, Arc<str>), bool>,
    /// The time at which all faults ended.
    pub healed: Option<u64>,
    /// The time of the last change of a subscription.
    pub resubscribed: u64,
    pub(super) subscribed: BTreeMap<ProcId, bool>,
}

impl Conditions {
    /// Tells whether two servers may grant one name. The tokens of such grants are different, and
    /// need not rise in the order in which work begins.
    pub const fn diverge(&self) -> bool {
        self.forks && self.expects_trouble
    }

    /// Derives the conditions from the faults of a seed.
    pub fn of(faults: &Faults, scenario: Option<&Scenario>) -> Self {
        Self {
            calm: faults.is_calm(),
            calm_but_for_pubsub: faults.is_calm_but_for(&[Fault::PubSubCut]),
            calm_but_for_messages: faults.is_calm_but_for(&[Fault::PubSubCut, Fault::MessageLost]),
            expects_trouble: faults.expects_trouble()
                || scenario.is_some_and(|scenario| scenario.expects_trouble),
            loses_writes: faults.loses_writes(),
            forks: faults.has(Fault::TwoMasters),
            forced: faults.has(Fault::Force),
            delay: faults.delays().1,
            servers_differ: scenario.map_or(0, |scenario| scenario.servers_differ * 1_000),
        }
    }
}

impl View {
    pub(super) fn new(exec: Arc<Exec>, names: usize, conditions: Conditions) -> Self {
        Self {
            exec,
            now: 0,
            conditions,
            calls: BTreeMap::new(),
            claims: BTreeMap::new(),
            acked: vec![0; names],
            forced: BTreeMap::new(),
            healed: None,
            resubscribed: 0,
            subscribed: BTreeMap::new(),
        }
    }

    /// Returns the number of names.
    pub fn names(&self) -> usize {
        self.acked.len()
    }

    /// Returns the delivered guards of a name.
    pub fn of_name(&self, name: usize) -> impl Iterator<Item = (Id, &Claim)> {
        let claims = self.claims.iter().map(|(&id, claim)| (id, claim));
        claims.filter(move |(_, claim)| claim.name == name)
    }

    /// Tells whether the holder of a guard may rely on it now.
    pub fn is_believed(&self, claim: &Claim) -> bool {
        self.exec.is_alive(claim.proc) && claim.believes(self.now)
    }

    /// Tells whether the hold of a guard was ended by force. Its holder believes in it until it
    /// learns of that.
    pub fn was_ended_by_force(&self, claim: &Claim) -> bool {
        let hold = (claim.name, Arc::clone(&claim.hold));
        self.forced.get(&hold).is_some_and(|&ended| ended)
    }

    /// Tells whether a hold was forced in either way.
    pub fn was_forced(&self, name: usize, hold: &Arc<str>) -> bool {
        self.forced.contains_key(&(name, Arc::clone(hold)))
    }

    /// Records the actions of a script.
    pub(super) fn saw(&mut self, seen: &[Seen]) {
        for seen in seen {
            if let Act::Forced { ended, .. } = seen.act {
                let hold = (seen.name, seen.id.as_str().into());
                *self.forced.entry(hold).or_default() |= ended;
            }
        }
    }

    /// Tells whether a process has lost its subscriptions and not restored them.
    pub fn is_unsubscribed(&self, proc: ProcId) -> bool {
        self.subscribed.get(&proc) == Some(&false)
    }

    /// Counts the holds of a name with delivered guards. Holds of two processes count as two.
    pub fn holds(&self, name: usize) -> usize {
        let claims = self.of_name(name);
        let holds: BTreeSet<_> = claims.map(|(_, claim)| (claim.proc, &claim.hold)).collect();
        holds.len()
    }
}

impl Claim {
    /// Tells whether both guards belong to one hold. The same identity in two processes does not
    /// make one hold.
    pub fn is_with(&self, other: &Self) -> bool {
        self.proc == other.proc && self.hold == other.hold
    }

    /// Tells whether both guards have one owner.
    pub fn shares_owner(&self, other: &Self) -> bool {
        self.proc == other.proc && self.owner == other.owner
    }

    /// Returns the deadline by the holder's clock in µs; `None` once the guard is dropped.
    pub fn valid_until(&self) -> Option<u64> {
        let guard = self.sight.upgrade()?;
        Some(micros(guard.valid_until().since_origin()))
    }

    /// Tells whether the holder may rely on the guard, by its deadline and by its state. The check
    /// does not change the guard.
    pub fn believes(&self, now: u64) -> bool {
        let now = self.clock.read(now);
        let near = |until: u64| now < until && now + GRAIN >= until;
        !self.told && (self.valid_until().is_some_and(near) || self.stands(now))
    }

    /// Tells whether the guard reports itself as valid, and its deadline is not near. `now` is the
    /// time of its clock.
    pub(super) fn stands(&self, now: u64) -> bool {
        self.sight.upgrade().is_some_and(|guard| {
            let until = micros(guard.valid_until().since_origin());
            now + GRAIN < until && !matches!(guard.state(), HoldState::Lost(_))
        })
    }
}

/// The granularity of timers: the tolerance of the promises, in µs.
pub const GRAIN: u64 = 2_000;
