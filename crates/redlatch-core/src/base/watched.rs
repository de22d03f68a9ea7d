//! The trait of objects that clients wait for without an acquisition. For the crates of this
//! family.

use std::{fmt, sync::Arc};

use crate::{
    Error,
    base::script::ScriptCall,
    protocol::{name::Key, phase_watch::Snapshot},
    runtime::Value,
};

/// One object whose phases end. It builds the requests and reads the replies. The engine decides
/// when to send them.
///
/// A phase is a number greater than the numbers of all earlier phases, and it ends once. The script
/// that ends it publishes a message to the object's
/// [`broadcast_channel`](Key::broadcast_channel). The text of the message is for people: any
/// message makes each client query once.
pub trait Watched: Send + Sync + fmt::Debug + 'static {
    /// Returns the kind, as it appears in events and metrics.
    fn kind(&self) -> &'static str;

    /// Returns the user's class, empty if none was given.
    fn class(&self) -> Arc<str>;

    /// Returns the object's main key.
    fn key(&self) -> &Key;

    /// Returns the name.
    fn name(&self) -> &str {
        self.key().name()
    }

    /// Builds the call that queries the object and the states of `phases`. It must change nothing.
    fn look(&self, phases: &[u64]) -> ScriptCall;

    /// Reads the reply of [`look`](Self::look), which must contain the state of each of `phases`.
    fn looked(&self, phases: &[u64], reply: &Value) -> Result<Snapshot, Error>;

    /// Returns the error of a wait for an object that does not exist.
    fn absent(&self) -> Error;

    /// Returns the error of a wait for a phase during which the object was removed.
    fn gone(&self) -> Error;
}
