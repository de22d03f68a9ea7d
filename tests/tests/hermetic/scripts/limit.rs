//! The scripts of the rate limiter under random interleavings: attempts that are sent again, late
//! copies, lost replies, settlements, other rates, a clock that is set back. After every script its
//! reply and all data are what the model says.

use std::{collections::BTreeMap, time::Duration};

use redlatch_embedded::engine::{Condition, Model, ServerTime};
use redlatch_lua::{LIMIT, Source};

use super::{
    bed::{Bed, Call, text},
    driver::{Changing, Event, Kind, World, assert_noticed, worlds},
};

// L37
#[test]
fn limiter_follows_the_model_under_lost_replies_and_late_copies() {
    worlds(1, |model, seed| world(model, seed).run());
}

/// A full server takes no pass, refuses as before, and settles.
#[test]
fn pass_is_refused_whole_when_full_or_short_of_replicas() {
    for (condition, code) in [
        (Condition::Full, "OOM"),
        (Condition::ShortOfReplicas, "NOREPLICAS"),
    ] {
        let mut bed = Bed::new(Model::default());
        let (by, rate) = (9_999_999_999_999, RATES[0]);
        let take = |n: u64, cost| {
            let take = Take {
                cost,
                passes: 1,
                wait: 0,
            };
            acquire(by, ("a", n), rate, take)
        };
        let taken = bed.ask(&take(1, 3));
        let mark = (&*taken[6], &*taken[7]);
        let before = bed.dump();
        bed.engine.set_condition(condition, true);
        let error = bed.call(&take(2, 1)).unwrap_err();
        assert!(
            error.code == code || error.message.contains(code),
            "{error}"
        );
        assert_eq!(bed.dump(), before);
        let refused = bed.call(&take(3, 3)).map(|answer| answer[2].clone());
        let settled = bed.call(&settle(by, ("a", 4), rate, -3, mark));
        let settled = settled.map(|answer| answer[2].clone());
        bed.engine.set_condition(condition, false);
        if condition == Condition::Full {
            assert_eq!(
                (refused.unwrap(), settled.unwrap()),
                ("0".to_owned(), "0".to_owned())
            );
        } else {
            assert!(refused.is_err() && settled.is_err());
            assert_eq!(bed.dump(), before);
        }
    }
}

#[test]
fn model_notices_faults() {
    for fault in [
        (&LIMIT.acquire, "debt - passed", "debt - passed - 1"),
        (
            &LIMIT.acquire,
            "clock, back = t, format('%.0f', t - micros)",
            "",
        ),
        (
            &LIMIT.acquire,
            "max(math.ceil(debt / 1000) + 1, keep)",
            "keep",
        ),
        (&LIMIT.acquire, "at > turn and at or turn", "at"),
        (
            &LIMIT.acquire,
            "clock > born and clock or format('%.0f', born + 1)",
            "born",
        ),
        (&LIMIT.settle, "ends < turn and ends or turn", "turn"),
        (&LIMIT.acquire, "max(wait, since - clock)", "wait"),
        (
            &LIMIT.settle,
            "born == ARGV[own + 6] and",
            "ARGV[own + 5] ~= '' and",
        ),
        (&LIMIT.acquire, "wait = ahead and", "wait = false and"),
        (&LIMIT.settle, "mark - shift - clock, debt", "debt"),
    ] {
        assert_noticed(fault, |seed| world(Model::default(), seed), World::run);
    }
    let rare = (&LIMIT.acquire, "turn > since and turn or since", "turn");
    assert_noticed(rare, below_a_rate, World::run);
}

/// A world in which passes are given back below the beginning of a rate, which chance rarely does.
fn below_a_rate(seed: u64) -> World<Limiter> {
    let mut world = world(Model::default(), seed);
    let ahead = |cost| Take {
        cost,
        passes: 1,
        wait: 31_536_000_000_000,
    };
    world.do_now(RATES[0], What::Take(ahead(3)));
    world.do_now(RATES[0], What::Take(ahead(3)));
    world.do_now(RATES[1], What::Take(ahead(1)));
    for _ in 0..3 {
        let last = world.kind.marks.last().cloned();
        world.do_now(RATES[1], What::Settle(-COST, last.unwrap_or_default()));
    }
    let limiter = &world.kind;
    assert!(limiter.t < limiter.turn && limiter.turn < limiter.since);
    world
}

