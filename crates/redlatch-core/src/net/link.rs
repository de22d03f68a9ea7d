//! One supervised command connection to one node.

use std::{
    future::ready,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use tokio::{select, sync::Notify};

use super::{Access, Session, World, dialer::Dialer, looks::Looks};
use crate::{
    Error, ErrorKind,
    base::{
        observe,
        sync::{Mutex, Watch, lock},
    },
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
    state: Watch<LinkState>,
    contact: Mutex<Contact>,
    /// Notified when the server serves no slots any more.
    retire: Notify,
}

/// When the server was connected, and when it answered.
#[derive(Debug)]
struct Contact {
    /// Since when there is no connection; `None` while there is one.
    down_since: Option<Moment>,
    /// The last answer of the connections before the present one.
    heard: Option<Moment>,
}

#[derive(Clone, Debug)]
enum LinkState {
    Connecting,
    Up(Arc<Session>),
    Down(Error),
    /// The server serves no slots any more. Requests under way continue, except those in lists.
    Retired,
    Closed,
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
        let dialer = Dialer::new(
            world.clone(),
            Purpose::Command,
            settings.access.clone(),
            settings.connect_timeout,
        );
        let link = Arc::new(Self {
            settings,
            address: address.clone(),
            class,
            replicas,
            state: Watch::new(LinkState::Connecting),
            contact: Mutex::new(Contact {
                down_since: Some(world.now()),
                heard: None,
            }),
            retire: Notify::new(),
        });
        let supervising = supervise(Arc::clone(&link), dialer);
        world.life.spawn("link", supervising);
        link
    }

    /// Returns the session if the connection is up.
    pub(super) fn up(&self) -> Option<Arc<Session>> {
        self.state.look(|state| match state {
            LinkState::Up(session) => Some(Arc::clone(session)),
            _ => None,
        })
    }

    /// Returns since when there is no connection; `None` while there is one.
    pub(super) fn down_since(&self) -> Option<Moment> {
        lock(&self.contact).down_since
    }

    /// Returns since when there is no connection, and why; `None` while there is one.
    pub(super) fn away(&self) -> Option<(Moment, Error)> {
        let since = self.down_since()?;
        let why = self.state.look(|state| match state {
            LinkState::Down(error) => error.clone(),
            _ => Error::no_connection(&self.address),
        });
        Some((since, why))
    }

    /// Returns the time of the last answer.
    pub(super) fn last_answer(&self) -> Option<Moment> {
        let present = self.up().map(|session| session.heard());
        present.or(lock(&self.contact).heard)
    }

    /// Returns whether the last try to connect failed, or the connection broke.
    pub(super) fn is_down(&self) -> bool {
        self.state.look(|state| matches!(state, LinkState::Down(_)))
    }

    /// Returns whether the link has ended because the server serves no slots any more.
    pub(super) fn is_retired(&self) -> bool {
        self.state.look(|state| matches!(state, LinkState::Retired))
    }

    /// Ends the link because the server serves no slots any more. Requests under way on its
    /// connection continue.
    pub(super) fn retire(&self) {
        self.retire.notify_one();
    }

    /// Waits until the connection is up, until `deadline` at the latest. Fails at once if the
    /// server refuses the client.
    pub(crate) async fn session(&self, deadline: Moment) -> Result<Arc<Session>, Error> {
        if let Some(session) = self.up() {
            return Ok(session);
        }
        let state = self.state.watch();
        // Further waiting is useless for one that is up, ended, or refused for a permanent reason.
        let settled = state.find(|state| match state {
            LinkState::Connecting => None,
            LinkState::Down(error) if error.kind() == ErrorKind::Unavailable => None,
            settled => Some(settled.clone()),
        });
        let last = select! {
            biased;
            settled = settled => settled,
            () = self.settings.world.life.forked() => return self.settings.world.life.check_process().and(Err(Error::closed())),
            () = self.settings.world.alarm(deadline) => self.state.look(LinkState::clone),
        };
        match last {
            LinkState::Up(session) => Ok(session),
            LinkState::Down(error) => Err(error),
            LinkState::Closed => Err(self.settings.world.life.closed()),
            LinkState::Connecting => {
                let missing = self.settings.access.missing();
                Err(missing.unwrap_or_else(|| Error::no_connection(&self.address)))
            }
            LinkState::Retired => Err(Error::unavailable(format!(
                "{} is in charge of nothing any more",
                self.address
            ))),
        }
    }

    /// Runs one connection to its end, and returns the reason.
    async fn live(
        &self,
        (mut dialed, login): (Dialed, Login),
        outage: &mut Outage,
        dialer: &mut Dialer,
    ) -> Error {
        let (settings, world) = (&self.settings, &self.settings.world);
        let (conn, pushes) = (dialed.conn, dialed.pushes.as_mut());
        let by_slot = settings.by_slot;
        let beginning = Session::begin(world, &self.address, &self.replicas, conn, by_slot);
        let session = match beginning.await {
            Ok(session) => Arc::new(session),
            Err(error) => return error,
        };
        if (settings.asks_role || self.class == LinkClass::Durable)
            && let Err(error) = session.check_role().await
        {
            return error;
        }
        if settings.asks_role {
            // A master that restarts says that it is one, and has forgotten what its successor has.
            settings.looks.confirmed().await;
        }
        if self.class == LinkClass::Command && world.changed.is_some() {
            session.ask_for_changes().await;
        }
        lock(&self.contact).down_since = None;
        self.state.set(LinkState::Up(Arc::clone(&session)));
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
        *lock(&self.contact) = Contact {
            down_since: Some(world.now()),
            heard: Some(session.heard()),
        };
        error
    }
}

async fn supervise(link: Arc<Link>, dialer: Dialer) {
    let end = select! {
        biased;
        () = link.retire.notified() => LinkState::Retired,
        () = link.settings.world.ended() => LinkState::Closed,
        () = keep_up(&link, dialer) => LinkState::Closed,
    };
    link.state.set(end);
}

/// Reconnects until dropped.
async fn keep_up(link: &Link, mut dialer: Dialer) {
    let mut outage = Outage::default();
    while let Some((_, result)) = dialer.next(ready(link.address.clone())).await {
        let error = match result {
            Ok(dialed) => link.live(dialed, &mut outage, &mut dialer).await,
            Err(error) => error,
        };
        let trouble = outage.failed(link.settings.world.now());
        observe::disconnected(&link.address, link.class.uses(), &error, trouble);
        link.state.set(LinkState::Down(error));
        link.settings.looks.failed();
    }
}
