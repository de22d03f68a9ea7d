//! One life of one client: it connects, starts its workers, and leaves nothing behind.

use std::{any::Any, ops::Deref, sync::Arc, time::Duration};

use redlatch_core::{
    Client, ClientBuilder, Error,
    runtime::{Login, Runtime},
};
use tokio::select;

use super::{
    Worker,
    worker::{is_final, is_silence},
};
use crate::{
    exec::ProcId,
    mutants::What,
    net::{SimTransport, address_of, addresses},
    plan::Finding,
    rng::Rng,
    runtime::{self, Clock, SimRuntime},
    watch::Event,
    world::Shared,
};

/// One life of one client.
#[derive(Debug)]
pub struct Life {
    pub(super) shared: Arc<Shared>,
    pub(super) runtime: Arc<SimRuntime>,
    pub(super) clock: Clock,
    pub(super) proc: ProcId,
    pub(super) number: usize,
}

impl Deref for Life {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Life {
    /// Begins a life of client `number` as process `proc`.
    pub fn begin(shared: &Arc<Shared>, proc: ProcId, number: usize, mut rng: Rng) {
        let clock = shared.plan.clocks[number].clone();
        let runtime = SimRuntime::new(Arc::clone(&shared.exec), proc, clock.clone(), rng.fork());
        let life = Arc::new(Self {
            shared: Arc::clone(shared),
            runtime: Arc::new(runtime),
            clock,
            proc,
            number,
        });
        shared.exec.spawn(proc, Box::pin(life.live(rng)));
    }

    async fn live(self: Arc<Self>, mut rng: Rng) {
        let mut clients = Vec::new();
        for node in 0..self.plan.nodes() {
            clients.push(self.insist(node, &mut rng).await);
        }
        self.say(|| "is connected".to_owned());
        let kind = self.kind;
        for client in &clients {
            (kind.prepare)(client, self.plan.names).await;
        }
        for number in 0..self.plan.workers {
            let worker = Worker::new(Arc::clone(&self), &clients, number, rng.fork());
            self.runtime.spawn("worker", Box::pin(worker.work()));
        }
        self.all_ended(self.number).await;
        for client in &clients {
            self.finish(client).await;
        }
        self.say(|| "has done its work".to_owned());
    }

    /// Connects to a server, with as many attempts as needed.
    async fn insist(&self, node: usize, rng: &mut Rng) -> Client {
        loop {
            let began = self.exec.now();
            match self.connect(node).await {
                Ok(client) => {
                    let name = match node {
                        0 => format!("c{}", self.number),
                        node => format!("c{}@{node}", self.number),
                    };
                    self.watch.call_by(client.id().as_str(), &name);
                    return client;
                }
                Err(error) => {
                    self.judge(began, &error);
                    self.say(|| format!("cannot connect: {error}"));
                    self.sleep(rng.between(50_000, 500_000)).await;
                }
            }
        }
    }

    /// Checks the error of a start that began at `began`.
    fn judge(&self, began: u64, error: &Error) {
        let silent = is_silence(error) && self.lets_start(began);
        if silent || is_final(error) {
            let what = format!("c{} cannot start: {error}", self.number);
            self.watch.violate("answered", what);
        }
    }

    async fn connect(&self, node: usize) -> Result<Client, Error> {
        let plan = &self.plan;
        let transport = SimTransport::new(Arc::clone(&self.net), self.proc, self.number);
        let runtime: Arc<dyn Runtime> = Arc::clone(&self.runtime) as _;
        let mut allowance = plan.allowance;
        match self.planted {
            Some(What::AsksNoAllowance) => allowance = 0,
            Some(What::IdsCollide) if self.number < 2 => {
                self.runtime.repeat_identity(self.seed);
            }
            _ => {}
        }
        let (servers, all) = (plan.group.servers(), plan.group.all());
        let builder: ClientBuilder = match plan.group.finding {
            Finding::Fixed => ClientBuilder::at(address_of(node), Login::default()),
            Finding::Cluster => ClientBuilder::cluster(addresses(0..servers)),
            Finding::Roles => ClientBuilder::replicas(addresses(0..servers)),
            Finding::Sentinels => ClientBuilder::sentinel("main", addresses(servers..all)),
        };
        #[cfg(redlatch_sim)]
        let builder = match self.planted {
            Some(What::Client(rule)) => builder.rules(redlatch_core::family::Rules::all_but(rule)),
            _ => builder,
        };
        builder
            .server_clock_allowance(Duration::from_millis(allowance))
            .transport(Arc::new(transport))
            .runtime(runtime)
            .application("sim")
            .default_lease(Duration::from_millis(plan.lease))
            .patience(Duration::from_millis(plan.patience))
            .token_retention(Duration::from_millis(plan.retention))
            .self_check(plan.self_check)
            .connect()
            .await
    }

    /// Checks the end of this life's work: nothing of it may be left in the client or on the
    /// server.
    async fn finish(&self, client: &Client) {
        select! {
            biased;
            () = client.settled() => {}
            () = self.sleep(20_000_000) => {
                let what = format!("c{} does not settle", self.number);
                self.watch.violate("P11", what);
            }
        }
        let (number, tables) = (self.number, client.tables());
        if tables != redlatch_core::Tables::default() {
            let what = format!("c{number} has done its work, and its tables hold {tables:?}");
            self.watch.violate("P10", what);
        }
        self.finished(self.number, client.id().as_str());
    }

    /// Reports an action of this life's workers to the checkers of its kind.
    pub(super) fn did(&self, name: usize, deed: &dyn Any) {
        let proc = self.proc;
        self.watch.notes(Event::Did { proc, name, deed });
    }

    pub(super) async fn sleep(&self, micros: u64) {
        let until = self.runtime.now() + Duration::from_micros(micros);
        self.runtime.sleep_until(until).await;
    }

    /// Sleeps for `micros`. Once all is healed, it sleeps for at most 1 ms more.
    pub(super) async fn think(&self, micros: u64) {
        let beat = self.plan.beat;
        let now = runtime::micros(self.runtime.now().since_origin());
        let micros = match beat {
            0 => micros,
            beat => (now + micros).next_multiple_of(beat) - now,
        };
        select! {
            biased;
            () = self.healed() => self.sleep(micros.min(1_000)).await,
            () = self.sleep(micros) => {}
        }
    }

    fn say(&self, text: impl FnOnce() -> String) {
        self.watch.say(|| format!("c{} {}", self.number, text()));
    }
}
