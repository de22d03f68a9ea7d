//! Which faults there are, and which of them a seed has.

use crate::rng::Rng;

/// One class of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A connection cannot be made.
    DialFailure,
    /// A request is executed, and its connection breaks before the answer is out.
    ReplyLost,
    /// A message of pub/sub is lost.
    MessageLost,
    /// A message on the wire takes up to 400 ms more.
    Delay,
    /// What an abandoned connection still had on its way arrives up to 20 s later.
    LateBytes,
    /// A connection breaks; some of what is on its way arrives.
    Cut,
    /// A pipeline is on its way when its connection breaks: the server gets the first commands of
    /// it, or the client the first answers.
    Torn,
    /// As `Cut`, and the client is not told.
    HalfOpen,
    /// A connection for subscriptions breaks.
    PubSubCut,
    /// A connection holds everything up for a while, in one direction or both.
    Stall,
    /// The server forgets its scripts.
    ScriptFlush,
    /// The server stands still for up to two leases.
    ServerStop,
    /// A client is not scheduled for up to three leases.
    Pause,
    /// A client ends with its destructors run, and comes back.
    Crash,
    /// A client is killed, and comes back; its kernel closes its connections.
    Kill,
    /// A client's machine is gone, nobody closes its connections; it comes back.
    PowerLoss,
    /// The server restarts with all its data.
    Restart,
    /// Somebody releases by force. Breaks exclusion by definition, until the holder hears of it.
    Force,
    /// Clocks of clients and server run up to 1 % fast or slow.
    Drift,
    /// Callers drop their futures half-way.
    Cancel,
    /// The server fails over to a replica that lacks the last writes. Not promised to be survived.
    LossyFailover,
    /// The server restarts without its data. Not promised to be survived.
    EmptyRestart,
    /// The server's clock is set. Not promised to be survived.
    ClockStep,
    /// Another server, which has all the data, takes over in the middle of everything.
    PlannedFailover,
    /// A server takes over that has the data of up to 3 s ago. Not promised to be survived.
    OldSnapshot,
    /// The server forgets all its data and goes on. Not promised to be survived.
    FlushAll,
    /// For 0.3 to 2 s the server refuses, for lack of rights, all releases and undos, or all
    /// scripts.
    Refusal,
    /// A client hears a call that nobody has sent: for a waiter that has another place, or none, or
    /// that never was.
    ForgedCall,
    /// All who wait for a latch hear that it is open, or deleted, which nobody has said. Not
    /// promised to be survived.
    ForgedOpening,
}

impl Fault {
    /// All classes: those that seeds draw, and then those that are on only when asked for by a
    /// scenario or by name.
    pub const ALL: [Self; 29] = [
        Self::DialFailure,
        Self::ReplyLost,
        Self::MessageLost,
        Self::Delay,
        Self::LateBytes,
        Self::Cut,
        Self::Torn,
        Self::HalfOpen,
        Self::PubSubCut,
        Self::Stall,
        Self::ScriptFlush,
        Self::ServerStop,
        Self::Pause,
        Self::Crash,
        Self::Kill,
        Self::PowerLoss,
        Self::Restart,
        Self::Force,
        Self::Drift,
        Self::Cancel,
        Self::LossyFailover,
        Self::EmptyRestart,
        Self::ClockStep,
        Self::PlannedFailover,
        Self::OldSnapshot,
        Self::FlushAll,
        Self::Refusal,
        Self::ForgedCall,
        Self::ForgedOpening,
    ];

    /// How many of [`ALL`](Self::ALL) seeds draw. What a seed does depends on this number, so new classes come
    /// behind them.
    const DRAWN: usize = 23;

    /// Those after which two holders are expected.
    pub const EXPECTED: [Self; 3] = [Self::LossyFailover, Self::EmptyRestart, Self::ClockStep];

    /// Returns the name it has on the command line.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// Finds a class by its name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// Whether it happens at moments of its own, and not with each message.
    const fn is_timed(self) -> bool {
        matches!(
            self,
            Self::Cut
                | Self::HalfOpen
                | Self::PubSubCut
                | Self::Stall
                | Self::ScriptFlush
                | Self::ServerStop
                | Self::Pause
                | Self::Crash
                | Self::Kill
                | Self::PowerLoss
                | Self::Restart
                | Self::LossyFailover
                | Self::EmptyRestart
                | Self::ClockStep
                | Self::PlannedFailover
                | Self::OldSnapshot
                | Self::FlushAll
                | Self::Refusal
                | Self::ForgedCall
                | Self::ForgedOpening
        )
    }

    /// Whether nothing happens by it to messages, server or processes.
    const fn is_harmless(self) -> bool {
        matches!(
            self,
            Self::Drift | Self::Cancel | Self::Force | Self::ScriptFlush
        )
    }

