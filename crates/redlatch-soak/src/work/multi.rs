//! Two of the plain locks, held together.

use std::time::Duration;

use fastrand::Rng;
use redlatch::{Client, Error, MultiGuard, Released};

use super::{Bench, Crew, Entry, Kind, Visit, Wanted, given, visit_lock};
use crate::{any_guard::AnyGuard, names};

/// Several plain locks at once. Its names are those of the plain lock.
pub(super) struct Several;

impl Kind for Several {
    fn start(&self, crew: &mut Crew<'_>) {
        crew.repeat(3, round);
    }

    fn visit<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        visit_lock(client, name)
    }
}

impl AnyGuard for MultiGuard {
    fn valid(&self) -> bool {
        self.check().is_ok()
    }

    fn parts(&self) -> Vec<(String, u64)> {
        let members = self.members().iter();
        members
            .map(|held| (held.name().to_owned(), held.token().as_u64()))
            .collect()
    }

    async fn prolong(&self, span: Duration) -> Result<(), Error> {
        self.extend(span).await
    }

    async fn give_back(self) -> Result<bool, Error> {
        let released = self.release().await?;
        Ok(released
            .iter()
            .all(|(_, outcome)| *outcome == Released::Free))
    }
}

async fn round(bench: Bench, mut random: Rng) {
    let client = bench.client(&mut random).clone();
    let mut numbers: Vec<_> = (0..names::count("lock")).collect();
    random.shuffle(&mut numbers);
    let both = [0, 1].map(|at| names::name("lock", numbers[at]));
    let locks = both.each_ref().map(|name| client.lock(name));
    let multi = client.multi_lock(&[&locks[0], &locks[1]]);
    let given = given!(
        &bench,
        &mut random,
        Wanted::all("multi", &both),
        multi.lock(),
        multi.try_lock(),
        |wait| multi.try_lock_for(wait)
    );
    if let Some((asked, guard)) = given {
        let entry = Entry::exclusive("multi");
        bench.hold(&mut random, entry, asked, guard).await;
    }
}
