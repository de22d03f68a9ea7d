//! The observer: sees everything, takes part in nothing, and says which promise was broken when.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use redlatch_core::{
    HoldState, LossCause,
    seam::{Command, Reply},
};
use redlatch_reentrant::LockGuard;

use crate::{
    exec::{Exec, ProcId, lock},
    faults::{Fault, Faults},
    runtime::Clock,
    scripts::{Seen, label, name_of},
    story::Story,
};

/// The number of a call or of a delivered guard.
pub type Id = u64;

/// A guard that the observer may look at for as long as its holder has it.
pub type Sight = Weak<LockGuard>;

/// How a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// For a wake, as long as it takes.
    Patiently,
    /// For a wake, but not for long, or not at all.
    Briefly,
    /// By asking again and again. Who is behind it in its client's queue goes at its pace.
    Polling,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one: `P1`, …
    pub promise: &'static str,
    /// When, in microseconds of true time.
    pub at: u64,
    /// What happened.
    pub what: String,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Guards delivered.
    pub grants: u64,
    /// Faults injected, per class.
    pub faults: BTreeMap<Fault, u64>,
    /// Writes that the token stopped.
    pub stopped: u64,
    /// Losses told.
    pub losses: u64,
}

/// The observer of one run.
#[derive(Debug)]
pub struct Watch {
    exec: Arc<Exec>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    story: Story,
    tally: Tally,
    violations: Vec<Violation>,
    next: Id,
    live: BTreeMap<Id, Live>,
    calls: BTreeMap<Id, Call>,
    names: Vec<NameState>,
    /// Attempts that were ended on the server.
    ended: BTreeSet<String>,
    /// Holds (name, token) whose guards all know of their loss, and since when.
    told: BTreeMap<(usize, u64), u64>,
    subscribed: BTreeMap<ProcId, bool>,
    /// When a subscription last came or went.
    resubscribed: u64,
    calm: bool,
    /// The longest usual delay of a message.
    delay: u64,
    calm_but_for_pubsub: bool,
    expects_trouble: bool,
    loses_writes: bool,
    forced: bool,
    two_holders: bool,
    healed: Option<u64>,
    checked: u64,
}

#[derive(Debug, Default)]
struct NameState {
    /// The greatest token delivered.
    acked: u64,
    owners: BTreeMap<u64, String>,
    /// The fenced register: the token of the last write taken.
    fence: u64,
    /// Guards of more than one hold are out.
    crowded: bool,
    /// A release freed it then, and somebody waits since before.
    freed: Option<u64>,
}

#[derive(Debug)]
struct Live {
    proc: ProcId,
    who: String,
    name: usize,
    token: u64,
    clock: Clock,
    sight: Sight,
    delivered: u64,
    renewed: bool,
    told: bool,
}

#[derive(Debug)]
struct Call {
    proc: ProcId,
    name: usize,
    since: u64,
    waits: Waits,
    /// The greatest token that anybody had when it began.
    acked: u64,
}

/// What a delivered guard is to the observer.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// Whose.
    pub proc: ProcId,
    /// In words.
    pub who: &'a str,
    /// The client's clock.
    pub clock: Clock,
    /// The guard.
    pub sight: Sight,
    /// Whether the watchdog renews it.
    pub renewed: bool,
}

impl Watch {
    /// Starts to watch.
    pub fn new(exec: Arc<Exec>, names: usize, faults: &Faults, told: bool) -> Arc<Self> {
        let state = State {
            story: Story::new(told),
            tally: Tally::default(),
            violations: Vec::new(),
            next: 0,
            live: BTreeMap::new(),
            calls: BTreeMap::new(),
            names: (0..names).map(|_| NameState::default()).collect(),
            ended: BTreeSet::new(),
            told: BTreeMap::new(),
            subscribed: BTreeMap::new(),
            resubscribed: 0,
            calm: faults.is_calm(),
            delay: faults.delays().1,
            calm_but_for_pubsub: faults.is_calm_but_for_pubsub(),
            expects_trouble: faults.expects_trouble(),
            loses_writes: faults.has(Fault::LossyFailover),
            forced: faults.has(Fault::Force),
            two_holders: false,
            healed: None,
            checked: 0,
        };
        Arc::new(Self {
            exec,
            state: Mutex::new(state),
        })
    }

