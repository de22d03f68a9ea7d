//! How many replicas have to know of a grant or a renewal before it counts.

/// Which servers have to store a grant or a renewal before it counts.
///
/// Redis replicates after it has answered. A master that fails right after a grant may lose the
/// only copy of it, and the promoted replica grants the name again. Waiting for replicas (`WAIT`)
/// makes that less likely. It is no consensus: a failover may promote a replica that has not
/// confirmed. Only [`Replicas`](Self::Replicas) with the number of all replicas leaves no replica
/// without the grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// The master alone. This is the default and costs nothing.
    #[default]
    Master,
    /// The master and this many replicas.
    Replicas(u32),
    /// More than half of the master and its replicas. The number of replicas is the largest that
    /// was ever seen. Half of it, rounded up, has to confirm besides the master.
    Majority,
}

impl Durability {
    /// Returns how many of `replicas` replicas have to confirm.
    pub(crate) const fn needs(self, replicas: u32) -> u32 {
        match self {
            Self::Master => 0,
            Self::Replicas(needed) => needed,
            Self::Majority => replicas.div_ceil(2),
        }
    }

    /// Returns whether this level waits for any replica.
    pub(crate) const fn waits(self) -> bool {
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
