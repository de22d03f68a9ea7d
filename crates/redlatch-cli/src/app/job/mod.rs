//! A command that runs for as long as a hold lasts.

mod group;
pub(crate) mod guardian;
mod program;
mod rule;
mod running;
mod signals;
mod supervise;
mod terminal;

pub(crate) use self::{
    program::{Program, application, launch},
    rule::Patience,
    signals::Signals,
    supervise::{Cut, Ended, Job, Lease, Outcome, supervise},
};