    /// Tells the story, if it is told at all.
    pub fn say(&self, text: impl FnOnce() -> String) {
        let now = self.exec.now();
        self.state().story.say(now, text);
    }

    /// Gives a client's identity a name that people can read.
    pub fn call_by(&self, id: &str, name: &str) {
        self.state().story.call_by(id, name);
    }

    /// Counts a fault.
    pub fn fault(&self, fault: Fault, at: u64, text: impl FnOnce() -> String) {
        let mut state = self.state();
        *state.tally.faults.entry(fault).or_default() += 1;
        state
            .story
            .say(at, || format!("*** {}: {}", fault.name(), text()));
    }

    /// A promise was broken.
    pub fn violate(&self, promise: &'static str, what: String) {
        let now = self.exec.now();
        self.state().violate(promise, now, what);
    }

    /// An acquisition begins.
    pub fn asks(&self, proc: ProcId, name: usize, waits: Waits) -> Id {
        let now = self.exec.now();
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        let acked = state.names[name].acked;
        state.calls.insert(
            id,
            Call {
                proc,
                name,
                since: now,
                waits,
                acked,
            },
        );
        id
    }

    /// An acquisition has ended, one way or another.
    pub fn asked(&self, call: Id) {
        self.state().calls.remove(&call);
    }

    /// An acquisition delivered a guard.
    pub fn granted(&self, call: Id, delivery: Delivery<'_>) -> Id {
        let now = self.exec.now();
        let (token, owner, name) = {
            let Some(guard) = delivery.sight.upgrade() else {
                return 0;
            };
            let name = name_of(guard.name()).unwrap_or(0);
            (guard.token().as_u64(), guard.owner().to_string(), name)
        };
        let mut state = self.state();
        state.tally.grants += 1;
        state.next += 1;
        let id = state.next;
        state.check_token(call, name, token, &owner, now);
        state.story.say(now, || {
            format!("{} has {} with token {token}", delivery.who, label(name))
        });
        state.live.insert(
            id,
            Live {
                proc: delivery.proc,
                who: delivery.who.to_owned(),
                name,
                token,
                clock: delivery.clock,
                sight: delivery.sight,
                delivered: now,
                renewed: delivery.renewed,
                told: false,
            },
        );
        state.told.remove(&(name, token));
        state.count_crowd(name);
        state.check_exclusion(&self.exec, now);
        id
    }

    /// The holder gives a guard up.
    pub fn leaves(&self, id: Id) {
        let mut state = self.state();
        if let Some(live) = state.live.remove(&id) {
            state.count_crowd(live.name);
        }
    }

    /// A process has died: nobody believes in its guards any more, and it waits for nothing.
    pub fn died(&self, proc: ProcId) {
        let mut state = self.state();
        let dead: Vec<_> = state
            .live
            .iter()
            .filter(|(_, live)| live.proc == proc)
            .map(|(&id, _)| id)
            .collect();
        for id in dead {
            if let Some(live) = state.live.remove(&id) {
                state.count_crowd(live.name);
            }
        }
        state.calls.retain(|_, call| call.proc != proc);
        state.subscribed.remove(&proc);
    }

    /// `lost()` of a guard resolved.
    pub fn told(&self, id: Id, cause: LossCause) {
        let now = self.exec.now();
        let mut state = self.state();
        let (calm, forced, healed) = (state.calm, state.forced, state.healed.is_some());
        let Some(live) = state.live.get_mut(&id) else {
            return;
        };
        live.told = true;
        let (who, name, token) = (live.who.clone(), live.name, live.token);
        let groundless = live.renewed && calm && !forced && !healed && cause != LossCause::Revoked;
        state.tally.losses += 1;
        state.told.insert((name, token), now);
        state.story.say(now, || {
            format!("{who} is told that it lost {}: {cause}", label(name))
        });
        if groundless {
            state.violate(
                "P4",
                now,
                format!(
                    "{who} lost a renewed hold of {} without any fault: {cause}",
                    label(name)
                ),
            );
        }
    }

