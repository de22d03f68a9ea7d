//! When a command is told to end, and when it is killed. Pure: time is an argument.

use std::time::Duration;

use super::Cut;
use crate::app::{args::KillArgs, exit::Failure};

/// How much time a command has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// How long a hold lasts without a renewal.
    pub(crate) lease: Duration,
    /// The time from TERM to KILL.
    pub(crate) kill_after: Duration,
    /// The time that the command may take.
    pub(crate) limit: Option<Duration>,
}

impl Patience {
    /// Checks the options. `default` is the lease without an option. A renewal comes when two
    /// thirds of a lease are left, so the end of a hold can only be told within the last half of
    /// it.
    pub(crate) fn of(args: &KillArgs, default: Duration) -> Result<Self, Failure> {
        let lease = args.lease.unwrap_or(default);
        let kill_after = args.kill_after;
        if lease < Duration::from_secs(1) {
            return Err(Failure::usage("--lease is at least 1s"));
        }
        let kill_after = kill_after.unwrap_or_else(|| DEFAULT.min(lease / 3));
        if kill_after > lease / 2 {
            return Err(Failure::usage("--kill-after is at most half of --lease"));
        }
        Ok(Self {
            lease,
            kill_after,
            limit: None,
        })
    }
}

const DEFAULT: Duration = Duration::from_secs(5);

/// The signal to send to the group of a command, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Term,
    Kill,
}

/// The state of the kill rule for one command.
#[derive(Debug)]
pub(super) struct Rule {
    patience: Patience,
    started: Duration,
    stage: Stage,
    /// Why the command was told to end, or killed.
    pub(super) cut: Option<Cut>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Working,
    /// TERM was sent, and KILL comes at this time.
    Ending(Duration),
    Killed,
}

impl Rule {
    pub(super) const fn new(patience: Patience, started: Duration) -> Self {
        Self {
            patience,
            started,
            stage: Stage::Working,
            cut: None,
        }
    }

    /// Decides at `now`, when the hold lasts for `remaining` unless it is renewed.
    ///
    /// A hold that is over comes first. So after a suspension KILL is sent before anything else.
    pub(super) fn step(&mut self, now: Duration, remaining: Duration) -> Action {
        if remaining.is_zero() && self.stage != Stage::Killed {
            self.stage = Stage::Killed;
            self.cut = Some(Cut::Lost);
            return Action::Kill;
        }
        match self.stage {
            Stage::Working if remaining <= self.patience.kill_after => {
                self.cut = Some(Cut::Lost);
                self.stage = Stage::Ending(now + remaining);
                Action::Term
            }
            Stage::Working if self.limit_in(now).is_some_and(|left| left.is_zero()) => {
                self.cut = Some(Cut::Overran);
                self.end(now, remaining)
            }
            Stage::Ending(kill_at) if now >= kill_at => {
                self.stage = Stage::Killed;
                Action::Kill
            }
            _ => Action::Nothing,
        }
    }

    /// Decides after the renewal of the hold was forbidden. It still lasts for `remaining`.
    pub(super) fn forbidden(&mut self, now: Duration, remaining: Duration) -> Action {
        if self.stage != Stage::Working || remaining.is_zero() {
            return Action::Nothing;
        }
        self.cut = Some(Cut::Lost);
        self.end(now, remaining)
    }

    /// Decides after the leader of the group has ended, and left others behind.
    pub(super) fn left_behind(&mut self, now: Duration, remaining: Duration) -> Action {
        match self.stage {
            Stage::Working => self.end(now, remaining),
            Stage::Ending(_) | Stage::Killed => Action::Nothing,
        }
    }

    fn end(&mut self, now: Duration, remaining: Duration) -> Action {
        self.stage = Stage::Ending(now + self.patience.kill_after.min(remaining));
        Action::Term
    }

    /// Returns when to decide again at the latest. A renewal has to be seen well before the
    /// deadline that it moves, so the steps become shorter towards it.
    pub(super) fn pause(&self, now: Duration, remaining: Duration) -> Duration {
        let until = match self.stage {
            Stage::Working => {
                let term = remaining.saturating_sub(self.patience.kill_after);
                term.min(self.limit_in(now).unwrap_or(term))
            }
            Stage::Ending(kill_at) => kill_at.saturating_sub(now).min(LOOK),
            Stage::Killed => LOOK,
        };
        until.min(remaining / 10).max(SHORTEST)
    }

    /// Returns whether KILL was sent.
    pub(super) fn is_killed(&self) -> bool {
        self.stage == Stage::Killed
    }

