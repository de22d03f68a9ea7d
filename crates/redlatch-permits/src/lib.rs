#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

mod acquire;
mod id;
mod inspect;
mod permits;

pub use acquire::{
    AcquireId, AcquireIds, TryAcquireId, TryAcquireIdFor, TryAcquireIds, TryAcquireIdsFor,
};
pub use id::{ParsePermitIdError, PermitId};
pub use inspect::PermitHolder;
pub use permits::{PermitExpirableSemaphore, PermitRelease};
pub use redlatch_pool::{SetPermits, Totals, TrySetPermits};
