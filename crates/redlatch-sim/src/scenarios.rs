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

/// The kinds whose holds replicas confirm.
const DURABLE: &[&str] = &["lock", "fair", "rwlock", "multi", "election"];

/// All scenarios, which the library must pass. Only kinds with one server take part.
const ALL: &[Scenario] = &[
    // Servers in step replace each other, and clients allow for the difference of their clocks. A
    // waiter that is dead by one clock is alive by the next, so the order of arrival is undefined.
    scenario("clocks-within", &[Fault::PlannedFailover])
        .clocks(2_500, 2_500)
        .excuses(&["order"]),
    // The same, with clocks that differ by more than the allowance. Two holders are expected, and
    // tokens distinguish them.
    scenario("clocks-beyond", &[Fault::PlannedFailover])
        .clocks(8_000, 500)
        .in_trouble(&["P7"]),
    // A server takes over without the last writes or those of seconds, with its own clock. Tokens
    // begin with the clock and so may fall. An owner that is used again may enter its own restored
    // hold, and renew a hold that it had lost.
    scenario("forgets-with-clocks", FORGETS_WITH_CLOCKS)
        .clocks(2_500, 2_500)
        .ends_with(Fault::OldSnapshot)
        .in_trouble(&["P7"])
        .excuses(&["P2", "P3", "P4"]),
    // Released, undone and given-up holds are restored, the last time right before the phase in
    // which every worker must acquire. A delayed reply whose grant was forgotten may arrive after a
    // later grant is known, and P2 is judged by what is known.
    scenario("comes-back", &[Fault::LossyFailover, Fault::OldSnapshot])
        .ends_with(Fault::OldSnapshot)
        .in_trouble(&["P7"])
        .excuses(&["P2"]),
    scenario("comes-back-lately", &[Fault::LossyFailover])
        .ends_with(Fault::LossyFailover)
        .in_trouble(&["P7"])
        .excuses(&["P2"]),
    // Permissions are revoked and granted again.
    scenario("refusals", &[Fault::Refusal, Fault::Cancel]),
    // An outsider publishes forged notifications, and other messages are lost.
    scenario("forged-calls", &[Fault::ForgedCall, Fault::MessageLost]),
    // Single commands of all kinds get errors of unknown meaning.
    scenario("strange-words", &[Fault::Strange, Fault::Cancel]),
    // Callers' times end while their requests are under way, and messages come in between.
    scenario("late-replies", &[Fault::LateReply]),
    // One master of a cluster is dead, and clients start meanwhile. No other fault occurs, so that
    // each silence about a name of another master shows a mistake.
    scenario("dead-master", DEAD_MASTER).only_this(3),
    // Slots of the names move between the masters of a cluster, key by key, and no other fault
    // occurs. While the keys of a name are split, waiters are not served, so no hand-off is prompt
    // and a bounded wait may end without an answer.
    scenario("moving-slots", &[Fault::SlotMove])
        .only_this(3)
        .excuses(&["P8", "answered"]),
    // A replica that lags takes over, and the former master goes on answering. Two holders are
    // expected, and tokens distinguish them.
    scenario("two-masters", &[Fault::TwoMasters])
        .replicated()
        .in_trouble(&["P7"]),
    // The same, but enough replicas confirm that no takeover loses a grant or a renewal. It may
    // lose a release.
    scenario("two-masters-durable", &[Fault::TwoMasters])
        .durable()
        .clocks(1_000, 1_000),
    // The same, with clocks that differ by more than the allowance.
    scenario("two-masters-apart", &[Fault::TwoMasters])
        .durable()
        .clocks(8_000, 500)
        .in_trouble(&["P7"]),
    // An outsider publishes that a latch is open, or deleted.
    scenario("forged-openings", FORGED_OPENINGS).of_kinds(&["latch"]),
    // A latch is forgotten, and other clients set it again.
    scenario("forgotten-latch", FORGOTTEN)
        .of_kinds(&["latch"])
        .in_trouble(&["P12", "P13", "P5", "P7"]),
    // Half of the replies are lost, requests are doubled, and the server's clock is stepped.
    scenario("unheard-passes", UNHEARD).of_kinds(&["limit"]),
    // The server forgets, which lets one more burst pass each time, besides what was taken ahead.
    scenario("forgotten-passes", FORGOTTEN)
        .of_kinds(&["limit"])
        .in_trouble(&["rate", "early"]),
];

const FORGETS_WITH_CLOCKS: &[Fault] = &[
    Fault::PlannedFailover,
    Fault::LossyFailover,
    Fault::OldSnapshot,
];
const DEAD_MASTER: &[Fault] = &[
    Fault::MasterDown,
    Fault::Crash,
    Fault::Kill,
    Fault::PowerLoss,
];
const FORGOTTEN: &[Fault] = &[Fault::FlushAll, Fault::OldSnapshot, Fault::EmptyRestart];
const FORGED_OPENINGS: &[Fault] = &[Fault::ForgedOpening, Fault::MessageLost];
const UNHEARD: &[Fault] = &[Fault::ReplyLost, Fault::Doubled, Fault::ClockStep];

const fn scenario(name: &'static str, faults: &'static [Fault]) -> Scenario {
    Scenario {
        name,
        faults,
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
    }
}

/// What sets a scenario apart from the defaults.
impl Scenario {
    /// Servers with clocks that differ by so many ms replace each other.
    const fn clocks(mut self, differ: u64, allowance: u64) -> Self {
        (self.servers_differ, self.allowance) = (differ, allowance);
        self
    }

    /// Two holders are expected. These promises are checked all the same.
    const fn in_trouble(mut self, asked: &'static [&'static str]) -> Self {
        (self.expects_trouble, self.asked) = (true, asked);
        self
    }

    const fn excuses(mut self, promises: &'static [&'static str]) -> Self {
        self.excused = promises;
        self
    }

    const fn ends_with(mut self, fault: Fault) -> Self {
        self.last = Some(fault);
        self
    }

    /// No other faults occur in a cluster of so many masters.
    const fn only_this(mut self, masters: usize) -> Self {
        (self.alone, self.masters) = (true, masters);
        self
    }

    const fn replicated(mut self) -> Self {
        self.replicated = true;
        self
    }

    const fn durable(mut self) -> Self {
        self.durable = true;
        self.replicated().of_kinds(DURABLE)
    }

    const fn of_kinds(mut self, kinds: &'static [&'static str]) -> Self {
        self.kinds = kinds;
        self
    }
}

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
