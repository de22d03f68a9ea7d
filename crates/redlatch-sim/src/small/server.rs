//! The server of a small world: the embedded engine with the real scripts.

use std::{cell::RefCell, fmt, hash, sync::Arc, time::Duration};

use redlatch_core::runtime::{Command, Push, Reply};
use redlatch_embedded::engine::{
    Engine, KeyDump, Model, ServerTime, SessionId, SessionKind, Snapshot,
};
use redlatch_lua::{Exclusive, FAIR, REENTRANT, Source};

use super::{Broken, Grant, LEASE, REACH, TICK, World};
use crate::{
    scripts::{Ran, numbers},
    workload::{field, members},
};

/// A request, with times in ticks of the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct What {
    /// What it asks for.
    pub verb: Verb,
    /// The owner's number.
    pub owner: u8,
    /// The attempt's number.
    pub attempt: u8,
    /// When it may act at the latest. Of a release, until when copies of what it ends may act.
    pub by: Option<u8>,
    /// Whether it registers a waiter, or may have to remove one.
    pub listed: bool,
    /// The token of a hold that was taken.
    pub token: Option<u64>,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Acquires.
    Acquire,
    /// Renews a hold.
    Renew,
    /// Ends all that an attempt has.
    Release,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Line {
    /// The attempt holds.
    Granted {
        /// The token.
        token: u64,
        /// Whether the holder before never released.
        abandoned: bool,
    },
    /// Another client holds, or is first.
    Busy {
        /// The attempt of this client that should ask.
        rings: Option<u8>,
        /// The last token.
        token: u64,
    },
    /// The script has not finished.
    More,
    /// The request came too late.
    Late,
    /// The lease starts anew.
    Renewed,
    /// The attempt has nothing any more.
    Released,
    /// Any other word.
    Word(String),
}

/// A message: the client, the number of an attempt, and a grant.
pub(crate) type Message = (u8, Option<u8>, Option<Grant>);

/// The data of a server, and a text that distinguishes them.
#[derive(Clone)]
pub struct Store(Arc<(Snapshot, Vec<KeyDump>, String)>);

/// The hold that a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) client: u8,
    pub(crate) owner: u8,
    /// The last attempt of the hold; zero if a release has emptied it.
    pub(crate) attempt: u8,
    pub(crate) token: u64,
    /// The end of the lease, in ticks.
    pub(crate) ends: u8,
}

impl Held {
    pub(crate) const fn is_empty(&self) -> bool {
        self.attempt == 0
    }
}

impl Store {
    /// Returns the data of an empty server.
    pub(crate) fn empty() -> Self {
        Self::of(Snapshot::empty(), Vec::new())
    }

    fn of(data: Snapshot, dump: Vec<KeyDump>) -> Self {
        let text = format!("{dump:?}");
        Self(Arc::new((data, dump, text)))
    }

    fn dump(&self, key: &str) -> Option<&KeyDump> {
        self.0.1.iter().find(|dump| dump.key == key.as_bytes())
    }

    fn field(&self, name: &str) -> Option<String> {
        field(self.dump(KEY)?, name)
    }

    /// Returns the hold, ended or not, if the server has one.
    pub(crate) fn held(&self) -> Option<Held> {
        let owner = self.field("o")?;
        let (client, owner) = owner.split_once(':')?;
        let attempts = self.field("h")?;
        let attempt = attempts.trim().rsplit_once(':');
        let attempt = attempt.and_then(|(_, number)| number.parse().ok());
        Some(Held {
            client: client_of(client)?,
            owner: owner.parse().ok()?,
            attempt: attempt.unwrap_or_default(),
            token: self.field("t")?.parse().ok()?,
            ends: ticks(self.field("u")?.parse().ok()?),
        })
    }

