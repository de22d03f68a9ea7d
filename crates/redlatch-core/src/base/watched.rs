//! What an object that is waited for, and not acquired, tells the engine. For the crates of this
//! family.

use std::{fmt, sync::Arc};

use crate::{
    Error,
    base::script::ScriptCall,
    protocol::{name::Key, phase_watch::Snapshot},
    runtime::Value,
};

/// One object whose phases end: what to send, and what the answers mean. All decisions about when
/// are the engine's.
///
/// A phase is a number that is greater than those of all phases before it, and ends once. What ends
/// it publishes a message to the object's [`broadcast_channel`](crate::Client::broadcast_channel), whose text is for people: any
/// message makes each client look once.
pub trait Watched: Send + Sync + fmt::Debug + 'static {
    /// Returns the kind as it stands in events and metrics.
    fn kind(&self) -> &'static str;

    /// Returns the user's class, empty if none was given.
    fn class(&self) -> Arc<str>;

    /// Returns the key that decides.
    fn key(&self) -> &Key;

    /// Returns the name.
    fn name(&self) -> &str {
        self.key().name()
    }

    /// Builds the call that looks at the object and asks what became of `phases`. It must change
    /// nothing.
    fn look(&self, phases: &[u64]) -> ScriptCall;

    /// Reads its reply, which has to tell the state of each of `phases`.
    fn looked(&self, phases: &[u64], reply: &Value) -> Result<Snapshot, Error>;

    /// Returns the error of waiting for an object that is not there.
    fn absent(&self) -> Error;

    /// Returns the error of waiting for a phase during which the object was removed.
    fn gone(&self) -> Error;
}
