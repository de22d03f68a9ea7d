//! Ranges of sorted sets.

use redlatch_core::runtime::{Reply, ServerError, Value};

use crate::engine::{
    Model,
    call::{Call, bulk, error, is, syntax},
    number,
    zset::{ScoreRange, SortedSet},
};

pub(in crate::engine) fn zrange(call: &mut Call<'_>) -> Reply {
    let options = Options::parse(call, 4)?;
    // Servers do not distinguish the limit -1 from no limit.
    if options.limit.is_some_and(|(_, take)| take != -1) && !options.by_score {
        return Err(error(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if !options.by_score {
        let query = Query {
            reversed: options.reversed,
            ..Query::by_rank(call.int(2)?, call.int(3)?)
        };
        return answer(call, &query, &options);
    }
    let (low, high) = if options.reversed { (3, 2) } else { (2, 3) };
    let range = score_range(call.model(), call.args[low], call.args[high])?;
    by_score(call, range, &options)
}

pub(in crate::engine) fn zrangebyscore(call: &mut Call<'_>) -> Reply {
    let options = Options::parse(call, 4)?;
    if options.by_score || options.reversed {
        return Err(syntax());
    }
    let range = score_range(call.model(), call.args[2], call.args[3])?;
    by_score(call, range, &options)
}

/// Reads an interval of scores; a leading parenthesis excludes its end.
pub(super) fn score_range(model: Model, min: &[u8], max: &[u8]) -> Result<ScoreRange, ServerError> {
    let read = |text: &[u8]| {
        let (excluded, digits) = match text.strip_prefix(b"(") {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let score = number::parse_range_end(model, digits);
        score
            .map(|score| (score, excluded))
            .ok_or_else(|| error("ERR min or max is not a float"))
    };
    let ((min, above_min), (max, below_max)) = (read(min)?, read(max)?);
    Ok(ScoreRange {
        min,
        max,
        above_min,
        below_max,
    })
}

/// A query: the members, their order and their number.
pub(super) struct Query {
    pub(super) pick: Pick,
    pub(super) reversed: bool,
    pub(super) skip: usize,
    pub(super) take: usize,
}

/// The members that a query selects.
pub(super) enum Pick {
    /// The members from the first rank to the second, both included. Negative ranks count from the
    /// end.
    Ranks(i64, i64),
    /// The members whose scores are in this interval.
    Scores(ScoreRange),
}

impl Query {
    /// Returns the selection of all members.
    pub(super) const fn all() -> Self {
        Self::by_rank(0, -1)
    }

    pub(super) const fn by_rank(start: i64, stop: i64) -> Self {
        let pick = Pick::Ranks(start, stop);
        Self {
            pick,
            reversed: false,
            skip: 0,
            take: usize::MAX,
        }
    }

    pub(super) fn run(&self, set: &SortedSet) -> Vec<(Vec<u8>, f64)> {
        match self.pick {
            Pick::Ranks(start, stop) => {
                let Some((from, len)) = ranks(start, stop, set.len()) else {
                    return Vec::new();
                };
                self.collect(set.iter(), from, len)
            }
            Pick::Scores(range) => self.collect(set.within(range), 0, usize::MAX),
        }
    }

    fn collect<'a>(
        &self,
        items: impl DoubleEndedIterator<Item = (&'a [u8], f64)>,
        from: usize,
        len: usize,
    ) -> Vec<(Vec<u8>, f64)> {
        let own = |(member, score): (&[u8], f64)| (member.to_vec(), score);
        let skip = from.saturating_add(self.skip);
        let take = len.min(self.take);
        if self.reversed {
            items.rev().skip(skip).take(take).map(own).collect()
        } else {
            items.skip(skip).take(take).map(own).collect()
        }
    }
}

/// Converts ranks as users write them into a start and a length.
fn ranks(start: i64, stop: i64, len: usize) -> Option<(usize, usize)> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let absolute = |rank: i64| {
        if rank < 0 {
            rank.saturating_add(len)
        } else {
            rank
        }
    };
    let (start, stop) = (absolute(start).max(0), absolute(stop).min(len - 1));
    if start > stop {
        return None;
    }
    Some((
        usize::try_from(start).ok()?,
        usize::try_from(stop - start + 1).ok()?,
    ))
}

fn by_score(call: &mut Call<'_>, range: ScoreRange, options: &Options) -> Reply {
    let (skip, take) = options.limit.unwrap_or((0, -1));
    let Ok(skip) = usize::try_from(skip) else {
        // A wrong type is an error even if the reply would be empty.
        call.sorted_set()?;
        return Ok(Value::Array(Vec::new()));
    };
    let take = usize::try_from(take).unwrap_or(usize::MAX);
    let query = Query {
        pick: Pick::Scores(range),
        reversed: options.reversed,
        skip,
        take,
    };
    answer(call, &query, options)
}

fn answer(call: &mut Call<'_>, query: &Query, options: &Options) -> Reply {
    let Some(set) = call.sorted_set()? else {
        return Ok(Value::Array(Vec::new()));
    };
    let items = query.run(set).into_iter();
    Ok(Value::Array(if options.with_scores {
        items
            .flat_map(|(member, score)| [Value::Bulk(member), call.score(score)])
            .collect()
    } else {
        items.map(|(member, _)| bulk(&member)).collect()
    }))
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
    fn parse(call: &Call<'_>, from: usize) -> Result<Self, ServerError> {
        let mut options = Self::default();
        let mut at = from;
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
}
