//! The interface between a primitive and the engine. For the crates of this family.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    Error, LossCause, Owner,
    base::{
        items::Items,
        owner::AttemptId,
        script::{Script, ScriptCall},
    },
    protocol::{grant::Order, name::Key, phase_watch::Snapshot, waiter::Discipline},
    runtime::Value,
};

/// What every object has, apart from its kind.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The user's class, empty if none was given.
    pub class: Arc<str>,
    /// The object's main key.
    pub key: Key,
}

/// One object of one kind. It builds the requests and reads the replies. The engine decides when to
/// send them.
pub trait Primitive: Send + Sync + fmt::Debug + 'static {
    /// Returns the kind, as it appears in events and metrics.
    fn kind(&self) -> &'static str;

    /// Returns its class and key.
    fn identity(&self) -> &Identity;

    /// Returns the class.
    fn class(&self) -> Arc<str> {
        Arc::clone(&self.identity().class)
    }

    /// Returns the object's main key.
    fn key(&self) -> &Key {
        &self.identity().key
    }

    /// Returns the name.
    fn name(&self) -> &str {
        self.key().name()
    }

    /// Returns the order in which its waiters are served.
    fn discipline(&self) -> Discipline {
        Discipline::Barging
    }

    /// Returns the form within the kind. Objects with the same key, kind and form build the same
    /// call to undo an attempt.
    fn form(&self) -> u64 {
        0
    }

    /// Tells whether inspection names the holds of this object after the attempts that acquired
    /// them, and not after their owners. Both have the form `<client>:<n>`.
    fn names_attempts(&self) -> bool {
        false
    }

    /// Returns the side of the object that this primitive acquires.
    fn side(&self) -> Side {
        Side::Exclusive
    }

    /// Returns the side whose local queue its waiters join. It also decides whether they are
    /// admitted together.
    fn queue_side(&self) -> Side {
        self.side()
    }

    /// Returns the channel on which all clients that wait for this side of the object are told that
    /// it may be available, if there is one. They subscribe to it, whatever its messages say.
    fn channel(&self) -> Option<Arc<str>> {
        (self.queue_side() == Side::Shared).then(|| self.key().broadcast_channel())
    }

    /// Builds the call that tries to acquire.
    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall;

    /// Reads the reply of [`acquire`](Self::acquire).
    fn acquired(&self, reply: &Value) -> Result<Answer, Error>;

    /// Builds the call that tries to acquire all of `keys` as one. The keys are objects of its kind
    /// and include its own. `None` if the kind has no such script.
    fn acquire_all(&self, _keys: &[&Key], _request: &AcquireRequest<'_>) -> Option<ScriptCall> {
        None
    }

    /// Reads the reply of [`acquire_all`](Self::acquire_all) for this number of keys.
    fn acquired_all(&self, _keys: usize, _reply: &Value) -> Result<AnswerForAll, Error> {
        Ok(AnswerForAll::Refused)
    }

    /// Builds the call that renews one hold.
    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall;

    /// Reads the reply of [`renew`](Self::renew), a call of `script`.
    fn renewed(&self, script: &'static Script, reply: &Value) -> Result<Renewed, Error> {
        Renewed::read(&Items::new(script, reply)?)
    }

    /// Builds the call that ends everything of one attempt. It serves as release, undo and
    /// withdrawal of a waiter.
    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall;

    /// Reads the reply of [`release`](Self::release), a call of `script`.
    fn released(&self, script: &'static Script, reply: &Value) -> Result<ReleaseReply, Error> {
        ReleaseReply::read(&Items::new(script, reply)?, 1)
    }

    /// Builds the call that withdraws entries of waiters for an object of this kind. `None` if the
    /// kind has no waiters. The reply is a [`Withdrawn`].
    fn withdraw(&self, _request: &WithdrawRequest<'_>) -> Option<ScriptCall> {
        None
    }

    /// Returns the error with which the server refused to tell others that the object is free, for
    /// kinds whose reply of [`release`](Self::release) has it.
    fn message_refused<'a>(&self, _reply: &'a Value) -> Option<&'a str> {
        None
    }

    /// Returns how many units a release gives to a waiter that has registered, if it may do so
    /// instead of notifying the waiter.
    fn grants_ahead(&self) -> Option<u32> {
        None
    }

    /// Tells whether the waiters of this client that a release has granted to learn of it from this
    /// reply, and get no message. The release of a reader may grant to a writer.
    fn tells_by_reply(&self, _reply: &Value) -> bool {
        true
    }

    /// Reads a token in a busy reply of [`acquire`](Self::acquire), for kinds that [grant
    /// ahead](Self::grants_ahead). A later grant has a greater token.
    fn last_token(&self, _reply: &Value) -> Option<Token> {
        None
    }

    /// Reads the information about waiters in the reply of [`release`](Self::release), for kinds
    /// without an order of waiters.
    fn waiting<'a>(&self, _reply: &'a Value) -> Waiting<'a> {
        Waiting::Unknown
    }
}

