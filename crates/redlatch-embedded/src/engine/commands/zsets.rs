//! The commands on sorted sets.

use redlatch_core::runtime::{Reply, ServerError, Value};

use crate::engine::{
    Model,
    call::{Call, bulk, count, error, is, not_a_float, syntax},
    number,
    zset::{End, ScoreRange, SortedSet},
};

pub(in crate::engine) fn zadd(call: &mut Call<'_>) -> Reply {
    let (mut if_absent, mut if_present) = (false, false);
    let mut rest = &call.args[2..];
    while let [arg, tail @ ..] = rest {
        if is(arg, "NX") {
            if_absent = true;
        } else if is(arg, "XX") {
            if_present = true;
        } else {
            break;
        }
        rest = tail;
    }
    if rest.is_empty() || !rest.len().is_multiple_of(2) {
        return Err(syntax());
    }
    if if_absent && if_present {
        return Err(error(
            "ERR XX and NX options at the same time are not compatible",
        ));
    }
    let pairs = rest.chunks_exact(2).map(|pair| {
        let score = number::parse_float(pair[0]).ok_or_else(not_a_float)?;
        Ok((score, pair[1]))
    });
    let pairs = pairs.collect::<Result<Vec<_>, ServerError>>()?;
    if call.sorted_set()?.is_none() && if_present {
        return Ok(Value::Int(0));
    }
    // Small sorted sets of newer servers store whole scores as integers, which have no negative
    // zero.
    let seven = call.model().is_seven();
    let stored = |score: f64| if seven { score + 0.0 } else { score };
    let set = call.sorted_set_or_new()?;
    let mut added = 0;
    for (score, member) in pairs {
        let current = set.score(member);
        let is_refused = current.map_or(if_present, |_| if_absent);
        if !is_refused && current != Some(score) {
            set.set(member, stored(score));
            added += i64::from(current.is_none());
        }
    }
    call.drop_if_empty();
    Ok(Value::Int(added))
}

pub(in crate::engine) fn zrem(call: &mut Call<'_>) -> Reply {
    let members = call.args[2..].iter();
    let set = call.sorted_set()?;
    let gone = set.map_or(0, |set| members.filter(|member| set.remove(member)).count());
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
    let rank = call.sorted_set()?.and_then(|set| set.rank(member));
    Ok(rank.map_or(Value::Nil, count))
}

pub(in crate::engine) fn zcard(call: &mut Call<'_>) -> Reply {
    Ok(count(call.sorted_set()?.map_or(0, |set| set.len())))
}

pub(in crate::engine) fn zcount(call: &mut Call<'_>) -> Reply {
    let range = score_range(call.model(), call.args[2], call.args[3])?;
    let set = call.sorted_set()?;
    Ok(count(set.map_or(0, |set| set.within(range).count())))
}

pub(in crate::engine) fn zpopmin(call: &mut Call<'_>) -> Reply {
    let seven = call.model().is_seven();
    let positive_only = || error("ERR value is out of range, must be positive");
    let how_many = match call.args {
        [_, _] => 1,
        // Servers since 7.0 parse this count differently, and their error has another text.
        [_, _, _] if seven => call.int(2).map_err(|_| positive_only())?,
        [_, _, _] => call.int(2)?,
        _ => return Err(syntax()),
    };
    if how_many < 0 && seven {
        return Err(positive_only());
    }
    let how_many = usize::try_from(how_many).unwrap_or(0);
    if how_many == 0 && !seven {
        // The reply does not depend on the value under the key, so the type is not checked.
        return Ok(Value::Array(Vec::new()));
    }
    let gone = remove(call, |set| take(set.iter(), false, (0, how_many)))?;
    Ok(with_scores(call, gone))
}

pub(in crate::engine) fn zremrangebyscore(call: &mut Call<'_>) -> Reply {
    let range = score_range(call.model(), call.args[2], call.args[3])?;
    let all = |set: &SortedSet| take(set.within(range), false, (0, usize::MAX));
    Ok(count(remove(call, all)?.len()))
}

/// Removes the members that `pick` returns. Returns them.
fn remove(
    call: &mut Call<'_>,
    pick: impl FnOnce(&SortedSet) -> Members,
) -> Result<Members, ServerError> {
    let Some(set) = call.sorted_set()? else {
        return Ok(Members::new());
    };
    let gone = pick(set);
    for (member, _) in &gone {
        set.remove(member);
    }
    call.drop_if_empty();
    Ok(gone)
}

/// Members with their scores.
type Members = Vec<(Vec<u8>, f64)>;

