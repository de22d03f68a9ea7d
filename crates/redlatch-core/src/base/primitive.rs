//! What a primitive tells the engine. For the crates of this family.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    Error, Owner,
    base::{
        owner::AttemptId,
        script::{Items, Script, ScriptCall},
    },
    protocol::{name::Key, waiter::Discipline},
    runtime::Value,
};

/// One object of one kind: what to send, and what the answers mean. All decisions about when are
/// the engine's.
pub trait Primitive: Send + Sync + fmt::Debug + 'static {
    /// Returns the kind as it stands in events and metrics.
    fn kind(&self) -> &'static str;

    /// Returns the user's class, empty if none was given.
    fn class(&self) -> Arc<str>;

    /// Returns the key that decides.
    fn key(&self) -> &Key;

    /// Returns the name.
    fn name(&self) -> &str {
        self.key().name()
    }

    /// Returns how its waiters are served.
    fn discipline(&self) -> Discipline {
        Discipline::Barging
    }

    /// Returns which form of its kind it is: where key, kind and form are the same, so are the
    /// calls that undo an attempt.
    fn form(&self) -> u64 {
        0
    }

    /// Returns which side of the object it is.
    fn side(&self) -> Side {
        Side::Exclusive
    }

    /// Returns in which line its waiters stand, and whether they are let in together.
    fn line(&self) -> Side {
        self.side()
    }

    /// Builds the call that tries to acquire.
    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall;

    /// Reads its reply.
    fn acquired(&self, reply: &Value) -> Result<Answer, Error>;

    /// Builds the call that tries to acquire all of `keys`, objects of its kind and itself among
    /// them, as one; `None` if the kind has no script for that.
    fn acquire_all(&self, _keys: &[&Key], _request: &AcquireRequest<'_>) -> Option<ScriptCall> {
        None
    }

    /// Reads its reply for so many keys.
    fn acquired_all(&self, _keys: usize, _reply: &Value) -> Result<AnswerForAll, Error> {
        Ok(AnswerForAll::Refused)
    }

    /// Builds the call that renews one hold.
    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall;

    /// Reads its reply.
    fn renewed(&self, reply: &Value) -> Result<Renewed, Error>;

    /// Builds the call that ends what one attempt has: release, undo and leave.
    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall;

    /// Reads its reply.
    fn released(&self, reply: &Value) -> Result<ReleaseReply, Error>;

    /// Builds the call that withdraws entries of waiters of an object of this kind; `None` if
    /// nobody waits for objects of it.
    fn withdraw(&self, request: &WithdrawRequest<'_>) -> Option<ScriptCall> {
        let _ = request;
        None
    }

    /// Reads its reply.
    fn withdrawn(&self, reply: &Value) -> Result<Withdrawn, Error> {
        Err(Error::bad_reply(self.kind(), reply))
    }

    /// Reads what it says of those who wait, where whoever comes first is let in.
    fn waiting<'a>(&self, reply: &'a Value) -> Waiting<'a> {
        let _ = reply;
        Waiting::Unknown
    }
}

/// The sides of an object that is held in more than one way. An owner's holds of the two sides are
/// apart from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// By one owner at a time, or of the only kind there is.
    #[default]
    Exclusive,
    /// By many owners at a time. Those who wait are let in together: they hear the object's
    /// broadcast channel, and where one finds the way open by looking, the others of its client
    /// look, too.
    Shared,
}

/// What an acquire script is told.
#[derive(Debug)]
pub struct AcquireRequest<'a> {
    /// Who is to hold.
    pub owner: &'a Owner,
    /// The attempt's identity.
    pub attempt: &'a AttemptId,
    /// For how long.
    pub lease: Duration,
    /// How long the token outlives the hold.
    pub retention: Duration,
    /// The waiter's address, `<verb> <channel> <n>`; empty if it cannot be woken.
    pub address: &'a str,
    /// How long a busy answer registers the waiter for; `None` not to register it.
    pub register: Option<Duration>,
}

/// What a renewal script is told.
#[derive(Debug)]
pub struct RenewRequest<'a> {
    /// Who holds.
    pub owner: &'a Owner,
    /// Which hold.
    pub token: Token,
    /// Which hold, where a token is shared by several.
    pub serial: u64,
    /// The attempt that began it.
    pub attempt: &'a AttemptId,
    /// For how long from now.
    pub lease: Duration,
    /// How long the token outlives the hold.
    pub retention: Duration,
}

/// What a release script is told.
#[derive(Debug)]
pub struct ReleaseRequest<'a> {
    /// Who holds, or may hold.
    pub owner: &'a Owner,
    /// The attempt that is ended.
    pub attempt: &'a AttemptId,
    /// The token of its hold, where it is known.
    pub token: Option<Token>,
    /// Which hold, where it is known and a token is shared by several.
    pub serial: Option<u64>,
    /// The last server time at which a copy of the attempt may act, where copies may be under way.
    pub void_by: Option<u64>,
    /// How long the token outlives the hold.
    pub retention: Duration,
    /// The waiter's address if it was registered, else empty.
    pub address: &'a str,
    /// Units of a hold that can be divided which the attempt keeps; zero ends it.
    pub left: u32,
    /// Units of it that are gone for good, since the hold began.
    pub forgotten: u32,
}

