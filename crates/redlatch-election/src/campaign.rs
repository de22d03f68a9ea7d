//! The campaign for the next term.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Acquire, Client, Durability, Error, ErrorKind, Held,
    family::{Internals, Primitive},
};

use crate::Term;

/// The object and the options of a campaign.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) client: Client,
    pub(crate) primitive: Arc<dyn Primitive>,
    pub(crate) lease: Duration,
    pub(crate) grace: Duration,
    pub(crate) value: String,
    pub(crate) note: Option<Arc<str>>,
    pub(crate) durability: Durability,
}

impl Plan {
    /// Campaigns until a term begins. Trouble that passes does not end the campaign.
    pub(crate) async fn term(self: &Arc<Self>) -> Result<Term, Error> {
        loop {
            let primitive = Ok(Arc::clone(&self.primitive));
            let mut acquire = Acquire::<Held>::new(&self.client, primitive)
                .renewed_lease(self.lease)
                .durability(self.durability)
                .whole_lease()
                .fresh_owner();
            if let Some(note) = &self.note {
                acquire = acquire.note(note);
            }
            match acquire.await {
                Ok(held) => return Ok(Term::new(held, self)),
                Err(error) if passes(&error) => self.client.pause(AGAIN).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Tells whether a campaign goes on after `error`. A client whose wait strategy has a number of
/// attempts ends an acquisition, and a campaign has no such end.
fn passes(error: &Error) -> bool {
    error.is_transient() || error.kind() == ErrorKind::TooManyAttempts
}

/// The pause after an acquisition that failed for now. It has mostly lasted for the client's
/// patience before.
const AGAIN: Duration = Duration::from_secs(1);
