//! The end of a client: by `close`, by itself, or when the last of it is dropped.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::select;

use crate::{
    LossCause,
    base::{life::End, observe, sync::lock, timeouts},
    engine::{
        Hold,
        context::{Client, Core},
    },
    protocol::time::Moment,
};

impl Client {
    /// Stops new work at once, tells every guard that its hold ends, gives the guards `grace` to
    /// go, then releases what is left.
    ///
    /// Waiters get [`ErrorKind::Closed`], guards [`LossCause::Closed`]. During the grace holds are
    /// renewed as before, so that nobody else gets what a guard still winds up. Returns when every
    /// hold is released and the connections are closed; at the latest after the grace, a second for
    /// acquisitions to give up, and the client's patience. What could not be released by then ends
    /// with its lease. Calling it again, or on another clone, is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the client stays closed to new work; call it again to finish.
    pub async fn close(&self, grace: Duration) {
        let core = &self.0;
        if core.life().is_forked() {
            return;
        }
        core.closing.send_replace(true);
        let deadline = self.now() + grace;
        let holds = self.closing_holds();
        for hold in &holds {
            hold.lose(LossCause::Closed);
        }
        self.wait_until(deadline, || holds.iter().all(|hold| hold.guards() == 0))
            .await;
        // Acquisitions under way give up by themselves; one that nobody polls is not waited for
        // long.
        let waiters = || core.waiters.load(Ordering::Relaxed) == 0;
        self.wait_until(
            deadline.max(self.now() + timeouts::CLOSE_ACQUISITIONS),
            waiters,
        )
        .await;
        for hold in self.closing_holds() {
            hold.lose(LossCause::Closed);
            hold.part_all();
        }
        core.releaser.finish();
        select! {
            biased;
            () = core.net.world.ended() => {}
            () = self.alarm(self.now() + core.patience) => core.releaser.stop(),
        }
    }

    /// Closes without grace: guards are told and their holds released at once.
    ///
    /// # Cancel safety
    ///
    /// As [`close`](Self::close).
    pub async fn close_now(&self) {
        self.close(Duration::ZERO).await;
    }

    /// Tells whether the client is closed or closing: it also is when the tokio runtime has ended
    /// in which it was made, and in a fork of its process.
    pub fn is_closed(&self) -> bool {
        self.0.life().is_forked() || self.is_closing()
    }

    /// Resolves when every release and undo in the background has been answered or given up: what
    /// dropped guards and dropped acquisitions left behind. The client stays open.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost; call it again.
    pub async fn settled(&self) {
        if self.0.life().is_forked() {
            return;
        }
        self.0.releaser.drained().await;
    }

    /// Returns every hold that was there when the client began to close.
    fn closing_holds(&self) -> Vec<Arc<Hold>> {
        let mut closing = lock(&self.0.closing_holds);
        closing.extend(self.0.holds.all());
        closing.iter().filter_map(Weak::upgrade).collect()
    }

    async fn wait_until(&self, deadline: Moment, done: impl Fn() -> bool) {
        loop {
            let mut quieter = std::pin::pin!(self.0.quieter.notified());
            quieter.as_mut().enable();
            // Alarms go off at once when nothing runs any more.
            if done() || self.now() >= deadline || self.0.life().is_stopped() {
                return;
            }
            select! {
                biased;
                () = quieter => {}
                () = self.alarm(deadline) => {}
            }
        }
    }
}

impl Core {
    /// Closes the client when it ends by itself.
    pub(super) fn watch_over(self: &Arc<Self>) {
        let (core, releaser) = (Arc::downgrade(self), Arc::downgrade(&self.releaser));
        self.life().on_end(move |end| {
            if let Some(core) = core.upgrade() {
                core.ended(end);
            } else if let Some(releaser) = releaser.upgrade() {
                releaser.abandon();
            }
        });
    }

    /// The client has ended by itself: tells whoever holds or waits, and releases what can be
    /// released.
    fn ended(&self, end: &End) {
        self.closing.send_replace(true);
        if *end == End::Runtime {
            observe::runtime_ended();
        }
        let releases = matches!(end, End::Panic(task) if *task != "releaser");
        let holds = self.holds.all();
        for hold in holds.iter().filter_map(Weak::upgrade) {
            hold.lose(LossCause::Closed);
            if releases {
                hold.part_all();
            }
        }
        if releases {
            self.releaser.finish();
        } else {
            self.life().stop();
            self.releaser.abandon();
        }
        self.quieter.notify_waiters();
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Nobody can hold or wait any more; what guards left behind is still worked off. A fork may
        // find locks taken for ever.
        if !self.life().is_forked() {
            self.releaser.finish();
        }
    }
}
