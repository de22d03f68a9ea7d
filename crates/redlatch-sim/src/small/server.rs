//! The server of a small world: the embedded engine with the real scripts.

use std::{cell::RefCell, fmt, hash, sync::Arc, time::Duration};

use redlatch_core::runtime::{Command, Push, Reply, Value};
use redlatch_embedded::engine::{
    Contents, Engine, KeyDump, Model, ServerTime, SessionId, SessionKind, Snapshot,
};
use redlatch_lua::{Exclusive, FAIR, REENTRANT, Source};

use super::{Broken, Grant, Kind, LEASE, REACH, TICK, World};
use crate::workload::field;

/// A request, with times in ticks of the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// Acquires.
    Acquire {
        /// The owner's number.
        owner: u8,
        /// The attempt's number.
        attempt: u8,
        /// When it may act at the latest.
        by: u8,
        /// Whether it registers a waiter.
        waits: bool,
    },
    /// Renews a hold.
    Renew {
        /// The owner's number.
        owner: u8,
        /// The hold's token.
        token: u64,
        /// When it may act at the latest.
        by: u8,
    },
    /// Ends all that an attempt has.
    Release {
        /// The owner's number.
        owner: u8,
        /// The attempt's number.
        attempt: u8,
        /// Until when copies may act.
        void: Option<u8>,
        /// Whether a waiter may be listed.
        listed: bool,
        /// The token of a hold that was taken.
        token: Option<u64>,
    },
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