    /// Tells whether each key ends with the last waiter, or with a token that is kept.
    pub(crate) fn ends(&self, now: u8) -> bool {
        // A lease is asked for with an allowance of one tick.
        let token = time(now + LEASE + 1).after(Duration::from_millis(KEPT));
        let waiter = time(now + REACH + 1);
        let mut keys = self.0.1.iter();
        keys.all(|dump| {
            let is_waiters = dump.key != KEY.as_bytes();
            let last = if is_waiters { waiter } else { token };
            dump.expires.is_some_and(|expires| expires <= last)
        })
    }

    /// Tells whether any waiter is listed.
    pub(crate) fn has_waiters(&self) -> bool {
        self.dump(QUEUE)
            .is_some_and(|dump| !members(dump).is_empty())
    }
}

impl PartialEq for Store {
    fn eq(&self, other: &Self) -> bool {
        self.0.2 == other.0.2
    }
}

impl Eq for Store {}

impl hash::Hash for Store {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.0.2.hash(state);
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.2)
    }
}

thread_local! {
    /// The scripts that it has compiled cost more than a request.
    static ENGINE: RefCell<(Engine, SessionId)> = RefCell::new(engine());
}

fn engine() -> (Engine, SessionId) {
    let mut engine = Engine::new(Model::default(), time(0));
    let session = engine.open(SessionKind::Command);
    let ears = engine.open(SessionKind::PubSub);
    let channels = CLIENTS.map(|client| format!("{CHANNEL}{client}"));
    let subscribe = Command::new("SUBSCRIBE");
    let subscribe = channels.iter().fold(subscribe, Command::arg);
    // An engine without conditions refuses no subscription.
    let _ = engine.execute(ears, &subscribe, time(0));
    engine.take_deliveries();
    (engine, session)
}

impl World {
    /// Lets the server serve one request. Returns the reply, the messages, and the data afterwards.
    pub(crate) fn serve(
        &self,
        store: &Store,
        who: u8,
        what: &What,
        now: u8,
    ) -> (Line, Vec<Message>, Store) {
        let (script, args) = self.call(who, what);
        let keys = match what.verb {
            Verb::Renew => &[KEY][..],
            _ if self.fair => &[KEY, QUEUE, LIVES],
            _ => &[KEY, QUEUE],
        };
        let command = |verb: &str, text: &str| {
            let head = Command::new(verb).arg(text).arg(keys.len().to_string());
            let command = keys.iter().fold(head, Command::arg);
            args.iter().fold(command, Command::arg)
        };
        ENGINE.with_borrow_mut(|(engine, session)| {
            engine.restore(&store.0.0);
            let mut run = |command: &Command| {
                let forgery = self.forgery.as_ref();
                let forged = forgery.and_then(|forgery| forgery.forge(command));
                engine.execute(*session, forged.as_ref().unwrap_or(command), time(now))
            };
            let asked = command("EVALSHA", script.digest);
            let reply = match run(&asked) {
                Err(error) if error.code == "NOSCRIPT" => run(&command("EVAL", script.text)),
                reply => reply,
            };
            let pushes = engine.take_deliveries().into_iter();
            let messages = pushes.filter_map(|delivery| match delivery.push {
                Push::Message { channel, payload } => message(&channel, &payload),
                _ => None,
            });
            let messages = messages.collect();
            let store = Store::of(engine.snapshot(), engine.dump(time(now)));
            (read(what.verb, &asked, &reply), messages, store)
        })
    }

    /// Returns the script and arguments of a request, as the protocol page says.
    fn call(&self, who: u8, what: &What) -> (&'static Source, Vec<String>) {
        let scripts: &Exclusive = match self.fair {
            true => &FAIR.exclusive,
            false => &REENTRANT,
        };
        let client = CLIENTS[usize::from(who)].to_string();
        let (owner, attempt) = (format!(":{}", what.owner), format!(":{}", what.attempt));
        let or_empty = |number: Option<u64>| number.map_or_else(String::new, |it| it.to_string());
        let (by, token) = (or_empty(what.by.map(millis)), or_empty(what.token));
        let (wait, address) = match what.listed {
            true => (Some(u64::from(REACH) * TICK), self.address(who, what)),
            false => (None, String::new()),
        };
        // How much longer than the lease a hold lasts at the server, in ticks.
        let allowance = u8::from(self.durable && self.keeps(Broken::Allowance));
        let lease = u64::from(LEASE + allowance) * TICK;
        let [lease, ttl] = [lease, lease + KEPT].map(|span| span.to_string());
        match what.verb {
            Verb::Acquire => {
                let head = [by, client, lease, ttl, String::new()];
                let entry = [owner, attempt, or_empty(wait), address];
                (&scripts.acquire, [&head[..], &entry].concat())
            }
            Verb::Renew => {
                let args = vec![by, client, lease, ttl, owner, token];
                (&scripts.renew, args)
            }
            Verb::Release => {
                let args = vec![client, KEPT.to_string(), owner, attempt, by, address, token];
                (&scripts.release, args)
            }
        }
    }