/// A million passes at 3 in 7 s take as long as they should, to the µs.
#[test]
fn no_rounding_adds_up() {
    let mut bed = Bed::new(Model::default());
    let rate = Rate {
        count: 3,
        period: 7_000_000,
        burst: 50,
    };
    let start = bed.now.micros();
    let mut last = 0;
    for n in 0..20_000_u64 {
        let take = Take {
            cost: 1,
            passes: 50,
            wait: 0,
        };
        let answer = bed.ask(&acquire(9_999_999_999_999, ("a", n), rate, take));
        assert_eq!(answer[2], "50", "call {n}");
        last = answer[5].parse().unwrap();
        // Until all of them are paid.
        let debt = answer[4].parse().unwrap();
        bed.pass(Duration::from_micros(debt));
    }
    let exact = 19_999 * 50 * 7_000_000 / 3;
    // Each pause is rounded up to the µs, which gives nobody a token.
    assert!((exact..=exact + 20_000).contains(&(last - start)), "{last}");
}

/// A pass as soon as possible, taken ahead each time, so that no pause is rounded.
#[test]
fn passes_that_are_taken_ahead_keep_the_rate() {
    for (count, period) in [
        (3, 7_000_000),
        (7, 10),
        (1, 86_400_000_000),
        (1_000_000, 999_983),
    ] {
        let mut bed = Bed::new(Model::default());
        let rate = Rate {
            count,
            period,
            burst: 1,
        };
        let start = bed.now.micros();
        let take = Take {
            cost: 1,
            passes: 1,
            wait: 31_536_000_000_000,
        };
        for n in 0..300 {
            let answer = bed.ask(&acquire(9_999_999_999_999, ("a", n), rate, take));
            let at: u64 = answer[5].parse().unwrap();
            assert_eq!(
                at - start,
                (n * period).div_ceil(count),
                "{count} in {period} µs"
            );
        }
    }
}

#[test]
fn call_costs_four_commands_however_many_have_passed() {
    let mut bed = Bed::new(Model::default());
    let rate = Rate {
        count: 1,
        period: 1_000,
        burst: 5,
    };
    for n in 0..200 {
        let take = Take {
            cost: 1,
            passes: 64,
            wait: 0,
        };
        let call = acquire(9_999_999_999_999, ("a", n), rate, take);
        assert_eq!(
            super::costs::counted(&mut bed, &call),
            ("passed".to_owned(), 4)
        );
        assert!(bed.hash(KEY)["v"].len() < 60);
    }
    let (_, commands) = super::costs::counted(
        &mut bed,
        &settle(9_999_999_999_999, ("a", 999), rate, -1, ("", "")),
    );
    assert_eq!(commands, 5);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    count: u64,
    period: u64,
    burst: u64,
}

#[derive(Clone, Copy, Debug)]
struct Take {
    cost: u64,
    passes: u64,
    wait: u64,
}

/// An attempt as its client knows it.
#[derive(Clone, Debug)]
struct Attempt {
    id: (&'static str, u64),
    rate: Rate,
    what: What,
    begun: u64,
}

#[derive(Clone, Debug)]
enum What {
    Take(Take),
    Settle(i64, (String, String)),
}

/// What one limiter is, with whole parts of 1 / count µs.
#[derive(Debug)]
struct Limiter {
    /// When it was changed last, by a clock in µs that never goes back; 0 if the server has none.
    t: u64,
    /// How far that clock is ahead of the server's.
    back: u64,
    /// When it, or its last rate, was new.
    born: u64,
    /// When its rate begins, or 0.
    since: u64,
    parts: u128,
    rate: Rate,
    shift: u64,
    turn: u64,
    /// The last attempt of each client.
    last: BTreeMap<&'static str, Last>,
    gone_at: u64,
    /// The marks of passes, with `born`.
    marks: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    number: u64,
    passes: u64,
    /// When they count, in µs.
    at: u64,
    /// Whether they were taken ahead.
    ahead: bool,
}

fn world(model: Model, seed: u64) -> World<Limiter> {
    let limiter = Limiter {
        t: 0,
        back: 0,
        born: 0,
        since: 0,
        parts: 0,
        rate: RATES[0],
        shift: 0,
        turn: 0,
        last: BTreeMap::new(),
        gone_at: 0,
        marks: vec![Default::default()],
    };
    World::new(Bed::new(model), seed, limiter)
}

impl Limiter {
    /// Brings the debt to this time, and to this rate.
    fn advance(&mut self, micros: u64, rate: Option<Rate>) {
        if self.t == 0 {
            (self.parts, self.shift, self.turn, self.since) = (0, 0, 0, 0);
            (self.back, self.born, self.t) = (0, micros, micros);
            self.rate = rate.unwrap_or(self.rate);
        }
        self.back = self.back.max(self.t.saturating_sub(micros));
        let clock = micros + self.back;
        let paid = u128::from(clock - self.t) * u128::from(self.rate.count);
        self.parts = self.parts.saturating_sub(paid);
        self.t = clock;
        self.turn = if self.turn > clock { self.turn } else { 0 };
        self.since = if self.since > clock { self.since } else { 0 };
        let old = self.rate;
        if let Some(rate) = rate.filter(|rate| (rate.count, rate.period) != (old.count, old.period))
        {
            self.shift = 0;
            self.born = clock.max(self.born + 1);
            // Tokens are parts / period. Passes that do not count yet stay where they are.
            let (count, period) = (u128::from(rate.count), u128::from(rate.period));
            self.since = self.since.max(self.turn);
            let ahead = u128::from(self.since.saturating_sub(self.t));
            let ahead = ahead.min(self.parts / u128::from(old.count));
            let rounded = u128::from(ahead > 0) * u128::from(old.count);
            let owed = (self.parts - ahead * u128::from(old.count) + rounded) * period;
            let owed = owed.div_ceil(u128::from(old.period) * count);
            self.parts = (ahead + owed) * count;
            self.rate = rate;
        }
        self.rate.burst = rate.map_or(self.rate.burst, |rate| rate.burst);
    }