    /// A guard passed its check; its holder writes to what the lock protects. Returns whether the register took the write.
    pub fn writes(&self, who: &str, name: usize, token: u64, newest: bool) -> bool {
        let now = self.exec.now();
        let mut state = self.state();
        let taken = token >= state.names[name].fence;
        state.story.say(now, || {
            let verdict = if taken { "is taken" } else { "is refused" };
            format!(
                "{who}'s write to {} with token {token} {verdict}",
                label(name)
            )
        });
        if taken {
            state.names[name].fence = token;
            return true;
        }
        state.tally.stopped += 1;
        if newest {
            let fence = state.names[name].fence;
            state.violate("P3", now, format!("{who} holds {} rightfully with token {token}, and its write is refused: {fence} has been there", label(name)));
        }
        false
    }

    /// Tells whether the guard is of the hold that was delivered last.
    pub fn is_newest(&self, id: Id) -> bool {
        let state = self.state();
        let Some(live) = state.live.get(&id) else {
            return false;
        };
        live.token == state.names[live.name].acked && !state.expects_trouble
    }

    /// Returns the guards of a hold that are out and believed in.
    pub fn companions(&self, name: usize, token: u64) -> BTreeSet<Id> {
        let now = self.exec.now();
        let state = self.state();
        let same = state
            .live
            .iter()
            .filter(|(_, live)| live.name == name && live.token == token);
        same.filter(|(_, live)| live.believes(now))
            .map(|(&id, _)| id)
            .collect()
    }

    /// The server has run a command.
    pub fn served(&self, proc: ProcId, command: &Command, reply: &Reply, sent: u64, now: u64) {
        let mut state = self.state();
        let Some(seen) = Seen::of(command, reply) else {
            state
                .story
                .say(now, || format!("the server runs {command:?}: {reply:?}"));
            return;
        };
        state.story.say(now, || seen.to_string());
        state.check_age(proc, &seen, sent, now);
        match seen {
            Seen::Granted { name, attempt, .. } => {
                if state.ended.contains(&attempt) {
                    let what = format!(
                        "attempt {attempt} took {} after it had been ended",
                        label(name)
                    );
                    state.violate("P10", now, what);
                }
                state.names[name].freed = None;
            }
            Seen::Renewed { name, token } => {
                let told = state.told.get(&(name, token)).copied();
                if told.is_some_and(|told| sent > told + 2_000_000) {
                    let what = format!("a hold of {} is renewed though it is lost", label(name));
                    state.violate("P4", now, what);
                }
            }
            Seen::Ended {
                name,
                attempt,
                freed,
            } => {
                if !attempt.is_empty() {
                    state.ended.insert(attempt);
                }
                if freed && (state.calm || state.calm_but_for_pubsub) {
                    state.names[name].freed = Some(now);
                }
            }
            Seen::Other(_) => {}
        }
    }

    /// A process hears messages from now on.
    pub fn subscribed(&self, proc: ProcId, now: u64) {
        let mut state = self.state();
        state.subscribed.insert(proc, true);
        state.resubscribed = now;
    }

    /// A process hears no messages any more.
    pub fn unsubscribed(&self, proc: ProcId, now: u64) {
        let mut state = self.state();
        if let Some(subscribed) = state.subscribed.get_mut(&proc) {
            *subscribed = false;
        }
        state.resubscribed = now;
    }

    /// Faults have ended.
    pub fn heals(&self) {
        let now = self.exec.now();
        let mut state = self.state();
        state.healed = Some(now);
        state.story.say(now, || {
            "=== all faults end; everybody has to get on now".to_owned()
        });
    }

