//! What the observer asks of its checkers.

use std::{any::Any, fmt};

use redlatch_core::LossCause;

use super::{
    exclusion::Exclusion,
    handoff::HandOff,
    lateness::Lateness,
    notice::Notice,
    record::Record,
    token::Tokens,
    view::{Call, Claim, View},
};
use crate::{
    exec::ProcId,
    scripts::{Ran, Seen},
};

/// Checks one promise, or one thing that a kind promises.
pub trait Checker: Send + fmt::Debug {
    /// Takes note of what has happened. `view` knows of it already; what is broken goes into
    /// `record`.
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record);
}

/// What checkers are told of.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// An acquisition delivered a guard.
    Delivered {
        /// The guard.
        claim: &'a Claim,
        /// The acquisition, if its caller still lives.
        call: Option<&'a Call>,
    },
    /// A guard of this name was given up, or its holder has died.
    Left {
        /// The name.
        name: usize,
    },
    /// `lost()` of a guard has resolved.
    Told {
        /// The guard.
        claim: &'a Claim,
        /// What it was told.
        cause: LossCause,
    },
    /// The server has run a script.
    Ran {
        /// For whom.
        proc: ProcId,
        /// The script and its answer.
        ran: &'a Ran<'a>,
        /// What that means.
        seen: &'a [Seen],
        /// When it was sent.
        sent: u64,
    },
    /// A copy of the data of the first server was taken.
    Copied {
        /// Its number.
        copy: u64,
    },
    /// The first server has the data of this copy and forgets what came after it; all of it if
    /// there is none.
    Forgot {
        /// The copy's number.
        copy: Option<u64>,
    },
    /// A worker tells what it did, where that is no guard: something that only its kind's checkers
    /// understand.
    Did {
        /// In which process.
        proc: ProcId,
        /// With which name.
        name: usize,
        /// What.
        deed: &'a dyn Any,
    },
    /// One step of the executor is over.
    Stepped,
    /// As `Stepped`, once in a millisecond at most.
    Looked,
}

/// Returns the checkers of what every kind promises.
pub(super) fn general(names: usize) -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(Tokens::new(names)),
        Box::new(Exclusion::new(names)),
        Box::<Notice>::default(),
        Box::<Lateness>::default(),
        Box::new(HandOff::new(names)),
    ]
}
