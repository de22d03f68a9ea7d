//! Script calls that acquire, release, and mark an attempt as undone.

use redlatch_lua::{FAIR, POOL, REENTRANT, RWLOCK, Source};

/// A server time that no test reaches, in ms.
pub const FAR: u64 = 9_999_999_999_999;

/// The object that a call acquires.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Lock,
    Fair,
    Write,
    Read,
    Semaphore,
    Permits,
}

/// The action of a call on an attempt.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Acquires the name until another call releases it.
    Acquire,
    Release,
    /// Releases, and marks the attempt as undone until this server time, in ms.
    Undo(u64),
}

impl Kind {
    pub const ALL: [Self; 6] = [
        Self::Lock,
        Self::Fair,
        Self::Write,
        Self::Read,
        Self::Semaphore,
        Self::Permits,
    ];

    pub fn key(self) -> String {
        format!("p:{{t}}{self:?}")
    }

    pub fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Lock => &["q"],
            Self::Fair => &["q", "l"],
            Self::Write | Self::Read => &["q", "r", "l", "d"],
            Self::Semaphore | Self::Permits => &["d", "q", "l"],
        }
    }

    pub fn scripts(self) -> (&'static Source, &'static Source) {
        match self {
            Self::Lock => (&REENTRANT.acquire, &REENTRANT.release),
            Self::Fair => (&FAIR.exclusive.acquire, &FAIR.exclusive.release),
            Self::Write => (&RWLOCK.write, &RWLOCK.release),
            Self::Read => (&RWLOCK.read, &RWLOCK.release),
            Self::Semaphore | Self::Permits => (&POOL.acquire, &POOL.release),
        }
    }

    /// Returns the script, its keys and its arguments.
    pub fn call(
        self,
        act: Act,
        by: u64,
        attempt: &str,
    ) -> (&'static Source, Vec<String>, Vec<String>) {
        let keys = std::iter::once(self.key());
        let keys = keys.chain(
            self.parts()
                .iter()
                .map(|part| format!("{}:{part}", self.key())),
        );
        let (acquire, release) = self.scripts();
        let void = match act {
            Act::Undo(void) => void.to_string(),
            _ => String::new(),
        };
        let by = by.to_string();
        let (client, number) = attempt.split_at(attempt.find(':').unwrap_or_default());
        let holds = if matches!(self, Self::Permits) {
            format!("{number}:0")
        } else {
            number.to_owned()
        };
        let (each, side) = match self {
            Self::Permits => ("1", ""),
            Self::Write => ("", "w"),
            _ => ("", "r"),
        };
        let pool = "pool:1";
        let args: Vec<&str> = match (self, act) {
            (Self::Lock | Self::Fair, Act::Acquire) => {
                vec![&by, "", "30000", "630000", "", "a:0", attempt, "", ""]
            }
            (Self::Lock | Self::Fair, _) => vec!["", "600000", "a:0", attempt, &void, "", ""],
            (Self::Write, Act::Acquire) => {
                vec![&by, "", "30000", "630000", "a:0", attempt, "", "", ""]
            }
            (Self::Read, Act::Acquire) => {
                vec![&by, "", "30000", "630000", "a:0", attempt, "", "", "r"]
            }
            (Self::Write | Self::Read, _) => {
                vec!["", "600000", "a:0", attempt, &void, "", side, ""]
            }
            (Self::Semaphore | Self::Permits, Act::Acquire) => {
                vec![&by, client, pool, "30000", number, "1", "3", "", "", each]
            }
            (Self::Semaphore | Self::Permits, _) => {
                vec![client, pool, "600000", number, &void, "", "0", "0", &holds]
            }
        };
        let script = match act {
            Act::Acquire => acquire,
            _ => release,
        };
        (
            script,
            keys.collect(),
            args.into_iter().map(str::to_owned).collect(),
        )
    }
}
