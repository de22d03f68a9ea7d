use crate::Source;

/// What every kind that one owner holds at a time has: the scripts in `exclusive`, each behind what is special about the kind.
#[derive(Clone, Copy, Debug)]
pub struct Exclusive {
    /// Takes m names, or enters a waiter.
    pub acquire: Source,
    /// Moves the end of m holds.
    pub renew: Source,
    /// Ends what an attempt has.
    pub release: Source,
    /// Shows one name.
    pub inspect: Source,
    /// Ends a hold whoever has it.
    pub force: Source,
    /// Strikes out waiters that wait no longer.
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

/// Puts the texts in `$prelude` in front of each script in `exclusive`. `$renewal` goes in front of the one that renews, which knows no waiters.
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
