//! The scripts of the rate limiter under random interleavings: attempts that are sent again, late
//! copies, lost replies, settlements, other rates, a clock that is set back. After every script its
//! reply and all data are what the model says.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use redlatch_embedded::engine::{Condition, Model, ServerTime};
use redlatch_lua::{LIMIT, Source};

use super::{
    bed::{Bed, Call, text},
    costs::counted,
    driver::{Attempt, Event, Kind, Request, World, assert_noticed, worlds},
};

// L37
#[test]
fn limiter_follows_the_model_under_lost_replies_and_late_copies() {
    worlds(|model, seed| world(model, seed).run());
}

/// A full server takes no pass, refuses as before, and settles.
#[test]
fn pass_is_refused_whole_when_full_or_short_of_replicas() {
    for (condition, code) in [
        (Condition::Full, "OOM"),
        (Condition::ShortOfReplicas, "NOREPLICAS"),
    ] {
        let mut bed = Bed::new(Model::default());
        let rate = RATES[0];
        let take = |n, cost| acquire(FOREVER, ("a", n), rate, take(cost, 1, 0));
        let taken = bed.ask(&take(1, 3));
        let mark = [6, 7, 8, 9, 3].map(|at| taken[at].clone());
        let before = bed.dump();
        bed.engine.set_condition(condition, true);
        let error = bed.call(&take(2, 1)).unwrap_err();
        assert!(
            error.code == code || error.message.contains(code),
            "{error}"
        );
        assert_eq!(bed.dump(), before);
        let refused = bed.call(&take(3, 3)).map(|answer| answer[2].clone());
        let settled = bed.call(&settle(FOREVER, ("a", 4), rate, -3, &mark));
        let settled = settled.map(|answer| answer[2].clone());
        bed.engine.set_condition(condition, false);
        if condition == Condition::Full {
            assert_eq!([refused.unwrap(), settled.unwrap()], ["0", "0"]);
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
        (&LIMIT.acquire, "max(ceil(debt / 1000) + 1, keep)", "keep"),
        (&LIMIT.acquire, "at > turn and at or turn", "at"),
        (
            &LIMIT.acquire,
            "clock > born and clock or format('%.0f', born + 1)",
            "born",
        ),
        (&LIMIT.settle, "before < turn and before or turn", "turn"),
        (&LIMIT.settle, "last or tokens == -cost and at", "at"),
        (&LIMIT.acquire, "if at >= clock then", "if true then"),
        (&LIMIT.acquire, "turn ~= since and 1 or 0", "1"),
        (&LIMIT.acquire, "keep_turns(key, born, others_free)", ""),
        (&LIMIT.acquire, "max(wait, since - clock)", "wait"),
        (
            &LIMIT.settle,
            "born == ARGV[own + 7] then",
            "ARGV[own + 5] ~= '' then",
        ),
        (&LIMIT.acquire, "wait = ahead and", "wait = false and"),
        (&LIMIT.settle, "mark - shift - clock, debt", "debt"),
        (&LIMIT.settle, "if not refused then", "if true then"),
        (&LIMIT.settle, "or last + SLACK < expires", ""),
        (&LIMIT.acquire, "last > expires", "false"),
    ] {
        assert_noticed(fault, |seed| world(Model::default(), seed), World::run);
    }
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
        let rate = rate(count, period, 1);
        let start = bed.now.micros();
        let take = take(1, 1, 31_536_000_000_000);
        for n in 0..300 {
            let answer = bed.ask(&acquire(FOREVER, ("a", n), rate, take));
            let at: u64 = answer[5].parse().unwrap();
            let due = (n * period).div_ceil(count);
            assert_eq!(at - start, due, "{count} in {period} µs");
        }
    }
}

