//! A lock over a quorum of servers.

use std::time::Duration;

use fastrand::Rng;
use redlatch::{Client, Error, RedGuard};

use super::{Bench, Crew, Entry, Kind, Visit, Wanted, any, millis, visit_lock};
use crate::any_guard::AnyGuard;

/// The lock over a quorum. One of its nodes is the server that has all names.
pub(super) struct Quorum;

impl Kind for Quorum {
    fn start(&self, crew: &mut Crew<'_>) {
        if !crew.bench.nodes.is_empty() {
            crew.repeat(3, round);
        }
    }

    fn visit<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        visit_lock(client, name)
    }
}

/// The guard of a red-lock, with its name, which the guard does not know.
struct Red(String, RedGuard);

impl AnyGuard for Red {
    fn valid(&self) -> bool {
        self.1.check().is_ok()
    }

    fn parts(&self) -> Vec<(String, u64)> {
        vec![(self.0.clone(), 0)]
    }

    async fn prolong(&self, span: Duration) -> Result<(), Error> {
        self.1.extend(span).await
    }

    /// Releases it and reports no freed name: its waiters retry after pauses, so there is no
    /// hand-off to measure.
    async fn give_back(self) -> Result<bool, Error> {
        self.1.release().await?;
        Ok(false)
    }
}

async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "red");
    let clients: &Vec<Client> = &bench.nodes[random.usize(..bench.nodes.len())];
    let lock = clients[0].red_lock(&name, &clients[1..]);
    let lease = millis(&mut random, 500..3_000);
    let wait = millis(&mut random, 100..2_000);
    let given = lock.try_lock_for(wait).lease(lease);
    let what = Wanted::of("red", &name).bounded();
    if let Some((asked, Some(guard))) = bench.acquire(&mut random, what, given).await {
        let entry = Entry::exclusive("red");
        let guard = Red(name, guard);
        bench.hold(&mut random, entry, asked, guard).await;
    }
}
