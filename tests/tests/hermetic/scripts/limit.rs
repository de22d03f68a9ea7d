//! The scripts of the rate limiter under random interleavings: attempts that are sent again, late
//! copies, lost replies, settlements, other rates, a clock that is set back. After every script its
//! reply and all data are what the model says.

use redlatch_lua::LIMIT;

use super::prelude::*;

// L37
#[test]
fn limiter_follows_the_model_under_lost_replies_and_late_copies() {
    worlds(|model, seed| world::<Limiter>(model, seed).run());
}

/// A full server takes no pass, refuses as before, and settles.
#[test]
fn pass_is_refused_whole_when_full_or_short_of_replicas() {
    for (condition, code) in [
        (Condition::Full, "OOM"),
        (Condition::ShortOfReplicas, "NOREPLICAS"),
    ] {
        let mut bed = Bed::new(Model::default());
        let take = |n, cost| acquire(("a", n), RATES[0], [cost, 1, 0]);
        let mark = mark_of(&bed.ask(&take(1, 3)));
        let before = bed.dump();
        bed.engine.set_condition(condition, true);
        let error = bed.call(&take(2, 1)).unwrap_err();
        let fits = error.code == code || error.message.contains(code);
        assert!(fits, "{error}");
        assert_eq!(bed.dump(), before);
        let others = [take(3, 3), settle(("a", 4), RATES[0], -3, &mark)];
        let others = others.map(|call| bed.call(&call).map(|answer| answer[2].clone()));
        bed.engine.set_condition(condition, false);
        if condition == Condition::Full {
            assert_eq!(others.map(Result::unwrap), ["0", "0"]);
        } else {
            assert!(others.iter().all(Result::is_err));
            assert_eq!(bed.dump(), before);
        }
    }
}

#[test]
fn model_notices_faults() {
    let (acquire, settle) = (&LIMIT.acquire, &LIMIT.settle);
    let world = |seed| world::<Limiter>(Model::default(), seed);
    for fault in [
        (acquire, "debt - passed", "debt - passed - 1"),
        (acquire, "clock, back = t, format('%.0f', t - micros)", ""),
        (acquire, "max(ceil(debt / 1000) + 1, keep)", "keep"),
        (acquire, "at > turn and at or turn", "at"),
        (
            acquire,
            "clock > born and clock or format('%.0f', born + 1)",
            "born",
        ),
        (settle, "before < turn and before or turn", "turn"),
        (settle, "last or tokens == -cost and at", "at"),
        (acquire, "if at >= clock then", "if true then"),
        (acquire, "turn ~= since and 1 or 0", "1"),
        (acquire, "keep_turns(key, born, others_free)", ""),
        (acquire, "max(wait, since - clock)", "wait"),
        (
            settle,
            "born == ARGV[own + 7] then",
            "ARGV[own + 5] ~= '' then",
        ),
        (acquire, "wait = ahead and", "wait = false and"),
        (settle, "mark - shift - clock, debt", "debt"),
        (settle, "if not refused then", "if true then"),
        (settle, "or last + SLACK < expires", ""),
        (acquire, "last > expires", "false"),
    ] {
        assert_noticed(fault, world, World::run);
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
        let mut world = world::<Limiter>(Model::default(), 1);
        let (rate, start) = ([count, period, 1], world.bed.now.micros());
        for n in 0..300 {
            let at: u64 = world.take(rate, 1, 31_536_000_000_000)[5].parse().unwrap();
            let due = (n * period).div_ceil(count);
            assert_eq!(at - start, due, "{count} in {period} µs");
        }
    }
}

/// Free turns that are the last ones, once later passes are given back, owe nothing.
#[test]
fn free_turns_go_with_the_last_pass() {
    // A pass takes no whole µs.
    let (mut world, rate) = (world::<Limiter>(Model::default(), 1), [7, 1_000_000, 5]);
    world.take(rate, 5, 0);
    let taken = [(); 20].map(|()| world.take(rate, COST, 1_000_000_000));
    for pass in &taken[4..19] {
        let left = world.give_back(rate, pass);
        assert_eq!(left, taken[19][4], "its turn is free");
    }
    let left = world.give_back(rate, &taken[19]);
    assert_eq!(left, taken[3][4], "all free turns go with the last pass");
    assert!(!world.bed.hash(KEY).contains_key("h"));
}

