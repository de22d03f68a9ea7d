//! The measures of one seed: how many clients, what leases, whose clock runs how.

use crate::{
    faults::{Fault, Faults},
    rng::Rng,
    runtime::Clock,
    scenarios::Scenario,
};

/// What a seed is about.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Clients.
    pub clients: usize,
    /// Tasks per client.
    pub workers: usize,
    /// Names that are locked.
    pub names: usize,
    /// Rounds per client.
    pub rounds: u64,
    /// The renewed lease, the longest there is but for extensions, in ms.
    pub lease: u64,
    /// The clients' patience in ms.
    pub patience: u64,
    /// How long tokens are kept, in ms.
    pub retention: u64,
    /// Whether clients look at the server when they connect.
    pub self_check: bool,
    /// The clocks of the clients.
    pub clocks: Vec<Clock>,
    /// The servers'.
    pub server_clocks: Vec<Clock>,
    /// What servers that may take over from each other are ahead of the slowest of them, in µs; the
    /// first is in charge at first.
    pub successors: Vec<u64>,
    /// By how much these may differ, in ms.
    pub servers_differ: u64,
    /// What clients are told that they may differ by, in ms.
    pub allowance: u64,
}

impl Plan {
    /// Draws the measures of a seed.
    pub fn draw(rng: &mut Rng, faults: &Faults) -> Self {
        let clients = usize::try_from(rng.between(2, 8)).unwrap_or(2);
        let drifts = faults.has(Fault::Drift);
        let clocks = (0..clients)
            .map(|_| draw_clock(rng, drifts, 1_000_000))
            .collect();
        let server_clocks = vec![draw_clock(rng, drifts, SERVER_TIME)];
        // In some seeds few clients have many tasks, so that names go from task to task within one.
        let workers = if clients == 2 { (3, 5) } else { (1, 2) };
        Self {
            clients,
            workers: usize::try_from(rng.between(workers.0, workers.1)).unwrap_or(1),
            names: usize::try_from(rng.between(1, 3)).unwrap_or(1),
            rounds: 20,
            lease: rng.between(1_000, 3_000),
            patience: rng.between(1_000, 10_000),
            retention: rng.between(10_000, 60_000),
            self_check: rng.chance(200),
            clocks,
            server_clocks,
            successors: vec![0],
            servers_differ: 0,
            allowance: 0,
        }
    }

    /// Puts it into a scenario, by chance of its own.
    #[must_use]
    pub fn within(mut self, scenario: &Scenario, seed: u64) -> Self {
        self.successors = scenario.draw_clocks(seed);
        self.servers_differ = scenario.servers_differ;
        self.allowance = scenario.allowance;
        self
    }

    /// What servers whose clocks differ add to how long things last, in ms: a key lives on for as
    /// long as the next server is behind, and a hold for as much longer as clients allow for.
    pub const fn beyond(&self) -> u64 {
        self.servers_differ + self.allowance
    }

    /// Makes it a plan over so many servers, by chance of its own, so that what one server does in
    /// a seed does not depend on it.
    #[must_use]
    pub fn over(mut self, nodes: usize, seed: u64, faults: &Faults) -> Self {
        let mut rng = Rng::new(seed.rotate_left(16));
        while self.server_clocks.len() < nodes {
            let clock = draw_clock(&mut rng, faults.has(Fault::Drift), SERVER_TIME);
            self.server_clocks.push(clock);
        }
        self
    }

    /// Returns how many servers there are.
    pub const fn nodes(&self) -> usize {
        self.server_clocks.len()
    }

    /// How long after healing everybody must have got everything, in µs: a hold of the dead may
    /// last two leases, it may take 6 s until a client misses its subscription, and it looks
    /// without one every 2.4 s; one request may wait 1 s for a connection that is gone. The rest is
    /// for the hand-offs.
    pub const fn liveness(&self) -> u64 {
        self.beyond() * 1020 + self.lease * 2040 + 6_000_000 + 2_400_000 + 1_000_000 + 600_000
    }
}

fn draw_clock(rng: &mut Rng, drifts: bool, offset: u64) -> Clock {
    // Clocks that just differ most are the ones that find a margin too small.
    let drift = match (drifts, rng.below(3)) {
        (false, _) => 0,
        (true, 0) => 10_000,
        (true, 1) => -10_000,
        (true, _) => rng.between(0, 20_000).cast_signed() - 10_000,
    };
    let offset = offset + rng.below(1_000_000_000);
    // Half of them change their rates.
    if drifts && offset.is_multiple_of(2) {
        Clock::wandering(offset, 10_000, &mut Rng::new(offset))
    } else {
        Clock::steady(offset, drift)
    }
}

/// What a server's clock says when a run begins, at least, in µs.
const SERVER_TIME: u64 = 1_700_000_000_000_000;
