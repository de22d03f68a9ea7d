//! The members of a multi-lock, in the one order in which everybody takes them.

use std::sync::Arc;

use redlatch_core::{
    Error, ErrorKind, Lockable, Member,
    family::{Internals, Primitive, Rule, Side},
};

/// Members without duplicates, in order.
#[derive(Clone, Debug)]
pub(crate) struct Members(Vec<Member>);

impl Members {
    /// Sorts members; of members that are the same thing one is left, and of two sides of one object the exclusive one, which includes the other.
    pub(crate) fn collect(members: &[&dyn Lockable]) -> Result<Self, Error> {
        let members: Result<Vec<_>, _> = members.iter().map(|member| member.member()).collect();
        let mut members = members?;
        if members.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                "a multi-lock has at least one member",
            ));
        }
        if members[0].client().keeps(Rule::TakeInOrder) {
            members.sort_by(|a, b| {
                let shared = |member: &Member| member.primitive().side() == Side::Shared;
                place(a).cmp(&place(b)).then(shared(a).cmp(&shared(b)))
            });
        }
        members.dedup_by(|a, b| place(a) == place(b));
        Self::check_kinds(&members)?;
        Ok(Self(members))
    }

    /// A name has one kind, so of two kinds one could never be taken.
    fn check_kinds(members: &[Member]) -> Result<(), Error> {
        for (at, member) in members.iter().enumerate() {
            let same = |other: &&Member| home(other) == home(member);
            if let Some(other) = members[..at].iter().find(same) {
                let message = format!(
                    "{} is a member both as {} and as {}",
                    member.name(),
                    other.object(),
                    member.object()
                );
                return Err(Error::new(ErrorKind::WrongKind, message));
            }
        }
        Ok(())
    }

    /// Returns the member at a place in the order.
    pub(crate) fn get(&self, at: usize) -> Option<&Member> {
        self.0.get(at)
    }

    /// Returns what one script may take, of the members from this place on.
    pub(crate) fn run(&self, at: usize) -> Vec<Arc<dyn Primitive>> {
        let rest = &self.0[at..];
        let first = &rest[0];
        let with_first = |member: &&Member| {
            let (one, other) = (member.client(), first.client());
            member.object() == first.object()
                && one.id() == other.id()
                && one.place(member.primitive().key()) == other.place(first.primitive().key())
        };
        let run = rest.iter().take(MOST_TOGETHER).take_while(with_first);
        run.map(|member| Arc::clone(member.primitive())).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.0.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Where a member stands in the order. What comes first is the same in every process, whatever each calls the server: kind, slot and key.
///
/// Kinds and slots come before keys so that members which one script can take stand next to each other. Where all slots are on one server they make no
/// difference to that, and none here.
fn place(member: &Member) -> (&str, u16, &str, (&str, u32)) {
    let (key, address) = home(member);
    (
        member.object(),
        member.client().place(member.primitive().key()),
        key,
        address,
    )
}

/// What makes two members be of one name: the key, and the database it is in.
fn home(member: &Member) -> (&str, (&str, u32)) {
    let client = member.client();
    let key = member.primitive().key().as_str();
    (key, (client.address(), client.database()))
}

/// Most members that are taken by one script, which holds up the server while it runs: some 10 µs for each.
const MOST_TOGETHER: usize = 100;
