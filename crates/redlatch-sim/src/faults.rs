//! The classes of faults, and the faults of one seed.

use clap::ValueEnum;

use crate::rng::Rng;

/// One class of faults: first those that seeds draw, and then those that only a scenario or the
/// command line enables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Fault {
    /// A connection attempt fails.
    DialFailure,
    /// A request is executed, and its connection breaks before the reply is sent.
    ReplyLost,
    /// A pub/sub message is lost.
    MessageLost,
    /// A message on the network takes up to 400 ms longer.
    Delay,
    /// Requests that an abandoned connection had on the way arrive up to 20 s later.
    LateBytes,
    /// A connection breaks; a part of the data on the way arrives.
    Cut,
    /// A connection breaks within a pipeline: the server gets only its first commands, or the
    /// client only its first replies.
    Torn,
    /// A connection breaks as in `Cut`, but the client does not notice.
    HalfOpen,
    /// A connection for subscriptions breaks.
    PubSubCut,
    /// A connection delays all data for a while, in one direction or both.
    Stall,
    /// The server loses its scripts.
    ScriptFlush,
    /// The server stalls for up to two leases.
    ServerStop,
    /// A client is not scheduled for up to three leases.
    Pause,
    /// A client ends with its destructors run, and restarts.
    Crash,
    /// A client is killed and restarts; its kernel closes its connections.
    Kill,
    /// A client's machine fails and nothing closes its connections; the client restarts.
    PowerLoss,
    /// The server restarts with all its data.
    Restart,
    /// An administrator releases by force. This breaks exclusion by definition, until the
    /// holder learns of it.
    Force,
    /// Clocks of clients and server run up to 1 % fast or slow.
    Drift,
    /// Callers drop their futures before completion.
    Cancel,
    /// The server fails over to a replica that lacks the last writes. The library does not
    /// promise to survive it.
    LossyFailover,
    /// The server restarts without its data. The library does not promise to survive it.
    EmptyRestart,
    /// The server's clock is stepped. The library does not promise to survive it.
    ClockStep,
    /// Another server with all the data takes over during the load.
    PlannedFailover,
    /// A server takes over with the data of up to 3 s ago. The library does not promise to
    /// survive it.
    OldSnapshot,
    /// The server loses all its data and goes on. The library does not promise to survive it.
    FlushAll,
    /// For 0.3 to 2 s the server refuses, for lack of permissions, all releases and undos, or
    /// all scripts.
    Refusal,
    /// A client receives a forged notification: for a waiter with another place or without one,
    /// or for a waiter that never existed.
    ForgedCall,
    /// All waiters of a latch receive a forged message that it is open or deleted. The library
    /// does not promise to survive it.
    ForgedOpening,
    /// The network doubles a request: a copy that the client knows nothing of arrives up to 5.5
    /// s later on another connection.
    Doubled,
    /// A server answers a single command with an error of unknown meaning, and has executed it
    /// or not.
    Strange,
    /// One master of a cluster is dead for up to 15 s, without a replica that takes over.
    MasterDown,
    /// A reply takes 50 to 1200 ms longer, so that the caller's time may end before it.
    /// Messages on other connections come in between.
    LateReply,
    /// A replica that lags takes over from a master that goes on answering, and that part of
    /// the clients may reach alone. Servers and sentinels learn at different times who is in
    /// charge.
    TwoMasters,
    /// A slot moves to another master of a cluster, key by key, for up to some seconds.
    SlotMove,
}

impl Fault {
    /// The number of classes that seeds draw, which are the first. The behaviour of a seed depends
    /// on this number, so new classes come after them.
    const DRAWN: usize = 23;

    /// The classes after which two holders are expected.
    pub const EXPECTED: [Self; 3] = [Self::LossyFailover, Self::EmptyRestart, Self::ClockStep];

    /// Returns all classes in the order of their definition.
    fn all() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied()
    }

    /// Returns the name of the class on the command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Tells whether the fault occurs at its own times, and not with each message.
    const fn is_timed(self) -> bool {
        !matches!(
            self,
            Self::DialFailure
                | Self::ReplyLost
                | Self::MessageLost
                | Self::Delay
                | Self::LateBytes
                | Self::Torn
                | Self::Force
                | Self::Drift
                | Self::Cancel
                | Self::Doubled
                | Self::Strange
                | Self::LateReply
        )
    }

    /// Tells whether the fault leaves messages, server and processes intact.
    const fn is_harmless(self) -> bool {
        matches!(
            self,
            Self::Drift | Self::Cancel | Self::Force | Self::ScriptFlush | Self::SlotMove
        )
    }

    /// Tells whether two holders are expected after the fault.
    fn is_expected(self) -> bool {
        Self::EXPECTED.contains(&self) || matches!(self, Self::OldSnapshot | Self::FlushAll)
    }
}

/// The faults of one seed.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Per class: the number of messages in a thousand that it hits, or the weight of a timed
    /// fault; 0 if it is off.
    rates: Vec<u64>,
    delays: (u64, u64),
    /// Mean time between two timed faults in µs.
    pub mean_gap: u64,
}

