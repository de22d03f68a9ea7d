//! How many replicas have to know of a grant or a renewal before it counts.

/// Who has to have a grant, or a renewal, before it counts.
///
/// Redis replicates after it has answered: a master that fails right after a grant may take the
/// only copy of it along, and its successor grants the name again. Waiting for replicas (`WAIT`)
/// makes that rarer. It is no consensus: of several replicas a server may promote one that has not
/// confirmed. Only [`Replicas`](Self::Replicas) with all of them leaves nobody who does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// The master. The default; costs nothing.
    #[default]
    Master,
    /// The master and so many replicas.
    Replicas(u32),
    /// More than half of master and replicas, by the most replicas that were ever seen: half of
    /// their number, rounded down, besides the master.
    Majority,
}

impl Durability {
    /// Returns how many replicas have to confirm, where `replicas` are there.
    pub const fn needs(self, replicas: u32) -> u32 {
        match self {
            Self::Master => 0,
            Self::Replicas(needed) => needed,
            Self::Majority => replicas.div_ceil(2),
        }
    }

    /// Tells whether any replica can be waited for.
    pub const fn waits(self) -> bool {
        !matches!(self, Self::Master | Self::Replicas(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_counts_the_master() {
        for (replicas, needed) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            let known = needed + 1;
            let servers = replicas + 1;
            assert_eq!(Durability::Majority.needs(replicas), needed, "{replicas}");
            assert!(
                known * 2 > servers && (known - 1) * 2 <= servers,
                "{replicas}"
            );
        }
        assert_eq!(Durability::Replicas(2).needs(0), 2);
        assert_eq!(Durability::Master.needs(5), 0);
        assert!(Durability::Majority.waits() && !Durability::Replicas(0).waits());
    }
}
