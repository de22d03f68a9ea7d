//! Named scenarios for seeds: the faults that occur in them, the settings of the clients, and the
//! promises that still hold.
//!
//! A seed without a scenario does not depend on this module.

use redlatch_core::family::Rule;
use redlatch_lua::LATCH;

use crate::{
    faults::Fault,
    mutants::{Mutant, What},
    rng::Rng,
    workload::{KINDS, Kind},
};

/// The scenarios that the library must pass. `cargo test`, `cargo xtask sim --scenarios` and
/// `--mutants` use this list. The last one also hunts the planted faults that only these scenarios
/// find.
///
/// This list is the only place where a scenario is enabled.
pub const GATED: &[&str] = &[
    "clocks-within",
    "clocks-beyond",
    "forgets-with-clocks",
    "comes-back",
    "comes-back-lately",
    "refusals",
    "forged-calls",
    "forged-openings",
    "forgotten-latch",
];

/// A scenario for seeds.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The name on the command line.
    pub name: &'static str,
    /// The names of the kinds that it covers. Without a name it covers all kinds with one server.
    pub kinds: &'static [&'static str],
    /// The faults that are on in each of its seeds, besides those that the seed draws.
    pub faults: &'static [Fault],
    /// The fault right before all faults end.
    pub last: Option<Fault>,
    /// The greatest difference between the clocks of servers that replace each other, in ms.
    pub servers_differ: u64,
    /// The difference for which clients are told to allow, in ms.
    pub allowance: u64,
    /// Whether two holders are expected. If so, only P2, P3, P4, P11 and the promises in `asked`
    /// are checked.
    pub expects_trouble: bool,
    /// The promises that are checked although trouble is expected.
    pub asked: &'static [&'static str],
    /// The promises that are not checked.
    pub excused: &'static [&'static str],
}

/// The defaults of a scenario.
const PLAIN: Scenario = Scenario {
    name: "",
    kinds: &[],
    faults: &[],
    last: None,
    servers_differ: 0,
    allowance: 0,
    expects_trouble: false,
    asked: &[],
    excused: &[],
};

/// All scenarios.
pub const ALL: &[Scenario] = &[
    // Servers in step replace each other, and clients allow for the difference of their clocks. A
    // waiter that is dead by one clock is alive by the next, so the order of arrival is undefined.
    Scenario {
        name: "clocks-within",
        faults: &[Fault::PlannedFailover],
        servers_differ: 2_500,
        allowance: 2_500,
        excused: &["order"],
        ..PLAIN
    },
    // The same, with clocks that differ by more than the allowance. Two holders are expected, and
    // tokens distinguish them.
    Scenario {
        name: "clocks-beyond",
        faults: &[Fault::PlannedFailover],
        servers_differ: 8_000,
        allowance: 500,
        expects_trouble: true,
        asked: &["P7"],
        ..PLAIN
    },
    // A server takes over without the last writes or those of seconds, with its own clock. Tokens
    // begin with the clock and so may fall. An owner that is used again may enter its own restored
    // hold, and renew a hold that it had lost.
    Scenario {
        name: "forgets-with-clocks",
        faults: &[
            Fault::PlannedFailover,
            Fault::LossyFailover,
            Fault::OldSnapshot,
        ],
        servers_differ: 2_500,
        allowance: 2_500,
        last: Some(Fault::OldSnapshot),
        expects_trouble: true,
        asked: &["P7"],
        excused: &["P2", "P3", "P4"],
        ..PLAIN
    },
    // Released, undone and given-up holds are restored, the last time right before the phase in
    // which every worker must acquire. A delayed reply whose grant was forgotten may arrive after a
    // later grant is known, and P2 is judged by what is known.
    Scenario {
        name: "comes-back",
        faults: &[Fault::LossyFailover, Fault::OldSnapshot],
        last: Some(Fault::OldSnapshot),
        expects_trouble: true,
        asked: &["P7"],
        excused: &["P2"],
        ..PLAIN
    },
    Scenario {
        name: "comes-back-lately",
        faults: &[Fault::LossyFailover],
        last: Some(Fault::LossyFailover),
        expects_trouble: true,
        asked: &["P7"],
        excused: &["P2"],
        ..PLAIN
    },
    // Permissions are revoked and granted again.
    Scenario {
        name: "refusals",
        faults: &[Fault::Refusal, Fault::Cancel],
        ..PLAIN
    },
    // An outsider publishes forged notifications, and other messages are lost.
    Scenario {
        name: "forged-calls",
        faults: &[Fault::ForgedCall, Fault::MessageLost],
        ..PLAIN
    },
    // An outsider publishes that a latch is open, or deleted.
    Scenario {
        name: "forged-openings",
        kinds: &["latch"],
        faults: &[Fault::ForgedOpening, Fault::MessageLost],
        ..PLAIN
    },
    // A latch is forgotten, and other clients set it again.
    Scenario {
        name: "forgotten-latch",
        kinds: &["latch"],
        faults: &[Fault::FlushAll, Fault::OldSnapshot, Fault::EmptyRestart],
        expects_trouble: true,
        asked: &["P12", "P13", "P5", "P7"],
        ..PLAIN
    },
];

