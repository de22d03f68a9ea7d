//! Named scenarios for seeds: the faults that occur in them, the settings of the clients, and the
//! promises that still hold.
//!
//! A seed without a scenario does not depend on this module.

use crate::{
    faults::Fault,
    rng::Rng,
    workload::{KINDS, Kind},
};

/// A scenario for seeds.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The name on the command line.
    pub name: &'static str,
    /// The faults that are on in each of its seeds, besides those that the seed draws.
    pub faults: &'static [Fault],
    /// Whether no other faults occur, but for harmless ones.
    pub alone: bool,
    /// The number of masters; more than one are a cluster.
    pub masters: usize,
    /// Whether masters have replicas, which take over.
    pub replicated: bool,
    /// The kinds that take part. If it is empty, all do.
    pub kinds: &'static [&'static str],
    /// Whether replicas confirm each grant and renewal, so that no takeover loses one.
    pub durable: bool,
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
    faults: &[],
    alone: false,
    masters: 1,
    replicated: false,
    kinds: &[],
    durable: false,
    last: None,
    servers_differ: 0,
    allowance: 0,
    expects_trouble: false,
    asked: &[],
    excused: &[],
};

/// The kinds whose holds replicas confirm.
const DURABLE: &[&str] = &["lock", "fair", "rwlock", "multi", "election"];

/// All scenarios, which the library must pass. Only kinds with one server take part.
const ALL: &[Scenario] = &[
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
    // Single commands of all kinds get errors of unknown meaning.
    Scenario {
        name: "strange-words",
        faults: &[Fault::Strange, Fault::Cancel],
        ..PLAIN
    },
    // Callers' times end while their requests are under way, and messages come in between.
    Scenario {
        name: "late-replies",
        faults: &[Fault::LateReply],
        ..PLAIN
    },
    // One master of a cluster is dead, and clients start meanwhile. No other fault occurs, so that
    // each silence about a name of another master shows a mistake.
    Scenario {
        name: "dead-master",
        faults: &[
            Fault::MasterDown,
            Fault::Crash,
            Fault::Kill,
            Fault::PowerLoss,
        ],
        alone: true,
        masters: 3,
        ..PLAIN
    },
    // Slots of the names move between the masters of a cluster, key by key, and no other fault
    // occurs. While the keys of a name are split, waiters are not served, so no hand-off is prompt
    // and a bounded wait may end without an answer.
    Scenario {
        name: "moving-slots",
        faults: &[Fault::SlotMove],
        alone: true,
        masters: 3,
        excused: &["P8", "answered"],
        ..PLAIN
    },
    // A replica that lags takes over, and the former master goes on answering. Two holders are
    // expected, and tokens distinguish them.
    Scenario {
        name: "two-masters",
        faults: &[Fault::TwoMasters],
        replicated: true,
        expects_trouble: true,
        asked: &["P7"],
        ..PLAIN
    },
    // The same, but enough replicas confirm that no takeover loses a grant or a renewal. It may
    // lose a release.
    Scenario {
        name: "two-masters-durable",
        faults: &[Fault::TwoMasters],
        replicated: true,
        durable: true,
        kinds: DURABLE,
        servers_differ: 1_000,
        allowance: 1_000,
        ..PLAIN
    },
    // The same, with clocks that differ by more than the allowance.
    Scenario {
        name: "two-masters-apart",
        faults: &[Fault::TwoMasters],
        replicated: true,
        durable: true,
        kinds: DURABLE,
        servers_differ: 8_000,
        allowance: 500,
        expects_trouble: true,
        asked: &["P7"],
        ..PLAIN
    },
    // An outsider publishes that a latch is open, or deleted.
    Scenario {
        name: "forged-openings",
        faults: &[Fault::ForgedOpening, Fault::MessageLost],
        kinds: &["latch"],
        ..PLAIN
    },
    // A latch is forgotten, and other clients set it again.
    Scenario {
        name: "forgotten-latch",
        faults: &[Fault::FlushAll, Fault::OldSnapshot, Fault::EmptyRestart],
        kinds: &["latch"],
        expects_trouble: true,
        asked: &["P12", "P13", "P5", "P7"],
        ..PLAIN
    },
    // Half of the replies are lost, requests are doubled, and the server's clock is stepped.
    Scenario {
        name: "unheard-passes",
        faults: &[Fault::ReplyLost, Fault::Doubled, Fault::ClockStep],
        kinds: &["limit"],
        ..PLAIN
    },
    // The server forgets, which lets one more burst pass each time, besides what was taken ahead.
    Scenario {
        name: "forgotten-passes",
        faults: &[Fault::FlushAll, Fault::OldSnapshot, Fault::EmptyRestart],
        kinds: &["limit"],
        expects_trouble: true,
        asked: &["rate", "early"],
        ..PLAIN
    },
];

/// Lists all scenarios.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    ALL.iter()
}

/// Finds a scenario by its name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    all().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// Returns the kinds that take part in it.
    pub fn kinds(&self) -> Vec<Kind> {
        let kinds = KINDS.iter().copied();
        kinds.filter(|kind| kind.takes_part(self)).collect()
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
        (0..SERVERS).map(|_| draw_clock(&mut rng, most)).collect()
    }
}

/// Draws the offset in µs of a server's clock, relative to the slowest. The greatest difference
/// finds an allowance that is too small.
pub fn draw_clock(rng: &mut Rng, most: u64) -> u64 {
    match rng.below(3) {
        0 => 0,
        1 => most,
        _ => rng.below(most + 1),
    }
}

/// The number of servers that may replace each other.
const SERVERS: usize = 3;