/// One object whose phases end. It builds the requests and reads the replies. The engine decides
/// when to send them.
///
/// A phase is a number greater than the numbers of all earlier phases, and it ends once. The script
/// that ends it publishes a message to the object's
/// [`broadcast_channel`](Key::broadcast_channel). The text of the message is for people: any
/// message makes each client query once.
pub trait Watched: Send + Sync + fmt::Debug + 'static {
    /// Returns the kind, as it appears in events and metrics.
    fn kind(&self) -> &'static str;

    /// Returns its class and key.
    fn identity(&self) -> &Identity;

    /// Returns the object's main key.
    fn key(&self) -> &Key {
        &self.identity().key
    }

    /// Returns the name.
    fn name(&self) -> &str {
        self.key().name()
    }

    /// Builds the call that queries the object and the states of `phases`. It must change nothing.
    fn look(&self, phases: &[u64]) -> ScriptCall;

    /// Reads the reply of [`look`](Self::look), which must contain the state of each of `phases`.
    fn looked(&self, phases: &[u64], items: &Items<'_>) -> Result<Snapshot, Error>;

    /// Returns the error of a wait for an object that does not exist.
    fn absent(&self) -> Error;

    /// Returns the error of a wait for a phase during which the object was removed.
    fn gone(&self) -> Error;
}

/// The sides of an object that can be held in two ways. An owner's holds of the two sides are
/// independent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Held by one owner at a time. Also the only side of an object without sides.
    #[default]
    Exclusive,
    /// Held by many owners at a time. Its waiters are admitted together: they receive the object's
    /// broadcast channel. If one of them finds the object available, the other waiters of its
    /// client ask, too.
    Shared,
}

/// The arguments of an acquire script.
#[derive(Debug)]
pub struct AcquireRequest<'a> {
    /// The owner of the hold.
    pub owner: &'a Owner,
    /// The attempt's identity.
    pub attempt: &'a AttemptId,
    /// The lease to request.
    pub lease: Duration,
    /// How long the token outlives the hold.
    pub retention: Duration,
    /// The waiter's address; `None` if the waiter cannot be notified.
    pub address: Option<WaiterAddress<'a>>,
    /// How long a busy answer registers the waiter; `None` for no registration.
    pub register: Option<Duration>,
}

/// The address by which the server notifies a waiter: `<verb> <channel> <n>`, a number that only
/// some kinds need, and the order, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct WaiterAddress<'a> {
    /// Whether a release names the waiter, which the releasing client prompts itself.
    pub(crate) prompted: bool,
    /// The command that publishes.
    pub(crate) verb: &'static str,
    pub(crate) channel: &'a str,
    /// The number of the waiter's attempt.
    pub(crate) attempt: u64,
    /// The owner of a waiter that is served in order, or the permits that it asks for.
    pub(crate) number: Option<u64>,
    pub(crate) order: Option<Order>,
}

impl WaiterAddress<'_> {
    /// Adds the number of its owner, or the permits that it asks for.
    #[must_use]
    pub fn with(mut self, number: impl Into<u64>) -> Self {
        self.number = Some(number.into());
        self
    }

    /// Adds the number of the waiter's owner.
    #[must_use]
    pub fn with_owner(self, owner: &Owner) -> Self {
        self.with(owner.number())
    }

    /// Tells whether a release may give the object to the waiter.
    pub const fn has_order(&self) -> bool {
        self.order.is_some()
    }
}

impl fmt::Display for WaiterAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.prompted { "+" } else { "" };
        write!(f, "{sign}{} {} {}", self.verb, self.channel, self.attempt)?;
        if let Some(number) = self.number {
            write!(f, " {number}")?;
        }
        if let Some(order) = self.order {
            write!(f, " {order}")?;
        }
        Ok(())
    }
}

/// The arguments of a renewal script.
#[derive(Debug)]
pub struct RenewRequest<'a> {
    /// The owner of the hold.
    pub owner: &'a Owner,
    /// The token of the hold.
    pub token: Token,
    /// The serial of the hold, for kinds where several holds share a token.
    pub serial: u64,
    /// The attempt that began it.
    pub attempt: &'a AttemptId,
    /// The lease to set, from now.
    pub lease: Duration,
    /// How long the token outlives the hold.
    pub retention: Duration,
}

