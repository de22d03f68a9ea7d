//! The scenarios of the latch alone.

use crate::{
    faults::Fault,
    scenarios::{PLAIN, Scenario},
};

/// All scenarios.
pub(super) const ALL: &[Scenario] = &[
    // An outsider publishes that a latch is open, or deleted.
    Scenario {
        name: "forged-openings",
        faults: &[Fault::ForgedOpening, Fault::MessageLost],
        ..PLAIN
    },
    // A latch is forgotten, and other clients set it again.
    Scenario {
        name: "forgotten-latch",
        faults: &[Fault::FlushAll, Fault::OldSnapshot, Fault::EmptyRestart],
        expects_trouble: true,
        asked: &["P12", "P13", "P5", "P7"],
        ..PLAIN
    },
];
