//! Pub/sub messages: channels, their listeners, and one supervised connection.

use std::{convert::Infallible, pin::pin, sync::Arc};

use tokio::{select, sync::Notify};

pub(crate) use super::subscription_table::MessageFilter;
use super::{
    Router, World,
    dialer::{self, Dialer},
    subscription_table::{Change, Inbox, Standing, SubscriptionTable},
};
use crate::{
    Error, ErrorKind,
    base::{
        observe,
        sync::{Mutex, MutexGuard, lock},
        timeouts,
    },
    protocol::{
        classify::{Class, classify},
        grant::Notice,
        outage::Outage,
        time::Moment,
    },
    runtime::{Address, Command, Conn, Dialed, Login, Protocol, Purpose},
};

/// The subscriptions of a client, on a connection that carries nothing else.
///
/// Listeners are counted per channel. After a reconnect the hub subscribes to all channels again,
/// one chunk after the other, and waits for each confirmation. Then it wakes every listener once,
/// because messages in the meantime are lost.
#[derive(Debug)]
pub(crate) struct Hub {
    world: World,
    pub(super) router: Arc<Router>,
    reach: Reach,
    table: Mutex<SubscriptionTable>,
    /// Notified when the table has channels to subscribe or unsubscribe.
    dirty: Notify,
    /// Notified when the hub is not needed any more.
    retired: Notify,
}

/// Which messages a hub receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Messages of any node (`PUBLISH`).
    Everywhere,
    /// Messages that the shard of this slot publishes to itself (`SPUBLISH`).
    Shard(u16),
}

/// A subscriber that messages wake. Dropping it ends its interest, and the last drop ends the
/// subscription.
#[derive(Debug)]
pub(crate) struct Listener {
    hub: Arc<Hub>,
    channel: Arc<str>,
    filter: MessageFilter,
    id: u64,
    inbox: Arc<Inbox>,
}

impl Hub {
    pub(crate) fn new(router: &Arc<Router>, reach: Reach) -> Arc<Self> {
        Arc::new(Self {
            world: router.world.clone(),
            router: Arc::clone(router),
            reach,
            table: Mutex::new(SubscriptionTable::new(router.world.rules)),
            dirty: Notify::new(),
            retired: Notify::new(),
        })
    }

    /// Ends the connection permanently. Remaining listeners receive nothing.
    pub(super) fn retire(&self) {
        self.retired.notify_one();
    }

    /// Subscribes to `channel` for the lifetime of the client.
    pub(crate) fn pin(self: &Arc<Self>, channel: &Arc<str>) {
        if self.table().pin(channel) {
            self.touch();
        }
    }

    /// Listens on `channel` for messages that match `filter`. The first listener of a client starts
    /// the connection.
    pub(crate) fn listen(self: &Arc<Self>, channel: &Arc<str>, filter: MessageFilter) -> Listener {
        let (id, inbox, fresh) = self.table().listen(channel, filter.clone());
        if fresh {
            self.touch();
        }
        Listener {
            hub: Arc::clone(self),
            channel: Arc::clone(channel),
            filter,
            id,
            inbox,
        }
    }

    /// Returns whether messages on `channel` reach the client.
    pub(crate) fn hears(&self, channel: &str) -> bool {
        self.table().standing(channel) == Standing::Heard
    }

    /// Waits until the server has confirmed or refused `channel`, until `deadline` at the latest. A
    /// broken connection is re-established in the meantime. A refusal is final.
    pub(crate) async fn confirm(
        self: &Arc<Self>,
        channel: &Arc<str>,
        deadline: Moment,
    ) -> Result<(), Error> {
        let listener = self.listen(channel, MessageFilter::Exact("".into()));
        loop {
            if listener.ready(deadline).await {
                return Ok(());
            }
            if let Some(refusal) = self.table().refusal(channel) {
                return Err(refusal);
            }
            // A permanent failure is reported at once.
            let trouble = self.table().trouble.clone();
            if trouble.is_some_and(|trouble| !trouble.is_transient()) {
                return Err(self.no_subscription());
            }
            select! {
                biased;
                () = self.world.ended() => return Err(self.world.life.closed()),
                () = listener.inbox.settled.notified() => {}
                () = self.world.runtime.sleep_until(deadline) => {
                    return Err(self.no_subscription());
                }
            }
        }
    }

    /// Returns the error of a subscription without a confirmation in time. The cause is the failure
    /// to connect, or else the failure to find a server.
    fn no_subscription(&self) -> Error {
        let trouble = self.table().trouble.clone();
        let Some(trouble) = trouble.or_else(|| self.router.trouble()) else {
            return Error::unavailable(if self.table().is_up() {
                "no subscription in time: the server has not confirmed it"
            } else {
                "no subscription in time: still connecting"
            });
        };
        let message = format!("no subscription in time: {trouble}");
        Error::with_reason(trouble.kind(), message, trouble)
    }