/// Planted faults that only a scenario finds, each with the kind on which it is hunted. They are
/// hunted if their scenario is in [`GATED`].
pub const PLANTED: &[(&str, Mutant)] = &[
    (
        "lock",
        within(
            "clocks-within",
            "clock-allowance-not-asked",
            What::AsksNoAllowance,
        ),
    ),
    (
        "fair",
        within(
            "comes-back",
            "fair-ghost-not-withdrawn",
            What::Client(Rule::WithdrawStrays),
        ),
    ),
    (
        "semaphore",
        within(
            "comes-back",
            "semaphore-ghost-not-withdrawn",
            What::Client(Rule::WithdrawStrays),
        ),
    ),
    (
        "fair",
        within("refusals", "fair-refused-undo-dropped", What::DropsRefused),
    ),
    (
        "lock",
        within("refusals", "refused-undo-dropped", What::DropsRefused),
    ),
    (
        "latch",
        within(
            "forgotten-latch",
            "latch-unknown-is-open",
            What::Instead(
                &LATCH.look,
                include_str!("workload/latch/unknown_is_open.lua"),
            ),
        ),
    ),
];

const fn within(scenario: &'static str, name: &'static str, what: What) -> Mutant {
    Mutant {
        name,
        what,
        under: None,
        within: Some(scenario),
    }
}

/// Finds a scenario by its name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

/// Lists the scenarios that the library must pass.
pub fn gated() -> impl Iterator<Item = &'static Scenario> {
    GATED.iter().filter_map(|name| find(name))
}

/// Lists the planted faults of these scenarios, each with the kind of the seeds that must find it.
pub fn planted(scenarios: &[&str]) -> impl Iterator<Item = (Kind, Mutant)> {
    let of_these = PLANTED.iter().filter(|(_, mutant)| {
        let scenario = mutant.within;
        scenario.is_some_and(|name| scenarios.contains(&name))
    });
    of_these.filter_map(|&(kind, mutant)| Some((crate::workload::find(kind)?, mutant)))
}

impl Scenario {
    /// Returns the kinds that it covers.
    pub fn kinds(&self) -> Vec<Kind> {
        let works = |kind: &Kind| match self.kinds {
            [] => kind.nodes() == 1,
            names => names.contains(&kind.name()),
        };
        KINDS.iter().copied().filter(works).collect()
    }

    /// Draws the kind of a seed, with separate random numbers.
    pub fn draw_kind(&self, seed: u64) -> Kind {
        let kinds = self.kinds();
        kinds[Rng::new(seed.rotate_left(32)).index(kinds.len())]
    }

    /// Draws the clock offsets in µs of the servers that may replace each other, relative to the
    /// slowest. The first one serves at the start. It uses separate random numbers.
    pub fn draw_clocks(&self, seed: u64) -> Vec<u64> {
        let mut rng = Rng::new(seed.rotate_left(24));
        let most = self.servers_differ * 1_000;
        // The greatest difference finds an allowance that is too small.
        let mut draw = || match rng.below(3) {
            0 => 0,
            1 => most,
            _ => rng.below(most + 1),
        };
        (0..SERVERS).map(|_| draw()).collect()
    }

    /// Tells whether a broken promise does not count as a failure of the library.
    pub fn excuses(&self, promise: &str) -> bool {
        self.excused.contains(&promise)
    }
}

/// The number of servers that may replace each other.
const SERVERS: usize = 3;