    fn whole(&self, parts: u128) -> u64 {
        u64::try_from(parts.div_ceil(u128::from(self.rate.count))).unwrap()
    }

    fn mark(&self) -> u64 {
        self.t + u64::try_from(self.parts / u128::from(self.rate.count)).unwrap() + self.shift
    }

    /// Returns the µs until `tokens` more are within the burst.
    fn due(&self, tokens: u64) -> u64 {
        let room = u128::from(self.rate.burst - tokens) * u128::from(self.rate.period);
        let due = self.whole(self.parts.saturating_sub(room));
        due.max(self.since.saturating_sub(self.t))
    }

    fn take(&mut self, take: Take) -> (u64, u64, u64) {
        let wait = self.due(take.cost);
        let fits = |passes: &u64| {
            passes * take.cost <= self.rate.burst && self.due(passes * take.cost) == 0
        };
        let mut passes = (1..=take.passes).take_while(fits).last().unwrap_or(0);
        let mut at = self.t;
        if passes == 0 && wait <= take.wait {
            (passes, at) = (1, self.t + wait);
            self.turn = self.turn.max(at);
        }
        self.parts += u128::from(passes * take.cost) * u128::from(self.rate.period);
        (passes, wait, at)
    }

    fn settle(&mut self, tokens: i64, (mark, born): (&str, &str)) {
        let span = u128::from(tokens.unsigned_abs()) * u128::from(self.rate.period);
        if tokens > 0 {
            self.parts += span;
        } else if let Ok(mark) = mark.parse::<u64>()
            && born == self.born.to_string()
            && (self.turn == 0 || tokens == -COST && mark == self.mark())
        {
            let count = u128::from(self.rate.count);
            let unpaid = mark.saturating_sub(self.shift + self.t);
            let back = (span / count).min(unpaid.into()).min(self.parts / count);
            self.parts -= back * count;
            self.shift += u64::try_from(back).unwrap();
            let ends = self.t + u64::try_from(self.parts / count).unwrap();
            self.turn = self.turn.min(ends);
        }
    }
}

impl Kind for Limiter {
    type Attempt = Attempt;
    type Copy = (Attempt, u64);

    fn request(world: &mut World<Self>, at: usize, by: u64) -> (Attempt, u64) {
        (world.attempts[at].clone(), by)
    }

    fn act(world: &mut World<Self>, (attempt, by): (Attempt, u64)) {
        world.operate(&attempt, by);
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        let turn = world.kind.turn.saturating_sub(world.kind.back);
        vec![world.kind.gone_at, turn.div_ceil(1_000)]
    }

    fn passed(world: &mut World<Self>) {
        if world.bed.millis() > world.kind.gone_at {
            world.kind.t = 0;
            world.kind.last.clear();
        }
    }

    fn wants_memory(call: &Call, answer: &[String]) -> bool {
        call.script.name == "limit/acquire" && answer[1] == "passed" && answer[2] != "0"
    }
}

impl Changing for Limiter {
    fn begun(attempt: &Attempt) -> u64 {
        attempt.begun
    }
}

impl World<Limiter> {
    fn run(mut self) {
        for _ in 0..150 {
            match self.rng.u8(..20) {
                0..8 => self.begin_one(),
                8..11 => self.insist(),
                11..13 => self.deliver(),
                13..15 => self.look(),
                15 if self.rng.u8(..4) == 0 => self.pass(60_000),
                16 if self.rng.u8(..6) == 0 => self.set_back(),
                15..18 => self.pass(1_500),
                _ => self.pass(100),
            }
        }
    }

