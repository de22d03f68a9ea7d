//! One supervised command connection to one node.

use std::{
    convert::Infallible,
    future::ready,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use tokio::select;

use super::{Access, Session, World, dialer::Dialer, looks::Looks};
use crate::{
    Error, ErrorKind,
    base::{observe, sync::Watch},
    protocol::{outage::Outage, time::Moment},
    runtime::{Address, Dialed, Login, Purpose},
};

/// The use of a link. Links of different classes to one node do not delay each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LinkClass {
    /// Scripts and queries.
    Command,
    /// Scripts that are followed by `WAIT`, which blocks its connection.
    Durable,
    /// Renewals, which bypass all other queued requests. They use the command link while the
    /// renewal link is down.
    Renewal,
}

impl LinkClass {
    /// Returns the class for scripts that may be followed by `WAIT`.
    pub(super) const fn of(waits: bool) -> Self {
        if waits { Self::Durable } else { Self::Command }
    }

    /// Returns what the connection is for, in events.
    const fn uses(self) -> &'static str {
        match self {
            Self::Command => "commands",
            Self::Durable => "replicas",
            Self::Renewal => "renewals",
        }
    }
}

/// The common settings of a client's links.
#[derive(Debug)]
pub(super) struct LinkSettings {
    pub(super) world: World,
    /// Whether the keys of one call must share a slot.
    pub(super) by_slot: bool,
    pub(super) access: Access,
    pub(super) connect_timeout: Duration,
    /// Whether a connection counts only if the server says that it is a master, and a look for the
    /// master still finds it.
    pub(super) asks_role: bool,
    /// Whether no other server may take over from the dialled one, as far as the client's
    /// configuration says.
    pub(super) is_only: bool,
    /// Told when the connection ends, because another server may be the master now.
    pub(super) looks: Arc<Looks>,
}

/// A connection that is re-established whenever it ends, and closed when it does not answer.
#[derive(Debug)]
pub(crate) struct Link {
    settings: LinkSettings,
    address: Address,
    class: LinkClass,
    /// The largest number of replicas that the server ever had.
    replicas: Arc<AtomicU32>,
    state: Watch<State>,
}

#[derive(Clone, Debug)]
enum State {
    Up(Arc<Session>),
    /// There is no connection, or the client has ended.
    Down {
        since: Moment,
        /// The last answer of the connections before.
        heard: Option<Moment>,
        /// Why the last try to connect failed, or the connection broke. `None` before the first try
        /// has ended.
        why: Option<Error>,
    },
    /// The server serves no slots any more. Requests under way continue, except those in lists.
    Retired,
}

impl Link {
    /// Starts a link to `address`, which connects again and again until shutdown or retirement.
    pub(super) fn start(
        settings: LinkSettings,
        address: &Address,
        class: LinkClass,
        replicas: Arc<AtomicU32>,
    ) -> Arc<Self> {
        let world = settings.world.clone();
        let (access, timeout) = (settings.access.clone(), settings.connect_timeout);
        let dialer = Dialer::new(world.clone(), Purpose::Command, access, timeout);
        let link = Arc::new(Self {
            settings,
            address: address.clone(),
            class,
            replicas,
            state: Watch::new(State::Down {
                since: world.now(),
                heard: None,
                why: None,
            }),
        });
        let supervising = supervise(Arc::clone(&link), dialer);
        world.life.spawn("link", supervising);
        link
    }

    /// Returns the session if the connection is up.
    pub(super) fn up(&self) -> Option<Arc<Session>> {
        self.state.look(|state| match state {
            State::Up(session) => Some(Arc::clone(session)),
            _ => None,
        })
    }

    /// Returns since when there is no connection; `None` while there is one.
    pub(super) fn down_since(&self) -> Option<Moment> {
        self.away().map(|(since, _)| since)
    }

    /// Returns since when there is no connection, and why; `None` while there is one.
    pub(super) fn away(&self) -> Option<(Moment, Error)> {
        self.state.look(|state| match state {
            State::Down { since, why, .. } => {
                let unknown = || Error::no_connection(&self.address);
                Some((*since, why.clone().unwrap_or_else(unknown)))
            }
            _ => None,
        })
    }

    /// Returns the time of the last answer.
    pub(super) fn last_answer(&self) -> Option<Moment> {
        match self.state.look(State::clone) {
            State::Up(session) => Some(session.heard()),
            State::Down { heard, .. } => heard,
            State::Retired => None,
        }
    }

    /// Returns whether the last try to connect failed, or the connection broke.
    pub(super) fn is_down(&self) -> bool {
        self.state
            .look(|state| matches!(state, State::Down { why: Some(_), .. }))
    }

