//! The members of a multi-lock, in the one order in which every process takes them.

use std::sync::Arc;

use redlatch_core::{
    Error, ErrorKind, Lockable, Member,
    family::{Internals, Primitive, Rule, Side, hash_tag, invalid},
};

/// Members without duplicates, in order.
#[derive(Clone, Debug)]
pub(crate) struct Members(pub(crate) Vec<Member>);

impl Members {
    /// Sorts members and removes duplicates. Of two sides of one object, the exclusive one remains,
    /// which includes the other.
    pub(crate) fn collect(members: &[&dyn Lockable]) -> Result<Self, Error> {
        let members: Result<Vec<_>, _> = members.iter().map(|member| member.member()).collect();
        let mut members = members?;
        if members.is_empty() {
            return Err(invalid("a multi-lock has at least one member"));
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

    /// A name has one kind, so one of two kinds could never be acquired.
    fn check_kinds(members: &[Member]) -> Result<(), Error> {
        for (at, member) in members.iter().enumerate() {
            let same = |other: &&Member| home(other) == home(member);
            if let Some(other) = members[..at].iter().find(same) {
                let (name, one, two) = (member.name(), other.object(), member.object());
                let message = format!("{name} is a member both as {one} and as {two}");
                return Err(Error::new(ErrorKind::WrongKind, message));
            }
        }
        Ok(())
    }

    /// Returns the first member. A multi-lock without members is refused.
    pub(crate) fn first(&self) -> &Member {
        &self.0[0]
    }

    /// Returns the members from this position on that one script may take.
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
}

/// The position of a member in the order. Kind, tag and key come first, since they are the same in
/// every process, whatever address it uses for the server, and whether it knows of a cluster.
///
/// Kinds and tags come before keys, so that members which one script can take are adjacent. The
/// name of an object is the tag of its key, unless it contains another one.
fn place(member: &Member) -> (&str, &[u8], &str, (&str, u32)) {
    let (key, address) = home(member);
    let bytes = key.as_bytes();
    let tag = hash_tag(bytes).unwrap_or(bytes);
    (member.object(), tag, key, address)
}

/// The identity of a name: the key, and its database.
fn home(member: &Member) -> (&str, (&str, u32)) {
    let client = member.client();
    let key = member.primitive().key().as_str();
    (key, (client.address(), client.database()))
}

/// Largest number of members per script. A script blocks the server for some 10 µs per member.
const MOST_TOGETHER: usize = 100;
