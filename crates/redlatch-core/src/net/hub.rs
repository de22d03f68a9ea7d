//! Pub/sub messages: channels, their listeners, and one supervised connection.

use std::{convert::Infallible, fmt::Debug, pin::pin, sync::Arc};

use tokio::{select, sync::Notify};

use super::{
    Bell, Router, World,
    dialer::{self, Dialer},
    routes::Routes,
    subscription_table::{Change, Standing, SubscriptionTable},
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
        outage::Outage,
        time::Moment,
    },
    runtime::{Address, Command, Conn, Dialed, Login, Protocol, Purpose},
};

/// The subscriptions of a client, on a connection that carries nothing else.
///
/// Listeners are counted per channel. After a reconnect the hub subscribes to all channels again,
/// one chunk after the other, and waits for each confirmation. Then it rings every listener once,
/// because messages in the meantime are lost.
#[derive(Debug)]
pub(crate) struct Hub {
    world: World,
    pub(super) router: Arc<Router>,
    pub(super) callees: Arc<dyn Callees>,
    reach: Reach,
    table: Mutex<SubscriptionTable>,
    /// Notified when the table has channels to subscribe or unsubscribe.
    dirty: Notify,
    /// Notified when the hub is not needed any more.
    retired: Notify,
}

/// The waiters of a client, to which the messages on its own channels go.
pub(crate) trait Callees: Debug + Send + Sync {
    /// Passes a message on. Returns what the message names, if no waiter has that name.
    fn called<'a>(&self, says: &'a str) -> Option<&'a str>;

    /// Tells the waiters that messages on `channel` may have been missed.
    fn missed(&self, channel: &str);
}

/// Which messages a hub receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Messages of any node (`PUBLISH`).
    Everywhere,
    /// Messages that the shard of this slot publishes to itself (`SPUBLISH`).
    Shard(u16),
}

/// The interest in a channel. Dropping it ends the interest, and the last drop ends the
/// subscription.
#[derive(Debug)]
pub(crate) struct Listener {
    hub: Arc<Hub>,
    channel: Arc<str>,
    id: u64,
}

impl Hub {
    pub(crate) fn new(router: &Arc<Router>, reach: Reach, callees: &Arc<dyn Callees>) -> Arc<Self> {
        Arc::new(Self {
            world: router.world.clone(),
            router: Arc::clone(router),
            callees: Arc::clone(callees),
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

    /// Subscribes to `channel` for the lifetime of the client. Its messages go to the callees.
    pub(crate) fn pin(self: &Arc<Self>, channel: &Arc<str>) {
        if self.table().pin(channel) {
            self.touch();
        }
    }

    /// Rings `bell` for the messages on `channel`. The first listener of a client starts the
    /// connection.
    pub(crate) fn listen(self: &Arc<Self>, channel: &Arc<str>, bell: Arc<Bell>) -> Listener {
        let (id, fresh) = self.table().listen(channel, bell);
        if fresh {
            self.touch();
        }
        Listener {
            hub: Arc::clone(self),
            channel: Arc::clone(channel),
            id,
        }
    }

    /// Returns whether messages on `channel` reach the client.
    pub(crate) fn hears(&self, channel: &str) -> bool {
        self.table().standing(channel) == Standing::Heard
    }

    /// Waits until messages on `channel` reach the client. Returns `false` if they cannot, or not
    /// by `deadline`.
    pub(crate) async fn ready(&self, channel: &str, deadline: Moment) -> bool {
        let standing = |table: &SubscriptionTable| match table.standing(channel) {
            Standing::Heard => Some(true),
            Standing::Unsubscribed => Some(false),
            Standing::Pending => None,
        };
        self.find(channel, standing, deadline).await == Some(true)
    }

    /// Waits until the server has confirmed or refused `channel`, until `deadline` at the latest. A
    /// broken connection is re-established in the meantime. A refusal is final, and so is a
    /// permanent failure to connect.
    pub(crate) async fn confirm(
        self: &Arc<Self>,
        channel: &Arc<str>,
        deadline: Moment,
    ) -> Result<(), Error> {
        let _listener = self.listen(channel, Arc::default());
        let answer = |table: &SubscriptionTable| match table.standing(channel) {
            Standing::Heard => Some(Ok(())),
            Standing::Pending => None,
            Standing::Unsubscribed => {
                let refusal = table.refusal(channel);
                (refusal.is_some() || table.is_hopeless()).then_some(Err(refusal))
            }
        };
        match self.find(channel, answer, deadline).await {
            Some(Ok(())) => Ok(()),
            Some(Err(Some(refusal))) => Err(refusal),
            Some(Err(None)) => Err(self.no_subscription()),
            None => {
                self.world.life.check_ended()?;
                Err(self.no_subscription())
            }
        }
    }

    /// Waits until `look` finds something in the table about `channel`, which is in use. `None` if
    /// it does not by `deadline`.
    async fn find<R>(
        &self,
        channel: &str,
        look: impl Fn(&SubscriptionTable) -> Option<R>,
        deadline: Moment,
    ) -> Option<R> {
        let notify = self.table().settled(channel);
        let found = async {
            loop {
                let mut settled = pin!(notify.notified());
                // From here on, no change is missed.
                settled.as_mut().enable();
                if let Some(found) = look(&self.table()) {
                    return found;
                }
                settled.await;
            }
        };
        self.world.until(deadline, found).await
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

    /// Changes the table. Tells the callees of gaps when the table is unlocked.
    fn change<R>(&self, change: impl FnOnce(&mut SubscriptionTable) -> R) -> R {
        let (result, missed) = {
            let mut table = self.table();
            let result = change(&mut table);
            (result, table.take_missed())
        };
        for channel in missed {
            self.callees.missed(&channel);
        }
        result
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
        let server = |routes: &Routes| match self.reach {
            Reach::Shard(slot) => routes.node(slot).map(|node| node.address.clone()),
            Reach::Everywhere => {
                let mut masters = routes.masters();
                let at = (round as usize).checked_rem(masters.len())?;
                Some(masters.swap_remove(at))
            }
        };
        self.router.routes.find(server).await
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
            let change = self.change(|table| {
                if table.is_settled() {
                    confirm_by = Moment::FAR_FUTURE;
                }
                table.next_change(CHUNK)
            });
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
                    let message = self.change(|table| table.take(push));
                    if let Some(stray) = message.as_deref().and_then(|says| self.callees.called(says)) {
                        self.world.strays.add(stray.into());
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
        let left = |routes: &Routes| match self.reach {
            Reach::Shard(slot) => routes
                .node(slot)
                .is_some_and(|node| node.address != *address),
            Reach::Everywhere => {
                let masters = routes.masters();
                !masters.is_empty() && !masters.contains(address)
            }
        };
        self.router.routes.when(left).await;
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
            self.change(|table| table.refused(channels, error));
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
    hub.change(SubscriptionTable::disconnected);
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
        hub.change(|table| {
            table.trouble = Some(error);
            table.disconnected();
        });
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut table = self.hub.table();
        if table.unlisten(&self.channel, self.id) {
            self.hub.dirty.notify_one();
        }
    }
}

/// What the connection is for, in events.
const MESSAGES: &str = "messages";

/// Maximum number of channels in one command.
const CHUNK: usize = 128;
