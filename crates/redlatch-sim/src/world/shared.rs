//! The state that clients and the run share.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use redlatch_embedded::engine::KeyDump;
use tokio::sync::watch;

use super::World;
use crate::{
    exec::{Exec, lock},
    faults::Faults,
    mutants::What,
    names::name_of,
    net::Net,
    plan::Plan,
    scenarios::Scenario,
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
    pub net: Arc<Mutex<Net>>,
    /// The observer.
    pub watch: Arc<Watch>,
    /// The parameters of this seed.
    pub plan: Plan,
    /// The faults of the safety phase.
    pub faults: Faults,
    /// The planted fault.
    pub planted: Option<What>,
    /// The scenario of the seed.
    pub scenario: Option<&'static Scenario>,
    /// The seed.
    pub seed: u64,
    /// The progress of each client.
    pub(super) progress: Mutex<Vec<Progress>>,
    /// Changes when a worker has ended.
    pub(super) ends: watch::Sender<()>,
    pub(super) healed: watch::Sender<bool>,
    /// The clients that have completed all their work, by number and id.
    pub(super) over: Mutex<BTreeSet<(usize, String)>>,
}

/// How far the workers of a client have got.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// The rounds that are left.
    pub(super) rounds: u64,
    /// The workers of the present life that have no rounds left.
    pub(super) resting: usize,
    /// The workers that have ended.
    pub(super) ended: usize,
}

impl Shared {
    /// Locks the network.
    pub fn net(&self) -> MutexGuard<'_, Net> {
        lock(&self.net)
    }

    /// Tells whether all faults have ended.
    pub fn is_healed(&self) -> bool {
        *self.healed.borrow()
    }

    /// Tells whether the servers of these names have answered at once since `time`: no fault
    /// affects them, or other masters were dead. Of several servers a quorum may lack some.
    pub fn answers(&self, names: &[usize], time: u64) -> bool {
        let settled = time.saturating_sub(RECONNECTED);
        let lived = || self.has_only_dead_masters() && self.net().lived_since(names, settled);
        self.plan.nodes() == 1 && (self.faults.is_calm() || lived())
    }

    /// Tells whether a client that began to start at `time` has to succeed: no fault affects its
    /// servers, or one master was dead all the time. One that dies meanwhile may take the time.
    pub fn lets_start(&self, time: u64) -> bool {
        let dead = || self.has_only_dead_masters() && self.net().last_death <= time;
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
        let mut heals = self.healed.subscribe();
        // The sender is not dropped meanwhile.
        let _ = heals.wait_for(|&healed| healed).await;
    }

    /// Takes one of the client's rounds, if there are any left.
    pub fn takes_round(&self, client: usize) -> bool {
        let rounds = &mut lock(&self.progress)[client].rounds;
        let taken = *rounds > 0;
        *rounds = rounds.saturating_sub(1);
        taken
    }

    /// Records that a worker has no rounds left.
    pub fn rests(&self, client: usize) {
        let mut progress = lock(&self.progress);
        progress[client].resting += 1;
        let resting: usize = progress.iter().map(|client| client.resting).sum();
        if !self.is_healed() && resting == self.plan.clients * self.plan.workers {
            self.exec.after(1, World::heal);
        }
    }

    /// Records that a worker has ended.
    pub fn ended(&self, client: usize) {
        lock(&self.progress)[client].ended += 1;
        self.ends.send_replace(());
    }

    /// Waits until all workers of a client have ended.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn all_ended(&self, client: usize) {
        let mut ends = self.ends.subscribe();
        while lock(&self.progress)[client].ended < self.plan.workers {
            // The sender is not dropped meanwhile.
            let _ = ends.changed().await;
        }
    }

    /// Records that a client has completed all its work.
    pub fn finished(&self, client: usize, id: &str) {
        lock(&self.over).insert((client, id.to_owned()));
    }

    /// Returns the number of clients that have work left.
    pub(super) fn late(&self) -> usize {
        self.plan.clients - lock(&self.over).len() / self.plan.nodes()
    }

    /// Returns the holders of a name on any server.
    pub fn holders(&self, name: usize) -> Vec<String> {
        let keys = self.keys(0).into_iter().filter(|(_, of, _)| *of == name);
        keys.flat_map(|(now, _, key)| (self.kind.holders)(&key, now))
            .collect()
    }

    /// Returns the keys of names at all masters `after` µs from now, as if nothing else happened,
    /// each with the server's time in ms and the name.
    pub(super) fn keys(&self, after: u64) -> Vec<(u64, usize, KeyDump)> {
        let at = self.exec.now() + after;
        let net = self.net();
        let keys = net.leading().flat_map(|server| {
            let now = server.time(at);
            let named = move |key: KeyDump| {
                let name = name_of(&String::from_utf8_lossy(&key.key))?;
                Some((now.millis(), name, key))
            };
            server.engine.dump(now).into_iter().filter_map(named)
        });
        keys.collect()
    }
}

/// The time in µs after which every client has found a master that is back.
const RECONNECTED: u64 = 10_000_000;
