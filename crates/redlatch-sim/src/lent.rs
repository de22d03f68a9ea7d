//! Engines on loan. The tests of the scripts in `tests/tests/hermetic/scripts` have this file as
//! well.

use std::{
    cell::RefCell,
    ops::{Deref, DerefMut},
    thread,
};

use redlatch_embedded::engine::{Engine, Model, ServerTime};

/// An engine that returns to its thread, because a new engine with compiled scripts costs as much
/// as a tenth of a seed. Nothing but the scripts outlasts the loan.
#[derive(Debug)]
pub(crate) struct Lent(Option<Engine>);

thread_local! {
    /// The engines that were returned.
    static USED: RefCell<Vec<Engine>> = const { RefCell::new(Vec::new()) };
}

impl Lent {
    /// Borrows an engine, which is empty.
    pub(crate) fn new(model: Model, now: ServerTime) -> Self {
        let used = USED.with_borrow_mut(|used| {
            let at = used.iter().position(|engine| engine.model() == model)?;
            Some(used.swap_remove(at))
        });
        let mut engine = used.unwrap_or_else(|| Engine::new(model, now));
        engine.start_over(now);
        Self(Some(engine))
    }
}

impl Deref for Lent {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        let Some(engine) = &self.0 else {
            unreachable!("it is there until it is dropped");
        };
        engine
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Engine {
        let Some(engine) = &mut self.0 else {
            unreachable!("it is there until it is dropped");
        };
        engine
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // After a panic the engine may be in the middle of a command. At the end of the thread
        // there is no pool to return it to.
        if let Some(engine) = self.0.take().filter(|_| !thread::panicking()) {
            let _ = USED.try_with(|used| used.borrow_mut().push(engine));
        }
    }
}
