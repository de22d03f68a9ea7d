use crate::Source;

/// The scripts of a kind that one owner holds at a time: those in `exclusive`, each behind the part
/// of its kind.
#[derive(Clone, Copy, Debug)]
pub struct Exclusive {
    /// Takes m names, or queues a waiter.
    pub acquire: Source,
    /// Takes names for several owners, each for itself.
    pub acquire_each: Source,
    /// Moves the end of m holds.
    pub renew: Source,
    /// Moves the end of holds of several owners.
    pub renew_each: Source,
    /// Ends everything that an attempt has.
    pub release: Source,
    /// Ends holds of several owners, each for itself.
    pub release_each: Source,
    /// Shows one name.
    pub inspect: Source,
    /// Ends a hold by force.
    pub force: Source,
    /// Removes entries of waiters that no longer wait.
    pub withdraw: Source,
}

impl Exclusive {
    pub(crate) const fn all(&'static self) -> [&'static Source; 9] {
        [
            &self.acquire,
            &self.acquire_each,
            &self.renew,
            &self.renew_each,
            &self.release,
            &self.release_each,
            &self.inspect,
            &self.force,
            &self.withdraw,
        ]
    }
}

/// Makes the scripts of a kind whose field `k` is `$kind`. Waiters come in any order (`first_come`)
/// or in that of their arrival (`in_order`).
macro_rules! exclusive {
    ($name:literal, $kind:literal, first_come) => {
        exclusive!(
            $name,
            naming: concat!("local KIND = '", $kind, "'\nlocal PARTS = 2\n"),
            wait: "reentrant/wait";
            wake: "core/publish", "reentrant/wake";
            waiting: "reentrant/waiting"
        )
    };
    ($name:literal, $kind:literal, in_order) => {
        exclusive!(
            $name,
            naming: concat!("local KIND = '", $kind, "'\nlocal PARTS = 3\n"),
            wait: "core/publish", "core/queue", "core/queue_join", "core/unconfirmed", "fair/wait";
            wake: "core/publish", "core/queue", "core/unconfirmed", "core/give", "fair/wake";
            waiting: "fair/waiting"
        )
    };
    // `naming` sets KIND, and PARTS, the number of keys for each name. The parts of `wait` precede
    // the script that registers waiters, those of `wake` the scripts that may free a name, and
    // `waiting` the one that counts waiters.
    (
        $name:literal,
        naming: $naming:expr,
        wait: $($wait:literal),+;
        wake: $($wake:literal),+;
        waiting: $waiting:literal
    ) => {
        crate::Exclusive {
            acquire: joined!(
                $name, "acquire", $naming,
                "exclusive/plain_take", "core/begin", "exclusive/acquire_plain", "core/marks",
                $($wait,)+ "exclusive/acquire"
            ),
            acquire_each: joined!(
                $name, "acquire_each", $naming,
                "exclusive/plain_take", "core/act_before_each", "exclusive/acquire_each"
            ),
            renew: joined!($name, "renew", $naming, "exclusive/renewal", "exclusive/renew"),
            renew_each: joined!(
                $name, "renew_each", $naming,
                "exclusive/renewal", "exclusive/renew_each"
            ),
            release: joined!(
                $name, "release", $naming,
                "exclusive/plain_free", "exclusive/release_plain", "core/marks", $($wake,)+
                "exclusive/release"
            ),
            release_each: joined!(
                $name, "release_each", $naming,
                "exclusive/plain_free", "exclusive/release_each"
            ),
            inspect: joined!($name, "inspect", $naming, $waiting, "exclusive/inspect"),
            force: joined!($name, "force", $naming, $($wake,)+ "exclusive/force"),
            withdraw: joined!(
                $name, "withdraw", $naming,
                $($wake,)+ "core/withdraw", "exclusive/withdraw"
            ),
        }
    };
}

/// Makes one script of a kind: `$naming`, and the text of each part.
macro_rules! joined {
    ($kind:literal, $name:literal, $naming:expr, $($part:literal),+) => {
        crate::Source {
            name: concat!($kind, "/", $name),
            text: concat!($naming, $(include_str!(concat!("../", $part, ".lua")),)+),
        }
    };
}

pub(crate) use {exclusive, joined};
