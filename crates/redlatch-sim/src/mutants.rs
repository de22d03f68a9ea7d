//! Planted faults. The simulator must find each of them, which shows that its checkers work.

use redlatch_core::{family::Rule, runtime::Command};
use redlatch_lua::Source;

use crate::{
    faults::Fault,
    scripts::sha,
    workload::{KINDS, Kind},
};

/// A fault that is planted on purpose.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// The name on the command line, unique over all kinds.
    pub name: &'static str,
    /// The change that it makes.
    pub what: What,
    /// A fault that is on in every seed of its hunt, because the mutant does harm under no other.
    pub under: Option<Fault>,
    /// The scenario of all seeds of its hunt.
    pub within: Option<&'static str>,
    /// Whether it needs more than 100 seeds. A hunt with a lower bound than usual leaves it out,
    /// and has to find all others.
    pub slow: bool,
    /// Whether no small world shows it, because it needs a re-entry, a forced end, a time between
    /// two ticks, or more ticks.
    pub unseen: bool,
}

/// The place and form of a mutant.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// In a script: the first text is replaced by the second.
    Script(&'static Source, &'static str, &'static str),
    /// In the client: it does not keep this rule.
    Client(Rule),
    /// In the client: an acquisition continues without its caller, and its grant is held and
    /// renewed. The mutant is planted around the call.
    Detached,
    /// Around the clients: two of them draw the same id, in each of their lives.
    IdsCollide,
    /// Around the clients: they are not told the allowance for differing server clocks.
    AsksNoAllowance,
    /// Around the clients: a refused release or undo counts as done. It is for locks only, whose
    /// replies are simple.
    DropsRefused,
    /// Around the clients: each `WAIT` goes over another connection than the request before it.
    WaitsElsewhere,
    /// Around the clients: they take an error of unknown meaning for one with this code.
    TakesStrangeFor(&'static str),
}

/// Lists every mutant, each with the kind of the seeds that must find it.
pub fn all() -> impl Iterator<Item = (Kind, Mutant)> {
    let mutants = |&kind: &Kind| kind.mutants.iter().map(move |&mutant| (kind, mutant));
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

    /// Hunts it in this scenario, because no other seed finds it.
    pub(crate) const fn within(mut self, scenario: &'static str) -> Self {
        self.within = Some(scenario);
        self
    }

    /// Leaves it out of hunts with few seeds.
    pub(crate) const fn slow(mut self) -> Self {
        self.slow = true;
        self
    }

    /// Leaves it out of hunts in small worlds.
    pub(crate) const fn unseen(mut self) -> Self {
        self.unseen = true;
        self
    }

    /// Returns the changed script, if the mutant is in a script.
    pub fn forgery(self) -> Option<Forgery> {
        let What::Script(source, from, to) = self.what else {
            return None;
        };
        assert!(source.text.contains(from), "{}: {from:?}", self.name);
        let text = source.text.replacen(from, to, 1);
        Some(Forgery {
            original: source,
            sha: sha(&text),
            text,
        })
    }

    /// Checks that this build of the library has a switch for the fault.
    ///
    /// # Errors
    ///
    /// Returns an error if it has none.
    pub fn check(self) -> Result<(), String> {
        if cfg!(redlatch_sim) || !matches!(self.what, What::Client(_)) {
            return Ok(());
        }
        let needs = "needs a build with --cfg redlatch_sim, as `cargo xtask sim` makes it";
        Err(format!("{} {needs}", self.name))
    }
}

/// A script that runs instead of another.
#[derive(Clone, Debug)]
pub struct Forgery {
    original: &'static Source,
    text: String,
    sha: String,
}

impl Forgery {
    /// Returns the command that runs instead of `command`, if it calls the original.
    pub fn forge(&self, command: &Command) -> Option<Command> {
        let mut args = command.args();
        let verb = args.next()?;
        let script = args.next()?;
        let script = match verb {
            b"EVALSHA" if script == self.original.digest.as_bytes() => &self.sha,
            b"EVAL" if script == self.original.text.as_bytes() => &self.text,
            _ => return None,
        };
        let forged = Command::with_capacity(16, 256).arg(verb).arg(script);
        Some(args.fold(forged, Command::arg))
    }
}

/// Makes a mutant of this form.
pub(crate) const fn mutant(name: &'static str, what: What) -> Mutant {
    Mutant {
        name,
        what,
        under: None,
        within: None,
        slow: false,
        unseen: false,
    }
}

/// Makes a mutant in which a client does not keep a rule.
pub(crate) const fn client(name: &'static str, rule: Rule) -> Mutant {
    mutant(name, What::Client(rule))
}

/// Makes a mutant of a script in which the first text is replaced by the second. What else is to be
/// said of the mutant, such as `slow` or `under(…)`, stands before the texts.
macro_rules! script {
    ($name:expr, $source:expr, $($how:ident $(($of:expr))?,)* $from:literal => $to:literal) => {
        $crate::mutants::mutant($name, $crate::mutants::What::Script(&$source, $from, $to))
            $(.$how($($of)?))*
    };
}
pub(crate) use script;
