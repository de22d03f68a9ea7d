//! The record that describes a client, and the notes of its holds. The client writes the record
//! once, and inspection shows it with every hold of the client.
//!
//! A note says what a hold is for. It is a key of its own beside the client's record, written after
//! the grant, and removed some time after the hold. So an acquisition without a note costs nothing
//! more, and no script knows of notes.

use std::{
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::{Value as Json, json};

use crate::{
    Error, ErrorKind, Token,
    base::{
        observe::executable,
        owner::ClientId,
        sync::{Mutex, lock},
        timeouts,
    },
    net::{LinkClass, Net},
    protocol::{
        name::{Key, Name, Prefix},
        time::Moment,
    },
    runtime::Command,
};

/// The description of a client: host, process, application, and time of connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// The application's name.
    pub application: String,
    /// Server time at which the client connected, in milliseconds since the epoch.
    pub connected_at: u64,
    /// Whether the client has written notes. Without that, nobody asks for them.
    pub(crate) has_notes: bool,
}

impl Metadata {
    pub(crate) fn of_this_process(application: Option<String>) -> Self {
        Self {
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            pid: std::process::id(),
            application: application.or_else(executable).unwrap_or_default(),
            connected_at: 0,
            has_notes: false,
        }
    }

    fn to_json(&self) -> String {
        let mut json = json!({ "host": self.host, "pid": self.pid, "app": self.application, "since": self.connected_at });
        if self.has_notes {
            json["notes"] = true.into();
        }
        json.to_string()
    }

    fn from_json(text: &str) -> Option<Self> {
        let json: Json = serde_json::from_str(text).ok()?;
        Some(Self {
            host: json.get("host")?.as_str()?.to_owned(),
            pid: u32::try_from(json.get("pid")?.as_u64()?).ok()?,
            application: json.get("app")?.as_str()?.to_owned(),
            connected_at: json.get("since")?.as_u64()?,
            has_notes: json.get("notes").is_some_and(|notes| notes == true),
        })
    }
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (pid {} on {})",
            self.application, self.pid, self.host
        )
    }
}

/// Who writes the record first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FirstWrite {
    /// Connecting writes it.
    ByConnect,
    /// The background writes it with the first call: the client is lazy, or does not check itself.
    AtFirstUse,
}

/// The record of one client on the server.
#[derive(Debug)]
pub(crate) struct ClientRecord {
    net: Arc<Net>,
    prefix: Prefix,
    record: String,
    slot: u16,
    metadata: Metadata,
    connected_at: OnceLock<u64>,
    /// Whether the server has ever got it.
    sent: AtomicBool,
    /// Whether the server has ever confirmed it.
    written: AtomicBool,
    /// Whether the record says that this client writes notes.
    has_notes: AtomicBool,
    /// Whether the server has ever confirmed a record that says so.
    notes_announced: AtomicBool,
    notes: Mutex<Vec<Kept>>,
}

/// The largest number of bytes of a note.
pub(crate) const LONGEST_NOTE: usize = 256;

/// The largest number of notes that are renewed at the same time. Other requests wait behind them.
const NOTES_AT_A_TIME: usize = 100;

/// A note that the server has, or may have.
#[derive(Debug)]
struct Kept {
    key: String,
    text: String,
    hold: Weak<dyn fmt::Debug + Send + Sync>,
    until: Moment,
}

/// The subject of a note.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About {
    /// Why it holds. The holder writes that.
    Hold,
    /// Who ended the hold by force, and why. That client writes it.
    End,
}

impl ClientRecord {
    pub(crate) fn new(
        net: Arc<Net>,
        prefix: &Prefix,
        client: &ClientId,
        metadata: Metadata,
    ) -> Self {
        let (record, slot) = record(prefix, client.as_str());
        Self {
            net,
            prefix: prefix.clone(),
            record,
            slot,
            metadata,
            connected_at: OnceLock::new(),
            sent: AtomicBool::new(false),
            written: AtomicBool::new(false),
            has_notes: AtomicBool::new(false),
            notes_announced: AtomicBool::new(false),
            notes: Mutex::default(),
        }
    }

