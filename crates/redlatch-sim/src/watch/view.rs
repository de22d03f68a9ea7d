//! What the observer knows: who asks, who believes to hold, who hears messages.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Duration,
};

use redlatch_core::{HoldState, Moment};

use crate::{
    exec::{Exec, ProcId},
    faults::{Fault, Faults},
    runtime::Clock,
    scenarios::Scenario,
    scripts::Seen,
};

/// The number of a call or of a delivered guard.
pub type Id = u64;

/// A guard that the observer may look at for as long as its holder has it.
pub type Sight = Weak<dyn Sighted>;

/// What the observer looks at in a guard. Looking must not touch: only what asks nobody and changes
/// nothing.
pub trait Sighted: Send + Sync {
    /// The deadline by its client's clock.
    fn valid_until(&self) -> Moment;

    /// What its client knows. Asked near its end, this may tell the holder of its loss, so the
    /// observer does not ask then.
    fn state(&self) -> HoldState;
}

/// How a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// For a wake, as long as it takes.
    Patiently,
    /// For a wake, but not for long, or not at all.
    Briefly,
    /// By asking again and again. Who is behind it in its client's queue goes at its pace.
    Polling,
}

/// What a hold leaves to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    Whole,
    /// Room for others that share.
    Shared,
    /// All but this many units.
    Units {
        /// How many it has.
        taken: u64,
        /// How many there are in all.
        of: u64,
    },
}

/// An acquisition under way.
#[derive(Debug)]
pub struct Call {
    /// Whose.
    pub proc: ProcId,
    /// Of which name.
    pub name: usize,
    /// When it began.
    pub since: u64,
    /// How it waits.
    pub waits: Waits,
    /// The greatest token that anybody had when it began.
    pub acked: u64,
}

/// A delivered guard.
#[derive(Debug)]
pub struct Claim {
    /// Whose.
    pub proc: ProcId,
    /// Whose, in words.
    pub who: String,
    /// Of which name.
    pub name: usize,
    /// Which hold it belongs to.
    pub hold: Arc<str>,
    /// Who owns the hold, as the server stores it.
    pub owner: Arc<str>,
    /// Its fencing token, if it has one.
    pub token: Option<u64>,
    /// What it leaves to others.
    pub part: Part,
    /// Its client's clock.
    pub clock: Clock,
    /// The guard.
    pub sight: Sight,
    /// When it was delivered.
    pub delivered: u64,
    /// Whether the watchdog renews it.
    pub renewed: bool,
    /// Whether its holder was told of its loss.
    pub told: bool,
}

/// Under which conditions promises are made in this run.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Nothing happens to messages, server or processes.
    pub calm: bool,
    /// Nothing but subscriptions suffers.
    pub calm_but_for_pubsub: bool,
    /// Nothing but messages suffers: they are lost one by one too.
    pub calm_but_for_messages: bool,
    /// Two holders are expected.
    pub expects_trouble: bool,
    /// The server may forget what it has answered.
    pub loses_writes: bool,
    /// Holds are ended by force.
    pub forced: bool,
    /// The longest usual delay of a message in µs.
    pub delay: u64,
    /// By how much the clocks of servers that take over from each other may differ, in µs.
    pub servers_differ: u64,
}

/// All that is known.
#[derive(Debug)]
pub struct View {
    /// Clock and processes.
    pub exec: Arc<Exec>,
    /// The true time in µs.
    pub now: u64,
    /// The conditions.
    pub conditions: Conditions,
    /// Acquisitions under way.
    pub calls: BTreeMap<Id, Call>,
    /// Guards that are out.
    pub claims: BTreeMap<Id, Claim>,
    /// Per name: the greatest token delivered.
    pub acked: Vec<u64>,
    /// Holds (name, hold) that somebody has forced, and whether they were ended and not only to be
    /// renewed no more.
    pub forced: BTreeMap<(usize, Arc<str>), bool>,
    /// When all faults ended.
    pub healed: Option<u64>,
    /// When a subscription last came or went.
    pub resubscribed: u64,
    pub(super) subscribed: BTreeMap<ProcId, bool>,
}

