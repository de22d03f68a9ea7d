use crate::Source;

/// The scripts of a kind that one owner holds at a time: those in `exclusive`, each behind the part
/// of its kind.
#[derive(Clone, Copy, Debug)]
pub struct Exclusive {
    /// Takes m names, or queues a waiter.
    pub acquire: Source,
    /// Moves the end of m holds.
    pub renew: Source,
    /// Ends everything that an attempt has.
    pub release: Source,
    /// Shows one name.
    pub inspect: Source,
    /// Ends a hold by force.
    pub force: Source,
    /// Removes entries of waiters that no longer wait.
    pub withdraw: Source,
}

impl Exclusive {
    pub(crate) const fn all(&'static self) -> [&'static Source; 6] {
        [
            &self.acquire,
            &self.renew,
            &self.release,
            &self.inspect,
            &self.force,
            &self.withdraw,
        ]
    }
}

/// Puts the texts in `$prelude` in front of each script in `exclusive`. `$renewal` precedes the one
/// that renews, which has no waiters.
macro_rules! exclusive {
    ($kind:literal, renewal: $renewal:expr, prelude: $($prelude:expr),+) => {
        crate::Exclusive {
            acquire: crate::Source {
                name: concat!($kind, "/acquire"),
                text: concat!(
                    include_str!("../core/marks.lua"),
                    $($prelude,)+
                    include_str!("../exclusive/acquire.lua")
                ),
            },
            renew: crate::Source {
                name: concat!($kind, "/renew"),
                text: concat!($renewal, include_str!("../exclusive/renew.lua")),
            },
            release: crate::Source {
                name: concat!($kind, "/release"),
                text: concat!(
                    include_str!("../core/marks.lua"),
                    $($prelude,)+
                    include_str!("../exclusive/release.lua")
                ),
            },
            inspect: crate::Source {
                name: concat!($kind, "/inspect"),
                text: concat!($($prelude,)+ include_str!("../exclusive/inspect.lua")),
            },
            force: crate::Source {
                name: concat!($kind, "/force"),
                text: concat!($($prelude,)+ include_str!("../exclusive/force.lua")),
            },
            withdraw: crate::Source {
                name: concat!($kind, "/withdraw"),
                text: concat!(
                    $($prelude,)+
                    include_str!("../core/withdraw.lua"),
                    include_str!("../exclusive/withdraw.lua")
                ),
            },
        }
    };
}

pub(crate) use exclusive;
