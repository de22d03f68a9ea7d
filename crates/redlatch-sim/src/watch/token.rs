//! P2: the token of a new hold is greater than every token that was known when the acquisition
//! began. Each token has one owner.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    checker::{Checker, Event},
    record::Record,
    view::{Part, View},
};
use crate::names::label;

/// Records per name the owner of each token.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) owners: Vec<BTreeMap<u64, Arc<str>>>,
}

impl Checker for Tokens {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Event::Delivered { claim, call } = *event else {
            return;
        };
        let (Some(token), owner, name) = (claim.token, &claim.owner, label(claim.name)) else {
            return;
        };
        let known = self.owners[claim.name].get(&token).cloned();
        let again = known.as_ref() == Some(owner);
        if let Some(known) = known.filter(|known| known != owner && claim.part == Part::Whole) {
            let what = format!("{known} and {owner} hold {name} with the same token {token}");
            record.violate("P2", view.now, what);
        }
        self.owners[claim.name]
            .entry(token)
            .or_insert_with(|| Arc::clone(owner));
        // A failover that lost a release restores its hold. An owner that enters this hold again
        // gets its token again. The token of a new hold rises even then.
        let brought_back = again && view.conditions.loses_writes;
        let acked = call.map_or(0, |call| call.acked);
        if token < acked && !brought_back {
            let what = format!("{owner} holds {name} with token {token}, after {acked} was known");
            record.violate("P2", view.now, what);
        }
    }
}