impl Faults {
    /// Draws the faults of a seed. Each class is on in a part of the seeds, and some seeds have
    /// none. The classes in `forced` are always on; those that break promises are on only if
    /// forced.
    pub fn draw(rng: &mut Rng, forced: &[Fault]) -> Self {
        let mut faults = Self {
            rates: vec![0; Fault::value_variants().len()],
            delays: (50, 50 + rng.below(750)),
            mean_gap: rng.between(100_000, 1_500_000),
        };
        // One seed in eight has only harmless faults, one has a single class, and the rest have
        // many.
        let density = match rng.below(8) {
            0 => 0,
            1 => 1,
            _ => rng.between(150, 500),
        };
        let calm = density == 0;
        // Lost wake-ups show best without other faults.
        let single = match rng.below(3) {
            0 => Fault::PubSubCut,
            _ => Fault::value_variants()[rng.index(Fault::DRAWN)],
        };
        for (at, fault) in Fault::all().enumerate() {
            let forced = forced.contains(&fault);
            let drawn = match density {
                _ if at >= Fault::DRAWN => false,
                1 => fault == single,
                _ if calm && fault.is_harmless() => rng.chance(300),
                _ => rng.chance(density),
            };
            if at >= Fault::DRAWN && !forced {
                continue;
            }
            let rate = match fault {
                Fault::LateBytes | Fault::Torn => rng.between(200, 1000),
                Fault::Doubled => rng.between(50, 500),
                Fault::Strange => rng.between(5, 150),
                Fault::LateReply => rng.between(50, 300),
                _ if fault.is_timed() => rng.between(1, 10),
                _ => rng.between(2, 60),
            };
            if forced || (drawn && !fault.is_expected()) {
                faults.rates[at] = rate;
            }
        }
        // A round trip longer than a sixth of a lease leaves no time for a hand-off, so P8 is
        // checked on quick networks.
        if rng.chance(200) && !faults.is_calm_but_for(&[Fault::PubSubCut]) {
            faults.delays.1 += rng.below(60_000);
        }
        faults
    }

    /// Returns the faults of a seed in which only `chosen` classes and harmless ones occur.
    #[must_use]
    pub fn only(mut self, chosen: &[Fault]) -> Self {
        for fault in Fault::all() {
            if !fault.is_harmless() && !chosen.contains(&fault) {
                self.rates[fault as usize] = 0;
            }
        }
        // The checks of calm seeds need a quick network.
        if self.is_calm() {
            self.delays = Self::none(&self).delays;
        }
        self
    }

    /// Returns the state of a healed seed, in which only the usual delays remain.
    pub fn none(of: &Self) -> Self {
        Self {
            rates: vec![0; of.rates.len()],
            delays: (of.delays.0, of.delays.1.min(1000)),
            mean_gap: of.mean_gap,
        }
    }

    /// Returns the number of messages in a thousand that a class hits.
    pub fn rate(&self, fault: Fault) -> u64 {
        self.rates[fault as usize]
    }

    /// Tells whether a class is on.
    pub fn has(&self, fault: Fault) -> bool {
        self.rate(fault) > 0
    }

    /// Tells whether no fault affects messages, server or processes.
    pub fn is_calm(&self) -> bool {
        self.is_calm_but_for(&[])
    }

    /// Tells whether no faults but these affect messages, server or processes.
    pub fn is_calm_but_for(&self, some: &[Fault]) -> bool {
        let minor = |fault: &Fault| fault.is_harmless() || some.contains(fault);
        self.active().iter().all(minor)
    }

    /// Tells whether promises are expected to be broken.
    pub fn expects_trouble(&self) -> bool {
        self.active().into_iter().any(Fault::is_expected)
    }

    /// Tells whether the server may lose acknowledged writes while other data remain, so that it
    /// does not notice the loss.
    pub fn loses_writes(&self) -> bool {
        self.is_copied() || self.has(Fault::TwoMasters)
    }

    /// Tells whether a server may take over with a copy of the data.
    pub fn is_copied(&self) -> bool {
        self.has(Fault::LossyFailover) || self.has(Fault::OldSnapshot)
    }

    /// Returns the shortest and the longest usual delay of a message in µs.
    pub const fn delays(&self) -> (u64, u64) {
        self.delays
    }

    /// Draws the next timed fault.
    pub fn next_timed(&self, rng: &mut Rng) -> Option<Fault> {
        let timed = || Fault::all().filter(|fault| fault.is_timed());
        let total = timed().map(|fault| self.rate(fault)).sum();
        let mut drawn = (total > 0).then(|| rng.below(total))?;
        timed().find(|&fault| {
            let hit = drawn < self.rate(fault);
            drawn = drawn.saturating_sub(self.rate(fault));
            hit
        })
    }

    /// Returns the classes that are on.
    pub fn active(&self) -> Vec<Fault> {
        Fault::all().filter(|&fault| self.has(fault)).collect()
    }
}
