//! The commands on sorted sets.

use redlatch_core::runtime::{Reply, ServerError, Value};

use super::zrange::{self, Pick, Query};
use crate::engine::{
    Model,
    call::{Call, count, error, is, not_a_float, syntax},
    number,
    zset::SortedSet,
};

pub(in crate::engine) use super::zrange::{zrange, zrangebyscore};

pub(in crate::engine) fn zadd(call: &mut Call<'_>) -> Reply {
    let (options, rest) = AddOptions::parse(call.model(), &call.args[2..]);
    add(call, &options, rest)
}

/// Runs `ZINCRBY`. It parses the options of `ZADD` too, as servers do, although its number of
/// arguments leaves no room for them.
pub(in crate::engine) fn zincrby(call: &mut Call<'_>) -> Reply {
    let (options, rest) = AddOptions::parse(call.model(), &call.args[2..]);
    add(
        call,
        &AddOptions {
            incr: true,
            ..options
        },
        rest,
    )
}

fn add(call: &mut Call<'_>, options: &AddOptions, rest: &[&[u8]]) -> Reply {
    let pairs = options.pairs(rest)?;
    if call.sorted_set()?.is_none() && options.if_present {
        return Ok(if options.incr {
            Value::Nil
        } else {
            Value::Int(0)
        });
    }
    let put = options.put_all(call.sorted_set_or_new()?, &pairs);
    call.drop_if_empty();
    let tally = put?;
    if options.incr {
        return Ok(tally.last.map_or(Value::Nil, |score| call.score(score)));
    }
    let changed = if options.count_changed {
        tally.changed
    } else {
        0
    };
    Ok(Value::Int(tally.added + changed))
}

pub(in crate::engine) fn zrem(call: &mut Call<'_>) -> Reply {
    let members = &call.args[2..];
    let Some(set) = call.sorted_set()? else {
        return Ok(Value::Int(0));
    };
    let gone = members.iter().filter(|member| set.remove(member)).count();
    call.drop_if_empty();
    Ok(count(gone))
}

pub(in crate::engine) fn zscore(call: &mut Call<'_>) -> Reply {
    let member = call.args[2];
    let score = call.sorted_set()?.and_then(|set| set.score(member));
    Ok(score.map_or(Value::Nil, |score| call.score(score)))
}

pub(in crate::engine) fn zrank(call: &mut Call<'_>) -> Reply {
    let member = call.args[2];
    if call.args.len() > 4 {
        return Err(call.wrong_arity());
    }
    let with_score = call.args.len() == 4;
    if with_score && !is(call.args[3], "WITHSCORE") {
        return Err(syntax());
    }
    let found = call
        .sorted_set()?
        .and_then(|set| Some((set.rank(member)?, set.score(member)?)));
    Ok(match found {
        None => Value::Nil,
        Some((rank, score)) if with_score => Value::Array(vec![count(rank), call.score(score)]),
        Some((rank, _)) => count(rank),
    })
}

pub(in crate::engine) fn zcard(call: &mut Call<'_>) -> Reply {
    Ok(count(call.sorted_set()?.map_or(0, |set| set.len())))
}

pub(in crate::engine) fn zcount(call: &mut Call<'_>) -> Reply {
    let range = zrange::score_range(call.model(), call.args[2], call.args[3])?;
    Ok(count(
        call.sorted_set()?
            .map_or(0, |set| set.within(range).count()),
    ))
}

pub(in crate::engine) fn zpopmin(call: &mut Call<'_>) -> Reply {
    let how_many = match call.args {
        [_, _] => 1,
        [_, _, _] => call.int(2).map_err(|error| positive_only(call, error))?,
        _ => return Err(syntax()),
    };
    if how_many < 0 && call.model().is_seven() {
        return Err(error("ERR value is out of range, must be positive"));
    }
    let how_many = usize::try_from(how_many).unwrap_or(0);
    if how_many == 0 && !call.model().is_seven() {
        // The reply does not depend on the value under the key, so the type is not checked.
        return Ok(Value::Array(Vec::new()));
    }
    let query = Query {
        skip: 0,
        take: how_many,
        ..Query::all()
    };
    Ok(remove(call, &query)?.into_reply(call))
}

pub(in crate::engine) fn zremrangebyrank(call: &mut Call<'_>) -> Reply {
    let query = Query::by_rank(call.int(2)?, call.int(3)?);
    Ok(count(remove(call, &query)?.0.len()))
}

pub(in crate::engine) fn zremrangebyscore(call: &mut Call<'_>) -> Reply {
    let range = zrange::score_range(call.model(), call.args[2], call.args[3])?;
    let query = Query {
        pick: Pick::Scores(range),
        ..Query::all()
    };
    Ok(count(remove(call, &query)?.0.len()))
}

