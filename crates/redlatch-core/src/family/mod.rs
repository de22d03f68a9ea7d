//! The internals for the sibling crates. This module is not a public API: any release may change
//! it.
//!
//! The sibling crates of this family build their primitives with these items. A sibling crate
//! describes a primitive ([`Primitive`], [`Watched`]) and its script calls. The engine runs it
//! through [`Internals`].

#[macro_use]
mod handle;
pub mod exclusive;
mod internals;
pub(crate) mod member;
#[cfg(test)]
#[path = "../runtime/tests/replies.rs"]
mod replies;
mod scan;
mod work;

#[doc(no_inline)]
pub use futures_core::Stream;

pub use crate::{
    api::{builder::AcquireMany, describe::ServerAnswers},
    base::{
        error::About,
        items::{Items, listed},
        observe::{RunEnded, TermEvent, report_fenced},
        owner::AttemptId,
        primitive::{
            AcquireRequest, Answer, AnswerForAll, Force, Grant, Identity, Primitive, ReleaseReply,
            ReleaseRequest, RenewRequest, Renewed, Side, WaiterAddress, Waiting, Watched, Withdraw,
            WithdrawRequest, Withdrawn, loss,
        },
        rules::{Rule, Rules},
        script::{CallOutcome, Failure, Script, ScriptCall, kept_script, millis},
    },
    engine::{AcquireOptions, OwnerChoice, Portion, REMEMBERED, Together, Wait, WatchOptions},
    family::{
        exclusive::Kind,
        scan::{Forgotten, Scan, Stored, forget, is_of_one_object, stored},
        work::while_held,
    },
    protocol::{
        classify::{Obstacle, Redirect, Refusal},
        glob::is_match,
        lease::{Lease, LeaseError},
        name::{Key, Name, NameError, PUBLISH, Prefix},
        phase_watch::{PhaseState, Snapshot},
        slot::{SLOTS, hash_tag, slot_of},
        waiter::Discipline,
    },
};

#[cfg(test)]
use crate::runtime::Value;

pub use handle::{Handle, invalid, invalid_name};
pub use internals::{Internals, Records};
