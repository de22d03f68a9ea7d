//! What a waiter hears: messages of the server, and what other waiters of its process say.

use tokio::sync::Notify;

use crate::{
    base::sync::{Mutex, lock},
    protocol::{grant::Notice, waiter::Prompt},
};

/// The ear of one waiter. All that may end its wait rings here.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Notify,
    heard: Mutex<(News, Option<Notice>)>,
}

/// What has rung a bell since the last look, but for a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// The number of the last message. The number is the same for all listeners of a channel, and
    /// greater than that of any earlier message of the channel.
    pub(crate) message: Option<u64>,
    /// Whether messages may have been missed.
    pub(crate) missed: bool,
    /// The strongest prompt of another waiter of the local queue.
    pub(crate) prompt: Option<Prompt>,
    /// Whether the waiter's place in the local queue has changed.
    pub(crate) moved: bool,
}

impl Bell {
    /// Adds to the news, and wakes the waiter.
    pub(crate) fn ring(&self, add: impl FnOnce(&mut News)) {
        add(&mut lock(&self.heard).0);
        self.rung.notify_one();
    }

    /// Adds a message about a grant to the news. The caller rings the bell afterwards.
    pub(crate) fn grants(&self, notice: Notice) {
        lock(&self.heard).1 = Some(notice);
    }

    /// Takes a part of the news.
    pub(crate) fn take<R>(&self, part: impl FnOnce(&mut News) -> R) -> R {
        part(&mut lock(&self.heard).0)
    }

    /// Takes the last message about a grant.
    pub(crate) fn take_grant(&self) -> Option<Notice> {
        lock(&self.heard).1.take()
    }

    /// Waits for news, and takes them.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the news stay.
    pub(crate) async fn news(&self) -> News {
        loop {
            let news = self.take(std::mem::take);
            if news != News::default() {
                return news;
            }
            self.rung.notified().await;
        }
    }
}
