//! The renewals that wait for one server, and the limit on those under way.

use std::{collections::BTreeMap, time::Duration};

use super::time::Moment;

/// The renewals of one server, the most urgent first.
///
/// The number under way is limited to the number that the server answers promptly. A more urgent
/// renewal can overtake a waiting one, whose time-out has not begun.
///
/// The window stores one payload per renewal. Order of use:
///
/// * [`push`](Self::push) for each renewal.
/// * [`take`](Self::take) until it returns `None`.
/// * For each pipeline taken, exactly one of [`answered`](Self::answered),
///   [`unanswered`](Self::unanswered) and [`dropped`](Self::dropped).
///
/// The limit follows the slow start of V. Jacobson, "Congestion Avoidance and Control", SIGCOMM
/// 1988, and the delay rule of L. Brakmo, S. O'Malley and L. Peterson, "TCP Vegas", SIGCOMM 1994.
/// It grows while answers are prompt, and is halved when they are late.
#[derive(Debug)]
pub(crate) struct RenewalWindow<T> {
    waiting: BTreeMap<(Moment, u64), T>,
    /// How many renewals may be under way.
    size: usize,
    under_way: usize,
    pipelines: usize,
    most_pipelines: usize,
    /// The time of the last answer.
    heard: Moment,
    /// When the first unanswered pipeline since the last answer was sent.
    quiet_since: Option<Moment>,
}

impl<T> RenewalWindow<T> {
    /// Returns an empty window with at most `most_pipelines` pipelines under way.
    pub(crate) const fn new(most_pipelines: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            size: LEAST,
            under_way: 0,
            pipelines: 0,
            most_pipelines,
            heard: Moment::ORIGIN,
            quiet_since: None,
        }
    }

    /// Adds the renewal of `id`, whose answer has to arrive before `deadline`.
    pub(crate) fn push(&mut self, deadline: Moment, id: u64, payload: T) {
        self.waiting.insert((deadline, id), payload);
    }

    /// Removes and returns one pipeline of the most urgent renewals. Returns `None` if no renewal
    /// waits, or if the limit is reached.
    pub(crate) fn take(&mut self) -> Option<Vec<(u64, T)>> {
        // With several pipelines at once, one late pipeline must not contain the whole window.
        let share = self.size / self.most_pipelines.clamp(1, 4);
        let most = share.min(PIPELINE);
        let count = most.min(self.waiting.len());
        let full = self.under_way + count > self.size || self.pipelines == self.most_pipelines;
        if count == 0 || full {
            return None;
        }
        self.under_way += count;
        self.pipelines += 1;
        let first = std::iter::from_fn(|| self.waiting.pop_first());
        let taken = first.take(count).map(|((_, id), payload)| (id, payload));
        Some(taken.collect())
    }

    /// Records that a pipeline of `count` renewals, sent at `sent`, was answered at `now`. `usual`
    /// is the longest time of an answer without queueing at the server. `patience` is the longest
    /// acceptable queueing time.
    pub(crate) fn answered(
        &mut self,
        count: usize,
        sent: Moment,
        now: Moment,
        usual: Duration,
        patience: Duration,
    ) {
        self.dropped(count);
        self.heard = now;
        self.quiet_since = None;
        let waited = (now - sent).saturating_sub(usual);
        if waited <= patience / 2 {
            self.size = (self.size + count).min(MOST);
        } else if waited > patience {
            self.shrink();
        }
    }

    /// Records at `now` that a pipeline of `count` renewals, sent at `sent`, had no answer in time.
    ///
    /// The waiting renewals stay. If no other pipeline was answered since `sent`, the limit falls
    /// to the minimum. Returns whether the server has been silent for so long that it seems dead. A
    /// single pipeline with a short lease, and hence a short time-out, does not suffice for that.
    pub(crate) fn unanswered(&mut self, count: usize, sent: Moment, now: Moment) -> bool {
        self.dropped(count);
        if self.heard > sent {
            self.shrink();
            return false;
        }
        self.size = LEAST;
        let quiet_since = self.quiet_since.map_or(sent, |since| since.min(sent));
        self.quiet_since = Some(quiet_since);
        now - quiet_since >= SILENCE
    }

    /// Returns the waiting renewals, the most urgent first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &T> {
        self.waiting.values()
    }

    /// Records that a pipeline of `count` renewals was not sent, because none of them was needed
    /// any more.
    pub(crate) const fn dropped(&mut self, count: usize) {
        self.under_way -= count;
        self.pipelines -= 1;
    }

    /// Returns whether no renewal waits and none is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.pipelines == 0
    }

    fn shrink(&mut self) {
        self.size = (self.size / 2).max(LEAST);
    }
}

