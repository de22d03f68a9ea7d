//! The end of a client: by `close`, by a failure of its tasks, or by the drop of its last clone,
//! handle and guard.

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
        linger,
    },
    protocol::time::Moment,
};

impl Client {
    /// Closes the client: rejects new work at once, signals every guard that its hold ends, gives
    /// the guards `grace` to finish, and then releases the remaining holds.
    ///
    /// Waiters get [`ErrorKind::Closed`](crate::ErrorKind::Closed), guards get
    /// [`LossCause::Closed`]. So [`Held::run`](crate::Held::run) drops its work at once. Work that
    /// awaits [`Held::ending`](crate::Held::ending) or [`Held::lost`](crate::Held::lost) instead may
    /// finish. During the grace, holds are renewed as before, so no other owner gets the name while
    /// a guard finishes its work.
    ///
    /// Returns when every hold is released and the connections are closed. The time limit is the
    /// grace, plus 1 s for acquisitions to give up, plus the client's `patience`. Holds that could
    /// not be released by then end with their leases. You may call the method again, also on
    /// another clone.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn signal() {}
    /// # async fn example(client: redlatch::Client) {
    /// use std::time::Duration;
    ///
    /// signal().await; // SIGTERM
    /// // The last call of the program: without it, locks may stay held until their leases end.
    /// client.close(Duration::from_secs(5)).await;
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the client still rejects new work. Call the method again to
    /// finish.
    #[doc(alias = "shutdown")]
    pub async fn close(&self, grace: Duration) {
        let core = &self.0;
        if core.life().is_forked() {
            return;
        }
        let deadline = self.now() + grace;
        core.closes_by(deadline);
        let holds = self.closing_holds();
        for hold in &holds {
            hold.lose(LossCause::Closed);
            // A second call may be earlier than the first, and work under the hold follows it.
            hold.tell_change();
        }
        self.wait_until(deadline, || holds.iter().all(|hold| hold.guards() == 0))
            .await;
        // Acquisitions in progress give up by themselves. The wait for an acquisition that nothing
        // polls is short.
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
        // Releases that callers await use the connections. What they leave behind goes to the
        // releaser.
        let patience_ends = self.now() + core.patience;
        let releases = || core.releases.load(Ordering::SeqCst) == 0;
        self.wait_until(patience_ends, releases).await;
        core.releaser.finish();
        select! {
            biased;
            () = core.net.world.ended() => {}
            () = self.alarm(patience_ends) => core.life().stop(),
        }
    }

    /// Closes the client without grace: tells the guards and releases their holds at once.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = redlatch::Client::builder("redis://localhost").connect_lazy()?;
    /// client.close_now().await; // the guards are lost, and their names are free
    /// assert!(client.is_closed());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The same as that of [`close`](Self::close).
    pub async fn close_now(&self) {
        self.close(Duration::ZERO).await;
    }

    /// Tells whether the client is closed or closing. That is also true after the end of the tokio
    /// runtime that created it, and in a fork of its process.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = redlatch::Client::builder("redis://localhost").connect_lazy()?;
    /// use redlatch::ErrorKind;
    ///
    /// assert!(!client.is_closed());
    /// client.close_now().await;
    /// assert!(client.is_closed());
    /// assert_eq!(client.ping().await.unwrap_err().kind(), ErrorKind::Closed);
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_closed(&self) -> bool {
        self.0.life().is_forked() || self.is_closing()
    }

    /// Resolves when every background release and undo of dropped guards and acquisitions has been
    /// answered or given up. The client stays open.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
    /// # use redlatch::{Client, Error};
    /// # async fn example(lock: &impl Lock, client: Client) -> Result<(), Error> {
    /// let guard = lock.lock().await?;
    /// drop(guard); // releases in the background
    /// client.settled().await;
    /// assert_eq!(client.tables().pending_releases, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. Call it again.
    pub async fn settled(&self) {
        if self.0.life().is_forked() {
            return;
        }
        self.0.releaser.drained().await;
    }

    /// Returns every hold that existed when the client began to close.
    fn closing_holds(&self) -> Vec<Arc<Hold>> {
        let mut closing = lock(&self.0.closing_holds);
        closing.extend(self.0.holds.all());
        closing.iter().filter_map(Weak::upgrade).collect()
    }

    async fn wait_until(&self, deadline: Moment, done: impl Fn() -> bool) {
        loop {
            let mut quieter = std::pin::pin!(self.0.quieter.notified());
            quieter.as_mut().enable();
            // After the end of the client, alarms fire at once, so check for that.
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
    /// Closes the client if its runtime ends or one of its tasks panics.
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

    /// Rejects new work, and sets when the holds that are left are released. A later call can only
    /// bring that forward.
    fn closes_by(&self, deadline: Moment) {
        self.closing.send_modify(|closes_at| {
            *closes_at = Some(closes_at.map_or(deadline, |earlier| earlier.min(deadline)));
        });
    }

    /// Handles an end without a call of `close`: tells all guards and waiters, and releases the
    /// holds if the releaser still runs.
    fn ended(&self, end: &End) {
        self.closes_by(self.net.world.runtime.now());
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
        // No guard or waiter is left. The releaser still sends the releases that dropped guards
        // have queued. A fork must skip this, since its locks may be held forever.
        if !self.life().is_forked() {
            self.releaser.finish();
            let life = Arc::clone(&self.net.world.life);
            linger(&self.net.world.runtime, || {
                Some(Box::pin(async move { life.idle().await }))
            });
        }
    }
}