    /// The clock of the server goes back. The server first removes a key whose time is over, which
    /// would come back otherwise.
    fn set_back(&mut self) {
        self.look();
        let span = Duration::from_micros(self.rng.u64(..2_000_000));
        self.note(Event::Passed(span));
        let back = self.bed.now.micros() - u64::try_from(span.as_micros()).unwrap();
        self.bed.now = ServerTime::from_micros(back);
    }

    fn begin_one(&mut self) {
        let number = self.number().into();
        let what = if self.rng.u8(..4) == 0 {
            // The last pass may be given back whole, even if it was taken ahead.
            let (tokens, mark) = match self.rng.bool() {
                true => (-COST, self.kind.marks.len() - 1),
                false => (self.rng.i64(-4..4), self.rng.usize(..self.kind.marks.len())),
            };
            What::Settle(tokens, self.kind.marks[mark].clone())
        } else {
            What::Take(Take {
                cost: self.rng.u64(1..4),
                passes: [1, 1, 3, 64][self.rng.usize(..4)],
                wait: [0, 0, 400_000, 31_536_000_000_000][self.rng.usize(..4)],
            })
        };
        let rate = match self.rng.u8(..4) {
            0 => RATES[self.rng.usize(..RATES.len())],
            _ => self.kind.rate,
        };
        let client = ["c", "d"][self.rng.usize(..2)];
        let attempt = self.attempt((client, number), rate, what);
        self.begin(attempt);
    }

