//! Calls of several callers as one call of a script that serves each of them for itself.
//!
//! Most calls of a lock are plain: nobody else holds the name or waits for it. A server spends most
//! of such a call on the call itself, so one call for several names costs much less than one call
//! per name. A call that is not plain gets no answer from the common script, and is then sent by
//! itself.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::script::{Merging, Objects, Script, ScriptCall};
use crate::runtime::{Command, Strings};

/// One call that stands for several.
#[derive(Debug)]
pub(crate) struct MergedCall {
    merging: &'static Merging,
    /// The slot of all keys, or `None` if the server has all slots.
    slot: Option<u16>,
    dated: bool,
    act_before: u64,
    /// The client and the shared arguments.
    header: Strings,
    calls: usize,
    keys: Strings,
    own: Strings,
}

/// Whether the calls that merge must share a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slots {
    /// The server has all slots.
    Any,
    /// The server belongs to a cluster.
    Same,
}

/// The parts of a call that the common call needs.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    merging: &'static Merging,
    slot: Option<u16>,
    dated: bool,
    act_before: u64,
    client: &'a [u8],
    /// All keys of the call.
    keys: [&'a [u8]; MOST_KEYS],
    /// All arguments of the call.
    args: [&'a [u8]; MOST_ARGS],
}

impl<'a> Part<'a> {
    /// Reads the parts of `call`, which merges as `merging` says and may act until `act_before`.
    /// `None` if its ids are not of one client.
    pub(crate) fn of(
        call: &'a ScriptCall,
        merging: &'static Merging,
        act_before: u64,
        slots: Slots,
    ) -> Option<Self> {
        let mut keys = [&[][..]; MOST_KEYS];
        for (place, key) in keys.iter_mut().zip(call.keys()) {
            *place = key;
        }
        let mut args = [&[][..]; MOST_ARGS];
        for (place, arg) in args.iter_mut().zip(call.args()) {
            *place = arg;
        }
        let mut clients = merging.ids.iter().map(|&at| client(args[at]));
        let first = clients.next()??;
        clients.all(|client| client == Some(first)).then_some(Self {
            merging,
            slot: (slots == Slots::Same).then(|| call.slot()),
            dated: call.is_dated(),
            act_before,
            client: first,
            keys,
            args,
        })
    }

    /// Returns a hash of all that has to be equal in calls that merge. It is the same in each run.
    pub(crate) fn class(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.merging.script.name(), self.slot, self.dated).hash(&mut hasher);
        self.header().for_each(|item| item.hash(&mut hasher));
        if self.merging.objects == Objects::One {
            self.own_keys().for_each(|key| key.hash(&mut hasher));
        }
        hasher.finish()
    }

    fn own_keys(&self) -> impl Iterator<Item = &'a [u8]> {
        self.merging.keys.iter().map(|&at| self.keys[at])
    }

    /// Returns the largest number of calls in one.
    pub(crate) const fn most(&self) -> usize {
        self.merging.most
    }

    fn header(&self) -> impl Iterator<Item = &'a [u8]> {
        let shared = self.merging.shared.iter().map(|&at| self.args[at]);
        std::iter::once(self.client).chain(shared)
    }
}

impl MergedCall {
    /// Creates a call that stands for one call.
    pub(crate) fn of(part: &Part<'_>) -> Self {
        let merging = part.merging;
        let keys = merging.most * merging.keys.len();
        let own = merging.most * (merging.ids.len() + merging.texts.len());
        let mut header = Strings::with_capacity(1 + merging.shared.len(), 64);
        part.header().for_each(|item| header.push(item));
        let mut merged = Self {
            merging,
            slot: part.slot,
            dated: part.dated,
            act_before: u64::MAX,
            calls: 0,
            header,
            keys: Strings::with_capacity(keys, keys * 32),
            own: Strings::with_capacity(own, own * 16),
        };
        merged.push(part);
        merged
    }

    /// Adds a call. Returns whether it fits: it has to agree in script, slot, client and shared
    /// arguments, and there has to be room.
    pub(crate) fn add(&mut self, part: &Part<'_>) -> bool {
        let fits = !self.is_full()
            && std::ptr::eq(part.merging, self.merging)
            && part.slot == self.slot
            && part.dated == self.dated
            && part.header().eq(self.header.iter())
            && (self.merging.objects == Objects::Each || part.own_keys().eq(self.keys.iter()));
        if fits {
            self.push(part);
        }
        fits
    }

