//! What the requests of one attempt may have left on the server, and when its undo is over.
//!
//! An answer ends its own request only. A request that has none may be executed yet, whatever the
//! server has answered to the others of the attempt.
//!
//! | answer | the request | undo |
//! |---|---|---|
//! | of the script, [`Trace::Left`] | has ended | until the server refuses the attempt |
//! | of the script, [`Trace::None`] | has ended | none |
//! | [`Effect::Nothing`] | has ended, and has done nothing | none |
//! | [`Effect::Stopped`] | has ended, perhaps behind a write | once |
//! | [`Effect::Unknown`], or none | may be executed yet | once |
//!
//! An undo makes the server refuse the attempt. Otherwise copies of its requests, which may come
//! from the network between, would take what nobody asks for any more.
//!
//! A release or undo is sent again until a script answers. An error proves that the attempt holds
//! nothing in one case, see [`Effect::ends_release`].

use super::classify::Refusal;

/// What an answer of the script says about copies of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    /// A copy could act.
    Left,
    /// The server refuses copies.
    None,
}

/// What is certain about a request that has no answer of its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The server has executed nothing of it, and never will.
    Nothing,
    /// The server stopped its script at a command, and has ended it. Its earlier writes stay.
    Stopped(Refusal),
    /// The server may have executed it, or may do so yet.
    Unknown,
}

impl Effect {
    /// Tells whether a release or undo with this effect has to be sent no more. `copies` tells
    /// whether requests of its attempt may be executed yet.
    ///
    /// Each script of this kind ends the hold before it touches another key than that of the hold.
    /// So if a key has another type, the hold has ended, or another program has overwritten it.
    pub(crate) const fn ends_release(self, copies: bool) -> bool {
        matches!(self, Self::Stopped(Refusal::WrongType)) && !copies
    }
}

/// What the requests of one attempt may have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remains {
    /// The number of requests that may be executed yet.
    copies: u32,
    /// The largest `act_before` of all requests.
    act_before: u64,
    /// Whether the attempt may hold, or a copy of an answered request could.
    holds: bool,
    /// Whether an earlier request may have registered the waiter.
    registered: bool,
    /// Whether the last request registers it, if it is executed.
    registers: bool,
}

impl Remains {
    /// Records that a request is about to be sent.
    pub(crate) fn sending(&mut self, act_before: u64, registers: bool) {
        self.act_before = self.act_before.max(act_before);
        self.copies += 1;
        self.registered |= self.registers;
        self.registers = registers;
    }

    /// Records that the script of the last request has answered.
    pub(crate) fn answered(&mut self, trace: Trace) {
        self.copies -= 1;
        self.holds |= trace == Trace::Left;
    }

    /// Records the effect of a refused list on the last request, which then goes by itself.
    pub(crate) const fn joined(&mut self, effect: Effect) {
        match effect {
            Effect::Nothing => return,
            Effect::Stopped(_) => self.holds = true,
            Effect::Unknown => self.copies += 1,
        }
        self.registered |= self.registers;
    }

    /// Records that the last request has no answer of its script.
    pub(crate) const fn failed(&mut self, effect: Effect) {
        match effect {
            Effect::Nothing => {
                self.copies -= 1;
                self.registers = false;
            }
            Effect::Stopped(_) => {
                self.copies -= 1;
                self.holds = true;
            }
            Effect::Unknown => {}
        }
    }

    /// Records that the attempt holds.
    pub(crate) const fn granted(&mut self) {
        self.holds = true;
    }

    /// Tells whether there may be anything to undo.
    pub(crate) const fn is_any(&self) -> bool {
        self.has_copies() || self.holds || self.may_wait()
    }

    /// Tells whether a request may be executed yet.
    pub(crate) const fn has_copies(&self) -> bool {
        self.copies > 0
    }

    /// Returns the last server time at which any request may act.
    pub(crate) const fn act_before(&self) -> u64 {
        self.act_before
    }

    /// Tells whether the waiter may be registered.
    pub(crate) const fn may_wait(&self) -> bool {
        self.registered || self.registers
    }
}

#[cfg(test)]
mod tests {
    use Effect::{Nothing, Stopped, Unknown};

    use super::*;

    const DENIED: Effect = Stopped(Refusal::Permission);
    const FOREIGN: Effect = Stopped(Refusal::WrongType);

    #[test]
    fn effects_decide_about_the_undo() {
        for (effects, undo, copies) in [
            (&[][..], false, false),
            (&[Nothing], false, false),
            (&[Nothing, Nothing], false, false),
            (&[FOREIGN], true, false),
            (&[DENIED], true, false),
            (&[FOREIGN, Nothing], true, false),
            (&[Unknown], true, true),
            (&[Unknown, Nothing], true, true),
            (&[Unknown, FOREIGN], true, true),
            (&[Unknown, DENIED], true, true),
            (&[Nothing, Unknown], true, true),
        ] {
            for registers in [false, true] {
                let mut remains = Remains::default();
                for &effect in effects {
                    remains.sending(7, registers);
                    remains.failed(effect);
                }
                assert_eq!(remains.is_any(), undo, "{effects:?}");
                assert_eq!(remains.has_copies(), copies, "{effects:?}");
                // What is not executed registers nobody.
                assert_eq!(remains.may_wait(), registers && undo, "{effects:?}");
            }
        }
    }

    #[test]
    fn request_that_was_not_executed_changes_nothing_of_earlier_ones() {
        let mut remains = Remains::default();
        remains.sending(7, true);
        assert!(remains.may_wait() && remains.has_copies());
        remains.answered(Trace::None);
        assert!(remains.is_any() && !remains.has_copies());
        let before = remains;
        remains.sending(7, false);
        remains.failed(Nothing);
        assert!(remains.is_any() && remains.may_wait());
        assert_eq!(remains.has_copies(), before.has_copies());
        remains.sending(9, false);
        remains.granted();
        assert_eq!(remains.act_before(), 9);
        assert!(remains.is_any());
    }

    #[test]
    fn common_call_that_was_stopped_counts_beside_an_answer() {
        for (effect, undo, copies) in [
            (Nothing, false, false),
            (DENIED, true, false),
            (FOREIGN, true, false),
            (Unknown, true, true),
        ] {
            let mut remains = Remains::default();
            remains.sending(7, false);
            remains.joined(effect);
            remains.failed(Nothing);
            assert_eq!(remains.is_any(), undo, "{effect:?}");
            assert_eq!(remains.has_copies(), copies, "{effect:?}");
        }
    }
}
