//! The imports of most tests of all kinds.

pub(super) use std::time::Instant;

pub(super) use async_trait::async_trait;
pub(super) use redlatch_tests::hold::{Hold, ReleaseOutcome};

pub(super) use super::{
    TAG, builder, connect,
    kind::{AnyKind, Kind, Object, Party, stem},
    kinds::{self, KINDS},
    load::Load,
    parties,
    scene::{Leases, Pair, Scene, assert_all_end},
    standalone::Bed,
};
pub(super) use crate::prelude::*;
