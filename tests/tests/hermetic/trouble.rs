//! Trouble that embedded servers make, ordered in one line.

use redlatch::runtime::ServerError;
use redlatch_embedded::calls::{named, of_script};

use crate::prelude::*;

/// Loses the reply to the next call of the script with this text.
pub(crate) fn lose_reply(backend: &Backend, script: &str, how: LostReply) {
    backend.embedded_server().drop_reply(of_script(script), how);
}

/// Refuses the next call of the script with this text.
pub(crate) fn refuse_next(backend: &Backend, script: &str, error: &str) {
    let server = backend.embedded_server();
    server.fail_next(of_script(script), ServerError::parse(error));
}

/// Answers no write of a note for a while.
pub(crate) fn lose_notes(backend: &Backend) {
    for _ in 0..20 {
        let server = backend.embedded_server();
        server.drop_reply(named("SET"), LostReply::Hangs);
    }
}

/// Refuses to subscribe clients to channels.
pub(crate) fn refuse_subscriptions(backend: &Backend) {
    for _ in 0..1_000 {
        let refusal = "NOPERM No permissions to access a channel used as an argument";
        let server = backend.embedded_server();
        server.fail_next(named("SUBSCRIBE"), ServerError::parse(refusal));
    }
}