/// Returns the error for a count that is not positive. Servers since 7.0 parse this count
/// differently, and their error has another text.
fn positive_only(call: &Call<'_>, error: ServerError) -> ServerError {
    match call.model() {
        Model::Redis6_2 => error,
        _ => self::error("ERR value is out of range, must be positive"),
    }
}

/// The removed members, with their scores.
struct Removed(Vec<(Vec<u8>, f64)>);

impl Removed {
    fn into_reply(self, call: &Call<'_>) -> Value {
        let items = self.0.into_iter();
        let pairs = items.flat_map(|(member, score)| [Value::Bulk(member), call.score(score)]);
        Value::Array(pairs.collect())
    }
}

fn remove(call: &mut Call<'_>, query: &Query) -> Result<Removed, ServerError> {
    let Some(set) = call.sorted_set()? else {
        return Ok(Removed(Vec::new()));
    };
    let gone = query.run(set);
    for (member, _) in &gone {
        set.remove(member);
    }
    call.drop_if_empty();
    Ok(Removed(gone))
}

/// The options of `ZADD`.
#[derive(Default)]
struct AddOptions {
    if_absent: bool,
    if_present: bool,
    if_greater: bool,
    if_less: bool,
    count_changed: bool,
    incr: bool,
    /// Whether a negative zero stays negative. Small sorted sets of newer servers store whole
    /// scores as integers, which have no negative zero.
    keeps_negative_zero: bool,
}

/// The results of all members of one command.
#[derive(Default)]
struct Tally {
    added: i64,
    changed: i64,
    last: Option<f64>,
}

/// The result of one member.
enum Put {
    Skipped,
    Added(f64),
    Updated { score: f64, moved: bool },
}

impl AddOptions {
    /// Reads the options at the front. Returns them and the arguments that follow.
    fn parse<'a, 'b>(model: Model, args: &'b [&'a [u8]]) -> (Self, &'b [&'a [u8]]) {
        let keeps_negative_zero = !model.is_seven();
        let mut options = Self {
            keeps_negative_zero,
            ..Self::default()
        };
        let mut rest = args;
        while let [arg, tail @ ..] = rest {
            let option = match arg {
                _ if is(arg, "NX") => &mut options.if_absent,
                _ if is(arg, "XX") => &mut options.if_present,
                _ if is(arg, "GT") => &mut options.if_greater,
                _ if is(arg, "LT") => &mut options.if_less,
                _ if is(arg, "CH") => &mut options.count_changed,
                _ if is(arg, "INCR") => &mut options.incr,
                _ => break,
            };
            *option = true;
            rest = tail;
        }
        (options, rest)
    }

    /// Reads the scores and members, after the checks that servers make first.
    fn pairs<'a>(&self, rest: &[&'a [u8]]) -> Result<Vec<(f64, &'a [u8])>, ServerError> {
        if rest.is_empty() || !rest.len().is_multiple_of(2) {
            return Err(syntax());
        }
        if self.if_absent && self.if_present {
            return Err(error(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        let exclusive = [self.if_absent, self.if_greater, self.if_less];
        if exclusive.into_iter().filter(|set| *set).count() > 1 {
            return Err(error(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.incr && rest.len() > 2 {
            return Err(error(
                "ERR INCR option supports a single increment-element pair",
            ));
        }
        let pairs = rest.chunks_exact(2).map(|pair| {
            Ok((
                number::parse_float(pair[0]).ok_or_else(not_a_float)?,
                pair[1],
            ))
        });
        pairs.collect()
    }

    fn put_all(&self, set: &mut SortedSet, pairs: &[(f64, &[u8])]) -> Result<Tally, ServerError> {
        let mut tally = Tally::default();
        for (score, member) in pairs {
            match self.put(set, member, *score)? {
                Put::Skipped => {}
                Put::Added(score) => {
                    tally.added += 1;
                    tally.last = Some(score);
                }
                Put::Updated { score, moved } => {
                    tally.changed += i64::from(moved);
                    tally.last = Some(score);
                }
            }
        }
        Ok(tally)
    }

    fn put(&self, set: &mut SortedSet, member: &[u8], score: f64) -> Result<Put, ServerError> {
        let Some(current) = set.score(member) else {
            if self.if_present {
                return Ok(Put::Skipped);
            }
            set.set(member, self.stored(score));
            return Ok(Put::Added(score));
        };
        if self.if_absent {
            return Ok(Put::Skipped);
        }
        let score = if self.incr { current + score } else { score };
        if score.is_nan() {
            return Err(error("ERR resulting score is not a number (NaN)"));
        }
        if self.if_less && score >= current || self.if_greater && score <= current {
            return Ok(Put::Skipped);
        }
        let moved = score != current;
        if moved {
            set.set(member, self.stored(score));
        }
        Ok(Put::Updated { score, moved })
    }

    fn stored(&self, score: f64) -> f64 {
        if self.keeps_negative_zero {
            score
        } else {
            score + 0.0
        }
    }
}