/// The arguments of a release script.
#[derive(Debug)]
pub struct ReleaseRequest<'a> {
    /// The owner that holds, or may hold.
    pub owner: &'a Owner,
    /// The attempt to end.
    pub attempt: &'a AttemptId,
    /// The token of its hold, if it is known.
    pub token: Option<Token>,
    /// The serial of its hold, if it is known, for kinds where several holds share a token.
    pub serial: Option<u64>,
    /// The last server time at which a request of the attempt may act: of an undo, and of a hold
    /// with a request that was not answered.
    pub void_by: Option<u64>,
    /// How long the token outlives the hold.
    pub retention: Duration,
    /// The waiter's address if it was registered.
    pub address: Option<WaiterAddress<'a>>,
    /// For a hold that can be divided: the units that the attempt keeps. Zero ends it.
    pub left: u32,
    /// The units that are permanently gone since the hold began.
    pub forgotten: u32,
}

/// The arguments of a script that withdraws entries of waiters.
#[derive(Debug)]
pub struct WithdrawRequest<'a> {
    /// The object, any of the kind.
    pub key: &'a Key,
    /// The common prefix of the channels of the waiters' client.
    pub channel: &'a str,
    /// The action.
    pub what: Withdraw<'a>,
}

/// The action of a script that withdraws entries of waiters.
#[derive(Clone, Copy, Debug)]
pub enum Withdraw<'a> {
    /// Return the numbers of the client's waiters.
    List,
    /// Remove the waiters with these numbers, and notify the waiters whose turn has come.
    Strike(&'a [u64]),
}

/// The reply of a script that withdraws entries of waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// The numbers of the client's waiters.
    Found(Vec<u64>),
    /// The entries have been removed.
    Struck,
    /// The object is of another kind, or does not exist.
    OtherKind,
}

impl Withdrawn {
    /// Reads a reply. The format is the same for all kinds.
    pub fn read(items: &Items<'_>) -> Result<Self, Error> {
        Ok(match items.text(1)? {
            "found" => {
                let numbers = (2..items.len()).map(|at| items.number(at));
                Self::Found(numbers.collect::<Result<_, _>>()?)
            }
            "struck" => Self::Struck,
            "kind" => Self::OtherKind,
            _ => return Err(items.bad()),
        })
    }
}

impl Withdraw<'_> {
    /// Returns the action as a script argument.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Strike(_) => "strike",
        }
    }

    /// Returns the numbers of the waiters to remove.
    pub const fn numbers(&self) -> &[u64] {
        match self {
            Self::List => &[],
            Self::Strike(numbers) => numbers,
        }
    }
}

/// The reply of an acquire script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The attempt holds the object.
    Granted(Grant),
    /// Another owner holds the object or is ahead in the queue.
    Busy {
        /// The time until the next useful re-check: usually until the holder's lease ends.
        /// `Duration::MAX` if other waiters re-check for this one.
        remaining: Duration,
        /// The holder, as the server stores it; empty if there is none and other waiters are ahead
        /// in the queue.
        holder: String,
        /// The object is free, and it is the turn of this attempt of the same client.
        called: Option<u64>,
        /// This request has added the waiter to the queue.
        entered: bool,
        /// The owner already holds, and other holds must end first. The server has this waiter in
        /// no queue, so the waiter asks by itself.
        beside: bool,
    },
    /// The server has removed many dead waiters and has not finished. The client repeats the
    /// request at once.
    Unfinished,
    /// The request came too late to act.
    Late,
    /// The attempt has been undone before.
    Void,
}

/// The reply of an acquire script to a request for several names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerForAll {
    /// The attempt holds all objects, in the order of their keys.
    Granted(Vec<Grant>),
    /// Another owner holds the object at this index, or it is another waiter's turn.
    Busy(usize),
    /// The script did not process the request, or not completely.
    Refused,
}

impl Answer {
    /// Reads an answer that says neither that the attempt holds nor that it has to wait. `wanted`
    /// is the kind whose script has answered.
    pub fn neither(items: &Items<'_>, wanted: &str) -> Result<Self, Error> {
        match items.text(1)? {
            "more" => Ok(Self::Unfinished),
            "late" => Ok(Self::Late),
            "void" => Ok(Self::Void),
            _ => items.other(wanted),
        }
    }

    /// Returns the answer about a name that is taken, to a waiter that is in no queue.
    pub fn busy(remaining: Duration, holder: &str) -> Self {
        Self::Busy {
            remaining,
            holder: holder.to_owned(),
            called: None,
            entered: false,
            beside: false,
        }
    }
}

/// The content of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The number of attempts that hold together, including this one.
    pub count: u32,
    /// The fencing token of the hold.
    pub token: Token,
    /// The serial that identifies the hold among all holds of its side of the object. Serials rise
    /// from one hold to the next. If each hold has its own token, this is the token's number.
    pub serial: u64,
    /// Whether the previous holder never released.
    pub abandoned: bool,
    /// How long the hold lasts, if that is less than requested.
    pub lasts: Option<Duration>,
    /// Whether the waiter's place in the queue, if it had one, was lost. The places of its client's
    /// other waiters may be lost, too.
    pub unqueued: bool,
}

