//! The sorted set type.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

/// A sorted set: members in order of their scores, and in byte order where scores are equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SortedSet {
    scores: BTreeMap<Arc<[u8]>, f64>,
    order: BTreeSet<(Score, Arc<[u8]>)>,
}

impl SortedSet {
    /// Sets the score of `member`.
    pub(super) fn set(&mut self, member: &[u8], score: f64) {
        self.remove(member);
        let member: Arc<[u8]> = member.into();
        self.scores.insert(Arc::clone(&member), score);
        self.order.insert((Score(score), member));
    }

    /// Removes a member. Returns whether it was there.
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.remove_entry(member) else {
            return false;
        };
        self.order.remove(&(Score(score), member));
        true
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Returns the member's rank from the lowest score. The time is proportional to the rank.
    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        self.scores.get(member)?;
        self.order.iter().position(|(_, other)| &**other == member)
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
        // upper bound is the next number above the maximum.
        let first = |score| (Score(score), Arc::from(&b""[..]));
        let end = match max {
            f64::INFINITY => Bound::Unbounded,
            max => Bound::Excluded(first(max.next_up())),
        };
        let items = (min <= max).then(|| self.order.range((Bound::Included(first(min)), end)));
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

fn pair((score, member): &(Score, Arc<[u8]>)) -> (&[u8], f64) {
    (member, score.0)
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

/// A score, never NaN. The two zeros are equal, as they are in C.
#[derive(Clone, Copy, Debug)]
struct Score(f64);

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}
