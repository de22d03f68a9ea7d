//! The sorted set type.

use std::{collections::BTreeMap, sync::Arc};

/// A sorted set: members in order of their scores, and in byte order where scores are equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SortedSet {
    scores: BTreeMap<Arc<[u8]>, f64>,
    /// The members by the places of their scores.
    order: BTreeMap<Place, f64>,
}

/// The [place](place) of a score, and the member.
type Place = (i64, Arc<[u8]>);

impl SortedSet {
    /// Sets the score of `member`.
    pub(super) fn set(&mut self, member: &[u8], score: f64) {
        self.remove(member);
        let member: Arc<[u8]> = member.into();
        self.scores.insert(Arc::clone(&member), score);
        self.order.insert((place(score), member), score);
    }

    /// Removes a member. Returns whether it was there.
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.remove_entry(member) else {
            return false;
        };
        self.order.remove(&(place(score), member));
        true
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Returns the member's rank from the lowest score. The time is proportional to the rank.
    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        self.scores.get(member)?;
        let mut members = self.order.keys();
        members.position(|(_, other)| &**other == member)
    }

    /// Iterates from the lowest score.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        self.order.iter().map(pair)
    }

    /// Iterates over the members whose scores are in `range`, from the lowest.
    pub(super) fn within(
        &self,
        range: ScoreRange,
    ) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        let (min, max) = (range.min.score, range.max.score);
        // No member sorts before the empty one, so the bounds are exact for inclusive ends. The
        // upper bound is the next place above the maximum.
        let first = |place| -> Place { (place, Arc::from(&b""[..])) };
        let bounds = || first(place(min))..first(place(max) + 1);
        let items = (min <= max).then(|| self.order.range(bounds()));
        let items = items.into_iter().flatten().map(pair);
        items.filter(move |(_, score)| range.contains(*score))
    }

    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }
}

fn pair<'a>(((_, member), score): (&'a Place, &f64)) -> (&'a [u8], f64) {
    (member, *score)
}

/// An interval of scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoreRange {
    pub(super) min: End,
    pub(super) max: End,
}

/// An end of an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) score: f64,
    pub(super) excluded: bool,
}

impl ScoreRange {
    fn contains(&self, score: f64) -> bool {
        let is_excluded = |end: End| end.excluded && score == end.score;
        let is_between = (self.min.score..=self.max.score).contains(&score);
        is_between && !is_excluded(self.min) && !is_excluded(self.max)
    }
}

/// Returns the place of a score among the others. A score is never NaN.
fn place(score: f64) -> i64 {
    // The sum makes one of the two zeros, which are equal, as they are in C. The rest is the order
    // of `f64::total_cmp`.
    let bits = (score + 0.0).to_bits().cast_signed();
    bits ^ ((bits >> 63) & i64::MAX)
}
