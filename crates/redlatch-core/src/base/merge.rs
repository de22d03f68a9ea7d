//! Calls of several callers as one call with several entries.
//!
//! Most calls of a lock are plain: nobody else holds the name or waits for it. A server spends most
//! of such a call on the call itself, so one call for several names costs much less than one call
//! per name.

use std::hash::{DefaultHasher, Hash, Hasher};

use redlatch_lua::List;

use super::script::{Script, ScriptCall};
use crate::runtime::{Command, Reply, ServerError, Value};

/// One call that stands for several.
#[derive(Debug)]
pub(crate) struct MergedCall {
    pub(crate) script: &'static Script,
    list: List,
    /// The slot of all keys, or `None` if the server has all slots.
    slot: Option<u16>,
    /// Whether its calls take something, and so may act for a limited time only.
    pub(crate) dated: bool,
    act_before: u64,
    /// The shared arguments.
    header: Command,
    calls: usize,
    keys: Command,
    own: Command,
}

/// Whether the calls that merge must share a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slots {
    /// The server has all slots.
    Any,
    /// The server belongs to a cluster.
    Same,
}

/// A call that merges with others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    call: &'a ScriptCall,
    pub(crate) list: List,
    slot: Option<u16>,
    act_before: u64,
}

impl<'a> Part<'a> {
    /// Reads `call`, which may act until `act_before`. `None` if it does not merge.
    pub(crate) fn of(call: &'a ScriptCall, act_before: u64, slots: Slots) -> Option<Self> {
        Some(Self {
            call,
            list: call.list()?,
            slot: (slots == Slots::Same).then(|| call.slot()),
            act_before,
        })
    }

    /// Returns the shared arguments, but for the limit of time.
    fn header(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.call.all_args().take(self.shared())
    }

    fn own(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.call.all_args().skip(self.shared())
    }

    fn shared(&self) -> usize {
        self.list.shared - usize::from(self.call.dated)
    }

    /// Returns a hash of all that has to be equal in calls that merge. It is the same in each run.
    pub(crate) fn class(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let script = self.call.script().name;
        (script, self.slot, self.call.dated).hash(&mut hasher);
        self.header().for_each(|item| item.hash(&mut hasher));
        hasher.finish()
    }
}

impl MergedCall {
    /// Creates a call that stands for one call.
    pub(crate) fn of(part: &Part<'_>) -> Self {
        let list = part.list;
        let (keys, own) = (list.most * list.keys, list.most * list.own);
        let mut header = Command::with_capacity(list.shared, 64);
        part.header().for_each(|item| header.push(item));
        let mut merged = Self {
            script: part.call.script(),
            list,
            slot: part.slot,
            dated: part.call.dated,
            act_before: u64::MAX,
            calls: 0,
            header,
            keys: Command::with_capacity(keys, keys * 32),
            own: Command::with_capacity(own, own * 16),
        };
        merged.push(part);
        merged
    }

    /// Adds a call. Returns whether it fits: it has to agree in script, slot and shared arguments,
    /// and there has to be room.
    pub(crate) fn add(&mut self, part: &Part<'_>) -> bool {
        let fits = !self.is_full()
            && part.call.script().name == self.script.name
            && part.slot == self.slot
            && part.call.dated == self.dated
            && part.header().eq(self.header.args());
        if fits {
            self.push(part);
        }
        fits
    }

    fn push(&mut self, part: &Part<'_>) {
        // A call must not act after its own limit, so the earliest limit counts.
        self.act_before = self.act_before.min(part.act_before);
        self.calls += 1;
        part.call.all_keys().for_each(|key| self.keys.push(key));
        part.own().for_each(|text| self.own.push(text));
    }

    /// Returns the number of calls for which this one stands.
    pub(crate) const fn len(&self) -> usize {
        self.calls
    }

    /// Tells whether no further call fits.
    pub(crate) const fn is_full(&self) -> bool {
        self.calls >= self.list.most
    }