/// Maximum number of renewals in one pipeline.
const PIPELINE: usize = 256;

/// Minimum of the limit, and its value before the first answer. A lower minimum would suit a server
/// that needs 20 ms per renewal. But late answers mostly mean that this machine is busy, and
/// smaller pipelines would add to its load.
const LEAST: usize = 64;

/// A server without any answer for this long seems dead. No request waits longer than this for its
/// answer.
const SILENCE: Duration = Duration::from_secs(1);

/// Maximum of the limit: 10,000 renewals per second with answers after 400 ms.
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::time::at;

    const MS: Duration = Duration::from_millis(1);

    fn window(waiting: u64) -> RenewalWindow<()> {
        let mut window = RenewalWindow::new(usize::MAX);
        (0..waiting).for_each(|id| window.push(at(1000 + id), id, ()));
        window
    }

    /// Takes pipelines until the limit is reached.
    fn fill(window: &mut RenewalWindow<()>) -> Vec<usize> {
        std::iter::from_fn(|| window.take().map(|taken| taken.len())).collect()
    }

    #[test]
    fn more_go_to_a_server_that_answers_at_once_and_fewer_to_a_slow_one() {
        let mut window = window(1_000_000);
        for _ in 0..10 {
            for count in fill(&mut window) {
                window.answered(count, at(0), at(600), 100 * MS, 1000 * MS);
            }
        }
        let pipelines = fill(&mut window);
        assert_eq!(pipelines, [PIPELINE; 16]);
        let mut late = |count| window.answered(count, at(0), at(1200), 100 * MS, 1000 * MS);
        (0..2).for_each(|_| late(PIPELINE));
        (2..8).for_each(|_| window.dropped(PIPELINE));
        assert!(
            fill(&mut window).is_empty(),
            "a quarter, and twice that is under way"
        );
        (8..16).for_each(|_| window.dropped(PIPELINE));
        assert_eq!(fill(&mut window), [PIPELINE; 4]);
        window.answered(PIPELINE, at(0), at(900), 100 * MS, 1000 * MS);
        assert_eq!(fill(&mut window), [PIPELINE], "neither late nor at once");
    }

    #[test]
    fn pipelines_that_block_each_other_go_one_by_one() {
        let mut window = RenewalWindow::new(1);
        (0..1000).for_each(|id| window.push(at(id), id, ()));
        assert_eq!(fill(&mut window), [64]);
        window.answered(64, at(0), at(10), 10 * MS, 1000 * MS);
        assert_eq!(fill(&mut window), [128]);
        window.answered(128, at(0), at(10), 10 * MS, 1000 * MS);
        assert_eq!(fill(&mut window), [PIPELINE]);
    }

    #[test]
    fn renewals_behind_a_silent_server_stay_in_order() {
        let mut window = window(100);
        assert_eq!(fill(&mut window), [16; 4]);
        assert!(window.unanswered(16, at(5), at(1005)), "it seems dead");
        assert_eq!(window.waiting().count(), 36);
        let taken = window.take().unwrap().into_iter();
        assert!(taken.map(|(id, ())| id).eq(64..80));
        (0..4).for_each(|_| window.dropped(16));
        assert_eq!(fill(&mut window), [16, 4]);
        window.dropped(16);
        window.dropped(4);
        assert!(window.is_idle());
    }

    #[test]
    fn one_pipeline_with_little_time_does_not_tell_that_a_server_is_dead() {
        let mut window = window(100);
        assert_eq!(fill(&mut window), [16; 4]);
        assert!(!window.unanswered(16, at(5), at(15)));
        assert!(!window.unanswered(16, at(10), at(1004)));
        assert!(window.unanswered(16, at(995), at(1005)), "silent since 5");
        window.answered(16, at(1005), at(1006), MS, 1000 * MS);
        assert_eq!(fill(&mut window), [20, 16]);
        assert!(!window.unanswered(20, at(1006), at(2005)));
        assert!(window.unanswered(16, at(1006), at(2006)));
    }

    #[test]
    fn unanswered_pipeline_delays_nothing_while_others_are_answered() {
        let mut window = window(100);
        assert_eq!(fill(&mut window), [16; 4]);
        window.answered(16, at(5), at(900), MS, 1000 * MS);
        assert!(!window.unanswered(16, at(5), at(1005)));
        assert_eq!(fill(&mut window), [16; 2]);
    }
}
