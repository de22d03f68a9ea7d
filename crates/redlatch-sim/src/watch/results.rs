//! The results of the observer at the end of a run.

use super::{Event, Tally, Violation, Watch};

impl Watch {
    /// Returns the violations so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.state().record.violations.clone()
    }

    /// Tells whether there were two holders where they are expected.
    pub fn saw_two_holders(&self) -> bool {
        self.state().record.two_holders
    }

    /// Returns the sums.
    pub fn tally(&self) -> Tally {
        self.state().record.tally.clone()
    }

    /// Takes the story.
    pub fn story(&self) -> Vec<String> {
        self.state().record.story.take()
    }

    /// Drops the references that the observer holds.
    pub fn clear(&self) {
        let claims = std::mem::take(&mut self.state().view.claims);
        drop(claims);
    }

    /// Records that the run is over and nothing of it is left.
    pub fn over(&self) {
        let mut state = self.state();
        state.note(&self.exec, |_| Some(Event::Over));
        if let Some(history) = &mut state.record.history {
            history.over();
        }
    }

    /// Returns the true time in µs.
    pub fn now(&self) -> u64 {
        self.exec.now()
    }

    /// Returns the time since all faults ended, in µs.
    pub fn healed_for(&self) -> u64 {
        let healed = self.state().view.healed;
        healed.map_or(0, |healed| self.exec.now() - healed)
    }
}