impl Grant {
    /// Returns the grant of a first hold, which its token identifies.
    pub const fn new(token: Token) -> Self {
        Self {
            count: 1,
            token,
            serial: token.as_u64(),
            abandoned: false,
            lasts: None,
            unqueued: false,
        }
    }
}

/// The reply of a renewal script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease starts anew.
    Renewed,
    /// The lease lasts this long, less than requested. Nothing makes it longer.
    Ends(Duration),
    /// The request came too late to act.
    Late,
    /// The hold has ended.
    Lost(LossCause),
}

impl Renewed {
    /// Reads a reply of one of these words.
    pub fn read(items: &Items<'_>) -> Result<Self, Error> {
        Ok(match items.text(1)? {
            "renewed" if items.len() > 2 => items.maybe_span(2)?.map_or(Self::Renewed, Self::Ends),
            "renewed" => Self::Renewed,
            "late" => Self::Late,
            over => Self::Lost(loss(over).ok_or_else(|| items.bad())?),
        })
    }
}

/// Returns the cause that a script means by `word` when a hold has ended.
pub fn loss(word: &str) -> Option<LossCause> {
    Some(match word {
        "expired" => LossCause::Expired,
        "taken" => LossCause::Taken,
        "revoked" => LossCause::Revoked,
        "gone" | "kind" => LossCause::Forgotten,
        _ => return None,
    })
}

/// The information about waiters in the reply of a release script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting<'a> {
    /// The reply has no such information.
    Unknown,
    /// The object was freed, and its list of waiters was empty.
    Nobody,
    /// One waiter was notified.
    Somebody {
        /// The channel on which it was notified.
        called: &'a str,
        /// Whether other waiters are still in the list.
        more: bool,
    },
}

/// The reply of a release script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    /// This request ended the attempt's hold. This number of attempts still holds.
    Released(u32),
    /// This request ended the attempt's hold, but its lease had already ended.
    Expired,
    /// The hold had already been released. This number of attempts still holds.
    Already(u32),
    /// The hold had been ended by force.
    Revoked,
    /// A later hold has the name.
    Taken,
    /// The server has no record of the hold.
    Gone,
}

impl ReleaseReply {
    /// Reads the outcome at an index.
    pub fn read(items: &Items<'_>, at: usize) -> Result<Self, Error> {
        Ok(match items.text(at)? {
            "released" => Self::Released(items.number(at + 1)?),
            "expired" => Self::Expired,
            "already" => Self::Already(items.number(at + 1)?),
            "revoked" => Self::Revoked,
            "taken" => Self::Taken,
            "gone" | "kind" => Self::Gone,
            _ => return Err(items.bad()),
        })
    }
}

/// The ways to end a hold by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// The hold ends at once.
    Now,
    /// The hold ends with its lease, and is not renewed.
    AfterLease,
}

impl Force {
    /// Returns the way as a script argument.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::AfterLease => "after",
        }
    }
}

/// A fencing token. Each new hold of a name has a greater token than every earlier hold, also
/// across expiry and restart. This requires that the server's clock is not set back.
///
/// Pass it to the resource that the lock protects. The resource must reject a token lower than the
/// highest it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub struct Token(u64);

impl Token {
    /// Stands for a hold of another program's layout, which has no token. For the crates of this
    /// family.
    #[doc(hidden)]
    pub const NONE: Self = Self(0);

    /// Creates a token from a stored number.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use redlatch::Token;
    ///
    /// let stored = 1_795_316_400_000_000; // from the column `token` of the order
    /// assert!(Token::from_u64(stored) < Token::from_u64(stored + 1));
    /// ```
    pub const fn from_u64(token: u64) -> Self {
        Self(token)
    }

    /// Returns the token as a number, below 2^53.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use redlatch::Token;
    ///
    /// let token = Token::from_u64(42);
    /// assert_eq!(token.as_u64(), 42); // for a parameter of a query
    /// ```
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        token.0
    }
}

/// For columns of databases, which have signed integers.
impl From<Token> for i64 {
    fn from(token: Token) -> Self {
        // Tokens are below 2^53.
        Self::try_from(token.0).unwrap_or(Self::MAX)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::Token;

    #[test]
    fn token_is_a_number_in_what_serde_writes_and_reads() {
        let token = Token::from_u64(1_700_000_000_000_000);
        let text = serde_json::to_string(&token).unwrap();
        assert_eq!(text, "1700000000000000");
        assert_eq!(serde_json::from_str::<Token>(&text).unwrap(), token);
    }
}
