//! What a latch and a fence are, each written down once more: what each script has to answer, and
//! with a memory of every operation that ever ran. The tests of the scripts in
//! `tests/tests/hermetic/scripts` have this file as well.

use std::{collections::BTreeMap, mem};

/// What a script has to answer and to publish.
#[derive(Debug, Default)]
pub struct Answer {
    /// The items of the reply behind the time, as text.
    pub words: Vec<String>,
    /// The message that goes out.
    pub message: Option<String>,
    /// Whether the script may write.
    pub writes: bool,
}

impl Answer {
    /// Returns the answer of a script that writes nothing.
    pub fn of(words: &[&str]) -> Self {
        Self::with(words.iter().map(|&word| word.to_owned()).collect())
    }

    /// Returns the answer of a script that writes nothing.
    pub fn with(words: Vec<String>) -> Self {
        Self {
            words,
            ..Self::default()
        }
    }

    /// Returns the same answer of a script that may write.
    #[must_use]
    pub fn writing(mut self) -> Self {
        self.writes = true;
        self
    }
}

/// A time by the server's clock, and the same in true time, both in µs.
type Time = (u64, u64);

/// How many generations that opened a latch remembers, besides the present one.
pub const RECORD: usize = 64;

/// One generation of a latch. Times are true time in µs.
#[derive(Clone, Debug, Default)]
pub struct Generation {
    /// The number, as the server assigned it.
    pub number: u64,
    /// The count that it was set to.
    pub initial: u64,
    /// The count that is left.
    pub left: u64,
    /// The time at which it was set.
    pub set: u64,
    /// The time at which it opened.
    pub opened: Option<u64>,
    /// The time of its deletion, open or not.
    pub deleted: Option<u64>,
    /// The time at which the next one was set.
    pub followed: Option<u64>,
    /// Whether the server has forgotten it, which counts as deleted, even if it had opened.
    pub forgotten: bool,
}

impl Generation {
    /// Tells whether it was the present generation at any time from `since` on.
    pub fn lasted_to(&self, since: u64) -> bool {
        self.followed.is_none_or(|at| at >= since) && self.deleted.is_none_or(|at| at >= since)
    }

    /// Tells whether it was shut at any time from `since` on.
    pub fn was_shut_at(&self, since: u64) -> bool {
        self.lasted_to(since) && self.opened.is_none_or(|at| at >= since)
    }

    /// Tells whether a waiter for it may be told that it was deleted.
    pub const fn is_gone(&self) -> bool {
        self.was_cut_off() || self.forgotten
    }

    /// Tells whether it was removed before it opened.
    const fn was_cut_off(&self) -> bool {
        self.deleted.is_some() && self.opened.is_none()
    }
}

/// The latch of one name.
#[derive(Clone, Debug, Default)]
pub struct Latch {
    /// All that there ever were, with those that the server has forgotten.
    pub generations: Vec<Generation>,
    /// When the server forgets the generations, in ms of its clock.
    pub ends: Option<u64>,
    /// The generation on which each operation acted; `None` for a refused one.
    operations: BTreeMap<String, Option<u64>>,
    /// When anything last ran, in µs of the server's clock.
    stamp: u64,
}

