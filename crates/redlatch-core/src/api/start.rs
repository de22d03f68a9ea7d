//! The start of a client: its parts, its tasks, its first connection.

use std::{pin::pin, sync::Arc};

use tokio::sync::{Notify, watch};

use crate::{
    Error, Metadata,
    api::{check, config::Config},
    base::{
        life::Life,
        observe,
        owner::{ClientId, Numbers},
        rules::{Rule, Rules},
        sync::{AtomicUsize, Mutex},
        timeouts,
    },
    engine::{
        Holds, LocalQueues, Releaser, Watchdog, Withdrawals,
        client_record::{ClientRecord, FirstWrite},
        context::{Client, Core, SiblingTables},
    },
    net::{Callees, Clocks, Hub, LinkClass, Net, Reach, WakeRoutes, World, start_router},
    protocol::{
        lease::Trust,
        time::Moment,
        waiter::{RECHECKS_PER_SECOND, RateLimiter},
    },
    runtime::Runtime,
};

impl Client {
    pub(crate) async fn start(config: Config, runtime: Arc<dyn Runtime>) -> Result<Self, Error> {
        let self_check = config.self_check;
        let deadline = runtime.now() + config.connect_timeout;
        let client = Self::assemble(config, runtime);
        client.net().router.want();
        client.0.watch_over();
        client.spawn_background(if self_check {
            FirstWrite::ByConnect
        } else {
            FirstWrite::AtFirstUse
        });
        let life = Arc::clone(&client.net().world.life);
        let mut starting = Starting(Some(&life));
        let result = {
            let ready = pin!(client.get_ready(self_check, deadline));
            client.unless_closing(ready).await
        };
        // A client that was closed meanwhile knows the cause of all other errors.
        match result.map_err(|error| client.check_closing().err().unwrap_or(error)) {
            Ok(()) => {
                starting.0 = None;
                Ok(client)
            }
            Err(error) => {
                drop(starting);
                drop(client);
                // Wait for the tasks, so that no connection attempt outlives this call.
                life.idle().await;
                Err(error)
            }
        }
    }

    /// Creates a client that connects with its first call.
    pub(crate) fn start_lazy(config: Config, runtime: Arc<dyn Runtime>) -> Self {
        let client = Self::assemble(config, runtime);
        client.0.watch_over();
        client.spawn_background(FirstWrite::AtFirstUse);
        client
    }

    async fn get_ready(&self, self_check: bool, deadline: Moment) -> Result<(), Error> {
        let net = self.net();
        net.router.known(deadline).await?;
        if let Some(slots) = net.router.unserved() {
            observe::unserved(&slots);
        }
        if !self.keeps(Rule::StartWithoutSome) {
            for slot in net.router.one_slot_per_node() {
                let class = LinkClass::Command;
                net.router.session(slot, class, deadline).await?;
            }
        }
        let session = net.router.any_session(deadline).await;
        session.map_err(|error| check::denied(self, error))?;
        if !self_check {
            // This client may only look, or give back. The background writes its record.
            return Ok(());
        }
        check::check(self, deadline).await?;
        let others = net.router.one_slot_per_node().len() > 1;
        let patience = if others {
            deadline.min(self.now() + timeouts::RECORD_WRITE)
        } else {
            deadline
        };
        let record = &self.0.record;
        match record.announce(net, patience, timeouts::RECORD_TTL).await {
            Err(error) if others && error.is_silence() => {
                tracing::debug!(target: "redlatch", %error, "the server for this client's record is silent; it is written later");
                Ok(())
            }
            result => result,
        }
    }

    fn assemble(config: Config, runtime: Arc<dyn Runtime>) -> Self {
        observe::describe();
        let rules = config.rules;
        let address = config.servers.topology.to_string().into();
        let id = ClientId::from_entropy(runtime.entropy());
        let numbers = Arc::new(Numbers::new(id.clone()));
        let world = world(&config, &runtime, &numbers);
        let router = start_router(&world, config.servers, config.connect_timeout);
        let metadata = Metadata::of_this_process(config.application);
        let local_queues = Arc::new(LocalQueues::new(rules, config.prefix.clone()));
        let callees: Arc<dyn Callees> = Arc::clone(&local_queues) as _;
        let hub = Hub::new(&router, Reach::Everywhere, &callees);
        let wakes = WakeRoutes::new(&hub, &config.prefix, &id);
        let holds = Arc::new(Holds::default());
        let (prefix, queues) = (config.prefix.clone(), Arc::clone(&local_queues));
        let withdrawals = Withdrawals::new(prefix, queues, Arc::clone(&holds), config.patience);
        Self(Arc::new(Core {
            net: Arc::new(Net {
                world,
                router,
                hub,
                wakes,
                fail_fast: config.fail_fast,
            }),
            record: Arc::new(ClientRecord::new(&config.prefix, &id, metadata)),
            numbers,
            prefix: config.prefix,
            lease: config.lease,
            strategy: config.strategy,
            address,
            trust: trust(config.trust, rules),
            retention: config.retention,
            patience: config.patience,
            long_wait: config.long_wait,
            max_waiters: config.max_waiters,
            rules,
            holds,
            local_queues: Arc::clone(&local_queues),
            phase_watches: Arc::default(),
            sibling_tables: SiblingTables::default(),
            watchdog: Arc::new(Watchdog::new(runtime)),
            withdrawals: Arc::new(withdrawals),
            releaser: Arc::new(Releaser::new(config.retention, local_queues)),
            rate_limiter: Mutex::new(RateLimiter::new(RECHECKS_PER_SECOND)),
            waiters: AtomicUsize::new(0),
            releases: AtomicUsize::new(0),
            quieter: Notify::new(),
            closing_holds: Mutex::default(),
            closing: watch::Sender::new(None),
        }))
    }

    fn spawn_background(&self, record: FirstWrite) {
        let core = &self.0;
        let net = || Arc::clone(&core.net);
        let life = &core.net.world.life;
        life.spawn("watchdog", Arc::clone(&core.watchdog).run(net()));
        life.spawn(
            "releaser",
            Arc::clone(&core.releaser).run(net(), Arc::clone(&core.record)),
        );
        life.spawn("withdrawals", Arc::clone(&core.withdrawals).run(net()));
        if let Some(changed) = &core.net.world.changed {
            let (withdrawals, changed) = (Arc::clone(&core.withdrawals), Arc::clone(changed));
            life.spawn("key watch", withdrawals.watch_keys(net(), changed));
        }
        life.spawn(
            "client record",
            Arc::clone(&core.record).keep(net(), record),
        );
    }
}

/// Creates the environment of the code below the engine.
fn world(config: &Config, runtime: &Arc<dyn Runtime>, numbers: &Arc<Numbers>) -> World {
    let life = Life::new(Arc::clone(runtime), Arc::clone(numbers));
    World::new(
        Arc::clone(runtime),
        Arc::clone(&config.transport),
        Clocks::new(config.clock_allowance()),
        life,
        (config.watch_keys, config.rules),
    )
}

/// Returns the trust in clocks that the client applies.
fn trust(configured: Trust, rules: Rules) -> Trust {
    if rules.keeps(Rule::TakeMargin) {
        configured
    } else {
        Trust::new(0.0).unwrap_or_default()
    }
}

/// The life of a client that is not ready yet. Dropping it stops the client at once.
struct Starting<'a>(Option<&'a Life>);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if let Some(life) = self.0 {
            life.stop();
        }
    }
}
