//! Late copies: what clients sent to an embedded server, delivered once more whenever a test likes.

use std::sync::{Arc, Mutex};

use redlatch::runtime::{Command, Reply};
use redlatch_core::family::listed;
use redlatch_embedded::{EmbeddedServer, calls};

/// Copies of every call of one script that clients have sent since this began to watch.
///
/// Nothing bounds how late a request may act: one that a stopped server had in its socket runs
/// after its client has closed.
#[derive(Debug)]
pub struct Copies {
    server: EmbeddedServer,
    sent: Arc<Mutex<Vec<Command>>>,
}

impl Copies {
    /// Begins to watch calls of the script with this text. [`EmbeddedServer::clear_trouble`] ends
    /// it.
    pub fn of_script(server: &EmbeddedServer, source: &str) -> Self {
        let sent = Arc::<Mutex<Vec<Command>>>::default();
        let (is_it, log) = (calls::of_script(source), Arc::clone(&sent));
        let watch = move |command: &Command| {
            if is_it(command) {
                log.lock().unwrap().push(command.clone());
            }
            false
        };
        server.fail_next(watch, redlatch::runtime::ServerError::parse("ERR never"));
        Self {
            server: server.clone(),
            sent,
        }
    }

    /// Returns how many calls there were, those that the server did not know the script of counted.
    pub fn len(&self) -> usize {
        self.sent.lock().unwrap().len()
    }

    /// Tells whether there was none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Delivers a copy of each call, in order; returns the verdict of each, the second item of its
    /// reply.
    ///
    /// # Panics
    ///
    /// If the server answers with an error.
    pub fn deliver(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap().clone();
        sent.iter()
            .map(|command| verdict(&self.server.execute(command)))
            .collect()
    }
}

fn verdict(reply: &Reply) -> String {
    let reply = listed(reply.clone().unwrap());
    reply.as_array().unwrap()[1].as_str().unwrap().to_owned()
}
