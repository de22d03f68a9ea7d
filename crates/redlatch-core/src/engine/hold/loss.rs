//! The loss of a hold: how it is noticed, and who is notified.

use std::{
    pin::pin,
    sync::{Arc, Weak},
};

use tokio::select;

use super::Hold;
use crate::{
    base::{observe, rules::Rule},
    protocol::{
        hold::{HoldState, LossCause},
        time::Moment,
    },
};

impl Hold {
    /// Resolves when the hold is lost, at the latest by this client's clock. Never resolves after
    /// the last guard has gone. Does not keep the hold alive.
    pub(crate) fn lost(
        self: &Arc<Self>,
    ) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        let changed = Arc::clone(self.inner().changed.get_or_insert_default());
        let hold = Arc::downgrade(self);
        let alarms = Arc::clone(self.client.net().world.alarms());
        let life = Arc::clone(&self.client.net().world.life);
        async move {
            loop {
                if life.is_forked() {
                    return LossCause::Forked;
                }
                let mut changed = pin!(changed.notified());
                // From here on, no notification is missed.
                changed.as_mut().enable();
                let look_at = match Self::look(&hold, alarms.now()) {
                    Look::Lost(cause) => return cause,
                    Look::At(moment) => moment,
                    Look::Ended => return std::future::pending().await,
                };
                select! {
                    biased;
                    () = changed => {}
                    () = alarms.at(look_at) => {}
                }
            }
        }
    }

    fn look(hold: &Weak<Self>, now: Moment) -> Look {
        let Some(hold) = hold.upgrade() else {
            return Look::Ended;
        };
        let state = hold.state(now);
        let inner = hold.inner();
        match state {
            _ if inner.ended => Look::Ended,
            HoldState::Lost(cause) => Look::Lost(cause),
            _ if !hold.client.keeps(Rule::TellByClock) => Look::At(Moment::FAR_FUTURE),
            HoldState::Held | HoldState::Unknown => Look::At(inner.local_lease.tell_at()),
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

    pub(super) fn tell_change(&self) {
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

/// The result of a check for a loss.
enum Look {
    Lost(LossCause),
    /// The hold is not lost; check again at this time.
    At(Moment),
    /// The last guard has gone. Nothing can be lost any more.
    Ended,
}
