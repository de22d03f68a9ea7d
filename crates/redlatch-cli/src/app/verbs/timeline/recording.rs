//! A recording: the lines of `redlatch ls --watch --json`, and what the page draws.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::VERSION;

/// A line of `redlatch ls --watch --json`.
#[derive(Debug, Deserialize)]
struct Line {
    v: u32,
    at_ms: u64,
    event: Event,
    // The events of the server have no hold.
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: String,
    holder: Option<Holder>,
    cause: Option<String>,
    /// When the look began that was not answered.
    began_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Event {
    Held,
    Renewed,
    /// The holder knows that it has lost the hold.
    Lost,
    Gone,
    /// The server does not answer.
    Unanswered,
    /// The server answers again.
    Answered,
    /// The command under the hold got a signal.
    Signalled,
}

#[derive(Debug, Deserialize)]
struct Holder {
    owner: String,
    token: Option<u64>,
    access: Option<String>,
    age_ms: Option<u64>,
    /// Only a program's own recording has it: looks miss renewals.
    valid_ms: Option<u64>,
    application: Option<String>,
    host: Option<String>,
    pid: Option<u32>,
    note: Option<String>,
}

/// The content of the page. Times are milliseconds since 1970.
#[derive(Debug, Default, Serialize)]
pub(super) struct Timeline {
    from: u64,
    to: u64,
    /// The clients, by their first hold.
    lanes: Vec<String>,
    holds: Vec<Hold>,
    /// When the server did not answer.
    silences: Vec<(u64, u64)>,
    /// The signals to commands: lane, time, name of the signal.
    signals: Vec<(usize, u64, String)>,
    /// The times in which two relied on one name: both holds, from, to.
    overlaps: Vec<(usize, usize, u64, u64)>,
}

#[derive(Debug, Serialize)]
struct Hold {
    lane: usize,
    name: String,
    kind: String,
    owner: String,
    /// As text, since numbers of JavaScript are not exact from 2^53 on.
    token: Option<String>,
    from: u64,
    to: u64,
    renewals: Vec<u64>,
    note: Option<String>,
    /// Until when the holder may rely on the hold, as far as the recording knows.
    deadline: Option<u64>,
    /// The end of the time in which the holder relied on it: its end, its loss or its deadline.
    relied: u64,
    #[serde(skip)]
    is_exclusive: bool,
    /// When and why the holder knew that it had lost the hold.
    lost: Option<(u64, String)>,
    /// It was held when the recording ended.
    open: bool,
}

/// A recording that is being read.
#[derive(Debug, Default)]
pub(super) struct Recording {
    timeline: Timeline,
    lanes: BTreeMap<String, usize>,
    /// The holds that are not over, by name, owner, token and access.
    open: BTreeMap<(String, String, Option<u64>, Option<String>), usize>,
    last: u64,
    silent_since: Option<u64>,
}

impl Recording {
    pub(super) fn add(&mut self, text: &str) -> Result<(), String> {
        let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if line.v != VERSION {
            let version = line.v;
            return Err(format!(
                "it is of version {version}, and this reads {VERSION}"
            ));
        }
        self.last = self.last.max(line.at_ms);
        match line.event {
            Event::Unanswered => {
                let since = line.began_ms.unwrap_or(line.at_ms);
                self.silent_since.get_or_insert(since);
            }
            Event::Answered => {
                let since = self.silent_since.take();
                let silent = since.map(|since| span(since, line.at_ms));
                self.timeline.silences.extend(silent);
            }
            Event::Signalled => {
                let holder = line.holder.ok_or("it has no holder")?;
                let lane = self.lane(&holder);
                let signal = line.cause.unwrap_or_default();
                self.timeline.signals.push((lane, line.at_ms, signal));
            }
            Event::Held | Event::Renewed | Event::Lost | Event::Gone => self.add_to_hold(line)?,
        }
        Ok(())
    }

    /// Adds an event of a hold.
    fn add_to_hold(&mut self, line: Line) -> Result<(), String> {
        let holder = line.holder.ok_or("it has no holder")?;
        let (name, owner, access) = (&line.name, &holder.owner, &holder.access);
        let key = (name.clone(), owner.clone(), holder.token, access.clone());
        match (line.event, self.open.get(&key).copied()) {
            (Event::Gone, Some(at)) => {
                let hold = &mut self.timeline.holds[at];
                (hold.from, hold.to) = span(hold.from, line.at_ms);
                hold.open = false;
                self.open.remove(&key);
            }
            (Event::Lost, Some(at)) => {
                let cause = line.cause.unwrap_or_default();
                self.timeline.holds[at].lost = Some((line.at_ms, cause));
            }
            (Event::Gone | Event::Lost, None) => {}
            (Event::Renewed, Some(at)) => {
                let hold = &mut self.timeline.holds[at];
                hold.renewals.push(line.at_ms);
                hold.deadline = deadline(line.at_ms, &holder).or(hold.deadline);
            }
            (_, Some(_)) => {}
            (_, None) => {
                let lane = self.lane(&holder);
                let deadline = deadline(line.at_ms, &holder);
                let is_exclusive = match line.kind.as_str() {
                    "lock" | "fair" | "once" | "election" | "fair_election" => true,
                    _ => holder.access.as_deref() == Some("write"),
                };
                self.open.insert(key, self.timeline.holds.len());
                self.timeline.holds.push(Hold {
                    lane,
                    name: line.name,
                    kind: line.kind,
                    owner: holder.owner,
                    token: holder.token.map(|token| token.to_string()),
                    from: line.at_ms.saturating_sub(holder.age_ms.unwrap_or_default()),
                    to: line.at_ms,
                    renewals: Vec::new(),
                    note: holder.note,
                    deadline,
                    relied: 0,
                    is_exclusive,
                    lost: None,
                    open: true,
                });
            }
        }
        Ok(())
    }