    /// Returns the number of listeners.
    pub(crate) fn listeners(&self) -> usize {
        self.table().listeners()
    }

    fn table(&self) -> MutexGuard<'_, SubscriptionTable> {
        lock(&self.table)
    }

    /// Reports a change of the table. Starts the connection if necessary, and makes it read the
    /// table.
    fn touch(self: &Arc<Self>) {
        if self.table().start() {
            let (dialer, round) = self.dialer();
            let supervising = supervise(Arc::clone(self), dialer, round);
            self.world.life.spawn("hub", supervising);
        }
        self.dirty.notify_one();
    }

    /// Returns a dialer, and the first round for [`server`](Self::server).
    fn dialer(&self) -> (Dialer, u32) {
        let router = &self.router;
        let (timeout, round) = match self.reach {
            // A cluster forwards messages from any node to all others, so any master will do. One
            // unresponsive master must not take the whole time. The random start spreads clients
            // over the nodes.
            Reach::Everywhere if !router.is_fixed() => (
                router.connect_timeout / 3,
                self.world.runtime.random() as u32,
            ),
            _ => (router.connect_timeout, 0),
        };
        let (world, access) = (self.world.clone(), router.access.clone());
        let dialer = Dialer::new(world, Purpose::PubSub, access, timeout);
        (dialer, round)
    }

    /// Waits until there is a server to connect to, and returns it. Of several, it is a different
    /// one for each `round`.
    async fn server(&self, round: u32) -> Address {
        let server = || match self.reach {
            Reach::Shard(slot) => self.router.node(slot),
            Reach::Everywhere => {
                let mut masters = self.router.masters();
                let at = (round as usize).checked_rem(masters.len())?;
                Some(masters.swap_remove(at))
            }
        };
        self.router.found_in_routes(server).await
    }

    /// Runs one connection to `address`. The error is the reason for its end.
    async fn live(
        &self,
        address: &Address,
        (mut dialed, mut login): (Dialed, Login),
        dialer: &mut Dialer,
    ) -> Result<Infallible, Error> {
        let (conn, protocol) = (dialed.conn.as_ref(), dialed.protocol);
        self.world.life.leap();
        self.table().connected();
        let mut ping_at = self.world.now() + timeouts::HEALTH_CHECK;
        let mut confirm_by = Moment::FAR_FUTURE;
        let mut left = pin!(self.leaves(address));
        loop {
            let change = {
                let mut table = self.table();
                if table.is_settled() {
                    confirm_by = Moment::FAR_FUTURE;
                }
                table.next_change(CHUNK)
            };
            if let Some(change) = change {
                if let Change::Subscribe(_) = change {
                    confirm_by = self.world.now() + timeouts::PUBSUB_ANSWER;
                }
                self.ask_for(conn, change).await?;
                dialer.answered();
                continue;
            }
            select! {
                biased;
                push = dialed.pushes.next() => {
                    let push = push.ok_or_else(|| Error::unavailable("the server closed the pub/sub connection"))?;
                    let stray = self.table().take(push);
                    if let Some(message) = stray {
                        self.world.strays.add(message);
                    }
                }
                () = self.dirty.notified() => {}
                other = self.router.access.other_than(&login) => {
                    self.log_in(conn, protocol, address, &other).await?;
                    login = other;
                }
                () = &mut left => return Err(Error::unavailable("the server is not in charge any more")),
                () = self.world.runtime.sleep_until(ping_at.min(confirm_by)) => {
                    if self.world.now() >= confirm_by {
                        return Err(Error::unavailable("the server does not confirm subscriptions"));
                    }
                    self.ping(conn).await?;
                    ping_at = self.world.now() + timeouts::HEALTH_CHECK;
                }
            }
        }
    }

    /// Fails if the server does not answer. A refusal is an answer.
    async fn ping(&self, conn: &dyn Conn) -> Result<(), Error> {
        match self.send(conn, Command::new("PING")).await {
            Err(error) if error.reason().is_none() => Err(error),
            _ => Ok(()),
        }
    }

    /// Logs in again, and keeps the old login if the server refuses the new one.
    async fn log_in(
        &self,
        conn: &dyn Conn,
        protocol: Protocol,
        address: &Address,
        login: &Login,
    ) -> Result<(), Error> {
        let Some(auth) = login.auth() else {
            return Ok(());
        };
        if protocol == Protocol::Resp2 {
            // With RESP2, a server takes no `AUTH` on a connection with subscriptions.
            return Err(Error::unavailable("the credentials have changed"));
        }
        match self.send(conn, auth).await {
            Err(error) if error.reason().is_some() => {
                self.router.access.refused_again(address, login, &error);
                Ok(())
            }
            result => result,
        }
    }

    /// Resolves when `address` does not publish this hub's messages any more.
    async fn leaves(&self, address: &Address) {
        let left = || {
            let left = match self.reach {
                Reach::Shard(slot) => self.router.node(slot).is_some_and(|node| node != *address),
                Reach::Everywhere => {
                    let masters = self.router.masters();
                    !masters.is_empty() && !masters.contains(address)
                }
            };
            left.then_some(())
        };
        self.router.found_in_routes(left).await;
    }

    async fn ask_for(&self, conn: &dyn Conn, change: Change) -> Result<(), Error> {
        let (Change::Subscribe(channels) | Change::Unsubscribe(channels)) = &change;
        let verb = match (&change, self.reach) {
            (Change::Subscribe(_), Reach::Everywhere) => "SUBSCRIBE",
            (Change::Unsubscribe(_), Reach::Everywhere) => "UNSUBSCRIBE",
            (Change::Subscribe(_), Reach::Shard(_)) => "SSUBSCRIBE",
            (Change::Unsubscribe(_), Reach::Shard(_)) => "SUNSUBSCRIBE",
        };
        let mut command = Command::new(verb);
        channels.iter().for_each(|channel| command.push(&**channel));
        let result = self.send(conn, command).await;
        if let Err(error) = &result
            && error.kind() == ErrorKind::Permission
        {
            if let Change::Unsubscribe(_) = change {
                tracing::debug!(target: "redlatch", %error, "no right to stop listening; messages nobody waits for go on coming");
                return Ok(());
            }
            if channels.len() == 1 {
                tracing::warn!(target: "redlatch", %error, "no right to listen; waiters look by the clock");
            }
            self.table().refused(channels, error);
            return Ok(());
        }
        result
    }

    async fn send(&self, conn: &dyn Conn, command: Command) -> Result<(), Error> {
        self.world.life.check_process()?;
        let late = "no answer on the pub/sub connection in time";
        let reply = dialer::ask_pubsub(&self.world, conn, command, late).await?;
        let Err(error) = reply else { return Ok(()) };
        if let Class::Redirect(_) = classify(&error.code, &error.message) {
            // Another node serves the slot of the channel.
            self.router.looks.want();
        }
        let message = format!("the server refuses a subscription: {error}");
        Err(Error::answered(message, error))
    }
}

