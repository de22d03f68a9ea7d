//! The scenarios of the rate limiter alone.

use crate::{
    faults::Fault,
    scenarios::{PLAIN, Scenario},
};

/// All scenarios.
pub(super) const ALL: &[Scenario] = &[
    // Half of the replies are lost, requests are doubled, and the server's clock is stepped.
    Scenario {
        name: "unheard-passes",
        faults: &[Fault::ReplyLost, Fault::Doubled, Fault::ClockStep],
        ..PLAIN
    },
    // The server forgets, which lets one more burst pass each time, besides what was taken ahead.
    Scenario {
        name: "forgotten-passes",
        faults: &[Fault::FlushAll, Fault::OldSnapshot, Fault::EmptyRestart],
        expects_trouble: true,
        asked: &["rate", "early"],
        ..PLAIN
    },
];