/// A free turn is for passes that cost no more.
#[test]
fn free_turn_is_no_dearer_than_before() {
    let mut world = world::<Limiter>(Model::default(), 1);
    let (rate @ [.., burst], ahead) = (RATES[0], 1_000_000_000);
    world.take(rate, burst, ahead);
    let [first, second] = [(); 2].map(|()| world.take(rate, COST, ahead));
    world.give_back(rate, &first);
    let dear = world.take(rate, burst, ahead);
    assert!(dear[5] > second[5], "{dear:?} is behind {second:?}");
    let cheap = world.take(rate, 1, ahead);
    assert_eq!(cheap[5], first[5]);
    let next = world.take(rate, 1, ahead);
    assert!(next[5] > dear[5], "{next:?} is behind {dear:?}");
}

#[test]
fn call_costs_few_commands_however_many_have_passed() {
    let mut bed = Bed::new(Model::default());
    for n in 0..200 {
        let call = acquire(("a", n), [1, 1_000, 5], [1, 64, 0]);
        costs(&mut bed, &call, ("passed", 4));
        assert!(bed.hash(KEY)["v"].len() < 60);
    }
    let call = settle(("a", 999), [1, 1_000, 5], -1, &Mark::default());
    costs(&mut bed, &call, ("settled", 4));
}

/// Asks with a rate by which the debt takes longer than 365 days.
#[test]
fn rate_that_is_too_slow_for_a_debt_forgives_nothing() {
    let (fast, slow) = ([1, 60_000, 1_000], [1, 86_400_000_000, 1]);
    let mut world = world::<Limiter>(Model::default(), 1);
    let mut passes = |rate, cost| world.take(rate, cost, 0).swap_remove(2);
    assert_eq!(passes(fast, 1_000), "1");
    assert_eq!(passes(slow, 1), "0");
    assert_eq!(passes(fast, 1), "0");
}