impl Conditions {
    /// Derives them from the faults of a seed.
    pub fn of(faults: &Faults, scenario: Option<&Scenario>) -> Self {
        Self {
            calm: faults.is_calm(),
            calm_but_for_pubsub: faults.is_calm_but_for_pubsub(),
            calm_but_for_messages: faults.is_calm_but_for_messages(),
            expects_trouble: faults.expects_trouble()
                || scenario.is_some_and(|scenario| scenario.expects_trouble),
            loses_writes: faults.loses_writes(),
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

    /// Returns the guards of a name that are out.
    pub fn of_name(&self, name: usize) -> impl Iterator<Item = (Id, &Claim)> {
        let claims = self.claims.iter();
        claims
            .filter(move |(_, claim)| claim.name == name)
            .map(|(&id, claim)| (id, claim))
    }

    /// Returns the guards of a name whose holders may rely on them now.
    pub fn believers(&self, name: usize) -> impl Iterator<Item = (Id, &Claim)> {
        self.of_name(name)
            .filter(|(_, claim)| self.exec.is_alive(claim.proc) && claim.believes(self.now))
    }

    /// Tells whether the hold of a guard was ended by force, so that it is believed in until its
    /// holder hears of it.
    pub fn was_ended_by_force(&self, claim: &Claim) -> bool {
        let hold = (claim.name, Arc::clone(&claim.hold));
        self.forced.get(&hold).is_some_and(|&ended| ended)
    }

    /// Tells whether a hold was forced at all.
    pub fn was_forced(&self, name: usize, hold: &Arc<str>) -> bool {
        self.forced.contains_key(&(name, Arc::clone(hold)))
    }

    /// Takes note of what a script has done.
    pub(super) fn saw(&mut self, seen: &[Seen]) {
        for seen in seen {
            if let Seen::Forced {
                name, hold, ended, ..
            } = seen
            {
                let before = self
                    .forced
                    .entry((*name, hold.as_str().into()))
                    .or_default();
                *before |= ended;
            }
        }
    }

    /// Tells whether some process is without its subscription.
    pub fn somebody_is_unsubscribed(&self) -> bool {
        self.subscribed.values().any(|heard| !heard)
    }

    /// Tells whether a process has lost its subscriptions and not got them back.
    pub fn is_unsubscribed(&self, proc: ProcId) -> bool {
        self.subscribed.get(&proc) == Some(&false)
    }

    /// Counts the holds of a name that have guards out; what two processes have are two holds.
    pub fn holds(&self, name: usize) -> usize {
        let claims = self.of_name(name);
        let holds: BTreeSet<_> = claims.map(|(_, claim)| (claim.proc, &claim.hold)).collect();
        holds.len()
    }
}

impl Claim {
    /// Tells whether both belong to one hold. The same words in two processes do not make one.
    pub fn is_with(&self, other: &Self) -> bool {
        self.proc == other.proc && self.hold == other.hold
    }

    /// Tells whether both have one owner.
    pub fn shares_owner(&self, other: &Self) -> bool {
        self.proc == other.proc && self.owner == other.owner
    }

    /// The deadline by the holder's clock in µs; `None` once the guard has gone.
    pub fn valid_until(&self) -> Option<u64> {
        self.sight
            .upgrade()
            .map(|guard| micros(guard.valid_until().since_origin()))
    }

    /// Whether the holder may rely on it: by its deadline, or because it knows better. Looks
    /// without touching.
    pub fn believes(&self, now: u64) -> bool {
        if self.told {
            return false;
        }
        let now = self.clock.read(now);
        let Some(guard) = self.sight.upgrade() else {
            return false;
        };
        let until = micros(guard.valid_until().since_origin());
        if now + GRAIN >= until {
            return now < until;
        }
        !matches!(guard.state(), HoldState::Lost(_))
    }

    /// Whether the guard says again that it is good, whatever its holder was told.
    pub fn believes_again(&self, now: u64) -> bool {
        let now = self.clock.read(now);
        let Some(guard) = self.sight.upgrade() else {
            return false;
        };
        let until = micros(guard.valid_until().since_origin());
        now + GRAIN < until && !matches!(guard.state(), HoldState::Lost(_))
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// The grain of timers: the slack that the promises allow for, in µs.
pub const GRAIN: u64 = 2_000;