    /// Looks at everything, after each step.
    pub fn look(&self) {
        let now = self.exec.now();
        let mut state = self.state();
        if state.names.iter().any(|name| name.crowded) {
            state.check_exclusion(&self.exec, now);
        }
        if now < state.checked + LOOK_EVERY {
            return;
        }
        state.checked = now;
        state.check_notice(&self.exec, now);
        state.check_hand_off(&self.exec, now);
    }

    /// Returns the violations so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.state().violations.clone()
    }

    /// Tells whether a promise was broken.
    pub fn is_broken(&self) -> bool {
        !self.state().violations.is_empty()
    }

    /// Tells whether there were two holders where they are expected.
    pub fn saw_two_holders(&self) -> bool {
        self.state().two_holders
    }

    /// Returns the sums.
    pub fn tally(&self) -> Tally {
        self.state().tally.clone()
    }

    /// Takes the story.
    pub fn story(&self) -> Vec<String> {
        self.state().story.take()
    }

    /// Drops what it keeps alive.
    pub fn clear(&self) {
        let live = std::mem::take(&mut self.state().live);
        drop(live);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn violate(&mut self, promise: &'static str, at: u64, what: String) {
        if self.expects_trouble && promise == "P1" {
            self.two_holders = true;
            self.story
                .say(at, || format!("!!! two holders, as expected: {what}"));
            return;
        }
        if self.expects_trouble && !matches!(promise, "P2" | "P3" | "P4" | "P11") {
            return;
        }
        self.story
            .say(at, || format!("!!! {promise} is broken: {what}"));
        if self.violations.len() < 20 {
            self.violations.push(Violation { promise, at, what });
        }
    }

    /// P2: the token of a new hold is greater than every one known when it was asked for; one token, one owner.
    fn check_token(&mut self, call: Id, name: usize, token: u64, owner: &str, now: u64) {
        let acked = self.calls.get(&call).map_or(0, |call| call.acked);
        let known = self.names[name]
            .owners
            .entry(token)
            .or_insert_with(|| owner.to_owned())
            .clone();
        if known != owner {
            self.violate(
                "P2",
                now,
                format!(
                    "{known} and {owner} hold {} with the same token {token}",
                    label(name)
                ),
            );
        }
        // After a failover that lost a release, its hold is there again, and so is its token: what the register has seen stays.
        if token < acked && !self.loses_writes {
            self.violate(
                "P2",
                now,
                format!(
                    "{owner} holds {} with token {token}, after {acked} was known",
                    label(name)
                ),
            );
        }
        self.names[name].acked = self.names[name].acked.max(token);
    }

    /// P6: a request does not act seconds after it was sent.
    fn check_age(&mut self, proc: ProcId, seen: &Seen, sent: u64, now: u64) {
        let age = now.saturating_sub(sent);
        let (Seen::Granted { name, .. } | Seen::Renewed { name, .. }) = *seen else {
            return;
        };
        if age > REACH {
            let what = format!(
                "a request of process {proc} acted on {} {} ms after it was sent",
                label(name),
                age / 1000
            );
            self.violate("P6", now, what);
        }
    }

    fn count_crowd(&mut self, name: usize) {
        let tokens: BTreeSet<_> = self
            .live
            .values()
            .filter(|live| live.name == name)
            .map(|live| live.token)
            .collect();
        self.names[name].crowded = tokens.len() > 1;
    }

    /// P1: no two holds of a name are believed in.
    fn check_exclusion(&mut self, exec: &Exec, now: u64) {
        if self.forced {
            return;
        }
        let mut broken = None;
        for name in (0..self.names.len()).filter(|&name| self.names[name].crowded) {
            let mut believers = self
                .live
                .values()
                .filter(|live| live.name == name && exec.is_alive(live.proc) && live.believes(now));
            let Some(first) = believers.next() else {
                continue;
            };
            if let Some(other) = believers.find(|live| live.token != first.token) {
                broken = Some((
                    name,
                    format!(
                        "{} (token {}) and {} (token {}) both hold {}",
                        first.who,
                        first.token,
                        other.who,
                        other.token,
                        label(name)
                    ),
                ));
            }
        }
        if let Some((name, what)) = broken {
            self.violate("P1", now, what);
            self.names[name].crowded = false;
        }
    }

    /// P4: whoever runs and is past its deadline has been told; whoever was told stays lost.
    fn check_notice(&mut self, exec: &Exec, now: u64) {
        let mut broken = Vec::new();
        for live in self.live.values() {
            let running = exec
                .pauses(live.proc)
                .running_since
                .filter(|&since| now >= since + GRAIN);
            let Some(until) = live.valid_until() else {
                continue;
            };
            let overdue = live.clock.read(now) >= until + GRAIN && now >= live.delivered + GRAIN;
            if overdue && !live.told && running.is_some() {
                broken.push((
                    live.who.clone(),
                    live.name,
                    "is past its deadline and was not told",
                ));
            }
            if live.told && live.believes_again(now) {
                broken.push((
                    live.who.clone(),
                    live.name,
                    "was told of its loss and believes again",
                ));
            }
        }
        for (who, name, what) in broken {
            self.violate("P4", now, format!("{who} {what}: {}", label(name)));
        }
    }

    /// P8: after a release somebody who waits gets the lock at once, or as soon as messages reach everybody again.
    fn check_hand_off(&mut self, exec: &Exec, now: u64) {
        let hand_off = HAND_OFF + 6 * self.delay;
        let settling = SETTLING + 8 * self.delay;
        for name in 0..self.names.len() {
            let Some(freed) = self.names[name].freed else {
                continue;
            };
            let deaf = self.subscribed.values().any(|heard| !heard);
            let from = if self.calm {
                freed
            } else {
                freed.max(self.resubscribed)
            };
            if (deaf && !self.calm) || now < from + hand_off {
                continue;
            }
            self.names[name].freed = None;
            let of_name = || self.calls.values().filter(|call| call.name == name);
            let polling: BTreeSet<_> = of_name()
                .filter(|call| call.waits == Waits::Polling)
                .map(|call| call.proc)
                .collect();
            let patient = of_name().find(|call| {
                call.waits == Waits::Patiently
                    && call.since + settling < freed
                    && exec.is_alive(call.proc)
                    && !polling.contains(&call.proc)
            });
            if let Some(call) = patient {
                let mut what = format!(
                    "{} was released, and a waiter of process {} did not get it",
                    label(name),
                    call.proc
                );
                let _ = write!(what, " within {} ms", hand_off / 1000);
                self.violate("P8", now, what);
            }
        }
    }
}