/// What a script is told that withdraws entries of waiters.
#[derive(Debug)]
pub struct WithdrawRequest<'a> {
    /// Which object, any of the kind.
    pub key: &'a Key,
    /// What the channels of the waiters' client begin with.
    pub channel: &'a str,
    /// What it is to do.
    pub what: Withdraw<'a>,
}

/// What a script is to do that withdraws entries of waiters.
#[derive(Clone, Copy, Debug)]
pub enum Withdraw<'a> {
    /// Tell the numbers of the client's waiters.
    List,
    /// Strike out those with these numbers, and call whoever may come then.
    Strike(&'a [u64]),
}

/// The answer of a script that withdraws entries of waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// The numbers of the client's waiters.
    Found(Vec<u64>),
    /// They wait no longer.
    Struck,
    /// The object is of another kind, or nothing is known of it.
    OtherKind,
}

impl Withdrawn {
    /// Reads a reply of `script`, which is the same for all kinds.
    pub fn decode(script: &'static Script, reply: &Value) -> Result<Self, Error> {
        let items = Items::new(script, reply)?;
        Ok(match items.text(1)? {
            "found" => {
                let numbers: Result<_, Error> =
                    (2..items.len()).map(|at| items.number(at)).collect();
                Self::Found(numbers?)
            }
            "struck" => Self::Struck,
            "kind" => Self::OtherKind,
            _ => return Err(items.bad()),
        })
    }
}

impl Withdraw<'_> {
    /// Returns it as scripts take it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Strike(_) => "strike",
        }
    }

    /// Returns the numbers of the waiters to strike out.
    pub const fn numbers(&self) -> &[u64] {
        match self {
            Self::List => &[],
            Self::Strike(numbers) => numbers,
        }
    }
}

/// An acquire script's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is held.
    Granted(Grant),
    /// It is held by another.
    Busy {
        /// Until it is worth to look again: usually when the holder's lease ends; `Duration::MAX`
        /// if that is for others to find out.
        remaining: Duration,
        /// The holder, as the server stores it; empty if there is none and others are first in the
        /// queue.
        holder: String,
        /// It is free, and this attempt of this client has its turn.
        called: Option<u64>,
        /// This waiter was not in the queue before; it is now.
        entered: bool,
        /// The server waits for the end of others beside a hold of its owner, and has it in no
        /// queue: it looks by itself.
        beside: bool,
    },
    /// The server removed many waiters that had died, and is not through: ask again at once.
    Unfinished,
    /// The request came too late to act.
    Late,
    /// The attempt had been undone.
    Void,
}

/// The answer of an acquire script to a request for several names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerForAll {
    /// All are held, in the order of their keys.
    Granted(Vec<Grant>),
    /// The one at this place is held by another, or another's turn.
    Busy(usize),
    /// None was looked at, or not to the end.
    Refused,
}

/// What was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How many attempts hold together, this one counted.
    pub count: u32,
    /// The fencing token of the hold.
    pub token: Token,
    /// Names the hold among all of its side of the object, rising from one to the next: the token's
    /// number where each hold has a token of its own.
    pub serial: u64,
    /// The holder before never released.
    pub abandoned: bool,
    /// How long it lasts if that is less than was asked for.
    pub lasts: Option<Duration>,
    /// Its place in the queue, had it one, was lost, and those of others of its client may be.
    pub unqueued: bool,
}

/// A renewal script's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease runs anew.
    Renewed,
    /// It runs for so long, less than was asked for: nothing makes it longer.
    Ends(Duration),
    /// The request came too late to act.
    Late,
    /// The hold is over.
    Lost(crate::LossCause),
}

/// What a release script says of those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting<'a> {
    /// Nothing.
    Unknown,
    /// The object was freed, and nobody was in its list.
    Nobody,
    /// One was called.
    Somebody {
        /// The channel on which it was called.
        called: &'a str,
        /// Others are still in the list.
        more: bool,
    },
}

/// A release script's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    /// This ended the attempt's hold; so many attempts hold on.
    Released(u32),
    /// So it did, but the lease had run out before.
    Expired,
    /// It had ended cleanly before; so many attempts hold on.
    Already(u32),
    /// It had been ended by force.
    Revoked,
    /// A later hold has the name.
    Taken,
    /// Nothing is known of it.
    Gone,
}

/// A fencing token: greater for each new hold of a name than for every hold before it, also across
/// expiry and restart, as long as the server's clock is not set back.
///
/// Hand it to the thing that the lock protects, and have that refuse a token lower than the highest
/// it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    /// Reads a token back from storage.
    pub const fn from_u64(token: u64) -> Self {
        Self(token)
    }

    /// Returns the token as a number, below 2^53.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
