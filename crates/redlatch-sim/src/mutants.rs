//! Planted faults: each must be found, or the simulator does not see what it claims to.

use redlatch_core::{family::Rule, runtime::Command};
use redlatch_lua::Source;

use crate::{
    faults::Fault,
    scenarios,
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
    /// The scenario that all seeds of its hunt are put into.
    pub within: Option<&'static str>,
}

/// Where a mutant sits.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// In a script: the first text is replaced with the second.
    Script(&'static Source, &'static str, &'static str),
    /// In the client: it does not keep this rule.
    Client(Rule),
    /// In the client: an acquisition whose caller is gone goes on, and what it gets is held and
    /// renewed. Planted around the call.
    Detached,
    /// The second text runs in the place of the script.
    Instead(&'static Source, &'static str),
    /// Around the clients: two of them draw the same id, in each of their lives.
    IdsCollide,
    /// Around the clients: they are told nothing of what servers' clocks may differ by.
    AsksNoAllowance,
    /// Around the clients: a release or undo that is refused is taken for done. For locks only,
    /// whose answers are simple.
    DropsRefused,
}

/// Lists all mutants, each with the kind of the seeds that have to find it.
pub fn all() -> impl Iterator<Item = (Kind, Mutant)> {
    let mutants = |&kind: &Kind| kind.mutants().iter().map(move |&mutant| (kind, mutant));
    KINDS
        .iter()
        .flat_map(mutants)
        .chain(scenarios::planted(scenarios::GATED))
}

/// Finds a mutant by its name.
pub fn find(name: &str) -> Option<(Kind, Mutant)> {
    let dormant = || {
        scenarios::PLANTED
            .iter()
            .filter_map(|(_, mutant)| mutant.within)
    };
    let dormant: Vec<_> = dormant().collect();
    let mut every = all().chain(scenarios::planted(&dormant));
    every.find(|(_, mutant)| mutant.name == name)
}

impl Mutant {
    /// Hunts it with `fault` on in every seed.
    pub(crate) const fn under(mut self, fault: Fault) -> Self {
        self.under = Some(fault);
        self
    }

    /// Returns what it makes of a script, if it sits in one.
    pub fn forgery(self) -> Option<Forgery> {
        let (source, text) = match self.what {
            What::Script(source, from, to) => {
                assert!(source.text.contains(from), "{}: {from:?}", self.name);
                (source, source.text.replacen(from, to, 1))
            }
            What::Instead(source, text) => (source, text.to_owned()),
            _ => return None,
        };
        Some(Forgery {
            original: source.text,
            original_sha: sha(source.text),
            sha: sha(&text),
            text,
        })
    }

    /// Returns what it plants around the clients, if it sits there.
    pub const fn spoils(self) -> Spoilt {
        Spoilt {
            detaches: matches!(self.what, What::Detached),
            ids: matches!(self.what, What::IdsCollide),
            allowance: matches!(self.what, What::AsksNoAllowance),
            refused: matches!(self.what, What::DropsRefused),
        }
    }

    /// Returns the rule that its clients break.
    pub const fn breaks(self) -> Option<Rule> {
        match self.what {
            What::Client(rule) => Some(rule),
            _ => None,
        }
    }

    /// Fails if this build of the library has no switch for the fault.
    pub fn check(self) -> Result<(), String> {
        if cfg!(redlatch_sim) || self.breaks().is_none() {
            return Ok(());
        }
        Err(format!(
            "{} needs a build with --cfg redlatch_sim, as `cargo xtask sim` makes it",
            self.name
        ))
    }
}

/// What is spoilt around the clients, by a planted fault.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spoilt {
    /// Acquisitions go on without their callers.
    pub detaches: bool,
    /// Two clients have one id.
    pub ids: bool,
    /// Clients are told nothing of what servers' clocks may differ by.
    pub allowance: bool,
    /// What is refused is taken for done.
    pub refused: bool,
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
        within: None,
    }
}

/// An acquisition that does not end with its caller.
pub(crate) const fn detached(name: &'static str) -> Mutant {
    Mutant {
        name,
        what: What::Detached,
        under: None,
        within: None,
    }
}

/// Two clients with one id.
pub(crate) const fn ids_collide(name: &'static str) -> Mutant {
    Mutant {
        name,
        what: What::IdsCollide,
        under: None,
        within: None,
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
        within: None,
    }
}