impl Live {
    /// The deadline by the holder's clock in µs.
    fn valid_until(&self) -> Option<u64> {
        let until = self.sight.upgrade()?.valid_until().since_origin();
        Some(micros(until))
    }

    /// Whether the holder may rely on it: by its deadline, or because it knows better. Looks without touching: asking a guard for its
    /// state near its end would tell it of its loss.
    fn believes(&self, now: u64) -> bool {
        if self.told {
            return false;
        }
        let now = self.clock.read(now);
        let Some(guard) = self.sight.upgrade() else {
            return false;
        };
        let until = micros(guard.valid_until().since_origin());
        if now + GRAIN >= until {
            return now < until;
        }
        !matches!(guard.state(), HoldState::Lost(_))
    }

    fn believes_again(&self, now: u64) -> bool {
        let now = self.clock.read(now);
        let Some(guard) = self.sight.upgrade() else {
            return false;
        };
        let until = micros(guard.valid_until().since_origin());
        now + GRAIN < until && !matches!(guard.state(), HoldState::Lost(_))
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Between two looks at what need not be looked at after each step, in µs.
const LOOK_EVERY: u64 = 1_000;

/// The grain of timers: the slack that the promises allow for.
const GRAIN: u64 = 2_000;

/// A hand-off takes no longer when nothing is wrong, besides six delays: the wake, the question and its answer with the script's text.
const HAND_OFF: u64 = 10_000;

/// Somebody who has waited so long is known to the server.
const SETTLING: u64 = 30_000;

/// A request that is older than this may not act: 5 s, both clocks off by 1 %, and a little.
const REACH: u64 = 5_150_000;
