//! Errors instead of replies: the permissions that users lack on a server, and answers in words
//! that no client knows.

use redlatch_core::runtime::{Command, Reply, ServerError, Value};
use redlatch_embedded::ServerTime;

use super::Net;
use crate::{faults::Fault, mutants::What, scripts::called};

/// A period in which a server refuses scripts.
#[derive(Debug)]
pub(super) struct Lack {
    node: usize,
    until: u64,
    /// Whether it refuses only releases and undos, and not all scripts.
    releases: bool,
}

impl Net {
    /// Makes a server refuse scripts for `span` µs: only releases and undos, or all.
    pub fn refuse(&mut self, node: usize, span: u64, releases: bool) {
        let until = self.exec.now() + span;
        self.lacks.push(Lack {
            node,
            until,
            releases,
        });
    }

    /// Returns the error with which a server refuses a command, if it does.
    pub(super) fn refusal(&self, node: usize, command: &Command) -> Option<Reply> {
        let now = self.exec.now();
        let lacks = |lack: &Lack| {
            let refused = match lack.releases {
                true => releases(command),
                false => called(command).is_some(),
            };
            lack.node == node && now < lack.until && refused
        };
        let line = "NOPERM this user has no permissions to run the 'evalsha' command";
        self.lacks.iter().any(lacks).then(|| error(line))
    }

    /// Draws whether a command is answered in unknown words, as a proxy before the server may:
    /// after its execution, or instead of that.
    pub(super) fn draw_strange(&mut self, command: &Command) -> Option<bool> {
        if !self.roll(Fault::Strange) {
            return None;
        }
        let executed = self.rng.chance(500);
        self.watch.fault(Fault::Strange, || {
            let verb = String::from_utf8_lossy(command.args().next().unwrap_or_default());
            let done = match executed {
                true => "executed and answered",
                false => "refused",
            };
            format!("{verb} is {done} in unknown words")
        });
        Some(executed)
    }

    /// Returns an answer in unknown words. A planted fault gives it a code that clients know.
    pub(super) fn strange_words(&self) -> Reply {
        let code = match self.planted {
            Some(What::TakesStrangeFor(code)) => code,
            _ => "WEIRD",
        };
        error(&format!("{code} the proxy is tired"))
    }
}

/// Implements a planted fault: a refused release of a lock gets the reply of a release that found
/// nothing.
pub(super) fn taken_for_done(command: &Command, reply: Reply, now: ServerTime) -> Reply {
    let refused = reply.as_ref().is_err_and(|error| error.code == "NOPERM");
    if refused && releases(command) {
        let answer = format!("{:013} gone 0", now.millis());
        return Ok(Value::Bulk(answer.into_bytes()));
    }
    reply
}

fn releases(command: &Command) -> bool {
    called(command).is_some_and(|script| script.name.ends_with("/release"))
}

/// Returns the reply of a server that refuses with this line.
pub(super) fn error(line: &str) -> Reply {
    Err(ServerError::parse(line))
}