/// Free turns that are the last ones, once later passes are given back, owe nothing.
#[test]
fn free_turns_go_with_the_last_pass() {
    // A pass takes no whole µs.
    let (mut bed, rate) = (Bed::new(Model::default()), rate(7, 1_000_000, 5));
    let mut number = 0;
    let mut ask = |bed: &mut Bed, act: &dyn Fn((&str, u64)) -> Call| {
        number += 1;
        bed.ask(&act(("a", number)))
    };
    let burst = take(rate.burst, 1, 0);
    ask(&mut bed, &|id| acquire(FOREVER, id, rate, burst));
    let ahead = take(COST.unsigned_abs(), 1, 1_000_000_000);
    let taken = [(); 20].map(|()| ask(&mut bed, &|id| acquire(FOREVER, id, rate, ahead)));
    let marks = taken.each_ref();
    let marks = marks.map(|taken| [6, 7, 8, 9, 3].map(|at| taken[at].clone()));
    let mut owed = |bed: &mut Bed, mark: &Mark| -> u64 {
        let settled = ask(bed, &|id| settle(FOREVER, id, rate, -COST, mark));
        settled[2].parse().unwrap()
    };
    for mark in &marks[4..19] {
        assert_eq!(
            owed(&mut bed, mark).to_string(),
            taken[19][4],
            "its turn is free"
        );
    }
    let left = owed(&mut bed, &marks[19]);
    assert_eq!(
        left.to_string(),
        taken[3][4],
        "all free turns go with the last pass"
    );
    assert!(!bed.hash(KEY).contains_key("h"));
}

/// A free turn is for passes that cost no more.
#[test]
fn free_turn_is_no_dearer_than_before() {
    let (mut bed, rate) = (Bed::new(Model::default()), RATES[0]);
    let mut number = 0;
    let mut taken = |bed: &mut Bed, cost| {
        number += 1;
        let take = take(cost, 1, 1_000_000_000);
        bed.ask(&acquire(FOREVER, ("a", number), rate, take))
    };
    taken(&mut bed, rate.burst);
    let first = taken(&mut bed, COST.unsigned_abs());
    let second = taken(&mut bed, COST.unsigned_abs());
    let mark = [6, 7, 8, 9, 3].map(|at| first[at].clone());
    bed.ask(&settle(FOREVER, ("b", 1), rate, -COST, &mark));
    let dear = taken(&mut bed, rate.burst);
    assert!(dear[5] > second[5], "{dear:?} is behind {second:?}");
    let cheap = taken(&mut bed, 1);
    assert_eq!(cheap[5], first[5]);
    let next = taken(&mut bed, 1);
    assert!(next[5] > dear[5], "{next:?} is behind {dear:?}");
}

#[test]
fn call_costs_few_commands_however_many_have_passed() {
    let mut bed = Bed::new(Model::default());
    let rate = rate(1, 1_000, 5);
    for n in 0..200 {
        let call = acquire(FOREVER, ("a", n), rate, take(1, 64, 0));
        assert_eq!(counted(&mut bed, &call), ("passed".to_owned(), 4));
        assert!(bed.hash(KEY)["v"].len() < 60);
    }
    let call = settle(FOREVER, ("a", 999), rate, -1, &Mark::default());
    assert_eq!(counted(&mut bed, &call).1, 4);
}

/// Asks with a rate by which the debt takes longer than 365 days.
#[test]
fn rate_that_is_too_slow_for_a_debt_forgives_nothing() {
    let mut bed = Bed::new(Model::default());
    let (fast, slow) = (rate(1, 60_000, 1_000), rate(1, 86_400_000_000, 1));
    let mut passes = |n, rate, cost| {
        let call = acquire(FOREVER, ("a", n), rate, take(cost, 1, 0));
        bed.ask(&call).swap_remove(2)
    };
    assert_eq!(passes(1, fast, 1_000), "1");
    assert_eq!(passes(2, slow, 1), "0");
    assert_eq!(passes(3, fast, 1), "0");
}

