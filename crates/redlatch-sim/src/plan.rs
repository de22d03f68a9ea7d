//! The parameters of one seed: the number of clients, the leases and the clocks.

use std::ops::Range;

use redlatch_core::{Durability, family::SLOTS};

use crate::{
    faults::{Fault, Faults},
    names::NAMES,
    rng::Rng,
    runtime::Clock,
    scenarios::Scenario,
};

/// The parameters of a seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of clients.
    pub clients: usize,
    /// The number of tasks per client.
    pub workers: usize,
    /// The number of names that are locked.
    pub names: usize,
    /// The number of rounds per client.
    pub rounds: u64,
    /// The renewed lease in ms. Only an extension is longer.
    pub lease: u64,
    /// The clients' patience in ms.
    pub patience: u64,
    /// The time for which tokens are kept, in ms.
    pub retention: u64,
    /// Whether clients check the server when they connect.
    pub self_check: bool,
    /// The clocks of the clients.
    pub clocks: Vec<Clock>,
    /// The clocks of the servers.
    pub server_clocks: Vec<Clock>,
    /// The offsets in µs of the servers that may replace each other, relative to the slowest of
    /// them. The first one serves at the start.
    pub successors: Vec<u64>,
    /// The greatest difference between the clocks of these servers, in ms.
    pub servers_differ: u64,
    /// The difference between server clocks for which clients are told to allow, in ms.
    pub allowance: u64,
    /// The servers that a client finds.
    pub group: Group,
    /// The durability that callers ask for.
    pub durability: Durability,
    /// Whether the replica that has the most takes over, after all replicas have lost the master.
    /// Otherwise any takes over that has data of it.
    pub best: bool,
    /// The tasks of a client think until the next multiple of this many µs, so that their calls are
    /// ready together; zero if they do not.
    pub beat: u64,
}

impl Plan {
    /// Draws the parameters of a seed.
    pub fn draw(rng: &mut Rng, faults: &Faults) -> Self {
        let clients = usize::try_from(rng.between(2, 8)).unwrap_or(2);
        let drifts = faults.has(Fault::Drift);
        let clocks = (0..clients).map(|_| draw_clock(rng, drifts, 1_000_000));
        let clocks = clocks.collect();
        let server_clocks = vec![draw_clock(rng, drifts, SERVER_TIME)];
        // In some seeds few clients have many tasks, so that names pass between the tasks of one
        // client.
        let workers = if clients == 2 { (3, 5) } else { (1, 2) };
        Self {
            clients,
            workers: usize::try_from(rng.between(workers.0, workers.1)).unwrap_or(1),
            names: usize::try_from(rng.between(1, 3)).unwrap_or(1),
            rounds: 20,
            // A release grants no lease below 4 s ahead.
            lease: match rng.between(1_000, 3_000) {
                few @ ..1_600 => few + 3_000,
                most => most,
            },
            patience: rng.between(1_000, 10_000),
            retention: rng.between(10_000, 60_000),
            self_check: rng.chance(200),
            clocks,
            server_clocks,
            successors: vec![0],
            servers_differ: 0,
            allowance: 0,
            group: Group::ONE,
            durability: Durability::Master,
            best: false,
            beat: 0,
        }
    }

    /// Gives some plans of few clients many tasks, on many names and on one beat. It uses separate
    /// random numbers.
    #[must_use]
    pub fn crowded(mut self, seed: u64) -> Self {
        let mut rng = Rng::new(seed.rotate_left(48));
        let few = self.clients <= 3;
        if !few || rng.chance(400) {
            return self;
        }
        let mut between = |least, most| usize::try_from(rng.between(least, most)).unwrap_or(4);
        self.workers = between(4, 8);
        self.names = between(4, NAMES.len() as u64);
        self.rounds = 40;
        self.beat = 1_000 * rng.between(2, 30);
        self
    }

    /// Applies a scenario, with separate random numbers.
    #[must_use]
    pub fn within(mut self, scenario: &Scenario, seed: u64) -> Self {
        self.successors = scenario.draw_clocks(seed);
        self.servers_differ = scenario.servers_differ;
        self.allowance = scenario.allowance;
        self.group = Group {
            finding: match scenario.masters {
                1 => Finding::Fixed,
                _ => Finding::Cluster,
            },
            shards: scenario.masters,
            ..Group::ONE
        };
        if scenario.replicated {
            self.replicate(scenario, seed);
        }
        if self.group.shards > 1 {
            // Each master has one of the first three.
            self.names = self.names.max(3);
        }
        self
    }

    /// Draws replicas, and how clients find the masters, with separate random numbers.
    fn replicate(&mut self, scenario: &Scenario, seed: u64) {
        let mut rng = Rng::new(seed.rotate_left(8));
        let replicas = rng.between(1, 2).max(rng.between(1, 2));
        let (finding, shards, sentinels) = match rng.below(3) {
            0 => (Finding::Cluster, 2, 0),
            1 => (Finding::Roles, 1, 0),
            _ => (Finding::Sentinels, 1, 3),
        };
        self.group = Group {
            finding,
            shards,
            replicas: usize::try_from(replicas).unwrap_or(1),
            sentinels,
        };
        let all = Durability::Replicas(u32::try_from(replicas).unwrap_or(1));
        // The replica that has the most takes over if one confirmation of two is enough.
        (self.durability, self.best) = match (scenario.durable, rng.below(4)) {
            (durable, 0) if replicas == 2 => (Durability::Replicas(1), durable),
            (true, 1 | 2) => (Durability::Majority, true),
            (true, _) => (all, false),
            (false, _) => (Durability::Master, false),
        };
    }