/// The data of a server, and what distinguishes them.
#[derive(Clone)]
pub struct Store(Arc<(Snapshot, Vec<KeyDump>, Vec<u8>)>);

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
        Self(Arc::new((Snapshot::empty(), Vec::new(), Vec::new())))
    }

    fn of(engine: &Engine, now: ServerTime) -> Self {
        let dump = engine.dump(now);
        let mut bytes = Vec::with_capacity(512);
        let mut put = |item: &[u8]| {
            bytes.extend_from_slice(item);
            bytes.push(0);
        };
        for KeyDump {
            key,
            contents,
            expires,
        } in &dump
        {
            put(key);
            put(&expires.map_or(0, ServerTime::millis).to_le_bytes());
            match contents {
                Contents::Hash(fields) => fields.iter().for_each(|(field, value)| {
                    put(field);
                    put(value);
                }),
                Contents::SortedSet(members) => members.iter().for_each(|(member, score)| {
                    put(member);
                    put(&score.to_le_bytes());
                }),
                other => put(format!("{other:?}").as_bytes()),
            }
        }
        Self(Arc::new((engine.snapshot(), dump, bytes)))
    }

    fn field(&self, name: &str) -> Option<String> {
        let main = self.0.1.iter().find(|dump| dump.key == KEY.as_bytes())?;
        field(main, name)
    }

    /// Returns the hold, ended or not, if the server has one.
    pub(crate) fn held(&self) -> Option<Held> {
        let owner = self.field("o")?;
        let (client, owner) = owner.split_once(':')?;
        let attempts = self.field("h")?;
        let attempt = attempts.trim().rsplit_once(':').map(|(_, number)| number);
        Some(Held {
            client: client_of(client)?,
            owner: owner.parse().ok()?,
            attempt: attempt
                .and_then(|number| number.parse().ok())
                .unwrap_or_default(),
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
            let last = if dump.key == KEY.as_bytes() {
                token
            } else {
                waiter
            };
            dump.expires.is_some_and(|expires| expires <= last)
        })
    }

    /// Tells whether any waiter is listed.
    pub(crate) fn has_waiters(&self) -> bool {
        let queue = |dump: &&KeyDump| dump.key == QUEUE.as_bytes();
        let list = self.0.1.iter().find(queue);
        list.is_some_and(
            |dump| matches!(&dump.contents, Contents::SortedSet(set) if !set.is_empty()),
        )
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
        self.0.1.fmt(f)
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
        ENGINE.with_borrow_mut(|(engine, session)| {
            engine.restore(&store.0.0);
            let reply = self.run(engine, *session, script, &args, time(now));
            let messages = engine.take_deliveries();
            let messages = messages
                .into_iter()
                .filter_map(|delivery| match delivery.push {
                    Push::Message { channel, payload } => message(&channel, &payload),
                    _ => None,
                });
            (
                read(what, &reply),
                messages.collect(),
                Store::of(engine, time(now)),
            )
        })
    }

    fn run(
        &self,
        engine: &mut Engine,
        session: SessionId,
        script: &'static Source,
        args: &[String],
        now: ServerTime,
    ) -> Reply {
        let keys = match script.name.ends_with("renew") {
            true => &[KEY][..],
            false if self.kind == Kind::Fair => &[KEY, QUEUE, LIVES],
            false => &[KEY, QUEUE],
        };
        let command = |verb: &str, text: &str| {
            let head = Command::new(verb).arg(text).arg(keys.len().to_string());
            let command = keys.iter().fold(head, Command::arg);
            let command = args.iter().fold(command, Command::arg);
            let forgery = self.forgery.as_ref();
            forgery
                .and_then(|forgery| forgery.forge(&command))
                .unwrap_or(command)
        };
        let reply = engine.execute(session, &command("EVALSHA", script.digest), now);
        match reply {
            Err(error) if error.code == "NOSCRIPT" => {
                engine.execute(session, &command("EVAL", script.text), now)
            }
            reply => reply,
        }
    }

    /// Returns the script and arguments of a request, as the protocol page says.
    fn call(&self, who: u8, what: &What) -> (&'static Source, Vec<String>) {
        let scripts: &Exclusive = match self.kind {
            Kind::Plain => &REENTRANT,
            Kind::Fair => &FAIR.exclusive,
        };
        let client = CLIENTS[usize::from(who)].to_string();
        let id = |number: u8| format!(":{number}");
        let or_empty = |number: Option<u64>| number.map_or_else(String::new, |it| it.to_string());
        let listed = |listed: bool, attempt, owner| match listed {
            true => self.address(who, attempt, owner),
            false => String::new(),
        };
        let [lease, ttl] = self.term();
        match *what {
            What::Acquire {
                owner,
                attempt,
                by,
                waits,
            } => {
                let head = [millis(by).to_string(), client, lease, ttl, String::new()];
                let entry = [
                    id(owner),
                    id(attempt),
                    or_empty(waits.then_some(u64::from(REACH) * TICK)),
                    listed(waits, attempt, owner),
                ];
                (&scripts.acquire, head.into_iter().chain(entry).collect())
            }
            What::Renew { owner, token, by } => {
                let head = [millis(by).to_string(), client, lease, ttl];
                let entry = [id(owner), token.to_string()];
                (&scripts.renew, head.into_iter().chain(entry).collect())
            }
            What::Release {
                owner,
                attempt,
                void,
                listed: is_listed,
                token,
            } => {
                let head = [client, KEPT.to_string()];
                let entry = [
                    id(owner),
                    id(attempt),
                    or_empty(void.map(millis)),
                    listed(is_listed, attempt, owner),
                    or_empty(token),
                ];
                (&scripts.release, head.into_iter().chain(entry).collect())
            }
        }
    }

    /// Returns the lease and the TTL to ask for, in ms.
    fn term(&self) -> [String; 2] {
        let lease = u64::from(LEASE + self.allowance()) * TICK;
        [lease, lease + KEPT].map(|span| span.to_string())
    }

    /// How much longer than the lease a hold lasts at the server, in ticks.
    fn allowance(&self) -> u8 {
        u8::from(self.durable && self.keeps(Broken::Allowance))
    }

    fn address(&self, who: u8, attempt: u8, owner: u8) -> String {
        let client = CLIENTS[usize::from(who)];
        let mut address = format!("PUBLISH {CHANNEL}{client} {attempt}");
        if self.kind == Kind::Fair {
            address.push_str(&format!(" {owner}"));
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
fn read(what: &What, reply: &Reply) -> Line {
    let text = match reply {
        Ok(Value::Array(items)) => {
            let words = items.iter().filter_map(Value::as_str);
            words.collect::<Vec<_>>().join(" ")
        }
        Ok(value) => value.as_str().unwrap_or_default().to_owned(),
        Err(error) => return Line::Word(format!("{error}")),
    };
    let words: Vec<_> = text.split(' ').skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    match (words.first().copied(), what) {
        (Some("granted"), What::Acquire { .. }) => Line::Granted {
            token: number(2).unwrap_or_default(),
            abandoned: number(3) == Some(1),
        },
        (Some("busy"), _) => Line::Busy {
            rings: number(4).and_then(|number| u8::try_from(number).ok()),
            token: number(6).unwrap_or_default(),
        },
        (Some("more"), _) => Line::More,
        (Some("late"), _) => Line::Late,
        (Some("renewed"), _) => Line::Renewed,
        (Some(_), What::Release { .. }) => Line::Released,
        _ => Line::Word(words.join(" ")),
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
        let mut parts = word.split('.').skip(1);
        Some(Grant {
            token: parts.next()?.parse().ok()?,
            ends: ticks(parts.next()?.parse().ok()?),
            abandoned: parts.next()? == "1",
        })
    });
    Some((to, number, grant))
}

fn client_of(name: &str) -> Option<u8> {
    let at = CLIENTS
        .iter()
        .position(|client| name == client.to_string())?;
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
