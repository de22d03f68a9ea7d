//! The imports of most of these tests.

pub(crate) use redlatch_behaviours::prelude::*;
pub(crate) use redlatch_embedded::LostReply;

pub(crate) use crate::{
    cancel::{Task, after_each_poll, polled, task},
    trouble::{lose_reply, refuse_next},
    ways::{LOCKS, within},
};