async fn supervise(hub: Arc<Hub>, dialer: Dialer, round: u32) {
    select! {
        biased;
        () = hub.retired.notified() => {}
        () = hub.world.ended() => {}
        () = keep_up(&hub, dialer, round) => {}
    }
    hub.table().disconnected();
}

/// Reconnects until dropped.
async fn keep_up(hub: &Hub, mut dialer: Dialer, mut round: u32) {
    let mut outage = Outage::default();
    loop {
        round = round.wrapping_add(1);
        let Some((address, result)) = dialer.next(hub.server(round)).await else {
            return;
        };
        let Err(error) = match result {
            Ok(dialed) => {
                if let Some(over) = outage.connected(hub.world.now()) {
                    observe::connected(&address, MESSAGES, Some(over));
                }
                hub.live(&address, dialed, &mut dialer).await
            }
            Err(error) => Err(error),
        };
        let trouble = outage.failed(hub.world.now());
        observe::disconnected(&address, MESSAGES, &error, trouble);
        let mut table = hub.table();
        table.trouble = Some(error);
        table.disconnected();
    }
}

impl Listener {
    /// Waits until messages reach the client. Returns `false` if they cannot, or not by `deadline`.
    pub(crate) async fn ready(&self, deadline: Moment) -> bool {
        loop {
            let standing = self.hub.table().standing(&self.channel);
            match standing {
                Standing::Heard => return true,
                Standing::Unsubscribed => return false,
                Standing::Pending => {}
            }
            select! {
                biased;
                () = self.inbox.settled.notified() => {}
                () = self.hub.world.life.forked() => return false,
                () = self.hub.world.alarm(deadline) => return false,
            }
        }
    }

    /// Waits for the next wake-up. A wake-up since the last call counts. Returns `false` if no
    /// message came but some may have been missed.
    pub(crate) async fn woken(&self) -> bool {
        self.inbox.wake.notified().await;
        self.inbox.take_called()
    }

    /// Takes the last message about a grant, if one came.
    pub(crate) fn take_grant(&self) -> Option<Notice> {
        self.inbox.take_grant()
    }

    /// Waits as [`woken`](Self::woken), for a listener that takes any message. Returns the number
    /// of the last message. The number is the same for all listeners of the channel, and greater
    /// than that of any earlier message. Returns `None` if no message came but some may have been
    /// missed.
    pub(crate) async fn heard(&self) -> Option<u64> {
        self.inbox.wake.notified().await;
        self.inbox.take_number()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut table = self.hub.table();
        if table.unlisten(&self.channel, &self.filter, self.id) {
            self.hub.dirty.notify_one();
        }
    }
}

/// What the connection is for, in events.
const MESSAGES: &str = "messages";

/// Maximum number of channels in one command.
const CHUNK: usize = 128;
