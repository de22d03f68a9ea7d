//! Locks that replicas have to confirm.

use fastrand::Rng;
use redlatch::{Client, Durability};

use super::{Bench, Crew, Entry, Kind, Visit, Wanted, any, given, visit_lock};

/// The plain lock, confirmed by replicas.
pub(super) struct Durable;

impl Kind for Durable {
    fn start(&self, crew: &mut Crew<'_>) {
        if crew.bench.replicas > 0 {
            crew.repeat(4, round);
        }
    }

    fn visit<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        visit_lock(client, name)
    }
}

async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "durable");
    let lock = bench.client(&mut random).lock(&name);
    let all = Durability::Replicas(bench.replicas);
    let given = given!(
        &bench,
        &mut random,
        Wanted::of("durable", &name),
        lock.lock().durability(all),
        lock.try_lock().durability(all),
        |wait| lock.try_lock_for(wait).durability(all)
    );
    if let Some((asked, guard)) = given {
        let entry = Entry {
            durable: true,
            ..Entry::exclusive("durable")
        };
        bench.hold(&mut random, entry, asked, guard).await;
    }
}
