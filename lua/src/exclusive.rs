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

/// Puts `$naming`, which sets the kind, in front of each script in `exclusive`. The texts in
/// `$prelude` follow it in those that know waiters.
macro_rules! exclusive {
    ($kind:literal, naming: $naming:expr, prelude: $($prelude:expr),+) => {
        crate::Exclusive {
            acquire: crate::Source {
                name: concat!($kind, "/acquire"),
                text: concat!(
                    $naming,
                    include_str!("../core/marks.lua"),
                    $($prelude,)+
                    include_str!("../exclusive/plain_take.lua"),
                    include_str!("../exclusive/acquire.lua")
                ),
            },
            acquire_each: crate::Source {
                name: concat!($kind, "/acquire_each"),
                text: concat!(
                    $naming,
                    include_str!("../exclusive/plain_take.lua"),
                    include_str!("../core/act_before_each.lua"),
                    include_str!("../exclusive/acquire_each.lua")
                ),
            },
            renew: crate::Source {
                name: concat!($kind, "/renew"),
                text: concat!(
                    $naming,
                    include_str!("../exclusive/renewal.lua"),
                    include_str!("../exclusive/renew.lua")
                ),
            },
            renew_each: crate::Source {
                name: concat!($kind, "/renew_each"),
                text: concat!(
                    $naming,
                    include_str!("../exclusive/renewal.lua"),
                    include_str!("../exclusive/renew_each.lua")
                ),
            },
            release: crate::Source {
                name: concat!($kind, "/release"),
                text: concat!(
                    $naming,
                    include_str!("../core/marks.lua"),
                    $($prelude,)+
                    include_str!("../exclusive/plain_free.lua"),
                    include_str!("../exclusive/release.lua")
                ),
            },
            release_each: crate::Source {
                name: concat!($kind, "/release_each"),
                text: concat!(
                    $naming,
                    include_str!("../exclusive/plain_free.lua"),
                    include_str!("../exclusive/release_each.lua")
                ),
            },
            inspect: crate::Source {
                name: concat!($kind, "/inspect"),
                text: concat!($naming, $($prelude,)+ include_str!("../exclusive/inspect.lua")),
            },
            force: crate::Source {
                name: concat!($kind, "/force"),
                text: concat!($naming, $($prelude,)+ include_str!("../exclusive/force.lua")),
            },
            withdraw: crate::Source {
                name: concat!($kind, "/withdraw"),
                text: concat!(
                    $naming,
                    $($prelude,)+
                    include_str!("../core/withdraw.lua"),
                    include_str!("../exclusive/withdraw.lua")
                ),
            },
        }
    };
}

pub(crate) use exclusive;
