//! Late copies: requests of clients to an embedded server, delivered again at a time that the test
//! chooses.

use std::sync::{Arc, Mutex};

use redlatch::runtime::{Command, Reply, ServerError};
use redlatch_core::family::listed;
use redlatch_embedded::{EmbeddedServer, calls};

/// Copies of every call, of one script or of all, that clients have sent since the start of the
/// recording.
///
/// There is no limit to the lateness of a request: one in the socket of a stopped server runs after
/// its client has closed.
#[derive(Debug)]
pub struct Copies {
    server: EmbeddedServer,
    sent: Arc<Mutex<Vec<Command>>>,
}

impl Copies {
    /// Starts to record calls of the script with this source. [`EmbeddedServer::clear_trouble`]
    /// ends the recording.
    pub fn of_script(server: &EmbeddedServer, source: &str) -> Self {
        Self::of(server, calls::of_script(source))
    }

    /// Starts to record calls of all scripts.
    pub fn of_all(server: &EmbeddedServer) -> Self {
        Self::of(server, calls::of_scripts())
    }

    fn of(server: &EmbeddedServer, is_it: impl Fn(&Command) -> bool + Send + 'static) -> Self {
        let sent = Arc::<Mutex<Vec<Command>>>::default();
        let log = Arc::clone(&sent);
        let watch = move |command: &Command| {
            if is_it(command) {
                log.lock().unwrap().push(command.clone());
            }
            false
        };
        server.fail_next(watch, ServerError::parse("ERR never"));
        let server = server.clone();
        Self { server, sent }
    }

    /// Returns the number of calls, including those for which the server did not know the script.
    pub fn len(&self) -> usize {
        self.sent.lock().unwrap().len()
    }

    /// Tells whether there was no call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Delivers a copy of each call, in order, whatever the server answers.
    pub fn repeat(&self) {
        let sent = self.sent.lock().unwrap().clone();
        for command in &sent {
            let _ = self.server.execute(command);
        }
    }

    /// Delivers a copy of each call, in order. Returns the verdict of each, which is the second
    /// item of its reply.
    ///
    /// # Panics
    ///
    /// Panics if the server answers with an error.
    pub fn deliver(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap().clone();
        let deliver = |command| verdict(&self.server.execute(command));
        sent.iter().map(deliver).collect()
    }
}

fn verdict(reply: &Reply) -> String {
    let reply = listed(reply.clone().unwrap());
    reply.as_array().unwrap()[1].as_str().unwrap().to_owned()
}
