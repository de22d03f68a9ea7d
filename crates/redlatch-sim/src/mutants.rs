//! Planted faults: each must be found, or the simulator does not see what it claims to.

use redlatch_core::{
    rules::{Rule, Rules},
    seam::Command,
};
use redlatch_lua::{REENTRANT, Source};
use sha1_smol::Sha1;

/// A fault that is planted on purpose.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does.
    pub what: What,
}

/// Where a mutant sits.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// In a script: the first text is replaced with the second.
    Script(&'static Source, &'static str, &'static str),
    /// In the client: it does not keep this rule.
    Client(Rule),
}

impl Mutant {
    /// Finds a mutant by its name.
    pub fn find(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|mutant| mutant.name == name)
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

    /// Returns the rules that its clients keep.
    pub const fn rules(self) -> Option<Rules> {
        match self.what {
            What::Client(rule) => Some(Rules::all_but(rule)),
            What::Script(..) => None,
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

pub(crate) fn sha(text: &str) -> String {
    Sha1::from(text).digest().to_string()
}

const ACQUIRE: &Source = &REENTRANT.acquire;
const RELEASE: &Source = &REENTRANT.release;
const RENEW: &Source = &REENTRANT.renew;

/// All mutants.
pub const ALL: &[Mutant] = &[
    script(
        "early-grant",
        ACQUIRE,
        "f[2] and f[4] > now and f[2] ~= owner",
        "f[2] and f[4] > (now + 100) .. '' and f[2] ~= owner",
    ),
    script("void-ignored", ACQUIRE, "return {now, 'void'}", ""),
    script("late-accepted", ACQUIRE, "if now > ARGV[1] or", "if"),
    script(
        "token-repeats",
        ACQUIRE,
        "token = time[1] .. micros
    if last and token <= last then",
        "token = last or time[1] .. micros
    if false then",
    ),
    script(
        "reentry-not-counted",
        ACQUIRE,
        "held = held .. attempt .. ' '",
        "",
    ),
    script(
        "reentry-shortens",
        ACQUIRE,
        "if f[4] > ends or h[2] == token then",
        "if false then",
    ),
    script(
        "waiter-not-registered",
        ACQUIRE,
        "call('ZADD', KEYS[m + i], alive, address)",
        "",
    ),
    script(
        "queue-without-end",
        ACQUIRE,
        "call('PEXPIRE', KEYS[m + i], last - now)",
        "",
    ),
    script("hold-without-end", ACQUIRE, "call('PEXPIRE', key, ttl)", ""),
    script(
        "release-frees-all",
        RELEASE,
        "if rest == ' ' and live then",
        "if live then",
    ),
    script(
        "release-wakes-nobody",
        RELEASE,
        "redis.pcall(verb, channel, key)",
        "",
    ),
    script(
        "release-leaves-no-mark",
        RELEASE,
        "if void ~= '' and void >= now then",
        "if false then",
    ),
    script(
        "renewal-shortens",
        RENEW,
        "if f[4] > ends then",
        "if false then",
    ),
    client("abandoned-not-undone", Rule::UndoAbandoned),
    client("copies-not-marked", Rule::MarkCopies),
    client("lease-from-reply", Rule::CountFromSend),
    client("no-margin", Rule::TakeMargin),
    client("loss-not-latched", Rule::LatchLoss),
    client("resend-new-id", Rule::ResendSameId),
    client("no-try-after-subscribing", Rule::TryAfterSubscribing),
    client("no-wake-after-gap", Rule::WakeAfterGap),
    client("by-unlimited", Rule::LimitBy),
    client("release-not-retried", Rule::RetryPartings),
    client("drop-releases-nothing", Rule::ReleaseOnDrop),
    client("never-renewed", Rule::Renew),
    client("turn-not-passed", Rule::PassTurn),
    client("waiter-never-registers", Rule::Register),
    client("waiter-not-struck-out", Rule::StrikeOut),
    client("loss-not-told", Rule::TellByClock),
    client("never-looks-again", Rule::LookAgain),
];

const fn client(name: &'static str, rule: Rule) -> Mutant {
    Mutant {
        name,
        what: What::Client(rule),
    }
}

const fn script(
    name: &'static str,
    source: &'static Source,
    from: &'static str,
    to: &'static str,
) -> Mutant {
    Mutant {
        name,
        what: What::Script(source, from, to),
    }
}
