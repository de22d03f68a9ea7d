#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

mod id;
mod permits;

pub use id::{ParsePermitIdError, PermitId};
pub use permits::{
    AcquireId, AcquireIds, PermitExpirableSemaphore, PermitHolder, PermitRelease, TryAcquireId,
    TryAcquireIdFor, TryAcquireIds, TryAcquireIdsFor,
};
pub use redlatch_pool::{SetPermits, Totals, TrySetPermits};
