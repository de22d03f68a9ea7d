//! Streams as iterators.

use std::{fmt, future::Future, sync::Arc};

use super::background::Background;
use crate::{Error, Holder, Locks, Waiter, Waiters};

/// A long list on a server, read step by step. Each step blocks, and may send commands.
///
/// A walk ends after an error. Watching a leader goes on after an error that may pass.
pub struct Iter<S> {
    stream: S,
    background: Arc<Background>,
}

impl<S> Iter<S> {
    pub(super) fn new(stream: S, background: &Arc<Background>) -> Self {
        Self {
            stream,
            background: Arc::clone(background),
        }
    }
}

/// A stream of redlatch that [`Iter`] reads.
#[doc(hidden)]
pub trait Stream {
    /// The items.
    type Item;

    /// Reads the next item.
    fn read(&mut self) -> impl Future<Output = Option<Result<Self::Item, Error>>> + Send;
}

macro_rules! streams {
    ($($(#[$when:meta])* $stream:ty => $item:ty;)*) => {$(
        $(#[$when])*
        impl Stream for $stream {
            type Item = $item;

            async fn read(&mut self) -> Option<Result<$item, Error>> {
                self.next().await
            }
        }
    )*};
}

streams! {
    Locks => Holder;
    Waiters => Waiter;
    #[cfg(feature = "election")]
    crate::Observe => Option<crate::Leader>;
}

impl<S: Stream> Iterator for Iter<S> {
    type Item = Result<S::Item, Error>;

    #[track_caller]
    fn next(&mut self) -> Option<Self::Item> {
        self.background.wait(self.stream.read())
    }
}

impl<S> fmt::Debug for Iter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}
