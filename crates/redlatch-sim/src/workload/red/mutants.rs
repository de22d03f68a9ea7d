//! The planted faults that runs of a lock over a quorum must find.

use redlatch_core::family::Rule;
use redlatch_lua::{REENTRANT, Source};

use crate::{
    faults::Fault,
    mutants::{Mutant, client, script},
};

const ACQUIRE: &Source = &REENTRANT.acquire;

/// All planted faults.
pub(super) const ALL: &[Mutant] = &[
    client("red-minority-suffices", Rule::NeedQuorum),
    client("red-lasts-with-a-minority", Rule::LoseWithQuorum),
    client("red-young-counted", Rule::DistrustYoung).under(Fault::Restart),
    client("red-minority-kept", Rule::GiveBackMinority),
    client("red-no-margin", Rule::TakeMargin).under(Fault::Drift),
    client("red-loss-not-told", Rule::TellByClock),
    client("red-drop-releases-nothing", Rule::ReleaseOnDrop),
    client("red-abandoned-not-undone", Rule::UndoAbandoned),
    script(
        "red-early-grant",
        ACQUIRE,
        "if held and owner ~= e.owner or",
        "if held and until_ms > (now + 100) .. '' and owner ~= e.owner or",
    ),
    script(
        "red-late-accepted",
        ACQUIRE,
        "if string.sub(began, 1, 13) > ARGV[1] or",
        "if",
    ),
];
