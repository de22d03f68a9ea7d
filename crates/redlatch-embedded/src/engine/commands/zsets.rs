//! The commands on sorted sets.

use redlatch_core::runtime::{Reply, ServerError, Value};

use super::zrange::{Members, score_range, take, with_scores};
pub(in crate::engine) use super::zrange::{zrange, zrangebyscore};
use crate::engine::{
    call::{Call, count, error, is, not_a_float, syntax},
    number,
    zset::SortedSet,
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
