//! What an acquisition under way listens to.

use futures_util::FutureExt;
use std::future::pending;
use tokio::select;

use crate::{
    Client,
    net::{Listener, MessageFilter, Wakes},
    owner::AttemptId,
    primitive::{Primitive, Side},
    protocol::{
        time::Moment,
        waiter::{Discipline, Listen},
    },
};

/// The listeners of one acquisition.
#[derive(Debug, Default)]
pub(super) struct Ears {
    /// Hears that the name is free, or that this waiter is called.
    own: Option<Listener>,
    /// Hears what is said to all who wait for this side of the object together.
    crowd: Option<Listener>,
    /// Hears what is said to anybody of this client who waits for the name: whoever speaks for the others heeds it.
    any: Option<Listener>,
}

impl Ears {
    /// Listens for what wakes `attempt`, unless it does already.
    pub(super) fn open(
        &mut self,
        client: &Client,
        primitive: &dyn Primitive,
        attempt: &AttemptId,
        wakes: &Wakes,
    ) {
        let (hub, key) = (&client.net().hub, primitive.key());
        if primitive.line() == Side::Shared {
            let channel = client.broadcast_channel(key);
            self.crowd
                .get_or_insert_with(|| hub.listen(&channel, MessageFilter::Any));
        }
        self.own.get_or_insert_with(|| {
            let filter = match primitive.discipline() {
                Discipline::Barging => key.to_shared(),
                Discipline::Queued => format!("{key} {}", attempt.number()).into(),
            };
            wakes.listen(MessageFilter::Exact(filter))
        });
    }

    /// Listens for the others of this client, too, unless it does already.
    pub(super) fn open_for_all(&mut self, primitive: &dyn Primitive, wakes: &Wakes) {
        let filter = MessageFilter::Exact(primitive.key().to_shared());
        self.any.get_or_insert_with(|| wakes.listen(filter));
    }

    /// Listens no longer for an attempt that was given up.
    pub(super) fn forget_attempt(&mut self, discipline: Discipline) {
        match discipline {
            Discipline::Barging => {}
            // A message names the attempt.
            Discipline::Queued => self.own = None,
        }
    }

    /// Tells whether it listens for what wakes the attempt.
    pub(super) const fn are_open(&self) -> bool {
        self.own.is_some()
    }

    /// Waits until messages reach us; `false` when they cannot, or not by `deadline`.
    pub(super) async fn ready(&self, deadline: Moment) -> bool {
        for ear in [&self.own, &self.crowd].into_iter().flatten() {
            if !ear.ready(deadline).await {
                return false;
            }
        }
        true
    }

    /// Waits for the next message in `listen`; `false`: no message came, but some may have been
    /// missed. Never without listeners.
    pub(super) async fn heard(&self, listen: Listen) -> bool {
        match listen {
            Listen::Nothing => pending().await,
            Listen::Own | Listen::Everyone => self.woken().await,
        }
    }

    async fn woken(&self) -> bool {
        let told = select! {
            biased;
            told = woken(self.own.as_ref()) => told,
            told = woken(self.crowd.as_ref()) => told,
            told = woken(self.any.as_ref()) => told,
        };
        // A gap in the messages is one, however many listeners have it.
        let ears = [&self.own, &self.crowd, &self.any].into_iter().flatten();
        ears.filter_map(|ear| ear.woken().now_or_never())
            .fold(told, |told, also| told || also)
    }
}

async fn woken(ear: Option<&Listener>) -> bool {
    match ear {
        Some(ear) => ear.woken().await,
        None => pending().await,
    }
}