    /// Returns the description, without the time of connection.
    pub(crate) const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Writes the record, which stays for `span` unless it is written again.
    pub(crate) async fn announce(&self, deadline: Moment, span: Duration) -> Result<(), Error> {
        let net = &self.net;
        let session = net.router.session(self.slot, LinkClass::Command, deadline);
        let session = session.await?;
        let connected_at = || session.millis(net.world.now());
        let has_notes = self.has_notes.load(Ordering::Relaxed);
        let text = Metadata {
            connected_at: *self.connected_at.get_or_init(connected_at),
            has_notes,
            ..self.metadata.clone()
        }
        .to_json();
        self.sent.store(true, Ordering::Relaxed);
        net.ask(self.slot, set(&self.record, &text, span), deadline)
            .await?;
        self.written.store(true, Ordering::Relaxed);
        self.notes_announced.fetch_or(has_notes, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the note `text` of a hold, named as inspection does, of the object called `name`. A
    /// note that cannot be written is missing, and no failure. It outlives the hold by its lease at
    /// most.
    pub(super) async fn note(
        &self,
        name: (&str, &str),
        text: String,
        hold: (Weak<dyn fmt::Debug + Send + Sync>, Duration),
    ) {
        let deadline = self.net.world.now() + timeouts::RECORD_WRITE.min(hold.1 / 4);
        let written = async {
            self.has_notes.store(true, Ordering::Relaxed);
            if !self.notes_announced.load(Ordering::Relaxed) {
                self.announce(deadline, timeouts::RECORD_TTL).await?;
            }
            self.put(name, text, hold, deadline).await
        };
        if let Err(error) = written.await {
            tracing::debug!(target: "redlatch", %error, "the note of a hold was not written");
        }
    }

    /// Writes a note, and removes those of earlier holds.
    async fn put(
        &self,
        (holder, name): (&str, &str),
        text: String,
        (hold, lease): (Weak<dyn fmt::Debug + Send + Sync>, Duration),
        deadline: Moment,
    ) -> Result<(), Error> {
        let Some((key, slot)) = self.place(About::Hold, holder, name) else {
            return Ok(());
        };
        let now = self.net.world.now();
        let gone = {
            let mut kept = lock(&self.notes);
            let mut gone = over(&mut kept, now);
            gone.retain(|gone| *gone != key);
            kept.retain(|kept| kept.key != key);
            kept.push(Kept {
                key: key.clone(),
                text: text.clone(),
                hold,
                until: now + lease,
            });
            gone
        };
        let span = lease.max(timeouts::RECORD_TTL);
        let command = set(&key, &text, span);
        self.net.ask(slot, command, deadline).await?;
        self.remove(gone, deadline).await
    }

    /// Writes the notes again, so that they do not expire: some at the same time, and all of them
    /// whatever the answers are. Returns the first error.
    async fn renew_notes(&self) -> Result<(), Error> {
        let net = &self.net;
        let (gone, left) = {
            let mut kept = lock(&self.notes);
            let gone = over(&mut kept, net.world.now());
            let left = kept.iter();
            let left = left.map(|kept| set(&kept.key, &kept.text, timeouts::RECORD_TTL));
            (gone, left.collect::<Vec<_>>())
        };
        let deadline = || net.world.now() + timeouts::RECORD_WRITE;
        let (mut left, mut renewed) = (left.into_iter(), Ok(()));
        while left.len() > 0 {
            let some: Vec<_> = left.by_ref().take(NOTES_AT_A_TIME).collect();
            let until = deadline();
            let some = some.into_iter();
            let answers = join_all(some.map(|command| net.ask(self.slot, command, until))).await;
            let answers = answers.into_iter().map(|answer| answer.map(drop));
            let answered: Result<(), _> = answers.collect();
            renewed = renewed.and(answered);
        }
        renewed.and(self.remove(gone, deadline()).await)
    }

    async fn remove(&self, keys: Vec<String>, deadline: Moment) -> Result<(), Error> {
        if keys.is_empty() {
            return Ok(());
        }
        let keys = keys.into_iter();
        let command = keys.fold(Command::new("DEL"), Command::arg);
        self.net.ask(self.slot, command, deadline).await.map(drop)
    }

    /// Reads a note of a hold. With a token, a note of another hold of the same owner is none.
    /// Costs one command.
    pub(crate) async fn read_note(
        &self,
        about: About,
        (holder, name): (&str, &str),
        token: Option<Token>,
        deadline: Moment,
    ) -> Result<Option<String>, Error> {
        let Some((key, slot)) = self.place(about, holder, name) else {
            return Ok(None);
        };
        let command = Command::new("GET").arg(key);
        let text = match self.net.ask(slot, command, deadline).await {
            Ok(reply) => reply.as_str().map(str::to_owned),
            // The holder is useful to the caller even without its note.
            Err(error) if matches!(error.kind(), ErrorKind::Permission | ErrorKind::WrongKind) => {
                None
            }
            Err(error) => return Err(error),
        };
        Ok(text.and_then(|text| {
            let (of, note) = text.split_once(' ')?;
            let same = token.is_none_or(|token| of == token.to_string());
            same.then(|| note.to_owned())
        }))
    }

    /// Writes that this client ends a hold by force, and why, within a second. Costs one command.
    pub(crate) async fn note_end(
        &self,
        (holder, name): (&str, &str),
        token: Option<Token>,
        why: Option<&str>,
    ) -> Result<(), Error> {
        let Some((key, slot)) = self.place(About::End, holder, name) else {
            return Ok(());
        };
        let mut text = format!("{} {}", token.map_or(0, Token::as_u64), self.metadata);
        if let Some(why) = why {
            text = format!("{text}: {why}");
        }
        let command = set(&key, &text, timeouts::RECORD_TTL);
        let deadline = self.net.world.now() + timeouts::RECORD_WRITE;
        self.net.ask(slot, command, deadline).await.map(drop)
    }

    /// Removes the record and the notes. If that fails, they expire. A server that has confirmed no
    /// record may refuse it, and then it refuses the removal as well.
    pub(crate) async fn withdraw(&self) {
        let limit = match self.written.load(Ordering::Relaxed) {
            true => timeouts::RECORD_WRITE,
            false if self.sent.load(Ordering::Relaxed) => timeouts::UNCONFIRMED_RECORD,
            false => return,
        };
        let deadline = self.net.world.now() + limit;
        let command = Command::new("DEL").arg(&self.record);
        let notes = std::mem::take(&mut *lock(&self.notes)).into_iter();
        let command = notes.fold(command, |command, note| command.arg(note.key));
        if let Err(error) = self.net.ask(self.slot, command, deadline).await {
            tracing::debug!(target: "redlatch", %error, "the client's record stays until its time is up");
        }
    }

    /// Renews the record until dropped.
    pub(crate) async fn keep(self: Arc<Self>, first: FirstWrite) {
        let net = &self.net;
        let mut pause = match first {
            FirstWrite::ByConnect => timeouts::RECORD_RETRY,
            FirstWrite::AtFirstUse => {
                net.router.wanted().await;
                Duration::ZERO
            }
        };
        let mut by_connect = matches!(first, FirstWrite::ByConnect);
        loop {
            let next = net.world.now() + pause;
            net.world.runtime.sleep_until(next).await;
            if std::mem::take(&mut by_connect) && self.written.load(Ordering::Relaxed) {
                pause = timeouts::RECORD_TTL / 3;
                continue;
            }
            let deadline = net.world.now() + timeouts::RECORD_WRITE;
            let renewed = async {
                self.announce(deadline, timeouts::RECORD_TTL).await?;
                self.renew_notes().await
            };
            pause = match renewed.await {
                Ok(()) => timeouts::RECORD_TTL / 3,
                Err(error) => {
                    tracing::debug!(target: "redlatch", %error, "the client's record was not renewed");
                    timeouts::RECORD_RETRY
                }
            };
        }
    }

    /// Reads the record of the client of `owner`.
    pub(crate) async fn read(
        &self,
        owner: &str,
        deadline: Moment,
    ) -> Result<Option<Metadata>, Error> {
        let Some(client) = ClientId::of_owner(owner) else {
            return Ok(None);
        };
        let (record, slot) = record(&self.prefix, client.as_str());
        let deadline = deadline.min(self.net.world.now() + timeouts::RECORD_WRITE);
        let command = Command::new("GET").arg(record);
        match self.net.ask(slot, command, deadline).await {
            Ok(reply) => Ok(reply.as_str().and_then(Metadata::from_json)),
            // The owner is useful to the caller even without its record.
            Err(error) if error.kind() == ErrorKind::Permission || error.is_silence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the key of a note, and its slot, which is that of the client's record. `holder` is
    /// an owner, `<client>:<n>`; an end needs the client only.
    fn place(&self, about: About, holder: &str, name: &str) -> Option<(String, u16)> {
        let client = ClientId::of_owner(holder)?;
        let key = Key::new(&self.prefix, &Name::parse(client.as_str()).ok()?);
        let place = match about {
            // A permit with an id has a suffix that says which one of its acquisition it is.
            About::Hold => format!("{}:{}:{name}", key.part("n"), holder.split(':').nth(1)?),
            About::End => format!("{}:{name}", key.part("b")),
        };
        Some((place, key.slot()))
    }
}

/// Removes the notes whose holds are over at `now`, and returns their keys.
fn over(kept: &mut Vec<Kept>, now: Moment) -> Vec<String> {
    let is_over = |kept: &mut Kept| kept.hold.strong_count() == 0 && kept.until <= now;
    let gone = kept.extract_if(.., is_over);
    gone.map(|kept| kept.key).collect()
}

fn set(key: &str, text: &str, span: Duration) -> Command {
    let command = Command::new("SET").arg(key).arg(text);
    command.arg("PX").arg(span.as_millis().to_string())
}

fn record(prefix: &Prefix, client: &str) -> (String, u16) {
    // An id of 32 hexadecimal digits is a valid name.
    let key = Name::parse(client).map(|name| Key::new(prefix, &name));
    key.map_or_else(|_| (String::new(), 0), |key| (key.part("m"), key.slot()))
}