    /// Tells whether the clocks of servers differ by more than the allowance.
    pub const fn servers_are_wild(&self) -> bool {
        self.servers_differ > self.allowance
    }

    /// Returns the number of servers that hold data.
    pub fn servers(&self) -> usize {
        match self.group.replicas {
            0 => self.nodes(),
            _ => self.group.servers(),
        }
    }

    /// Returns the extra lifetime of data in ms that results from differing server clocks. A key
    /// lives longer by the lag of the next server, and a hold by the allowance of the clients.
    pub const fn beyond(&self) -> u64 {
        self.servers_differ + self.allowance
    }

    /// Returns the longest lifetime of an unused key in ms: the longest lease, which is an
    /// extension by two, the retention of a token, and the registration of a waiter.
    pub const fn unused(&self) -> u64 {
        self.lease * 2 + self.retention + 5_200 + self.beyond()
    }

    /// Extends the plan to `nodes` servers. It uses separate random numbers, so that the behaviour
    /// of one server in a seed does not depend on their number.
    #[must_use]
    pub fn over(mut self, nodes: usize, seed: u64, faults: &Faults) -> Self {
        let mut rng = Rng::new(seed.rotate_left(16));
        while self.server_clocks.len() < nodes {
            let clock = draw_clock(&mut rng, faults.has(Fault::Drift), SERVER_TIME);
            self.server_clocks.push(clock);
        }
        self
    }

    /// Returns the number of servers.
    pub const fn nodes(&self) -> usize {
        self.server_clocks.len()
    }

    /// Returns the time in µs after healing within which every worker must acquire every name.
    ///
    /// A hold of a dead client may last two leases. A client may take 6 s to notice a missing
    /// subscription, and without one it checks every 2.4 s. One request may wait 1 s for a
    /// connection that is gone, or 3 s more for the machine of a dead master. The rest is for the
    /// hand-offs.
    pub const fn liveness(&self) -> u64 {
        let dial = match self.group.finding {
            Finding::Fixed => 0,
            _ => 3_000_000,
        };
        let waits = 6_000_000 + 2_400_000 + 1_000_000 + 600_000;
        dial + self.beyond() * 1020 + self.lease * 2040 + waits
    }
}

/// The servers that a client finds: masters, their replicas, and sentinels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// How a client finds the masters.
    pub finding: Finding,
    /// The number of masters.
    pub shards: usize,
    /// The number of replicas of each. Without replicas, all masters share their data.
    pub replicas: usize,
    /// The number of sentinels.
    pub sentinels: usize,
}

/// How a client finds the masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is told the one server.
    Fixed,
    /// It asks the nodes of a cluster.
    Cluster,
    /// It asks the servers for their roles.
    Roles,
    /// It asks sentinels.
    Sentinels,
}

impl Group {
    /// One server.
    pub const ONE: Self = Self {
        finding: Finding::Fixed,
        shards: 1,
        replicas: 0,
        sentinels: 0,
    };

    /// Returns the numbers of the servers of a shard.
    pub const fn seats(&self, shard: usize) -> Range<usize> {
        let first = shard * (1 + self.replicas);
        first..first + 1 + self.replicas
    }

    /// Returns the shard of a server; `None` for a sentinel.
    pub fn shard_of(&self, seat: usize) -> Option<usize> {
        (seat < self.servers()).then_some(seat / (1 + self.replicas))
    }

    /// Returns the shard that has a slot.
    pub fn shard_with(&self, slot: u16) -> usize {
        usize::from(slot) * self.shards / usize::from(SLOTS)
    }

    /// Returns the number of servers. Their numbers are below those of the sentinels.
    pub const fn servers(&self) -> usize {
        self.shards * (1 + self.replicas)
    }

    /// Returns the number of servers and sentinels.
    pub const fn all(&self) -> usize {
        self.servers() + self.sentinels
    }
}

fn draw_clock(rng: &mut Rng, drifts: bool, offset: u64) -> Clock {
    // The greatest permitted drift finds a margin that is too small.
    let drift = match (drifts, rng.below(3)) {
        (false, _) => 0,
        (true, 0) => 10_000,
        (true, 1) => -10_000,
        (true, _) => rng.between(0, 20_000).cast_signed() - 10_000,
    };
    let offset = offset + rng.below(1_000_000_000);
    // Half of the clocks change their rates.
    if drifts && offset.is_multiple_of(2) {
        Clock::wandering(offset, 10_000, &mut Rng::new(offset))
    } else {
        Clock::steady(offset, drift)
    }
}

/// The lowest time of a server's clock at the start of a run, in µs.
const SERVER_TIME: u64 = 1_700_000_000_000_000;