    /// Returns the lane of a holder's client.
    fn lane(&mut self, holder: &Holder) -> usize {
        let client = holder.owner.split(':').next().unwrap_or_default();
        let lanes = &mut self.timeline.lanes;
        *self.lanes.entry(client.to_owned()).or_insert_with(|| {
            lanes.push(match (&holder.application, holder.pid, &holder.host) {
                (Some(application), Some(pid), Some(host)) => {
                    format!("{application} (pid {pid} on {host})")
                }
                _ => format!("client {client}"),
            });
            lanes.len() - 1
        })
    }

    pub(super) fn end(mut self) -> Timeline {
        for hold in self.timeline.holds.iter_mut().filter(|hold| hold.open) {
            // A process that was killed has not recorded the end.
            let ended = hold.deadline.filter(|_| hold.lost.is_none());
            hold.to = ended.map_or(self.last, |ended| ended.clamp(hold.from, self.last));
        }
        self.timeline.settle();
        let silent = self.silent_since.map(|since| span(since, self.last));
        self.timeline.silences.extend(silent);
        let starts = self.timeline.holds.iter().map(|hold| hold.from);
        self.timeline.from = starts.min().unwrap_or(self.last);
        self.timeline.to = self.last;
        self.timeline
    }
}

impl Timeline {
    /// Finds how long each hold was relied on, and where two relied on one name.
    fn settle(&mut self) {
        for hold in &mut self.holds {
            // A client that closes keeps its holds while their work ends.
            let lost = hold.lost.as_ref().filter(|(_, cause)| cause != "closed");
            let over = lost.map(|(at, _)| *at).into_iter().chain(hold.deadline);
            hold.relied = over.fold(hold.to, u64::min).max(hold.from);
        }
        let mut order: Vec<usize> = (0..self.holds.len()).collect();
        order.sort_by_key(|&at| self.holds[at].from);
        // The hold of each name that is relied on for longest so far.
        let mut last = BTreeMap::<String, usize>::new();
        for at in order {
            let Some(&before) = last.get(&self.holds[at].name) else {
                last.insert(self.holds[at].name.clone(), at);
                continue;
            };
            let (first, second) = (&self.holds[before], &self.holds[at]);
            let until = first.relied.min(second.relied);
            let apart = second.from >= until || first.owner == second.owner;
            if !apart && (first.is_exclusive || second.is_exclusive) {
                if first.deadline.is_some() && second.deadline.is_some() {
                    self.overlaps.push((before, at, second.from, until));
                } else if first.deadline.is_none() {
                    // Looks see an end late, and the server gives a name to one.
                    let end = second.from;
                    let first = &mut self.holds[before];
                    (first.to, first.relied) = (first.to.min(end), first.relied.min(end));
                }
            }
            if self.holds[at].relied >= self.holds[before].relied {
                last.insert(self.holds[at].name.clone(), at);
            }
        }
    }
}

/// Returns the beginning and the end of something. The clock may have been set back meanwhile, or
/// the end is in the file of an earlier process.
fn span(from: u64, to: u64) -> (u64, u64) {
    (from.min(to), to)
}

fn deadline(at_ms: u64, holder: &Holder) -> Option<u64> {
    Some(at_ms.saturating_add(holder.valid_ms?))
}

/// Reads any lines. What the page draws is in order, and in lanes that exist.
#[cfg(fuzzing)]
pub(crate) fn law(bytes: &[u8]) {
    let mut recording = Recording::default();
    for line in String::from_utf8_lossy(bytes).lines() {
        let _ = recording.add(line);
    }
    let drawn = recording.end();
    for hold in &drawn.holds {
        assert!(drawn.from <= hold.from && hold.from <= hold.relied);
        assert!(hold.relied <= hold.to && hold.to <= drawn.to);
        assert!(hold.lane < drawn.lanes.len());
    }
    for (first, second, from, until) in &drawn.overlaps {
        let names = [first, second].map(|&at| &drawn.holds[at].name);
        assert!(from < until && names[0] == names[1]);
    }
    assert!(drawn.silences.iter().all(|(from, to)| from <= to));
    let lanes = drawn.lanes.len();
    assert!(drawn.signals.iter().all(|(lane, ..)| *lane < lanes));
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