    fn attempt(&self, id: (&'static str, u64), rate: Rate, what: What) -> Attempt {
        let begun = self.bed.millis();
        Attempt {
            id,
            rate,
            what,
            begun,
        }
    }

    /// Serves an attempt that nothing delays.
    fn do_now(&mut self, rate: Rate, what: What) {
        let number = self.number().into();
        let attempt = self.attempt(("c", number), rate, what);
        self.operate(&attempt, attempt.begun + 10_000);
    }

    fn operate(&mut self, attempt: &Attempt, by: u64) {
        let (client, number) = attempt.id;
        let (now, micros) = (self.bed.millis(), self.bed.now.micros());
        let before = self.bed.dump();
        let call = match &attempt.what {
            What::Take(take) => acquire(by, attempt.id, attempt.rate, *take),
            What::Settle(tokens, mark) => {
                settle(by, attempt.id, attempt.rate, *tokens, (&mark.0, &mark.1))
            }
        };
        let answer = self.ask(&call);
        let known = self.kind.last.get(client).copied();
        let known = known.filter(|last| last.number >= number);
        let verdict = match (&attempt.what, known) {
            _ if now > by => text(&["late"]),
            (_, Some(last)) if last.number > number => text(&["void"]),
            (What::Take(take), Some(last)) => self.copy(attempt.rate, *take, last),
            (What::Settle(..), Some(_)) => {
                let debt = self.peeked(None, |limiter| limiter.whole(limiter.parts));
                text(&["settled", &debt.to_string()])
            }
            (What::Take(take), None) => {
                self.kind.advance(micros, Some(attempt.rate));
                let (passes, wait, at) = self.kind.take(*take);
                let ahead = at > self.kind.t;
                let last = Last {
                    number,
                    passes,
                    at,
                    ahead,
                };
                self.kind.last.insert(client, last);
                let mark = (self.kind.mark().to_string(), self.kind.born.to_string());
                if passes > 0 {
                    self.kind.marks.push(mark.clone());
                }
                let at = at - self.kind.back;
                let debt = self.kind.whole(self.kind.parts);
                let numbers = [passes, wait, debt, at].map(|number| number.to_string());
                let mut verdict = text(&["passed"]);
                verdict.extend(numbers);
                verdict.extend([mark.0, mark.1]);
                verdict
            }
            (What::Settle(tokens, mark), None) => {
                let rate = (self.kind.t == 0).then_some(attempt.rate);
                self.kind.advance(micros, rate);
                self.kind.settle(*tokens, (&mark.0, &mark.1));
                let last = Last {
                    number,
                    passes: 0,
                    at: 0,
                    ahead: false,
                };
                self.kind.last.insert(client, last);
                text(&["settled", &self.kind.whole(self.kind.parts).to_string()])
            }
        };
        let expected: Vec<_> = [now.to_string()].into_iter().chain(verdict).collect();
        self.assert_eq(&answer, &expected);
        if known.is_some() || now > by {
            return self.assert_unchanged(&before, "a copy writes nothing");
        }
        let debt = u64::try_from(self.kind.parts / u128::from(self.kind.rate.count)).unwrap();
        let life = KEEP.max(debt.div_ceil(1_000) + 1);
        // Where time moves during a script, PEXPIRE counts from a later millisecond.
        let ttl = self.bed.ttl(KEY).unwrap();
        self.assert(
            (life..=life + 1).contains(&ttl),
            "the key ends with the debt",
        );
        self.kind.gone_at = now + ttl;
    }

    /// Returns the answer to a copy, by the debt of now.
    fn copy(&mut self, rate: Rate, take: Take, last: Last) -> Vec<String> {
        let (wait, debt, at) = self.peeked(Some(rate), |limiter| {
            let (wait, at) = match last {
                Last { passes: 0, .. } => (limiter.due(take.cost), limiter.t),
                Last {
                    ahead: true, at, ..
                } => (at.saturating_sub(limiter.t), at),
                _ => (0, last.at),
            };
            (wait, limiter.whole(limiter.parts), at - limiter.back)
        });
        let numbers = [last.passes, wait, debt, at].map(|number| number.to_string());
        let mut verdict = text(&["passed"]);
        verdict.extend(numbers);
        verdict.extend([String::new(), String::new()]);
        verdict
    }

    /// Reads the model at this time, and leaves it as it is.
    fn peeked<R>(&mut self, rate: Option<Rate>, read: impl FnOnce(&Limiter) -> R) -> R {
        let limiter = &mut self.kind;
        let saved = (
            limiter.t,
            limiter.parts,
            limiter.rate,
            limiter.shift,
            limiter.turn,
            (limiter.back, limiter.born, limiter.since),
        );
        limiter.advance(self.bed.now.micros(), rate);
        let result = read(limiter);
        (
            limiter.t,
            limiter.parts,
            limiter.rate,
            limiter.shift,
            limiter.turn,
            (limiter.back, limiter.born, limiter.since),
        ) = saved;
        result
    }

    fn look(&mut self) {
        let before = self.bed.dump();
        let call = Call {
            script: &LIMIT.look,
            keys: vec![KEY.to_owned()],
            args: Vec::new(),
        };
        let answer = self.ask(&call);
        let now = self.bed.millis().to_string();
        let known = self.kind.t != 0;
        let rate = self.kind.rate;
        let debt = self.peeked(None, |limiter| limiter.whole(limiter.parts));
        let expected = if known && debt > 0 {
            let numbers = [debt, rate.count, rate.period].map(|number| number.to_string());
            [text(&[&now, "owes"]), numbers.to_vec()].concat()
        } else {
            text(&[&now, "free"])
        };
        self.assert_eq(&answer, &expected);
        assert_eq!(self.bed.dump(), before, "it writes nothing");
    }
}

fn acquire(by: u64, (client, number): (&str, u64), rate: Rate, take: Take) -> Call {
    let Take { cost, passes, wait } = take;
    let own = [rate.burst, cost, passes, wait].map(|number| number.to_string());
    call(&LIMIT.acquire, by, client, number, rate, own.to_vec())
}

fn settle(
    by: u64,
    (client, number): (&str, u64),
    rate: Rate,
    tokens: i64,
    (mark, born): (&str, &str),
) -> Call {
    let own = text(&[&COST.to_string(), &tokens.to_string(), mark, born]);
    call(&LIMIT.settle, by, client, number, rate, own)
}

fn call(
    script: &'static Source,
    by: u64,
    client: &str,
    number: u64,
    rate: Rate,
    own: Vec<String>,
) -> Call {
    let head = [
        by.to_string(),
        client.to_owned(),
        KEEP.to_string(),
        format!(":{number}"),
    ];
    let rate = [rate.count, rate.period].map(|number| number.to_string());
    Call {
        script,
        keys: vec![KEY.to_owned()],
        args: head.into_iter().chain(rate).chain(own).collect(),
    }
}

/// Changes between them are exact.
const RATES: [Rate; 3] = [
    Rate {
        count: 3,
        period: 7_000_000,
        burst: 5,
    },
    Rate {
        count: 1,
        period: 200_000,
        burst: 3,
    },
    Rate {
        count: 1,
        period: 1_000_000,
        burst: 4,
    },
];

const KEY: &str = "p:{t}x";

/// What a settlement says that its pass has cost.
const COST: i64 = 3;

/// How long attempts are remembered, in ms.
const KEEP: u64 = 30_000;