    fn push(&mut self, part: &Part<'_>) {
        // A call must not act after its own limit, so the earliest limit counts.
        self.act_before = self.act_before.min(part.act_before);
        self.calls += 1;
        if self.merging.objects == Objects::Each || self.calls == 1 {
            part.own_keys().for_each(|key| self.keys.push(key));
        }
        for &at in self.merging.ids {
            self.own.push(&part.args[at][part.client.len()..]);
        }
        for &at in self.merging.texts {
            self.own.push(part.args[at]);
        }
    }

    /// Returns the number of calls for which this one stands.
    pub(crate) const fn len(&self) -> usize {
        self.calls
    }

    /// Tells whether no further call fits.
    pub(crate) const fn is_full(&self) -> bool {
        self.calls >= self.merging.most
    }

    /// Returns the first key of each call.
    pub(crate) fn first_keys(&self) -> impl Iterator<Item = &[u8]> {
        let first = self.keys.iter().step_by(self.merging.keys.len().max(1));
        let again = match self.merging.objects {
            Objects::Each => 0,
            Objects::One => self.calls - 1,
        };
        let same = self.keys.iter().next().unwrap_or_default();
        first.chain(std::iter::repeat_n(same, again))
    }

    /// Returns the common script.
    pub(crate) const fn script(&self) -> &'static Script {
        &self.merging.script
    }

    /// Tells whether its calls take something, and so may act for a limited time only.
    pub(crate) const fn is_dated(&self) -> bool {
        self.dated
    }

    pub(crate) fn evalsha(&self) -> Command {
        self.command("EVALSHA", self.script().digest())
    }

    pub(crate) fn eval(&self) -> Command {
        self.command("EVAL", self.script().text())
    }

    fn command(&self, verb: &str, script: &str) -> Command {
        let items = [&self.keys, &self.header, &self.own];
        let count: usize = items.iter().map(|items| items.len()).sum();
        let bytes: usize = items.iter().map(|items| items.payload_len()).sum();
        let mut command = Command::with_capacity(count + 4, bytes + script.len() + 32);
        command.push(verb);
        command.push(script);
        command.write(self.keys.len());
        self.keys.iter().for_each(|key| command.push(key));
        if self.dated {
            command.write(self.act_before);
        }
        let args = self.header.iter().chain(self.own.iter());
        args.for_each(|arg| command.push(arg));
        command
    }

    /// Splits the reply's text into one line per call. `None` if their numbers differ. A line is
    /// `None` if its call has to be sent by itself.
    pub(crate) fn lines<'a>(
        &self,
        text: &'a str,
    ) -> Option<impl Iterator<Item = Option<&'a str>> + use<'a>> {
        let breaks = text.bytes().filter(|&byte| byte == b'\n').count();
        (breaks + 1 == self.len()).then(|| {
            let lines = text.split('\n');
            lines.map(|line| (!line.is_empty()).then_some(line))
        })
    }
}

/// Returns the part of `<client>:<n>` before the colon.
fn client(id: &[u8]) -> Option<&[u8]> {
    let colon = id.iter().position(|&byte| byte == b':')?;
    Some(&id[..colon])
}

/// The largest number of keys of a call that merges.
const MOST_KEYS: usize = 8;

