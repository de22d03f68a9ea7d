//! Kinds whose models say exactly what each script has to answer, and whether it may write.

use super::{bed::CHANNELS, prelude::*};

/// A kind with such a model.
pub(crate) trait Exact: Kind {
    /// Returns the answer to a script that runs at this time of the server in µs, and changes as
    /// the script does.
    fn answer(&mut self, call: &Call, micros: u64) -> Answer;
}

/// Makes a world with one object of this kind.
pub(super) fn world<K: Exact + Default>(model: Model, seed: u64) -> World<K> {
    World::new(Bed::new(model), seed, K::default())
}

/// Returns the arguments of a call, by their numbers in the script's header.
pub(super) fn args<'a>(call: &'a Call) -> impl Fn(usize) -> &'a str {
    move |at| call.args.get(at - 1).map_or("", String::as_str)
}

/// Returns the text of each item.
pub(super) fn texts(items: &[&dyn Display]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

impl<K: Exact> World<K> {
    /// Runs a script, and compares with the model what it answers, publishes and writes. Returns
    /// the answer.
    #[track_caller]
    pub(super) fn follow(&mut self, call: &Call) -> Answer {
        let before = self.bed.dump();
        let answer = self.ask(call);
        let published = self.bed.published();
        let right = self.kind.answer(call, self.bed.now.micros());
        self.assert_answer(&answer, &right.words);
        let message = right.message.clone();
        let message = message.map(|message| (CHANNELS[0].to_owned(), message));
        self.assert_eq(&published, &Vec::from_iter(message));
        if !right.writes {
            self.assert_unchanged(&before, "it writes nothing");
        }
        right
    }
}

/// Kinds whose attempts are scripts.
impl<K: Exact<What = Call>> World<K> {
    /// Lets a copy come that may act until this ms, which is the first argument.
    pub(super) fn arrive(&mut self, attempt: &Attempt<Call>, by: u64) -> Answer {
        let mut call = attempt.what.clone();
        call.args[0] = by.to_string();
        self.follow(&call)
    }
}

/// The key that decides about an object, except about a fence.
pub(super) const KEY: &str = "p:{t}x";

/// How long operations are remembered, in ms.
pub(super) const KEEP: u64 = 30_000;

/// A time in ms that does not come.
pub(super) const FOREVER: u64 = 9_999_999_999_999;
