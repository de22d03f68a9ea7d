use crate::{
    Exclusive, Source,
    exclusive::{exclusive, joined},
};

/// The scripts of the election.
#[derive(Clone, Copy, Debug)]
pub struct Election {
    /// The hold of a term, where any candidate may be the next leader.
    pub plain: Exclusive,
    /// The hold of a term, where candidates lead in order.
    pub fair: Exclusive,
    /// Tells the value of the leader.
    pub announce: Source,
    /// Shows who leads.
    pub look: Source,
}

/// The scripts of the election.
pub static ELECTION: Election = Election {
    plain: exclusive!("election", "election:1", first_come),
    fair: exclusive!("fair_election", "fair_election:1", in_order),
    announce: source!("election/announce" follows "core/publish"),
    look: source!("election/look"),
};

impl Election {
    pub(crate) fn all(&'static self) -> impl Iterator<Item = &'static Source> {
        let own = [&self.announce, &self.look];
        let holds = self.plain.all().into_iter().chain(self.fair.all());
        holds.chain(own)
    }
}