/// Entries of attempts are removed however long their numbers are.
#[test]
fn attempts_with_long_numbers_are_forgotten() {
    let mut bed = Bed::new(Model::default());
    let ask = |bed: &mut Bed, client: &str, number| {
        let call = acquire((client, number), [1, 1_000, 100], [1, 64, 0]);
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

/// The tokens that are paid in a period in µs, and the burst.
type Rate = [u64; 3];

/// What a settlement says of a pass: its mark as a sum, `born`, the turn before and the wait. Texts
/// are empty without.
type Mark = [String; 5];

/// Returns the mark of a pass from the answer that gave it.
fn mark_of(taken: &[String]) -> Mark {
    [6, 7, 8, 9, 3].map(|at| taken[at].clone())
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
    count: u128,
    period: u128,
    burst: u64,
    shift: u64,
    turn: u64,
}

/// One limiter.
#[derive(Debug, Default)]
struct Limiter {
    debt: Debt,
    /// The number of the last attempt of each client, and what it has taken.
    last: BTreeMap<String, (u64, Taken)>,
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
    mark: u64,
    before: u64,
}

/// What an attempt has taken: the passes, when they count in µs, and whether they were ahead then.
type Taken = (u64, u64, bool);

impl Limiter {
    /// Brings the debt to this time and rate, and forgets the turns before and of other rates.
    fn advance(&mut self, micros: u64, rate: Option<Rate>) {
        self.debt.advance(micros, rate);
        let debt = self.debt;
        let free = &mut self.free;
        free.retain(|turn| turn.born == debt.born && turn.at >= debt.t);
    }

    fn take_turn(&mut self, cost: u64, within: u64) -> Option<Free> {
        let (debt, wait) = (self.debt, self.debt.due(cost));
        if wait == 0 || within == 0 || debt.turn == 0 {
            return None;
        }
        let fits = |turn: &Free| cost <= COST && turn.at - debt.t <= wait.min(within);
        let free = self.free.iter().enumerate().filter(|(_, turn)| fits(turn));
        let (first, _) = free.min_by_key(|(_, turn)| turn.at)?;
        Some(self.free.remove(first))
    }

    /// Takes passes. Returns what a copy has to know as well.
    fn take(&mut self, terms: &str, micros: u64) -> (Answer, Taken) {
        let (rate, [cost, asked, within]) = read(terms);
        self.advance(micros, Some(rate));
        let before = self.debt.turn;
        let free = self.take_turn(cost, within);
        let (passes, wait, at) = match free {
            Some(turn) => (1, turn.at - self.debt.t, turn.at),
            None => self.debt.take(cost, asked, within),
        };
        let debt = self.debt;
        let ahead = free.is_some() || at > debt.t;
        let ends = free.map_or_else(|| debt.mark(), |turn| turn.mark);
        let before = free.map_or(before, |turn| turn.before);
        let mark = [debt.t, ends - debt.t, debt.born, before, wait];
        let mark = mark.map(|number| number.to_string());
        if passes > 0 {
            self.marks.push(mark.clone());
        }
        let answer = passed([passes, wait, debt.owed(), at - debt.back], &mark);
        (answer, (passes, at, ahead))
    }

    /// Returns the answer to a copy, by the debt of now.
    fn copy(&self, terms: &str, (passes, at, ahead): Taken, micros: u64) -> Answer {
        let (rate, [cost, ..]) = read(terms);
        let debt = self.debt_at(micros, Some(rate));
        let (wait, at) = match passes {
            0 => (debt.due(cost), debt.t),
            _ if ahead => (at.saturating_sub(debt.t), at),
            _ => (0, at),
        };
        let numbers = [passes, wait, debt.owed(), at - debt.back];
        passed(numbers, &Mark::default())
    }

    fn look(&self, micros: u64) -> Answer {
        let debt = self.debt_at(micros, None);
        let owed = if self.debt.t == 0 { 0 } else { debt.owed() };
        if owed == 0 {
            return Answer::of(&["free"]);
        }
        let [ahead, turn] = [debt.since, debt.turn].map(|at| at.saturating_sub(debt.t).min(owed));
        let Debt { count, period, .. } = debt;
        Answer::with(texts(&[&"owes", &owed, &count, &period, &ahead, &turn]))
    }

    /// Returns the debt at this time, and leaves the model as it is.
    fn debt_at(&self, micros: u64, rate: Option<Rate>) -> Debt {
        let mut debt = self.debt;
        debt.advance(micros, rate);
        debt
    }

    fn settle(&mut self, own: &[String], micros: u64) {
        let numbers: Vec<_> = own.iter().map(|text| number(text)).collect();
        let rate = [numbers[0], numbers[1], self.debt.burst];
        let rate = (self.debt.t == 0).then_some(rate);
        self.advance(micros, rate);
        let tokens: i64 = own[3].parse().unwrap();
        let span = u128::from(tokens.unsigned_abs()) * self.debt.period;
        if tokens > 0 {
            self.debt.parts += span;
            return;
        }
        let [from, left, born, before, wait]: [u64; 5] = numbers[4..].try_into().unwrap();
        let (at, mark, debt) = (from + wait, from + left, &mut self.debt);
        if born != debt.born {
            return;
        }
        let last = tokens == GIVEN_BACK && mark == debt.mark();
        if debt.turn == 0 {
            let unpaid = mark.saturating_sub(debt.shift + debt.t);
            let back = (span / debt.count).min(debt.parts / debt.count);
            let back = back.min(unpaid.into());
            debt.parts -= back * debt.count;
            debt.shift += u64::from(!last) * u64::try_from(back).unwrap();
        } else if last || tokens == GIVEN_BACK && at > debt.t {
            self.give_back(Free {
                born,
                at,
                mark,
                before,
            });
        }
    }

    fn give_back(&mut self, free: Free) {
        if !self.free.iter().any(|other| other.mark == free.mark) {
            self.free.push(free);
        }
        let parts = u128::from(COST) * self.debt.period;
        let ends = |debt: Debt, turn: &Free| turn.mark == debt.mark() && parts <= debt.parts;
        while let Some(at) = self.free.iter().rposition(|turn| ends(self.debt, turn)) {
            let turn = self.free.remove(at);
            self.debt.parts -= parts;
            self.debt.turn = self.debt.turn.min(turn.before);
        }
        let surplus = self.free.len().saturating_sub(16);
        self.free.drain(..surplus);
    }
}

impl Debt {
    /// Brings the debt to this time, and to this rate.
    fn advance(&mut self, micros: u64, rate: Option<Rate>) {
        let [count, period, burst] = rate.unwrap_or_else(|| self.rate());
        let (count, period): (u128, u128) = (count.into(), period.into());
        if self.t == 0 {
            *self = Self {
                t: micros,
                born: micros,
                count,
                period,
                ..Self::default()
            };
        }
        self.burst = burst;
        self.back = self.back.max(self.t.saturating_sub(micros));
        let clock = micros + self.back;
        let paid = u128::from(clock - self.t) * self.count;
        self.parts = self.parts.saturating_sub(paid);
        self.t = clock;
        self.turn = if self.turn > clock { self.turn } else { 0 };
        self.since = if self.since > clock { self.since } else { 0 };
        if (count, period) == (self.count, self.period) {
            return;
        }
        self.shift = 0;
        self.born = clock.max(self.born + 1);
        // Tokens are parts / period. Passes that do not count yet stay where they are.
        let rounded = self.turn != self.since;
        self.since = self.since.max(self.turn);
        let ahead = u128::from(self.since.saturating_sub(self.t));
        let ahead = ahead.min(self.parts / self.count);
        let rounded = u128::from(rounded && ahead > 0) * self.count;
        let owed = (self.parts - ahead * self.count + rounded) * period;
        self.parts = (ahead + owed.div_ceil(self.period * count)) * count;
        (self.count, self.period) = (count, period);
    }

    fn rate(&self) -> Rate {
        let whole = |number: u128| u64::try_from(number).unwrap();
        [whole(self.count), whole(self.period), self.burst]
    }

    fn whole(&self, parts: u128) -> u64 {
        u64::try_from(parts.div_ceil(self.count)).unwrap()
    }

    /// Returns the µs until all is paid, rounded up.
    fn owed(&self) -> u64 {
        self.whole(self.parts)
    }

    /// The same, rounded down.
    fn span(&self) -> u64 {
        u64::try_from(self.parts / self.count).unwrap()
    }

    fn mark(&self) -> u64 {
        self.t + self.span() + self.shift
    }

    /// Returns the µs until `tokens` more are within the burst.
    fn due(&self, tokens: u64) -> u64 {
        let room = u128::from(self.burst - tokens) * self.period;
        let due = self.whole(self.parts.saturating_sub(room));
        due.max(self.since.saturating_sub(self.t))
    }

    fn take(&mut self, cost: u64, asked: u64, within: u64) -> (u64, u64, u64) {
        let wait = self.due(cost);
        let fits = |passes: &u64| passes * cost <= self.burst && self.due(passes * cost) == 0;
        let mut passes = (1..=asked).take_while(fits).last().unwrap_or(0);
        let mut at = self.t;
        if passes == 0 && wait <= within {
            (passes, at) = (1, self.t + wait);
            self.turn = self.turn.max(at);
        }
        self.parts += u128::from(passes * cost) * self.period;
        (passes, wait, at)
    }
}

impl Exact for Limiter {
    fn answer(&mut self, call: &Call, micros: u64) -> Answer {
        let [by, client, _, attempt, own @ ..] = &*call.args else {
            return self.look(micros);
        };
        let attempt = number(&attempt[1..]);
        let known = self.last.get(client).copied();
        let known = known.filter(|(last, _)| *last >= attempt);
        let settled = |debt: Debt| Answer::of(&["settled", &debt.owed().to_string()]);
        let (answer, taken) = match (own, known) {
            _ if micros / 1_000 > number(by) => return Answer::of(&["late"]),
            (_, Some((last, _))) if last > attempt => return Answer::of(&["void"]),
            ([terms], Some((_, taken))) => return self.copy(terms, taken, micros),
            (_, Some(_)) => return settled(self.debt_at(micros, None)),
            ([terms], None) => self.take(terms, micros),
            (own, None) => {
                self.settle(own, micros);
                (settled(self.debt), Taken::default())
            }
        };
        self.last.insert(client.clone(), (attempt, taken));
        answer.writing()
    }
}

impl Kind for Limiter {
    type What = Call;
    type Other = Infallible;

    fn act(world: &mut World<Self>, request: Request<Call>) {
        let (attempt, by) = request.change();
        if world.arrive(&attempt, by).writes {
            world.check_end();
        }
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
    /// Takes a pass that counts within this time in µs.
    fn take(&mut self, rate: Rate, cost: u64, wait: u64) -> Vec<String> {
        let id = ("a", self.number().into());
        self.bed.ask(&acquire(id, rate, [cost, 1, wait]))
    }

    /// Gives a pass back. Returns the debt.
    fn give_back(&mut self, rate: Rate, taken: &[String]) -> String {
        let id = ("a", self.number().into());
        let call = settle(id, rate, GIVEN_BACK, &mark_of(taken));
        self.bed.ask(&call).swap_remove(2)
    }

    fn run(mut self) {
        for _ in 0..400 {
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
        let rate = match self.rng.u8(..4) {
            1.. if self.kind.debt.burst > 0 => self.kind.debt.rate(),
            _ => RATES[self.rng.usize(..RATES.len())],
        };
        let client = ["c", "d"][self.rng.usize(..2)];
        let id = (client, u64::from(self.number()));
        let call = if self.rng.u8(..4) == 0 {
            let marks = self.kind.marks.len();
            // The last pass may be given back whole, even if it was taken ahead. Of the last two
            // passes, the one may be given back before the other.
            let (tokens, mark) = match self.rng.bool() {
                true => (GIVEN_BACK, marks.saturating_sub(self.rng.usize(1..3))),
                false => (self.rng.i64(-4..4), self.rng.usize(..=marks)),
            };
            let mark = self.kind.marks.get(mark).cloned();
            settle(id, rate, tokens, &mark.unwrap_or_default())
        } else {
            let (cost, passes) = (self.rng.u64(1..4), [1, 1, 3, 64][self.rng.usize(..4)]);
            let wait = [0, 0, 400_000, 31_536_000_000_000][self.rng.usize(..4)];
            acquire(id, rate, [cost, passes, wait])
        };
        self.begin(format!("{client}:{}", id.1), call);
    }

    /// The key ends with the debt, or up to a second later.
    fn check_end(&mut self) {
        let life = KEEP.max(self.kind.debt.span().div_ceil(1_000) + 1);
        // Where time moves during a script, PEXPIRE counts from a later millisecond.
        let ttl = self.bed.ttl(KEY).unwrap();
        let fits = (life..=life + 1_001).contains(&ttl);
        self.assert(fits, "the key ends otherwise");
        self.kind.gone_at = self.bed.millis() + ttl;
    }

    fn look(&mut self) {
        self.follow(&Call::new(&LIMIT.look, text(&[KEY]), &[]));
    }
}

/// Returns the answer to an attempt at passes.
fn passed([passes, wait, owed, at]: [u64; 4], mark: &Mark) -> Answer {
    let words = texts(&[&"passed", &passes, &wait, &owed, &at]);
    Answer::with([&words[..], &mark[..4]].concat())
}

/// Reads a number. An empty text counts as 0.
fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// Reads the terms of passes: the rate, and their cost, number and time to wait.
fn read(terms: &str) -> (Rate, [u64; 3]) {
    let terms: Vec<_> = terms.split('/').map(number).collect();
    let (rate, take) = terms.split_at(3);
    (rate.try_into().unwrap(), take.try_into().unwrap())
}

fn acquire(id: (&str, u64), rate: Rate, [cost, passes, wait]: [u64; 3]) -> Call {
    let [count, period, burst] = rate;
    let terms = format!("{count}/{period}/{burst}/{cost}/{passes}/{wait}");
    call(&LIMIT.acquire, id, &[terms])
}

fn settle(id: (&str, u64), rate: Rate, tokens: i64, mark: &Mark) -> Call {
    let own = texts(&[&rate[0], &rate[1], &COST, &tokens]);
    call(&LIMIT.settle, id, &[&own[..], mark].concat())
}

fn call(script: &'static Source, id: (&str, u64), own: &[String]) -> Call {
    let (client, number) = id;
    let head = texts(&[&FOREVER, &client, &KEEP, &format!(":{number}")]);
    let (keys, args) = (vec![KEY.to_owned()], [&head[..], own].concat());
    Call { script, keys, args }
}

/// Changes between them are exact.
const RATES: [Rate; 3] = [[3, 7_000_000, 5], [1, 200_000, 3], [1, 1_000_000, 4]];

/// What a settlement says that its pass has cost.
const COST: u64 = 3;

/// The tokens of a settlement that gives such a pass back.
const GIVEN_BACK: i64 = -3;
