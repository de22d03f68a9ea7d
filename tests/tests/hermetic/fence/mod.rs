//! The fence.

mod trouble;