pub(in crate::engine) fn zrange(call: &mut Call<'_>) -> Reply {
    let options = Options::parse(call)?;
    // Servers do not distinguish the limit -1 from no limit.
    if options.limit.is_some_and(|(_, take)| take != -1) && !options.by_score {
        return Err(error(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if !options.by_score {
        let (start, stop) = (call.int(2)?, call.int(3)?);
        let set = call.sorted_set()?;
        let found = set.and_then(|set| {
            let part = ranks(start, stop, set.len())?;
            Some(take(set.iter(), options.reversed, part))
        });
        return Ok(options.show(call, found.unwrap_or_default()));
    }
    let (low, high) = if options.reversed { (3, 2) } else { (2, 3) };
    let range = score_range(call.model(), call.args[low], call.args[high])?;
    by_score(call, range, &options)
}

pub(in crate::engine) fn zrangebyscore(call: &mut Call<'_>) -> Reply {
    let options = Options::parse(call)?;
    if options.by_score || options.reversed {
        return Err(syntax());
    }
    let range = score_range(call.model(), call.args[2], call.args[3])?;
    by_score(call, range, &options)
}

/// Reads an interval of scores; a leading parenthesis excludes its end.
fn score_range(model: Model, min: &[u8], max: &[u8]) -> Result<ScoreRange, ServerError> {
    let read = |text: &[u8]| {
        let (excluded, digits) = match text.strip_prefix(b"(") {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let score = number::parse_range_end(model, digits);
        let score = score.ok_or_else(|| error("ERR min or max is not a float"))?;
        Ok(End { score, excluded })
    };
    let (min, max) = (read(min)?, read(max)?);
    Ok(ScoreRange { min, max })
}

/// Takes some of the members: those behind the first `skip`, and no more than `most`.
fn take<'a>(
    members: impl DoubleEndedIterator<Item = (&'a [u8], f64)>,
    reversed: bool,
    (skip, most): (usize, usize),
) -> Members {
    let own = |(member, score): (&[u8], f64)| (member.to_vec(), score);
    match reversed {
        true => members.rev().skip(skip).take(most).map(own).collect(),
        false => members.skip(skip).take(most).map(own).collect(),
    }
}

/// Returns members and their scores as a reply.
fn with_scores(call: &Call<'_>, members: Members) -> Value {
    let pairs = members.into_iter();
    let pairs = pairs.flat_map(|(member, score)| [Value::Bulk(member), call.score(score)]);
    Value::Array(pairs.collect())
}

/// Converts ranks as users write them into a start and a length.
fn ranks(start: i64, stop: i64, len: usize) -> Option<(usize, usize)> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let absolute = |rank: i64| match rank {
        0.. => rank,
        _ => rank.saturating_add(len),
    };
    let (start, stop) = (absolute(start).max(0), absolute(stop).min(len - 1));
    if start > stop {
        return None;
    }
    let count = usize::try_from(stop - start + 1).ok()?;
    Some((usize::try_from(start).ok()?, count))
}

fn by_score(call: &mut Call<'_>, range: ScoreRange, options: &Options) -> Reply {
    let (skip, most) = options.limit.unwrap_or((0, -1));
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    // A wrong type is an error even if the reply is empty, as it is for a negative `skip`.
    let found = match (call.sorted_set()?, usize::try_from(skip)) {
        (Some(set), Ok(skip)) => take(set.within(range), options.reversed, (skip, most)),
        _ => Members::new(),
    };
    Ok(options.show(call, found))
}

/// The options of the range commands.
#[derive(Default)]
struct Options {
    by_score: bool,
    reversed: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

impl Options {
    fn parse(call: &Call<'_>) -> Result<Self, ServerError> {
        let mut options = Self::default();
        let mut at = 4;
        while let Some(arg) = call.args.get(at) {
            if is(arg, "WITHSCORES") {
                options.with_scores = true;
            } else if is(arg, "LIMIT") && at + 2 < call.args.len() {
                options.limit = Some((call.int(at + 1)?, call.int(at + 2)?));
                at += 2;
            } else if is(arg, "REV") && !options.reversed {
                options.reversed = true;
            } else if is(arg, "BYSCORE") && !options.by_score {
                options.by_score = true;
            } else if is(arg, "BYLEX") {
                return Err(error("ERR BYLEX is not supported by the embedded engine"));
            } else {
                return Err(syntax());
            }
            at += 1;
        }
        Ok(options)
    }

    fn show(&self, call: &Call<'_>, members: Members) -> Value {
        if self.with_scores {
            return with_scores(call, members);
        }
        Value::Array(members.iter().map(|(member, _)| bulk(member)).collect())
    }
}