    /// Returns the first key of each call.
    pub(crate) fn first_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.args().step_by(self.list.keys.max(1))
    }

    pub(crate) fn evalsha(&self) -> Command {
        self.command("EVALSHA", self.script.digest)
    }

    pub(crate) fn eval(&self) -> Command {
        self.command("EVAL", self.script.text)
    }

    fn command(&self, verb: &str, script: &str) -> Command {
        let items = [&self.keys, &self.header, &self.own];
        let count: usize = items.iter().map(|items| items.len()).sum();
        let bytes: usize = items.iter().map(|items| items.payload_len()).sum();
        let mut command = Command::with_capacity(count + 4, bytes + script.len() + 32);
        command.push(verb);
        command.push(script);
        command.write(self.keys.len());
        self.keys.args().for_each(|key| command.push(key));
        if self.dated {
            command.write(self.act_before);
        }
        let args = self.header.args().chain(self.own.args());
        args.for_each(|arg| command.push(arg));
        command
    }

    /// Splits a reply into one for each call: a line, its error `-<code> <text>`, or a list for
    /// all. `None` if their numbers differ.
    pub(crate) fn replies(&self, reply: &Value) -> Option<Vec<Reply>> {
        if reply.as_array().is_some() {
            return Some(vec![Ok(reply.clone()); self.len()]);
        }
        let lines = reply.as_str()?.split('\n');
        let replies = lines.map(|line| match line.strip_prefix('-') {
            Some(error) => Err(ServerError::parse(error)),
            None => Ok(Value::Bulk(line.into())),
        });
        let replies: Vec<_> = replies.collect();
        (replies.len() == self.len()).then_some(replies)
    }
}

#[cfg(test)]
mod tests {
    use redlatch_lua::REENTRANT;

    use super::*;
    use crate::protocol::name::key;

    static RENEW: &Script = &REENTRANT.renew;

    fn call(name: &str, lease: u32, token: u64) -> ScriptCall {
        let call = ScriptCall::in_slot(RENEW, key(name).slot()).key(name);
        let call = call.dated().arg("c");
        call.arg(lease).arg("ttl").arg(":1").arg(token)
    }

    fn merged(call: &ScriptCall, act_before: u64, slots: Slots) -> MergedCall {
        MergedCall::of(&Part::of(call, act_before, slots).unwrap())
    }

    fn add(merged: &mut MergedCall, call: &ScriptCall, act_before: u64, slots: Slots) -> bool {
        merged.add(&Part::of(call, act_before, slots).unwrap())
    }

    #[test]
    fn calls_merge_with_the_earliest_limit_and_the_shared_arguments_once() {
        let one = call("x", 9, 5);
        let mut merged = merged(&one, 70, Slots::Any);
        assert_eq!(merged.evalsha().words(), one.evalsha(70).words());
        assert!(add(&mut merged, &call("y", 9, 6), 50, Slots::Any));
        assert!(add(&mut merged, &call("z", 9, 7), 60, Slots::Any));
        let digest = RENEW.digest;
        let expected = [
            "EVALSHA", digest, "3", "x", "y", "z", "50", "c", "9", "ttl", //
            ":1", "5", ":1", "6", ":1", "7",
        ];
        assert_eq!(merged.evalsha().words(), expected);
        assert_eq!(merged.first_keys().collect::<Vec<_>>(), [b"x", b"y", b"z"]);
        for n in 3..32 {
            assert!(!merged.is_full() && add(&mut merged, &call("w", 9, n), 70, Slots::Any));
        }
        assert!(merged.is_full() && !add(&mut merged, &call("w", 9, 32), 70, Slots::Any));
    }

    #[test]
    fn calls_that_differ_in_a_shared_part_do_not_merge() {
        let first = call("x", 9, 5);
        let mut any = merged(&first, 70, Slots::Any);
        assert!(!add(&mut any, &call("y", 8, 5), 70, Slots::Any));
        let mut same = merged(&first, 70, Slots::Same);
        assert!(!add(&mut same, &call("y", 9, 5), 70, Slots::Same));
        assert!(add(&mut same, &call("{x}y", 9, 5), 70, Slots::Same));
        let longer = call("x", 9, 5).arg("more");
        assert!(
            Part::of(&longer, 70, Slots::Any).is_none(),
            "no single entry"
        );
    }

    #[test]
    fn reply_has_one_line_per_call() {
        let mut merged = merged(&call("x", 9, 5), 70, Slots::Any);
        let text = |text: &str| Value::Bulk(text.into());
        assert_eq!(
            merged.replies(&text("1 gone")).unwrap(),
            [Ok(text("1 gone"))]
        );
        assert!(add(&mut merged, &call("y", 9, 6), 50, Slots::Any));
        let replies = merged.replies(&text("-OOM no room\n1 busy")).unwrap();
        let error = ServerError::parse("OOM no room");
        assert_eq!(replies, [Err(error), Ok(text("1 busy"))]);
        let late = Value::Array(vec![text("1"), text("late")]);
        assert_eq!(merged.replies(&late).unwrap(), vec![Ok(late); 2]);
        assert_eq!(merged.replies(&text("one")), None);
        assert_eq!(merged.replies(&text("a\nb\nc")), None);
    }
}
