//! The state that clients and the run share.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use redlatch_core::runtime::BoxFuture;
use tokio::sync::Notify;

use super::Event;
use crate::{
    exec::{Exec, ProcId, lock},
    faults::Faults,
    mutants::Spoilt,
    names::name_of,
    net::Net,
    plan::Plan,
    rng::Rng,
    scenarios::Scenario,
    server::Server,
    watch::Watch,
    workload::Kind,
};

/// The state that clients and the run share.
#[derive(Debug)]
pub struct Shared {
    /// The kind of this seed.
    pub kind: Kind,
    /// Clock, tasks and timers.
    pub exec: Arc<Exec>,
    /// The network.
    pub net: Arc<Net>,
    /// The observer.
    pub watch: Arc<Watch>,
    /// The parameters of this seed.
    pub plan: Plan,
    /// The faults of the safety phase.
    pub faults: Faults,
    /// The rule that clients break.
    pub broken: Option<redlatch_core::family::Rule>,
    /// The faults that a mutant has planted around the clients.
    pub spoilt: Spoilt,
    /// The scenario of the seed.
    pub scenario: Option<&'static Scenario>,
    /// The seed.
    pub seed: u64,
    /// The progress of the workers of each client.
    pub done: Done,
    pub(super) rounds: Mutex<Vec<u64>>,
    pub(super) healed: AtomicBool,
    pub(super) heal: Notify,
    pub(super) resting: Mutex<Vec<usize>>,
    /// The clients that have completed all their work, by number and id.
    pub(super) over: Mutex<BTreeSet<(usize, String)>>,
    pub(super) outside: ProcId,
}

/// Counts workers that have ended.
#[derive(Debug)]
pub struct Done {
    pub(super) counts: Vec<AtomicUsize>,
    pub(super) changed: Notify,
}

impl Done {
    /// Waits until `workers` of a client have ended.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn of(&self, client: usize, workers: usize) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.counts[client].load(Ordering::Relaxed) >= workers {
                return;
            }
            changed.await;
        }
    }

    /// Counts one worker of `client` as ended.
    pub fn one(&self, client: usize) {
        self.counts[client].fetch_add(1, Ordering::Relaxed);
        self.changed.notify_waiters();
    }
}

impl Shared {
    /// Tells whether all faults have ended.
    pub fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    /// Tells whether the servers of these names have answered at once since `time`: no fault
    /// affects them, or other masters were dead. Of several servers a quorum may lack some.
    pub fn answers(&self, names: &[usize], time: u64) -> bool {
        let settled = time.saturating_sub(RECONNECTED);
        let lived = || self.has_only_dead_masters() && self.net.lived_since(names, settled);
        self.plan.nodes() == 1 && (self.faults.is_calm() || lived())
    }

    /// Tells whether a client that began to start at `time` has to succeed: no fault affects its
    /// servers, or one master was dead all the time. One that dies meanwhile may take the time.
    pub fn lets_start(&self, time: u64) -> bool {
        let dead = || self.has_only_dead_masters() && self.net.nobody_died_since(time);
        self.faults.is_calm() || dead()
    }

    fn has_only_dead_masters(&self) -> bool {
        self.scenario.is_some_and(|scenario| scenario.alone)
    }

    /// Resolves when all faults have ended.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn healed(&self) {
        let mut heal = std::pin::pin!(self.heal.notified());
        heal.as_mut().enable();
        if !self.is_healed() {
            heal.await;
        }
    }

    /// Takes one of the client's rounds, if there are any left.
    pub fn takes_round(&self, client: usize) -> bool {
        let mut rounds = lock(&self.rounds);
        let taken = rounds[client] > 0;
        rounds[client] = rounds[client].saturating_sub(1);
        taken
    }

    /// Records that a worker has no rounds left.
    pub fn rests(&self, client: usize) {
        let mut resting = lock(&self.resting);
        resting[client] += 1;
        if !self.is_healed()
            && resting.iter().sum::<usize>() == self.plan.clients * self.plan.workers
        {
            self.exec.schedule(self.exec.now() + 1, Event::Heal);
        }
    }

    /// Records that a client has completed all its work.
    pub fn finished(&self, client: usize, id: &str) {
        lock(&self.over).insert((client, id.to_owned()));
    }

    /// Returns the holders of a name on any server.
    pub fn holders(&self, name: usize) -> Vec<String> {
        let state = self.net.state();
        let holders = |server: &Server| {
            let now = server.time(self.exec.now());
            let mut dump = server.engine().dump(now);
            dump.retain(|key| name_of(&String::from_utf8_lossy(&key.key)) == Some(name));
            let keys = dump.into_iter();
            keys.flat_map(move |key| self.kind.holders(&key, now.millis()))
                .collect::<Vec<_>>()
        };
        state.leading().flat_map(holders).collect()
    }

    /// Runs `action` after `micros`, even if the client is gone.
    pub fn store(&self, micros: u64, action: BoxFuture<()>) {
        let sleep = crate::runtime::SimRuntime::new(
            Arc::clone(&self.exec),
            self.outside,
            crate::runtime::Clock::steady(0, 0),
            Rng::new(0),
        );
        let until = redlatch_core::Moment::from_origin(std::time::Duration::from_micros(
            self.exec.now() + micros,
        ));
        let wait = redlatch_core::runtime::Runtime::sleep_until(&sleep, until);
        self.exec.spawn(
            self.outside,
            Box::pin(async move {
                wait.await;
                action.await;
            }),
        );
    }
}

/// The time in µs after which every client has found a master that is back.
const RECONNECTED: u64 = 10_000_000;