impl Latch {
    /// Handles a script. Arguments are counted from 1 as in its header.
    pub fn reply<'a>(&mut self, script: &str, arg: impl Fn(usize) -> &'a str, at: Time) -> Answer {
        let (now, op) = (at.0 / 1_000, arg(2));
        if script == "latch/look" {
            let asked = (1..).map(arg).take_while(|asked| !asked.is_empty());
            let fates = asked.map(|asked| self.fate(asked.parse().unwrap_or(0)).to_owned());
            let mut answer = self.look(now);
            answer.words.extend(fates);
            return answer;
        }
        if arg(1).parse().is_ok_and(|by: u64| now > by) {
            return Answer::of(&["late"]);
        }
        if let Some(&acted) = self.operations.get(op) {
            return self.again(script, acted);
        }
        let answer = self.run(script, arg, at);
        let refused = ["refused", "unset"].contains(&answer.words[0].as_str());
        let acted = self.generations.last().filter(|_| !refused);
        let acted = acted.map(|present| present.number);
        self.operations.insert(op.to_owned(), acted);
        answer.writing()
    }

    /// Runs an operation for the first time.
    fn run<'a>(&mut self, script: &str, arg: impl Fn(usize) -> &'a str, time: Time) -> Answer {
        let (micros, at) = time;
        let (now, number) = (micros / 1_000, |n| arg(n).parse::<u64>().unwrap_or(0));
        if script == "latch/set" {
            let ends = arg(4).parse().ok().map(|ttl: u64| now + ttl);
            return self.set(number(3), ends, time);
        }
        let present = self.generations.last_mut();
        let Some(present) = present.filter(|it| it.deleted.is_none()) else {
            return Answer::of(&["unset"]);
        };
        self.stamp = self.stamp.max(micros);
        if script == "latch/delete" {
            present.deleted = Some(at);
            self.ends = Some(now + number(4));
            let cut_off = present.was_cut_off();
            let message = cut_off.then(|| format!("deleted {}", present.number));
            return Answer {
                message,
                ..Answer::of(&["deleted"])
            };
        }
        present.left = present.left.saturating_sub(number(3));
        let opens = present.left == 0 && present.opened.is_none();
        present.opened = present.opened.or_else(|| opens.then_some(at));
        let (left, generation) = (present.left.to_string(), present.number.to_string());
        Answer {
            message: opens.then(|| format!("open {generation}")),
            ..Answer::of(&["counted", &left, &generation])
        }
    }

    fn set(&mut self, count: u64, ends: Option<u64>, (micros, at): Time) -> Answer {
        if self.present().is_some_and(|it| it.opened.is_none()) {
            return Answer::of(&["refused", ""]);
        }
        if let Some(last) = self.generations.last_mut() {
            last.followed = Some(at);
        }
        self.stamp = micros.max(self.stamp + 1);
        self.ends = ends;
        self.generations.push(Generation {
            number: self.stamp,
            initial: count,
            left: count,
            set: at,
            opened: (count == 0).then_some(at),
            ..Generation::default()
        });
        Answer::of(&["set", &self.stamp.to_string()])
    }

    /// Returns the answer to a copy of an operation that acted on this generation, if on any.
    fn again(&self, script: &str, acted: Option<u64>) -> Answer {
        match (script, acted) {
            ("latch/set", Some(_)) => Answer::of(&["set", ""]),
            ("latch/set", None) => Answer::of(&["refused", ""]),
            (_, None) => Answer::of(&["unset"]),
            ("latch/count_down", Some(number)) => match self.present() {
                Some(it) if it.number == number => {
                    Answer::of(&["counted", &it.left.to_string(), &number.to_string()])
                }
                _ if self.fate(number) == "open" => Answer::of(&["counted", "0", ""]),
                // The server has forgotten the generation, or it was deleted.
                _ => Answer::of(&["deleted"]),
            },
            _ => Answer::of(&["deleted"]),
        }
    }

    /// Returns the present generation.
    pub fn present(&self) -> Option<&Generation> {
        self.generations.last().filter(|it| it.deleted.is_none())
    }

    /// Returns what a look shows of the present generation.
    fn look(&self, now: u64) -> Answer {
        let Some(it) = self.present() else {
            return Answer::of(&["unset", "", "0", "0", ""]);
        };
        let rest = self.ends.map(|ends| ends.saturating_sub(now).to_string());
        let [number, left, of] = [it.number, it.left, it.initial].map(|number| number.to_string());
        Answer::of(&["set", &number, &left, &of, &rest.unwrap_or_default()])
    }

    /// Returns what a look shows of a generation. The server cannot know what became of those that
    /// are not on record.
    fn fate(&self, number: u64) -> &'static str {
        let present = self.present().map(|present| present.number);
        let earlier = self.generations.iter().rev();
        let earlier = earlier.filter(|it| !it.forgotten && Some(it.number) != present);
        let mut opened = earlier.filter(|it| it.opened.is_some()).take(RECORD);
        let on_record = opened.any(|it| it.number == number);
        match self.present().filter(|it| it.number == number) {
            Some(it) if it.opened.is_none() => "shut",
            None if !on_record => "deleted",
            _ => "open",
        }
    }

    /// Tells whether there was no latch at any time from `since` on.
    pub fn was_absent(&self, since: u64) -> bool {
        let first = self.generations.first().map(|first| first.set);
        let later = |next: Option<u64>| next.is_none_or(|at| at >= since);
        let gone = |it: &Generation| it.deleted.is_some() && later(it.followed);
        later(first) || self.generations.iter().any(gone)
    }

    /// Forgets the generations, and not the operations, which have a key of their own.
    pub fn lose(&mut self, at: u64) {
        let copy = Self {
            operations: mem::take(&mut self.operations),
            ..Self::default()
        };
        self.forget(&copy, at);
    }

    /// Returns to the state of `copy`, as the server does. The earlier history stays, and restored
    /// generations begin once more.
    pub fn forget(&mut self, copy: &Self, at: u64) {
        for generation in &mut self.generations {
            generation.deleted.get_or_insert(at);
            generation.forgotten = true;
        }
        let back = copy.generations.iter().filter(|it| !it.forgotten);
        let generations = mem::take(&mut self.generations).into_iter();
        *self = Self {
            generations: generations.chain(back.cloned()).collect(),
            ..copy.clone()
        };
    }
}