    fn limit_in(&self, now: Duration) -> Option<Duration> {
        let end = self.started + self.patience.limit?;
        Some(end.saturating_sub(now))
    }
}

/// The time between two looks at a group that has to end.
const LOOK: Duration = Duration::from_millis(20);

const SHORTEST: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn rule(limit: Option<Duration>) -> Rule {
        Rule::new(
            Patience {
                lease: s(30),
                kill_after: s(5),
                limit,
            },
            s(100),
        )
    }

    #[test]
    fn term_comes_before_the_deadline_and_kill_at_it() {
        let mut rule = rule(None);
        assert_eq!(rule.step(s(100), s(30)), Action::Nothing);
        assert_eq!(rule.step(s(110), s(29)), Action::Nothing, "it was renewed");
        assert_eq!(rule.step(s(134), s(5)), Action::Term);
        assert_eq!(rule.step(s(136), s(3)), Action::Nothing);
        assert_eq!(rule.step(s(139), s(0)), Action::Kill);
        assert_eq!(rule.step(s(139), s(0)), Action::Nothing);
        assert_eq!(rule.cut, Some(Cut::Lost));
    }

    #[test]
    fn kill_follows_term_although_a_renewal_comes_late() {
        let mut rule = rule(None);
        assert_eq!(rule.step(s(100), s(5)), Action::Term);
        assert_eq!(rule.step(s(102), s(30)), Action::Nothing);
        assert_eq!(rule.step(s(105), s(27)), Action::Kill);
    }

    #[test]
    fn kill_comes_first_after_the_deadline_was_slept_through() {
        let mut rule = rule(None);
        assert_eq!(rule.step(s(100), s(30)), Action::Nothing);
        assert_eq!(rule.step(s(900), s(0)), Action::Kill);
    }

    #[test]
    fn a_forbidden_renewal_gives_the_command_its_time_but_no_more_than_the_lease() {
        let mut rule = rule(None);
        assert_eq!(rule.forbidden(s(100), s(20)), Action::Term);
        assert_eq!(rule.forbidden(s(101), s(19)), Action::Nothing);
        assert_eq!(rule.step(s(104), s(16)), Action::Nothing);
        assert_eq!(rule.step(s(105), s(15)), Action::Kill);
        assert_eq!(rule.cut, Some(Cut::Lost));
        let mut late = self::rule(None);
        assert_eq!(late.forbidden(s(100), s(2)), Action::Term);
        assert_eq!(late.step(s(102), s(0)), Action::Kill);
        let mut gone = self::rule(None);
        assert_eq!(gone.forbidden(s(100), s(0)), Action::Nothing);
        assert_eq!(gone.step(s(100), s(0)), Action::Kill);
    }

    #[test]
    fn a_limit_ends_the_command_and_no_hold() {
        let mut rule = rule(Some(s(60)));
        assert_eq!(rule.step(s(159), s(30)), Action::Nothing);
        assert_eq!(rule.step(s(160), s(30)), Action::Term);
        assert_eq!(rule.step(s(165), s(30)), Action::Kill);
        assert_eq!(rule.cut, Some(Cut::Overran));
    }

    #[test]
    fn what_is_left_behind_gets_term_and_then_kill() {
        let mut rule = rule(None);
        assert_eq!(rule.left_behind(s(110), s(30)), Action::Term);
        assert_eq!(rule.left_behind(s(111), s(30)), Action::Nothing);
        assert_eq!(rule.step(s(115), s(25)), Action::Kill);
        assert_eq!(rule.cut, None);
    }

    #[test]
    fn steps_become_shorter_towards_the_deadline() {
        let rule = rule(None);
        assert_eq!(rule.pause(s(100), s(30)), s(3));
        assert_eq!(rule.pause(s(100), s(6)), Duration::from_millis(600));
        assert_eq!(rule.pause(s(100), s(5)), SHORTEST);
    }

    #[test]
    fn kill_after_is_at_most_half_of_the_lease() {
        let of = |lease, kill_after| {
            let lease = Some(s(lease));
            Patience::of(&KillArgs { lease, kill_after }, s(30))
        };
        assert_eq!(of(30, None).unwrap().kill_after, s(5));
        assert_eq!(of(6, None).unwrap().kill_after, s(2));
        assert_eq!(of(10, Some(s(5))).unwrap().kill_after, s(5));
        assert!(
            of(10, Some(s(6)))
                .unwrap_err()
                .message
                .contains("--kill-after")
        );
        assert!(of(0, None).unwrap_err().message.contains("--lease"));
    }
}
