//! Planted faults: each must be found, or the simulator does not see what it claims to.

use redlatch_core::{
    rules::{Rule, Rules},
    seam::Command,
};
use redlatch_lua::Source;

use crate::{
    faults::Fault,
    scripts::sha,
    workload::{KINDS, Kind},
};

/// A fault that is planted on purpose.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// Its name on the command line, different from that of every other, of any kind.
    pub name: &'static str,
    /// What it does.
    pub what: What,
    /// A fault that is on in every seed of its hunt, because it does harm under no other.
    pub under: Option<Fault>,
}

/// Where a mutant sits.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// In a script: the first text is replaced with the second.
    Script(&'static Source, &'static str, &'static str),
    /// In the client: it does not keep this rule.
    Client(Rule),
    /// In the client: an acquisition whose caller is gone goes on, and what it gets is held and renewed. Planted around the call.
    Detached,
}

/// Lists all mutants, each with the kind of the seeds that have to find it.
pub fn all() -> impl Iterator<Item = (Kind, Mutant)> {
    let mutants = |&kind: &Kind| kind.mutants().iter().map(move |&mutant| (kind, mutant));
    KINDS.iter().flat_map(mutants)
}

/// Finds a mutant by its name.
pub fn find(name: &str) -> Option<(Kind, Mutant)> {
    all().find(|(_, mutant)| mutant.name == name)
}

impl Mutant {
    /// Hunts it with `fault` on in every seed.
    pub(crate) const fn under(mut self, fault: Fault) -> Self {
        self.under = Some(fault);
        self
    }

    /// Returns what it makes of a script, if it sits in one.
    pub fn forgery(self) -> Option<Forgery> {
        let What::Script(source, from, to) = self.what else {
            return None;
        };
        assert!(source.text.contains(from), "{}: {from:?}", self.name);
        let text = source.text.replacen(from, to, 1);
        Some(Forgery {
            original: source.text,
            original_sha: sha(source.text),
            sha: sha(&text),
            text,
        })
    }

    /// Tells whether acquisitions go on without their callers.
    pub const fn detaches(self) -> bool {
        matches!(self.what, What::Detached)
    }

    /// Returns the rules that its clients keep.
    pub const fn rules(self) -> Option<Rules> {
        match self.what {
            What::Client(rule) => Some(Rules::all_but(rule)),
            What::Script(..) | What::Detached => None,
        }
    }
}

/// A script that runs in another's place.
#[derive(Clone, Debug)]
pub struct Forgery {
    original: &'static str,
    original_sha: String,
    text: String,
    sha: String,
}

impl Forgery {
    /// Returns the command that runs in the place of `command`, if it calls the original.
    pub fn forge(&self, command: &Command) -> Option<Command> {
        let mut args = command.args();
        let verb = args.next()?;
        let script = args.next()?;
        let script = match verb {
            b"EVALSHA" if script == self.original_sha.as_bytes() => &self.sha,
            b"EVAL" if script == self.original.as_bytes() => &self.text,
            _ => return None,
        };
        let forged = Command::with_capacity(16, 256).arg(verb).arg(script);
        Some(args.fold(forged, Command::arg))
    }
}

/// A client that does not keep a rule.
pub(crate) const fn client(name: &'static str, rule: Rule) -> Mutant {
    Mutant {
        name,
        what: What::Client(rule),
        under: None,
    }
}

/// An acquisition that does not end with its caller.
pub(crate) const fn detached(name: &'static str) -> Mutant {
    Mutant {
        name,
        what: What::Detached,
        under: None,
    }
}

/// A script in which the first text is replaced with the second.
pub(crate) const fn script(
    name: &'static str,
    source: &'static Source,
    from: &'static str,
    to: &'static str,
) -> Mutant {
    Mutant {
        name,
        what: What::Script(source, from, to),
        under: None,
    }
}