/// One fence.
#[derive(Clone, Debug, Default)]
pub struct Fence {
    /// The highest token that has written.
    pub mark: Option<u64>,
    /// The data, and when they expire in ms of the server's clock.
    pub data: Option<(String, Option<u64>)>,
    /// Whether each operation was refused.
    operations: BTreeMap<String, bool>,
}

impl Fence {
    /// Handles a script that runs at this time of the server's clock in µs. Arguments are counted
    /// from 1 as in its header.
    pub fn reply<'a>(&mut self, script: &str, arg: impl Fn(usize) -> &'a str, at: u64) -> Answer {
        let now = at / 1_000;
        let mark = self.mark.map(|mark| mark.to_string());
        let known = self.operations.get(arg(2)).copied();
        match (script, known) {
            ("fence/look", _) => match mark {
                Some(mark) => Answer::of(&["mark", &mark]),
                None => Answer::of(&["unset"]),
            },
            _ if arg(1).parse().is_ok_and(|by: u64| now > by) => Answer::of(&["late"]),
            (_, Some(false)) => Answer::of(&["already"]),
            (_, Some(true)) => Answer::of(&["fenced", mark.as_deref().unwrap_or_else(|| arg(3))]),
            (_, None) => self.run(script, arg, now).writing(),
        }
    }

    /// Runs an operation for the first time.
    fn run<'a>(&mut self, script: &str, arg: impl Fn(usize) -> &'a str, now: u64) -> Answer {
        let (token, resets) = (arg(3).parse::<u64>().ok(), script == "fence/reset");
        let refused = !resets && self.mark > token;
        self.operations.insert(arg(2).to_owned(), refused);
        let mark = self.mark.map(|mark| mark.to_string()).unwrap_or_default();
        if refused {
            return Answer::of(&["fenced", &mark]);
        }
        if resets {
            self.mark = None;
            return Answer::of(&["reset", &mark]);
        }
        self.mark = token;
        match script {
            "fence/set" => {
                let ends = arg(7).parse().ok().map(|ttl: u64| now + ttl);
                self.data = Some((arg(6).to_owned(), ends));
            }
            "fence/delete" => self.data = None,
            "fence/eval" => {
                let data = self.data.as_ref().map_or("", |(data, _)| data);
                return Answer::of(&["written", data]);
            }
            _ => {}
        }
        Answer::of(&["written"])
    }
}
