//! The members of a multi-lock, in the one order in which everybody takes them.

use std::cmp::Reverse;

use redlatch_core::{Error, ErrorKind, Lockable, Member};

/// Members without duplicates, in order.
#[derive(Clone, Debug)]
pub(crate) struct Members(Vec<Member>);

impl Members {
    /// Sorts members by key, then by server and kind; of members that are the same thing, one is left.
    ///
    /// The key comes first: it is the same in every process, whatever each calls the server.
    pub(crate) fn collect(members: &[&dyn Lockable]) -> Result<Self, Error> {
        let members: Result<Vec<_>, _> = members.iter().map(|member| member.member()).collect();
        let mut members = members?;
        if members.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                "a multi-lock has at least one member",
            ));
        }
        members.sort_by(|a, b| place(a).cmp(&place(b)));
        members.dedup_by(|a, b| place(a) == place(b));
        Ok(Self(members))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.0.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The kind comes last and backwards, so that the write side of a name is taken before its read side, which a writer may take too.
fn place(member: &Member) -> (&str, &str, Reverse<&str>) {
    (
        member.primitive().key().as_str(),
        member.client().address(),
        Reverse(member.kind()),
    )
}
