//! Errors instead of replies: the permissions that users lack on a server, and answers in words
//! that no client knows.

use redlatch_core::runtime::{Command, Reply, ServerError, Value};
use redlatch_embedded::ServerTime;

use super::{Net, State};
use crate::{faults::Fault, mutants::What, scripts::called};

/// The periods in which permissions are missing. Without an entry all commands are permitted.
#[derive(Debug, Default)]
pub(super) struct Rights(Vec<Lack>);

/// A period in which a server refuses scripts.
#[derive(Debug)]
struct Lack {
    node: usize,
    until: u64,
    /// Whether it refuses only releases and undos, and not all scripts.
    releases: bool,
}

impl Rights {
    /// Grants all permissions again.
    pub(super) fn heal(&mut self) {
        self.0.clear();
    }

    /// Returns the error with which a server refuses a command, if it does.
    pub(super) fn refuse(
        &mut self,
        node: usize,
        command: &Command,
        now: u64,
    ) -> Option<ServerError> {
        if self.0.is_empty() {
            return None;
        }
        self.0.retain(|lack| now < lack.until);
        let script = called(command)?;
        let releases = script.name.ends_with("/release");
        let lacks = |lack: &Lack| lack.node == node && (releases || !lack.releases);
        self.0.iter().any(lacks).then(|| {
            let line = "NOPERM this user has no permissions to run the 'evalsha' command";
            ServerError::parse(line)
        })
    }
}

impl Net {
    /// Makes a server refuse scripts for `span` µs: only releases and undos, or all.
    pub fn refuse(&self, node: usize, span: u64, releases: bool) {
        let until = self.exec.now() + span;
        let lack = Lack {
            node,
            until,
            releases,
        };
        self.state().rights.0.push(lack);
    }
}

/// Implements a planted fault: a refused release of a lock gets the reply of a release that found
/// nothing.
pub(super) fn taken_for_done(command: &Command, reply: Reply, now: ServerTime) -> Reply {
    let refused = reply.as_ref().is_err_and(|error| error.code == "NOPERM");
    let releases = called(command).is_some_and(|script| script.name.ends_with("/release"));
    if refused && releases {
        let answer = format!("{:013} gone 0", now.millis());
        return Ok(Value::Bulk(answer.into_bytes()));
    }
    reply
}

/// When a server answers a command in unknown words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strange {
    /// Instead of the execution.
    Before,
    /// After the execution.
    After,
}

impl Net {
    /// Draws whether a command is answered in unknown words, as a proxy before the server may.
    pub(super) fn draw_strange(&self, state: &mut State, command: &Command) -> Option<Strange> {
        let hit = state.roll(Fault::Strange);
        let strange = match hit && state.rng.chance(500) {
            true => Strange::After,
            false => Strange::Before,
        };
        hit.then(|| {
            self.watch.fault(Fault::Strange, || {
                let verb = command.args().next().unwrap_or_default();
                let verb = String::from_utf8_lossy(verb);
                match strange {
                    Strange::Before => format!("{verb} is refused in unknown words"),
                    Strange::After => format!("{verb} is executed and answered in unknown words"),
                }
            });
            strange
        })
    }
}

impl State {
    /// Returns an answer in unknown words. A planted fault gives it a code that clients know.
    pub(super) fn strange_words(&self) -> Reply {
        let code = match self.planted {
            Some(What::TakesStrangeFor(code)) => code,
            _ => "WEIRD",
        };
        let line = format!("{code} the proxy is tired");
        Err(ServerError::parse(&line))
    }
}