    /// Returns whether the link has ended because the server serves no slots any more.
    pub(super) fn is_retired(&self) -> bool {
        self.state.look(|state| matches!(state, State::Retired))
    }

    /// Ends the link because the server serves no slots any more. Requests under way on its
    /// connection continue.
    pub(super) fn retire(&self) {
        self.enter(State::Retired);
    }

    /// Enters a state, unless the link is retired.
    fn enter(&self, mut next: State) {
        // The old state is dropped behind the lock.
        self.state.change(|state| {
            let is_retired = matches!(state, State::Retired);
            if !is_retired {
                std::mem::swap(state, &mut next);
            }
            !is_retired
        });
    }

    /// Records that there is no connection.
    fn failed(&self, why: Error) {
        let since = self.down_since();
        self.enter(State::Down {
            since: since.unwrap_or_else(|| self.settings.world.now()),
            heard: self.last_answer(),
            why: Some(why),
        });
    }

    /// Waits until the connection is up, until `deadline` at the latest. Fails at once if the
    /// server refuses the client.
    pub(crate) async fn session(&self, deadline: Moment) -> Result<Arc<Session>, Error> {
        if let Some(session) = self.up() {
            return Ok(session);
        }
        let world = &self.settings.world;
        let may_change = |error: &Error| error.kind() == ErrorKind::Unavailable;
        // Further waiting is useless for one that is up, ended, or refused for a permanent reason.
        let settled = self.state.find(|state| match state {
            State::Down { why, .. } if why.as_ref().is_none_or(may_change) => None,
            settled => Some(settled.clone()),
        });
        let settled = world.until(deadline, settled).await;
        let last = settled.unwrap_or_else(|| self.state.look(State::clone));
        let error = match last {
            State::Up(session) => return Ok(session),
            State::Down { why, .. } => why.unwrap_or_else(|| {
                let missing = self.settings.access.missing();
                missing.unwrap_or_else(|| Error::no_connection(&self.address))
            }),
            State::Retired => {
                Error::unavailable(format!("{} is in charge of nothing any more", self.address))
            }
        };
        // The end of the client, and a fork, explain any state.
        world.life.check_all().and(Err(error))
    }

    /// Runs one connection. The error is the reason for its end.
    async fn live(
        &self,
        (mut dialed, login): (Dialed, Login),
        outage: &mut Outage,
        dialer: &mut Dialer,
    ) -> Result<Infallible, Error> {
        let (settings, world) = (&self.settings, &self.settings.world);
        let (conn, pushes) = (dialed.conn, dialed.pushes.as_mut());
        let by_slot = settings.by_slot;
        let beginning = Session::begin(world, &self.address, &self.replicas, conn, by_slot);
        let session = Arc::new(beginning.await?);
        if settings.asks_role || self.class == LinkClass::Durable {
            session.check_role().await?;
        }
        if settings.asks_role {
            // A master that restarts says that it is one, and has forgotten what its successor has.
            settings.looks.confirmed().await;
        }
        if self.class == LinkClass::Command && world.changed.is_some() {
            session.ask_for_changes().await;
        }
        self.enter(State::Up(Arc::clone(&session)));
        if self.class == LinkClass::Command {
            world.strays.connected();
        }
        let over = outage.connected(world.now());
        observe::connected(&self.address, self.class.uses(), over);
        let error = select! {
            biased;
            error = session.watch(pushes) => error,
            error = session.watch_server(settings.asks_role), if !settings.is_only => error,
            never = session.send_joined() => match never {},
            never = session.stay_logged_in(&settings.access, login) => match never {},
        };
        if !session.is_condemned() {
            dialer.answered();
        }
        Err(error)
    }
}

async fn supervise(link: Arc<Link>, dialer: Dialer) {
    let retired = |state: &State| matches!(state, State::Retired);
    select! {
        biased;
        () = link.state.when(retired) => {}
        () = link.settings.world.ended() => {}
        () = keep_up(&link, dialer) => {}
    }
    link.failed(link.settings.world.life.closed());
}

/// Reconnects until dropped.
async fn keep_up(link: &Link, mut dialer: Dialer) {
    let mut outage = Outage::default();
    while let Some((_, result)) = dialer.next(ready(link.address.clone())).await {
        let Err(error) = match result {
            Ok(dialed) => link.live(dialed, &mut outage, &mut dialer).await,
            Err(error) => Err(error),
        };
        let trouble = outage.failed(link.settings.world.now());
        observe::disconnected(&link.address, link.class.uses(), &error, trouble);
        link.failed(error);
        link.settings.looks.failed();
    }
}
