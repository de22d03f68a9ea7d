//! Worlds that seeds are put into by name: what may happen in them, what clients are told of them,
//! and what is promised all the same.
//!
//! A seed without a scenario does not depend on anything in here.

use redlatch_core::family::Rule;
use redlatch_lua::LATCH;

use crate::{
    faults::Fault,
    mutants::{Mutant, What},
    rng::Rng,
    workload::{KINDS, Kind},
};

/// The scenarios that the library has to pass. `cargo test`, `cargo xtask sim --scenarios` and
/// `--mutants` take theirs from here, the last with the planted faults that are found in these
/// only.
///
/// This is the one place where a scenario is switched on.
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

/// A world that seeds are put into.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it works on, by name; all kinds of one server if it names none.
    pub kinds: &'static [&'static str],
    /// The faults that are on in each of its seeds, besides those that the seed draws.
    pub faults: &'static [Fault],
    /// What happens right before all is healed.
    pub last: Option<Fault>,
    /// By how much the clocks of servers that take over from each other may differ, in ms.
    pub servers_differ: u64,
    /// What clients are told that these may differ by, in ms.
    pub allowance: u64,
    /// Whether two holders are expected. Then only P2, P3, P4 and P11 are asked for, and what is
    /// `asked`.
    pub expects_trouble: bool,
    /// What is asked for although trouble is expected.
    pub asked: &'static [&'static str],
    /// What cannot be asked for.
    pub excused: &'static [&'static str],
}

/// Nothing in particular.
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

/// All of them.
pub const ALL: &[Scenario] = &[
    // Servers in step replace each other, and clients allow for what their clocks differ by. Who
    // counts as dead by one clock lives by the next, so that nobody can say who came first.
    Scenario {
        name: "clocks-within",
        faults: &[Fault::PlannedFailover],
        servers_differ: 2_500,
        allowance: 2_500,
        excused: &["order"],
        ..PLAIN
    },
    // The same, with clocks that differ by more than that: two holders are expected, and tokens
    // tell them apart.
    Scenario {
        name: "clocks-beyond",
        faults: &[Fault::PlannedFailover],
        servers_differ: 8_000,
        allowance: 500,
        expects_trouble: true,
        asked: &["P7"],
        ..PLAIN
    },
    // A server takes over that lacks the last writes or those of seconds, with a clock of its own.
    // Tokens begin with the clock and so may fall. An owner that is used again may enter a hold of
    // its own that came back, and renew what it had lost.
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
    // What was released, undone and given up comes back, the last time right before everybody has
    // to get on. An answer that was under way when its grant was forgotten may come after somebody
    // knows of a later one, by which P2 is judged.
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
    // Rights are taken away and given back.
    Scenario {
        name: "refusals",
        faults: &[Fault::Refusal, Fault::Cancel],
        ..PLAIN
    },
    // Somebody publishes calls, and others are lost.
    Scenario {
        name: "forged-calls",
        faults: &[Fault::ForgedCall, Fault::MessageLost],
        ..PLAIN
    },
    // Somebody publishes that a latch is open, or deleted.
    Scenario {
        name: "forged-openings",
        kinds: &["latch"],
        faults: &[Fault::ForgedOpening, Fault::MessageLost],
        ..PLAIN
    },
    // A latch is forgotten, and set again by others.
    Scenario {
        name: "forgotten-latch",
        kinds: &["latch"],
        faults: &[Fault::FlushAll, Fault::OldSnapshot, Fault::EmptyRestart],
        expects_trouble: true,
        asked: &["P12", "P13", "P5", "P7"],
        ..PLAIN
    },
];

/// Planted faults that only a scenario gives away, each with the kind that it is hunted on. They
/// are hunted where their scenario is in [`GATED`].
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

/// Lists the scenarios that the library has to pass.
pub fn gated() -> impl Iterator<Item = &'static Scenario> {
    GATED.iter().filter_map(|name| find(name))
}

/// Lists the planted faults of these scenarios, each with the kind of the seeds that have to find
/// it.
pub fn planted(scenarios: &[&str]) -> impl Iterator<Item = (Kind, Mutant)> {
    let of_these = PLANTED.iter().filter(|(_, mutant)| {
        let scenario = mutant.within;
        scenario.is_some_and(|name| scenarios.contains(&name))
    });
    of_these.filter_map(|&(kind, mutant)| Some((crate::workload::find(kind)?, mutant)))
}

impl Scenario {
    /// Returns what it works on.
    pub fn kinds(&self) -> Vec<Kind> {
        let works = |kind: &Kind| match self.kinds {
            [] => kind.nodes() == 1,
            names => names.contains(&kind.name()),
        };
        KINDS.iter().copied().filter(works).collect()
    }

    /// Draws the kind of a seed, by chance of its own.
    pub fn draw_kind(&self, seed: u64) -> Kind {
        let kinds = self.kinds();
        kinds[Rng::new(seed.rotate_left(32)).index(kinds.len())]
    }

    /// Draws by how much the clocks of the servers that may take over from each other are ahead of
    /// the slowest, in µs; the first is in charge at first. By chance of its own.
    pub fn draw_clocks(&self, seed: u64) -> Vec<u64> {
        let mut rng = Rng::new(seed.rotate_left(24));
        let most = self.servers_differ * 1_000;
        // Those that differ most find an allowance too small.
        let mut draw = || match rng.below(3) {
            0 => 0,
            1 => most,
            _ => rng.below(most + 1),
        };
        (0..SERVERS).map(|_| draw()).collect()
    }

    /// Tells whether a promise that was broken is not held against the library.
    pub fn excuses(&self, promise: &str) -> bool {
        self.excused.contains(&promise)
    }
}

/// How many servers may take over from each other.
const SERVERS: usize = 3;
