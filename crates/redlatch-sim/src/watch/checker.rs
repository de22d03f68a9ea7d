//! The interface between the observer and its checkers.

use std::{any::Any, collections::BTreeMap, fmt};

use redlatch_core::LossCause;

use super::{
    record::Record,
    view::{Call, Claim, View},
};
use crate::{
    exec::ProcId,
    scripts::{Ran, Seen},
};

/// Checks one promise, or one property of a kind.
pub trait Checker: Send + fmt::Debug {
    /// Handles an event. `view` includes the event already. Broken promises go into `record`.
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record);
}

/// The events that checkers receive.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// An acquisition delivered a guard.
    Delivered {
        /// The guard.
        claim: &'a Claim,
        /// The acquisition, if its caller is still alive.
        call: Option<&'a Call>,
    },
    /// A guard of this name was released or dropped, or its holder has died.
    Left {
        /// The name.
        name: usize,
    },
    /// `lost()` of a guard has resolved.
    Told {
        /// The guard.
        claim: &'a Claim,
        /// The cause that the holder was told.
        cause: LossCause,
    },
    /// The server has run a script.
    Ran {
        /// The process that sent the script.
        proc: ProcId,
        /// The script and its reply.
        ran: &'a Ran<'a>,
        /// The actions of the script.
        seen: &'a [Seen],
        /// The time at which it was sent.
        sent: u64,
        /// The time of the server's clock in µs.
        clock: u64,
    },
    /// A copy of the data of the first server was taken.
    Copied {
        /// Its number.
        copy: u64,
    },
    /// The first server has lost all data after this copy, or all data if there is none.
    Forgot {
        /// The copy's number.
        copy: Option<u64>,
    },
    /// One of several servers has lost all data.
    OneForgot,
    /// A worker reports an action that concerns no guard, which only the checkers of its kind
    /// understand.
    Did {
        /// The process of the worker.
        proc: ProcId,
        /// The name.
        name: usize,
        /// The action.
        deed: &'a dyn Any,
    },
    /// One step of the executor is over.
    Stepped,
    /// As `Stepped`, but at most once per millisecond.
    Looked,
    /// The run is over, and nothing of it is left.
    Over,
}

impl<'a> Event<'a> {
    /// Returns a script that the server has run, its name, and the server's time in ms.
    pub fn ran(&self) -> Option<(&'a Ran<'a>, usize, u64)> {
        match *self {
            Event::Ran { ran, .. } => Some((ran, ran.name()?, ran.number(1)?)),
            _ => None,
        }
    }

    /// Returns the process, the name and the action that a worker of this kind reports.
    pub fn deed<D: 'static>(&self) -> Option<(ProcId, usize, &'a D)> {
        match *self {
            Event::Did { proc, name, deed } => Some((proc, name, deed.downcast_ref()?)),
            _ => None,
        }
    }
}

/// Checks the replies about each name by itself.
#[derive(Debug, Default)]
struct EachName<N>(BTreeMap<usize, N>);

/// What the checker of a kind knows of one name.
pub trait OfName: Send + fmt::Debug + Default + 'static {
    /// Handles a script that the server has run at `now`, in ms of its clock.
    fn ran(&mut self, name: usize, now: u64, ran: &Ran<'_>, view: &View, record: &mut Record);
}

/// Creates the checker of each name.
pub fn each<N: OfName>() -> Box<dyn Checker> {
    Box::<EachName<N>>::default()
}

impl<N: OfName> Checker for EachName<N> {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        if let Some((ran, name, now)) = event.ran() {
            let of_name = self.0.entry(name).or_default();
            of_name.ran(name, now, ran, view, record);
        }
    }
}