    fn address(&self, who: u8, what: &What) -> String {
        let (client, attempt) = (CLIENTS[usize::from(who)], what.attempt);
        let mut address = format!("PUBLISH {CHANNEL}{client} {attempt}");
        if self.fair {
            address.push_str(&format!(" {}", what.owner));
            if self.orders {
                let lease = u64::from(LEASE) * TICK;
                let ttl = lease + KEPT;
                address.push_str(&format!(" g{lease}.{ttl}.{attempt:016x}"));
            }
        }
        address
    }
}

/// Reads a reply.
fn read(verb: Verb, asked: &Command, reply: &Reply) -> Line {
    let runs = Ran::all(asked, reply);
    let word = runs.first().map_or("", Ran::verdict);
    let number = |at| runs.first()?.number(at);
    match (word, verb) {
        ("granted", Verb::Acquire) => Line::Granted {
            token: number(4).unwrap_or_default(),
            abandoned: number(5) == Some(1),
        },
        ("busy", _) => Line::Busy {
            rings: number(6).and_then(|number| u8::try_from(number).ok()),
            token: number(8).unwrap_or_default(),
        },
        ("more", _) => Line::More,
        ("late", _) => Line::Late,
        ("renewed", _) => Line::Renewed,
        ("", _) => Line::Word(format!("{reply:?}")),
        (_, Verb::Release) => Line::Released,
        _ => Line::Word(word.to_owned()),
    }
}

/// Reads a message: `<key>`, `<key> <n>` or `<key> <n> g<nonce>.<token>.<ends>.<abandoned>`.
fn message(channel: &[u8], payload: &[u8]) -> Option<Message> {
    let channel = std::str::from_utf8(channel).ok()?;
    let to = client_of(channel.strip_prefix(CHANNEL)?)?;
    let rest = std::str::from_utf8(payload).ok()?.strip_prefix(KEY)?;
    let mut words = rest.split_whitespace();
    let number = words.next().and_then(|word| word.parse().ok());
    let grant = words.next().and_then(|word| {
        let mut numbers = numbers(word);
        Some(Grant {
            token: numbers.next()?,
            ends: ticks(numbers.next()?),
            abandoned: numbers.next()? == 1,
        })
    });
    Some((to, number, grant))
}

fn client_of(name: &str) -> Option<u8> {
    let mut clients = CLIENTS.iter();
    let at = clients.position(|client| name == client.to_string())?;
    u8::try_from(at).ok()
}

/// The server's time at a tick, in ms.
fn millis(tick: u8) -> u64 {
    BEGAN + u64::from(tick) * TICK
}

fn time(tick: u8) -> ServerTime {
    ServerTime::from_millis(millis(tick))
}

/// The tick of a time; zero for a time before all ticks.
fn ticks(millis: u64) -> u8 {
    u8::try_from(millis.saturating_sub(BEGAN) / TICK).unwrap_or(u8::MAX)
}

const BEGAN: u64 = 1_700_000_000_000;
const KEPT: u64 = 600_000;
const KEY: &str = "p:{x}";
const QUEUE: &str = "p:{x}:q";
const LIVES: &str = "p:{x}:l";
const CHANNEL: &str = "p:w:";
const CLIENTS: [char; 3] = ['a', 'b', 'c'];
