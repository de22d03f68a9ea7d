//! The notes of holds: why somebody holds, for others to see.
//!
//! A note is a key of its own beside the client's record, written after the grant, and removed some
//! time after the hold. So an acquisition without a note costs nothing more, and no script knows of
//! notes.

use std::{
    fmt,
    sync::{Weak, atomic::Ordering},
    time::Duration,
};

use crate::{
    Error, ErrorKind, Token,
    base::{
        owner::ClientId,
        sync::{AtomicBool, Mutex, lock},
        timeouts,
    },
    net::Net,
    protocol::{
        name::{Key, Name, Prefix},
        time::Moment,
    },
    runtime::Command,
};

/// The largest number of bytes of a note.
pub(crate) const LONGEST_NOTE: usize = 256;

/// A note as one that is about to be written.
#[derive(Debug)]
pub(super) struct Note<'a> {
    /// The hold, as inspection names it: `<client>:<n>`.
    pub(super) holder: &'a str,
    /// The name of the object.
    pub(super) name: &'a str,
    pub(super) token: Token,
    pub(super) text: &'a str,
    /// The lease of the hold.
    pub(super) lease: Duration,
    /// The hold itself, which the note outlives by a lease at most.
    pub(super) hold: Weak<dyn fmt::Debug + Send + Sync>,
}

/// The notes of one client.
#[derive(Debug)]
pub(crate) struct Notes {
    prefix: Prefix,
    /// Whether this client has written any.
    used: AtomicBool,
    kept: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
struct Kept {
    key: String,
    text: String,
    hold: Weak<dyn fmt::Debug + Send + Sync>,
    until: Moment,
}

impl Notes {
    pub(super) fn new(prefix: &Prefix) -> Self {
        Self {
            prefix: prefix.clone(),
            used: AtomicBool::new(false),
            kept: Mutex::default(),
        }
    }

    pub(super) fn are_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Records that this client writes notes. Returns whether it is the first.
    pub(super) fn begin(&self) -> bool {
        !self.used.swap(true, Ordering::Relaxed)
    }

    /// Writes a note, and removes those of earlier holds.
    pub(super) async fn put(
        &self,
        net: &Net,
        note: Note<'_>,
        deadline: Moment,
    ) -> Result<(), Error> {
        let Some((key, slot)) = place(&self.prefix, About::Hold, note.holder, note.name) else {
            return Ok(());
        };
        let text = format!("{} {}", note.token, note.text);
        let now = net.world.now();
        let gone = {
            let mut kept = lock(&self.kept);
            let mut gone = over(&mut kept, now);
            gone.retain(|gone| *gone != key);
            kept.retain(|kept| kept.key != key);
            kept.push(Kept {
                key: key.clone(),
                text: text.clone(),
                hold: note.hold,
                until: now + note.lease,
            });
            gone
        };
        let span = note.lease.max(timeouts::RECORD_TTL);
        net.ask(slot, set(&key, &text, span), deadline).await?;
        remove(net, slot, gone, deadline).await
    }

    /// Writes the notes anew, so that they do not expire.
    pub(super) async fn renew(&self, net: &Net, slot: u16, deadline: Moment) -> Result<(), Error> {
        let (gone, left) = {
            let mut kept = lock(&self.kept);
            let gone = over(&mut kept, net.world.now());
            let left = kept.iter();
            let left = left.map(|kept| set(&kept.key, &kept.text, timeouts::RECORD_TTL));
            (gone, left.collect::<Vec<_>>())
        };
        for command in left {
            net.ask(slot, command, deadline).await?;
        }
        remove(net, slot, gone, deadline).await
    }

    /// Returns the keys of all notes, which are forgotten.
    pub(super) fn take(&self) -> Vec<String> {
        let kept = std::mem::take(&mut *lock(&self.kept));
        kept.into_iter().map(|kept| kept.key).collect()
    }

    /// Writes who has ended a hold by force, and why.
    pub(super) async fn put_end(
        &self,
        net: &Net,
        (holder, name): (&str, &str),
        token: Option<Token>,
        text: &str,
        deadline: Moment,
    ) -> Result<(), Error> {
        let Some((key, slot)) = place(&self.prefix, About::End, holder, name) else {
            return Ok(());
        };
        let text = format!("{} {text}", token.map_or(0, Token::as_u64));
        let command = set(&key, &text, timeouts::RECORD_TTL);
        net.ask(slot, command, deadline).await.map(drop)
    }

    /// Reads a note of a hold. With a token, a note of another hold of the same owner is none.
    pub(super) async fn read(
        &self,
        net: &Net,
        about: About,
        (holder, name): (&str, &str),
        token: Option<Token>,
        deadline: Moment,
    ) -> Result<Option<String>, Error> {
        let Some((key, slot)) = place(&self.prefix, about, holder, name) else {
            return Ok(None);
        };
        let reply = net.ask(slot, Command::new("GET").arg(key), deadline).await;
        let text = match reply {
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
}

/// The subject of a note.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About {
    /// Why it holds. The holder writes that.
    Hold,
    /// Who ended the hold by force, and why. That client writes it.
    End,
}

/// Returns the key of a note, and its slot, which is that of the client's record. `holder` is an
/// owner, `<client>:<n>`; an end needs the client only.
fn place(prefix: &Prefix, about: About, holder: &str, name: &str) -> Option<(String, u16)> {
    let client = ClientId::of_owner(holder)?;
    let key = Key::new(prefix, &Name::parse(client.as_str()).ok()?);
    let place = match about {
        // A permit with an id has a suffix that says which one of its acquisition it is.
        About::Hold => format!("{}:{}:{name}", key.part("n"), holder.split(':').nth(1)?),
        About::End => format!("{}:{name}", key.part("b")),
    };
    Some((place, key.slot()))
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

async fn remove(net: &Net, slot: u16, keys: Vec<String>, deadline: Moment) -> Result<(), Error> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("DEL");
    for key in keys {
        command = command.arg(key);
    }
    net.ask(slot, command, deadline).await.map(drop)
}
