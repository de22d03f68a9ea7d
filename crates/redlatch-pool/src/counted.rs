//! What one acquisition of permits is.

use std::sync::Arc;

use redlatch_core::family::{AttemptId, Key};

use crate::Flavour;

/// A number of permits of one pool.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) flavour: Flavour,
    pub(crate) key: Key,
    pub(crate) class: Arc<str>,
    pub(crate) need: u32,
    pub(crate) size: Option<u32>,
}

impl Counted {
    /// Returns the names of the holds that `attempt` makes, without the client.
    pub(crate) fn holds(&self, attempt: &AttemptId) -> Vec<String> {
        let attempt = attempt.suffix().to_string();
        if self.flavour.each {
            (0..self.need).map(|at| format!("{attempt}:{at}")).collect()
        } else {
            vec![attempt]
        }
    }
}
