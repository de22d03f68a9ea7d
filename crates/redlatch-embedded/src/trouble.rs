//! Orders for trouble: calls that fail, and replies that are lost.

use redlatch_core::runtime::Command;

/// The fate of a connection on which a reply is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReply {
    /// The connection hangs: neither this reply nor a later one arrives until it is cut. Requests
    /// that are sent over it still run.
    Hangs,
    /// The connection breaks at once.
    Cuts,
}

type When = Box<dyn Fn(&Command) -> bool + Send>;

/// An order for the next call for which `when` is true: an error in place of its run, or the loss
/// of its reply.
pub(crate) struct Order<T> {
    pub(crate) when: When,
    pub(crate) what: T,
}

impl<T> Order<T> {
    /// Takes the oldest order for a call.
    pub(crate) fn take(orders: &mut Vec<Self>, command: &Command) -> Option<T> {
        let at = orders.iter().position(|order| (order.when)(command))?;
        Some(orders.remove(at).what)
    }
}

/// Predicates for [`EmbeddedServer::fail_next`](crate::EmbeddedServer::fail_next) and
/// [`EmbeddedServer::drop_reply`](crate::EmbeddedServer::drop_reply).
pub mod calls {
    use redlatch_core::runtime::Command;

    use crate::engine::sha1_hex;

    /// Matches every command.
    pub fn any() -> impl Fn(&Command) -> bool + Send + 'static {
        |_| true
    }

    /// Matches the command of this name, in any case.
    pub fn named(name: &str) -> impl Fn(&Command) -> bool + Send + 'static {
        let name = name.to_owned();
        move |command| is_named(command, &name)
    }

    /// Matches every call of a script.
    pub fn of_scripts() -> impl Fn(&Command) -> bool + Send + 'static {
        |command| SCRIPT_CALLS.iter().any(|name| is_named(command, name))
    }

    /// Matches calls of the script with this source, whether by source or by digest.
    pub fn of_script(source: &str) -> impl Fn(&Command) -> bool + Send + 'static {
        let (source, sha) = (source.to_owned(), sha1_hex(source.as_bytes()));
        move |command| {
            let script = command.args().nth(1).unwrap_or_default();
            of_scripts()(command)
                && (script == source.as_bytes() || script.eq_ignore_ascii_case(sha.as_bytes()))
        }
    }

    fn is_named(command: &Command, name: &str) -> bool {
        let first = command.args().next();
        first.is_some_and(|first| first.eq_ignore_ascii_case(name.as_bytes()))
    }

    const SCRIPT_CALLS: [&str; 2] = ["EVAL", "EVALSHA"];
}