    /// Whether the server forgets what it has answered.
    pub const fn forgets(self) -> bool {
        matches!(
            self,
            Self::LossyFailover | Self::EmptyRestart | Self::OldSnapshot | Self::FlushAll
        )
    }

    /// Whether two holders are expected after it.
    const fn is_expected(self) -> bool {
        self.forgets() || matches!(self, Self::ClockStep)
    }
}

/// The faults of one seed.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Per class: how many of a thousand messages it hits, or how heavy a timed one weighs; 0 if it
    /// is off.
    rates: [u64; Fault::ALL.len()],
    delays: (u64, u64),
    /// Mean time between two timed faults in µs.
    pub mean_gap: u64,
}

impl Faults {
    /// Draws the faults of a seed: each class is on in a part of the seeds, and some seeds have
    /// none. `forced` is on in any case; those that break promises only if forced.
    pub fn draw(rng: &mut Rng, forced: &[Fault]) -> Self {
        let mut faults = Self {
            rates: [0; Fault::ALL.len()],
            delays: (50, 50 + rng.below(750)),
            mean_gap: rng.between(100_000, 1_500_000),
        };
        // One seed in eight is calm but for what does no harm, one has a single class, the rest
        // have many.
        let density = match rng.below(8) {
            0 => 0,
            1 => 1,
            _ => rng.between(150, 500),
        };
        let calm = density == 0;
        // Lost wakes show best where nothing else is wrong.
        let single = match rng.below(3) {
            0 => Fault::PubSubCut,
            _ => Fault::ALL[rng.index(Fault::DRAWN)],
        };
        for fault in Fault::ALL.into_iter().take(Fault::DRAWN) {
            let drawn = if density == 1 {
                fault == single
            } else {
                rng.chance(if calm && fault.is_harmless() {
                    300
                } else {
                    density
                })
            };
            let on = forced.contains(&fault) || (drawn && !fault.is_expected());
            let rate = if matches!(fault, Fault::LateBytes | Fault::Torn) {
                rng.between(200, 1000)
            } else if fault.is_timed() {
                rng.between(1, 10)
            } else {
                rng.between(2, 60)
            };
            if on {
                faults.rates[fault as usize] = rate;
            }
        }
        for fault in Fault::ALL.into_iter().skip(Fault::DRAWN) {
            if forced.contains(&fault) {
                faults.rates[fault as usize] = rng.between(1, 10);
            }
        }
        // A round trip longer than a sixth of a lease hands nothing over in time, so P8 keeps to
        // quick networks.
        if rng.chance(200) && !faults.is_calm_but_for_pubsub() {
            faults.delays.1 += rng.below(60_000);
        }
        faults
    }

    /// What is left once a seed is healed: nothing but the usual delays.
    pub fn none(of: &Self) -> Self {
        Self {
            rates: [0; Fault::ALL.len()],
            delays: (of.delays.0, of.delays.1.min(1000)),
            mean_gap: of.mean_gap,
        }
    }

    /// Returns how many of a thousand messages a class hits.
    pub const fn rate(&self, fault: Fault) -> u64 {
        self.rates[fault as usize]
    }

    /// Tells whether a class is on.
    pub const fn has(&self, fault: Fault) -> bool {
        self.rate(fault) > 0
    }

    /// Tells whether nothing happens to messages, server or processes.
    pub fn is_calm(&self) -> bool {
        Fault::ALL
            .iter()
            .all(|&fault| fault.is_harmless() || !self.has(fault))
    }

    /// Tells whether nothing but subscriptions suffers.
    pub fn is_calm_but_for_pubsub(&self) -> bool {
        let mut rest = self.clone();
        rest.rates[Fault::PubSubCut as usize] = 0;
        rest.is_calm()
    }

    /// Tells whether nothing but messages suffers: subscriptions break, and single ones vanish.
    pub fn is_calm_but_for_messages(&self) -> bool {
        let mut rest = self.clone();
        rest.rates[Fault::PubSubCut as usize] = 0;
        rest.rates[Fault::MessageLost as usize] = 0;
        rest.is_calm()
    }

    /// Tells whether promises are expected to be broken.
    pub fn expects_trouble(&self) -> bool {
        let mut active = Fault::ALL.into_iter().filter(|&fault| self.has(fault));
        active.any(Fault::is_expected)
    }

    /// Tells whether the server may forget what it has answered and not know that it was empty.
    pub fn loses_writes(&self) -> bool {
        self.has(Fault::LossyFailover) || self.has(Fault::OldSnapshot)
    }

    /// Returns the least and the greatest usual delay of a message in µs.
    pub const fn delays(&self) -> (u64, u64) {
        self.delays
    }

    /// Draws the next timed fault.
    pub fn next_timed(&self, rng: &mut Rng) -> Option<Fault> {
        let timed = || Fault::ALL.into_iter().filter(|fault| fault.is_timed());
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
        Fault::ALL
            .into_iter()
            .filter(|&fault| self.has(fault))
            .collect()
    }
}