/// The largest number of arguments of a call that merges.
const MOST_ARGS: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use redlatch_lua::REENTRANT;

    use super::*;
    use crate::protocol::name::{Key, Name, Prefix};

    static SINGLE: LazyLock<Script> = LazyLock::new(|| Script::new(&REENTRANT.acquire));
    static MERGING: LazyLock<Merging> = LazyLock::new(|| Merging {
        script: Script::new(&REENTRANT.acquire_each),
        keys: &[0],
        objects: Objects::Each,
        shared: &[2],
        ids: &[0, 1],
        texts: &[3],
        most: 3,
    });
    static CROWDING: LazyLock<Merging> = LazyLock::new(|| Merging {
        script: Script::new(&REENTRANT.acquire_each),
        keys: &[0, 1],
        objects: Objects::One,
        shared: &[2],
        ids: &[0, 1],
        texts: &[3],
        most: 3,
    });

    fn call(name: &str, ids: [&str; 2], lease: u32) -> ScriptCall {
        let key = Key::new(&Prefix::default(), &Name::parse(name).unwrap());
        let call = ScriptCall::new(&SINGLE, &key).key(name).key("queue");
        let call = call.dated().arg(ids[0]).arg(ids[1]).arg(lease).arg("t");
        call.merges(&MERGING)
    }

    fn common(call: &ScriptCall, act_before: u64, slots: Slots) -> MergedCall {
        MergedCall::of(&Part::of(call, &MERGING, act_before, slots).unwrap())
    }

    fn add(merged: &mut MergedCall, call: &ScriptCall, act_before: u64, slots: Slots) -> bool {
        Part::of(call, &MERGING, act_before, slots).is_some_and(|part| merged.add(&part))
    }

    fn words(command: &Command) -> Vec<String> {
        let words = command.args().map(String::from_utf8_lossy);
        words.map(String::from).collect()
    }

    #[test]
    fn calls_merge_with_the_earliest_limit_and_the_client_once() {
        let mut merged = common(&call("x", ["c:1", "c:2"], 9), 70, Slots::Any);
        assert!(add(
            &mut merged,
            &call("y", ["c:3", "c:4"], 9),
            50,
            Slots::Any
        ));
        assert!(add(
            &mut merged,
            &call("z", ["c:5", "c:6"], 9),
            60,
            Slots::Any
        ));
        let digest = MERGING.script.digest();
        let expected = [
            "EVALSHA", digest, "3", "x", "y", "z", "50", "c", "9", //
            ":1", ":2", "t", ":3", ":4", "t", ":5", ":6", "t",
        ];
        assert_eq!(words(&merged.evalsha()), expected);
        assert!(
            merged.is_full() && !add(&mut merged, &call("w", ["c:7", "c:8"], 9), 60, Slots::Any)
        );
    }

    #[test]
    fn calls_that_differ_in_a_shared_part_do_not_merge() {
        let first = call("x", ["c:1", "c:2"], 9);
        let mut merged = common(&first, 70, Slots::Any);
        assert!(!add(
            &mut merged,
            &call("y", ["c:3", "c:4"], 8),
            70,
            Slots::Any
        ));
        assert!(!add(
            &mut merged,
            &call("y", ["d:3", "d:4"], 9),
            70,
            Slots::Any
        ));
        assert!(Part::of(&call("y", ["c:3", "d:4"], 9), &MERGING, 70, Slots::Any).is_none());
        assert!(Part::of(&call("y", ["", "c:4"], 9), &MERGING, 70, Slots::Any).is_none());
        let mut merged = common(&first, 70, Slots::Same);
        assert!(!add(
            &mut merged,
            &call("y", ["c:3", "c:4"], 9),
            70,
            Slots::Same
        ));
        assert!(add(
            &mut merged,
            &call("{x}y", ["c:3", "c:4"], 9),
            70,
            Slots::Same
        ));
    }

    #[test]
    fn calls_about_one_object_have_its_keys_once() {
        let part = |name| {
            let call = call(name, ["c:1", "c:2"], 9);
            let part = |call| {
                let part = Part::of(call, &CROWDING, 70, Slots::Any).unwrap();
                MergedCall::of(&part)
            };
            (part(&call), call)
        };
        let (mut merged, same) = part("x");
        let (_, other) = part("y");
        let mut add = |call: &ScriptCall| {
            let part = Part::of(call, &CROWDING, 70, Slots::Any).unwrap();
            merged.add(&part)
        };
        assert!(!add(&other) && add(&same));
        let digest = CROWDING.script.digest();
        let expected = [
            "EVALSHA", digest, "2", "x", "queue", "70", "c", "9", //
            ":1", ":2", "t", ":1", ":2", "t",
        ];
        assert_eq!(words(&merged.evalsha()), expected);
        assert_eq!(merged.first_keys().collect::<Vec<_>>(), [b"x", b"x"]);
    }

    #[test]
    fn reply_has_one_line_per_call() {
        let mut merged = common(&call("x", ["c:1", "c:2"], 9), 70, Slots::Any);
        let lines: Vec<_> = merged.lines("").unwrap().collect();
        assert_eq!(lines, [None]);
        assert!(add(
            &mut merged,
            &call("y", ["c:3", "c:4"], 9),
            50,
            Slots::Any
        ));
        let lines: Vec<_> = merged.lines("1 granted\n").unwrap().collect();
        assert_eq!(lines, [Some("1 granted"), None]);
        assert!(merged.lines("one").is_none() && merged.lines("a\nb\nc").is_none());
    }
}