/// Entries of attempts are removed however long their numbers are.
#[test]
fn attempts_with_long_numbers_are_forgotten() {
    let mut bed = Bed::new(Model::default());
    let rate = rate(1, 1_000, 100);
    let ask = |bed: &mut Bed, client: &str, number| {
        let call = acquire(FOREVER, (client, number), rate, take(1, 64, 0));
        bed.ask(&call);
        bed.hash(KEY)["v"].len()
    };
    ask(&mut bed, &"a".repeat(32), 123_456_789_012_345);
    for n in 0..120 {
        bed.pass(Duration::from_secs(1));
        let length = ask(&mut bed, &format!("{n:032}"), 1);
        assert!(length < 45 * 80, "{n}: {length}");
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rate {
    count: u64,
    period: u64,
    burst: u64,
}

const fn rate(count: u64, period: u64, burst: u64) -> Rate {
    Rate {
        count,
        period,
        burst,
    }
}

#[derive(Clone, Copy, Debug)]
struct Take {
    cost: u64,
    passes: u64,
    wait: u64,
}

const fn take(cost: u64, passes: u64, wait: u64) -> Take {
    Take { cost, passes, wait }
}

/// What a settlement says of a pass: its mark as a sum, `born`, the turn before and the wait. Texts
/// are empty without.
type Mark = [String; 5];

/// An attempt at a rate.
type What = (Rate, Act);

#[derive(Clone, Debug)]
enum Act {
    Take(Take),
    Settle(i64, Mark),
}

/// What one limiter owes, with whole parts of 1 / count µs.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
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
}

/// One limiter.
#[derive(Debug)]
struct Limiter {
    debt: Debt,
    /// The last attempt of each client.
    last: BTreeMap<String, Last>,
    gone_at: u64,
    /// Those of passes.
    marks: Vec<Mark>,
    /// The turns that were given back.
    free: Vec<Free>,
}

#[derive(Clone, Copy, Debug)]
struct Free {
    born: u64,
    at: u64,
    cost: u64,
    mark: u64,
    before: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    number: u64,
    passes: u64,
    /// When they count, in µs.
    at: u64,
    /// Whether they were taken ahead.
    ahead: bool,
}

impl Limiter {
    fn forget_turns(&mut self) {
        let debt = self.debt;
        let free = &mut self.free;
        free.retain(|turn| turn.born == debt.born && turn.at >= debt.t);
    }

    fn take_turn(&mut self, take: Take) -> Option<Free> {
        self.forget_turns();
        let (debt, wait) = (self.debt, self.debt.due(take.cost));
        if wait == 0 || take.wait == 0 || debt.turn == 0 {
            return None;
        }
        let fits = |turn: &Free| take.cost <= turn.cost && turn.at - debt.t <= wait.min(take.wait);
        let free = self.free.iter().enumerate().filter(|(_, turn)| fits(turn));
        let (first, _) = free.min_by_key(|(_, turn)| turn.at)?;
        Some(self.free.remove(first))
    }

    fn settle(&mut self, tokens: i64, mark: &Mark) {
        let span = u128::from(tokens.unsigned_abs()) * u128::from(self.debt.rate.period);
        if tokens > 0 {
            self.debt.parts += span;
            return;
        }
        let numbers = mark.each_ref().map(|word| word.parse().unwrap_or(0));
        let [from, left, born, before, wait]: [u64; 5] = numbers;
        let (at, mark, debt) = (from + wait, from + left, &mut self.debt);
        if born != debt.born {
            return;
        }
        let last = tokens == -COST && mark == debt.mark();
        if debt.turn == 0 {
            let count = u128::from(debt.rate.count);
            let unpaid = mark.saturating_sub(debt.shift + debt.t);
            let back = (span / count).min(unpaid.into()).min(debt.parts / count);
            debt.parts -= back * count;
            debt.shift += u64::from(!last) * u64::try_from(back).unwrap();
        } else if last || tokens == -COST && at > debt.t {
            let cost = COST.unsigned_abs();
            self.give_back(Free {
                born,
                at,
                cost,
                mark,
                before,
            });
        }
    }

    fn give_back(&mut self, free: Free) {
        self.forget_turns();
        if !self.free.iter().any(|other| other.mark == free.mark) {
            self.free.push(free);
        }
        let period = u128::from(self.debt.rate.period);
        let parts = |turn: &Free| u128::from(turn.cost) * period;
        loop {
            let debt = self.debt;
            let is_last = |turn: &Free| turn.mark == debt.mark() && parts(turn) <= debt.parts;
            let Some(at) = self.free.iter().rposition(is_last) else {
                break;
            };
            let turn = self.free.remove(at);
            self.debt.parts -= parts(&turn);
            self.debt.turn = debt.turn.min(turn.before);
        }
        let surplus = self.free.len().saturating_sub(16);
        self.free.drain(..surplus);
    }
}

fn world(model: Model, seed: u64) -> World<Limiter> {
    let limiter = Limiter {
        debt: Debt {
            rate: RATES[0],
            ..Debt::default()
        },
        last: BTreeMap::new(),
        gone_at: 0,
        marks: vec![Default::default()],
        free: Vec::new(),
    };
    World::new(Bed::new(model), seed, limiter)
}

impl Debt {
    /// Brings the debt to this time, and to this rate.
    fn advance(&mut self, micros: u64, rate: Option<Rate>) {
        if self.t == 0 {
            *self = Self {
                t: micros,
                born: micros,
                rate: rate.unwrap_or(self.rate),
                ..Self::default()
            };
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
            let rounded = self.turn != self.since;
            self.since = self.since.max(self.turn);
            let ahead = u128::from(self.since.saturating_sub(self.t));
            let ahead = ahead.min(self.parts / u128::from(old.count));
            let rounded = u128::from(rounded && ahead > 0) * u128::from(old.count);
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

    /// Returns the µs until all is paid, rounded up.
    fn owed(&self) -> u64 {
        self.whole(self.parts)
    }

    /// The same, rounded down.
    fn span(&self) -> u64 {
        u64::try_from(self.parts / u128::from(self.rate.count)).unwrap()
    }

    fn mark(&self) -> u64 {
        self.t + self.span() + self.shift
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
}

impl Kind for Limiter {
    type What = What;
    type Other = Infallible;

    fn act(world: &mut World<Self>, request: Request<What>) {
        let (attempt, by) = request.change();
        world.operate(&attempt, by);
    }

    fn ends(world: &mut World<Self>) -> Vec<u64> {
        let turn = world.kind.debt.turn.saturating_sub(world.kind.debt.back);
        vec![world.kind.gone_at, turn.div_ceil(1_000)]
    }

    fn passed(world: &mut World<Self>) {
        if world.bed.millis() > world.kind.gone_at {
            world.kind.debt.t = 0;
            world.kind.last.clear();
        }
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
        let number = self.number();
        let act = if self.rng.u8(..4) == 0 {
            // The last pass may be given back whole, even if it was taken ahead.
            let (tokens, mark) = match self.rng.bool() {
                // Of the last two passes, the one may be given back before the other.
                true => (
                    -COST,
                    (self.kind.marks.len() - 1).saturating_sub(self.rng.usize(..2)),
                ),
                false => (self.rng.i64(-4..4), self.rng.usize(..self.kind.marks.len())),
            };
            Act::Settle(tokens, self.kind.marks[mark].clone())
        } else {
            let (cost, passes) = (self.rng.u64(1..4), [1, 1, 3, 64][self.rng.usize(..4)]);
            let wait = [0, 0, 400_000, 31_536_000_000_000][self.rng.usize(..4)];
            Act::Take(take(cost, passes, wait))
        };
        let rate = match self.rng.u8(..4) {
            0 => RATES[self.rng.usize(..RATES.len())],
            _ => self.kind.debt.rate,
        };
        let client = ["c", "d"][self.rng.usize(..2)];
        self.begin(format!("{client}:{number}"), (rate, act));
    }

    fn operate(&mut self, attempt: &Attempt<What>, by: u64) {
        let (rate, act) = &attempt.what;
        let id = attempt.id.split_once(':').unwrap();
        let id @ (client, number) = (id.0, id.1.parse().unwrap());
        let (now, micros) = (self.bed.millis(), self.bed.now.micros());
        let before = self.bed.dump();
        let call = match act {
            Act::Take(take) => acquire(by, id, *rate, *take),
            Act::Settle(tokens, mark) => settle(by, id, *rate, *tokens, mark),
        };
        let answer = self.ask(&call);
        let known = self.kind.last.get(client).copied();
        let known = known.filter(|last| last.number >= number);
        let verdict = match (act, known) {
            _ if now > by => text(&["late"]),
            (_, Some(last)) if last.number > number => text(&["void"]),
            (Act::Take(take), Some(last)) => self.copy(*rate, *take, last),
            (Act::Settle(..), Some(_)) => {
                text(&["settled", &self.debt_now(None).owed().to_string()])
            }
            (Act::Take(take), None) => {
                self.kind.debt.advance(micros, Some(*rate));
                let before = self.kind.debt.turn;
                let free = self.kind.take_turn(*take);
                let (passes, wait, at) = match free {
                    Some(turn) => (1, turn.at - self.kind.debt.t, turn.at),
                    None => self.kind.debt.take(*take),
                };
                let debt = self.kind.debt;
                let last = Last {
                    number,
                    passes,
                    at,
                    ahead: free.is_some() || at > debt.t,
                };
                self.kind.last.insert(client.to_owned(), last);
                let ends = free.map_or_else(|| debt.mark(), |turn| turn.mark);
                let before = free.map_or(before, |turn| turn.before);
                let mark = [debt.t, ends - debt.t, debt.born, before, wait];
                let mark = mark.map(|number| number.to_string());
                if passes > 0 {
                    self.kind.marks.push(mark.clone());
                }
                passed([passes, wait, debt.owed(), at - debt.back], mark)
            }
            (Act::Settle(tokens, mark), None) => {
                let rate = (self.kind.debt.t == 0).then_some(*rate);
                self.kind.debt.advance(micros, rate);
                self.kind.settle(*tokens, mark);
                let last = Last {
                    number,
                    ..Last::default()
                };
                self.kind.last.insert(client.to_owned(), last);
                text(&["settled", &self.kind.debt.owed().to_string()])
            }
        };
        self.assert_answer(&answer, &verdict);
        if known.is_some() || now > by {
            return self.assert_unchanged(&before, "a copy writes nothing");
        }
        self.check_end(now);
    }

    /// The key ends with the debt, or up to a second later.
    fn check_end(&mut self, now: u64) {
        let life = KEEP.max(self.kind.debt.span().div_ceil(1_000) + 1);
        // Where time moves during a script, PEXPIRE counts from a later millisecond.
        let ttl = self.bed.ttl(KEY).unwrap();
        self.assert(
            (life..=life + 1_001).contains(&ttl),
            "the key ends otherwise",
        );
        self.kind.gone_at = now + ttl;
    }

    /// Returns the answer to a copy, by the debt of now.
    fn copy(&self, rate: Rate, take: Take, last: Last) -> Vec<String> {
        let debt = self.debt_now(Some(rate));
        let (wait, at) = match last {
            Last { passes: 0, .. } => (debt.due(take.cost), debt.t),
            Last {
                ahead: true, at, ..
            } => (at.saturating_sub(debt.t), at),
            _ => (0, last.at),
        };
        let numbers = [last.passes, wait, debt.owed(), at - debt.back];
        passed(numbers, Default::default())
    }

    /// Returns the debt at this time, and leaves the model as it is.
    fn debt_now(&self, rate: Option<Rate>) -> Debt {
        let mut debt = self.kind.debt;
        debt.advance(self.bed.now.micros(), rate);
        debt
    }

    fn look(&mut self) {
        let answer = self.inspect(&Call::new(&LIMIT.look, text(&[KEY]), &[]));
        let Debt { t, rate, .. } = self.kind.debt;
        let now = self.debt_now(None);
        let debt = now.owed();
        if t != 0 && debt > 0 {
            let [ahead, turn] = [now.since, now.turn].map(|at| at.saturating_sub(now.t).min(debt));
            let numbers = [debt, rate.count, rate.period, ahead, turn].map(|n| n.to_string());
            self.assert_answer(&answer, &[&["owes".to_owned()], &numbers[..]].concat());
        } else {
            self.assert_answer(&answer, &["free"]);
        }
    }
}

/// Returns the verdict on a pass.
fn passed(numbers: [u64; 4], mark: Mark) -> Vec<String> {
    let numbers = numbers.map(|number| number.to_string());
    let words = text(&["passed"]).into_iter().chain(numbers);
    words.chain(mark.into_iter().take(4)).collect()
}

fn acquire(by: u64, (client, number): (&str, u64), rate: Rate, take: Take) -> Call {
    let Take { cost, passes, wait } = take;
    let (count, period, burst) = (rate.count, rate.period, rate.burst);
    let terms = format!("{count}/{period}/{burst}/{cost}/{passes}/{wait}");
    call(&LIMIT.acquire, by, client, number, &[terms])
}

fn settle(by: u64, (client, number): (&str, u64), rate: Rate, tokens: i64, mark: &Mark) -> Call {
    let rate = [rate.count, rate.period].map(|number| number.to_string());
    let cost = [COST, tokens].map(|number| number.to_string());
    let own = [&rate[..], &cost, mark].concat();
    call(&LIMIT.settle, by, client, number, &own)
}

fn call(script: &'static Source, by: u64, client: &str, number: u64, own: &[String]) -> Call {
    let head = [
        by.to_string(),
        client.to_owned(),
        KEEP.to_string(),
        format!(":{number}"),
    ];
    Call {
        script,
        keys: vec![KEY.to_owned()],
        args: [&head[..], own].concat(),
    }
}

/// Changes between them are exact.
const RATES: [Rate; 3] = [
    rate(3, 7_000_000, 5),
    rate(1, 200_000, 3),
    rate(1, 1_000_000, 4),
];

const KEY: &str = "p:{t}x";

/// What a settlement says that its pass has cost.
const COST: i64 = 3;

/// How long attempts are remembered, in ms.
const KEEP: u64 = 30_000;

const FOREVER: u64 = 9_999_999_999_999;
