//! The loss of a hold: how it is noticed, and who is notified.

use std::{
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{select, sync::Notify};

use super::Hold;
use crate::{
    base::{observe, rules::Rule},
    protocol::{
        hold::{HoldState, LossCause},
        lease::TIMER_GRAIN,
        time::Moment,
    },
};

impl Hold {
    /// Resolves when the hold is lost, at the latest by this client's clock. Never resolves after
    /// the last guard has gone. Does not keep the hold alive.
    pub(crate) fn lost(
        self: &Arc<Self>,
    ) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        self.noticed(|hold, now| match hold.state(now) {
            HoldState::Lost(cause) => Look::Noticed(cause),
            HoldState::Held | HoldState::Unknown => Look::At(hold.inner().local_lease.tell_at()),
        })
    }

    /// Resolves `before` the deadline, unless it is moved in time, and when the hold is lost. Never
    /// resolves after the last guard has gone. Does not keep the hold alive.
    pub(crate) fn ending(
        self: &Arc<Self>,
        before: Duration,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        let ending = self.noticed(move |hold, now| {
            if let HoldState::Lost(cause) = hold.state(now) {
                return Look::Noticed(cause);
            }
            // Every renewal moves the deadline up, so this is looked at again when it has come.
            let inner = hold.inner();
            let valid_until = inner.local_lease.valid_until();
            let before = if inner.unconfirmed {
                // The whole lease comes with the first renewal, which is under way or due.
                before.min((valid_until - hold.since) / 2)
            } else {
                before
            };
            match valid_until.before(before) {
                due if due <= now => Look::Noticed(LossCause::Expired),
                due => Look::At(due),
            }
        });
        async move {
            ending.await;
        }
    }

    /// Returns until when work under the hold may go on if nothing changes. Fails if it must not go
    /// on.
    ///
    /// While the client closes, every hold counts as lost. Its name is kept until the end of the
    /// grace, so that work which has been told may finish until then.
    pub(crate) fn work_until(&self, now: Moment) -> Result<Moment, LossCause> {
        let state = self.state(now);
        let inner = self.inner();
        let until = match state {
            HoldState::Held | HoldState::Unknown => return Ok(inner.local_lease.tell_at()),
            HoldState::Lost(LossCause::Closed) => {
                let closes_at = self.client.0.closing.borrow().unwrap_or(now);
                inner
                    .local_lease
                    .tell_at()
                    .min(closes_at.before(TIMER_GRAIN))
            }
            HoldState::Lost(cause) => return Err(cause),
        };
        if now < until {
            Ok(until)
        } else {
            Err(LossCause::Closed)
        }
    }

    /// Returns when the holder has to be done, also after a loss. The server gives the name away
    /// later than that, unless it has ended the hold.
    pub(crate) fn kept_until(&self) -> Moment {
        self.inner().local_lease.tell_at()
    }

    /// Resolves when work under the hold must not go on; see [`work_until`](Self::work_until).
    pub(crate) fn work_over(
        self: &Arc<Self>,
    ) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        self.noticed(|hold, now| match hold.work_until(now) {
            Ok(until) => Look::At(until),
            Err(cause) => Look::Noticed(cause),
        })
    }

    /// Resolves when `look` notices its event. It is called at first, at the times that it names,
    /// and when the hold changes. Never resolves after the last guard has gone.
    fn noticed<F>(
        self: &Arc<Self>,
        look: F,
    ) -> impl Future<Output = LossCause> + Send + 'static + use<F>
    where
        F: Fn(&Self, Moment) -> Look + Send + 'static,
    {
        let hold = Arc::downgrade(self);
        let alarms = Arc::clone(&self.client.net().world.alarms);
        let life = Arc::clone(&self.client.net().world.life);
        async move {
            // In a fork, another thread of the parent may have held the lock of the hold.
            if life.is_forked() {
                return LossCause::Forked;
            }
            let Some(changed) = hold.upgrade().map(|hold| hold.changes()) else {
                return std::future::pending().await;
            };
            loop {
                let mut changed = pin!(changed.notified());
                // From here on, no notification is missed.
                changed.as_mut().enable();
                let look_at = match Self::look(&hold, alarms.now(), &look) {
                    Look::Noticed(cause) => return cause,
                    Look::At(moment) => moment,
                    Look::Ended => return std::future::pending().await,
                };
                select! {
                    biased;
                    () = life.forked() => {}
                    () = changed => {}
                    () = alarms.at(look_at) => {}
                }
                if life.is_forked() {
                    return LossCause::Forked;
                }
            }
        }
    }

    /// Returns what notifies the tasks that wait for a loss.
    fn changes(&self) -> Arc<Notify> {
        Arc::clone(self.inner().changed.get_or_insert_default())
    }

    fn look(hold: &Weak<Self>, now: Moment, look: &impl Fn(&Self, Moment) -> Look) -> Look {
        let Some(hold) = hold.upgrade() else {
            return Look::Ended;
        };
        match look(&hold, now) {
            _ if hold.inner().ended => Look::Ended,
            Look::At(_) if !hold.client.keeps(Rule::TellByClock) => Look::At(Moment::FAR_FUTURE),
            seen => seen,
        }
    }

    /// Records that the server reports the end of the hold. Nothing renews it any more.
    pub(in crate::engine) fn over(&self, cause: LossCause) {
        self.unschedule(&mut self.inner());
        self.lose(cause);
    }

    /// Ends the local lease of this hold.
    pub(crate) fn lose(&self, cause: LossCause) {
        let state = self.inner().local_lease.lose(cause, self.client.now());
        self.tell(state);
    }

    /// Returns why the hold was lost, if it was.
    pub(super) fn loss(&self) -> Option<LossCause> {
        match self.inner().local_lease.state(self.client.now()) {
            HoldState::Lost(cause) => Some(cause),
            HoldState::Held | HoldState::Unknown => None,
        }
    }

    /// Reports a loss once, unless the last guard has gone. Returns `state`.
    pub(super) fn tell(&self, state: HoldState) -> HoldState {
        let HoldState::Lost(cause) = state else {
            return state;
        };
        let mut inner = self.inner();
        if inner.ended || std::mem::replace(&mut inner.loss_reported, true) {
            return state;
        }
        // While the guards of a closing client finish their work, no other owner may get the name.
        if cause != LossCause::Closed {
            self.unschedule(&mut inner);
        }
        drop(inner);
        let removed = self.client.holds().table().remove(self);
        if removed {
            self.release_reentrants();
        }
        self.tell_change();
        observe::lost(
            &self.labels(),
            self.primitive.name(),
            &self.owner,
            &self.token,
            cause,
        );
        state
    }

    pub(crate) fn tell_change(&self) {
        let changed = self.inner().changed.clone();
        if let Some(changed) = changed {
            changed.notify_waiters();
        }
    }

    /// Makes the owner's waiters queue like all others again, unless the owner holds another side.
    pub(super) fn release_reentrants(&self) {
        let (key, local_queues) = (self.primitive.key(), self.client.local_queues());
        // In most cases no local waiter exists.
        if local_queues.has(key)
            && !self
                .client
                .holds()
                .held(key, &self.owner, self.client.now())
        {
            local_queues.owner_released(key, self.owner.number());
        }
    }
}

/// The result of a look at a hold.
enum Look {
    /// The event has happened. The cause says why, if it is a loss.
    Noticed(LossCause),
    /// It has not happened; look again at this time.
    At(Moment),
    /// The last guard has gone. Nothing can be lost any more.
    Ended,
}
