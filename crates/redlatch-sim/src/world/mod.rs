//! One run: a server, its clients, and the faults.

mod depose;
mod end;
mod shared;
mod strike;

use std::{
    fs::File,
    sync::{Arc, Mutex, MutexGuard},
};

use redlatch_core::record::Recorder;
use redlatch_embedded::{Model, engine::Snapshot};
use tokio::sync::watch;
use tracing_subscriber::{
    filter::Targets,
    layer::{Layer, SubscriberExt},
    registry,
};

use self::shared::Progress;
pub use self::shared::Shared;
use crate::{
    cli,
    exec::{Exec, ProcId, lock},
    faults::{Fault, Faults},
    mutants::Mutant,
    net::Net,
    plan::Plan,
    rng::Rng,
    scenarios::Scenario,
    server::Server,
    watch::{Tally, Violation, Watch},
    workload::{KINDS, Kind, Life},
};

/// The options of a run, which are arguments of the command line as well.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// All seeds work on this kind, such as lock or latch; without it each seed draws its own
    #[arg(long, value_name = "NAME", value_parser = cli::kind)]
    pub kind: Option<Kind>,
    /// This class of faults is on in every seed; it may break promises
    #[arg(long = "fault", value_name = "NAME", hide_possible_values = true)]
    pub faults: Vec<Fault>,
    /// Put every seed into this world, whose faults may break promises
    #[arg(long, value_name = "NAME", value_parser = cli::scenario)]
    pub scenario: Option<&'static Scenario>,
    /// Write the holds of the seeds for redlatch timeline
    #[arg(long, value_name = "FILE", value_parser = cli::create)]
    pub record: Option<Arc<File>>,
    /// Write them for the judge of cargo xtask check histories
    #[arg(long, value_name = "FILE", value_parser = cli::create)]
    pub history: Option<Arc<File>>,
    /// Run with a planted fault
    #[arg(long, value_name = "NAME", value_parser = cli::mutant)]
    pub mutant: Option<Mutant>,
    /// Whether the story is recorded.
    #[arg(skip)]
    pub told: bool,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The kind that it used.
    pub kind: &'static str,
    /// The broken promises.
    pub violations: Vec<Violation>,
    /// The sums.
    pub tally: Tally,
    /// The number of steps of the executor.
    pub steps: u64,
    /// The story, if it was recorded.
    pub story: Vec<String>,
}

impl Report {
    /// Tells whether a promise was broken.
    pub const fn is_broken(&self) -> bool {
        !self.violations.is_empty()
    }
}

/// The state of the run.
#[derive(Debug)]
pub struct World {
    shared: Arc<Shared>,
    rng: Rng,
    /// The process of each client's current life.
    procs: Vec<Option<ProcId>>,
    /// The latest copies of the first server's data, a few tens of milliseconds apart.
    copies: Vec<Copied>,
    /// A part of them, half a second apart.
    old: Vec<Copied>,
    /// Random numbers for scenarios only, so that nothing else depends on them.
    apart: Rng,
    /// The active server among those that may replace each other.
    in_charge: usize,
    /// The time at which the next of the old copies is taken.
    next_old: u64,
    ended: bool,
}

/// A copy of the first server's data, with its number.
type Copied = (u64, Snapshot);

/// Runs one seed.
pub fn run(seed: u64, options: &Options) -> Report {
    let mut world = World::new(seed, options);
    let steps = match &options.record {
        None => world.go(),
        Some(file) => {
            let exec = Arc::clone(&world.shared.exec);
            let recorder = Recorder::new(Arc::clone(file)).clock(move || exec.now() / 1_000);
            let recorder = recorder.application(format!("seed {seed}"));
            let only = Targets::new().with_target("redlatch", tracing::Level::TRACE);
            let subscriber = registry().with(recorder.with_filter(only));
            tracing::subscriber::with_default(subscriber, || world.go())
        }
    };
    let shared = Arc::clone(&world.shared);
    let report = shared.watch.report(seed, steps);
    shared.watch.clear();
    shared.exec.clear();
    shared.watch.over();
    report
}

/// Creates the servers of a plan, all of one version.
fn servers(rng: &mut Rng, plan: &Plan, options: &Options) -> Vec<Server> {
    let forgery = options.mutant.and_then(Mutant::forgery);
    let model = Model::ALL[rng.index(Model::ALL.len())];
    let group = plan.group;
    let server = |seat: usize| {
        // Clients compare the clocks that they see. Those that replace a replica differ.
        let (clock, ahead) = match group.replicas {
            0 => (&plan.server_clocks[seat], plan.successors[0]),
            _ => (&plan.server_clocks[0], 0),
        };
        Server::new(model, clock.clone(), ahead, forgery.clone())
    };
    let seats = match group.replicas {
        0 => plan.nodes(),
        _ => group.all(),
    };
    (0..seats).map(server).collect()
}

impl World {
    fn new(seed: u64, options: &Options) -> Self {
        let kind = options.kind_of(seed);
        let mut rng = Rng::new(seed);
        let faults = options.draw_faults(&mut rng);
        let mut plan = Plan::draw(&mut rng, &faults)
            .over(kind.nodes, seed, &faults)
            .crowded(seed);
        if let Some(scenario) = options.scenario {
            plan = plan.within(scenario, seed);
        }
        let exec = Exec::new(rng.fork(), rng.below(1_000));
        let watch = Watch::new(Arc::clone(&exec), seed, kind, &plan, &faults, options);
        let planted = options.mutant.map(|mutant| mutant.what);
        let servers = servers(&mut rng, &plan, options);
        let net = Net::new(
            Arc::clone(&exec),
            rng.fork(),
            servers,
            plan.group,
            faults.clone(),
            planted,
            Arc::clone(&watch),
        );
        watch.say(|| format!("seed {seed}, kind {}: {plan:?}", kind.name));
        watch.say(|| format!("faults: {:?}", faults.active()));
        let progress = Progress {
            rounds: plan.rounds,
            ..Progress::default()
        };
        let shared = Shared {
            planted,
            scenario: options.scenario,
            seed,
            progress: Mutex::new(vec![progress; plan.clients]),
            ends: watch::Sender::new(()),
            healed: watch::Sender::new(false),
            over: Mutex::default(),
            kind,
            exec,
            net,
            watch,
            plan,
            faults,
        };
        Self {
            procs: vec![None; shared.plan.clients],
            shared: Arc::new(shared),
            rng,
            copies: Vec::new(),
            old: Vec::new(),
            apart: Rng::new(seed.rotate_left(40)),
            in_charge: 0,
            next_old: 0,
            ended: false,
        }
    }

    /// Locks the network.
    pub(crate) fn net(&self) -> MutexGuard<'_, Net> {
        self.shared.net()
    }

    fn go(&mut self) -> u64 {
        let exec = Arc::clone(&self.shared.exec);
        for client in 0..self.shared.plan.clients {
            let birth = move |world: &mut Self| world.give_birth(client);
            exec.schedule(self.rng.below(50_000), birth);
        }
        exec.schedule(0, Self::copy);
        self.schedule_nemesis();
        exec.schedule(SAFETY, Self::heal);
        let mut steps = 0;
        while !self.ended {
            steps += 1;
            let Some(polled) = exec.step(self) else {
                break;
            };
            if polled {
                self.shared.watch.look();
            }
            if steps > STEPS {
                let what = format!("{STEPS} steps, and no end");
                self.shared.watch.violate("P11", what);
                break;
            }
            if self.shared.late() == 0 && self.shared.is_healed() {
                self.check_end();
                break;
            }
        }
        steps
    }

    /// Reports the clients that have not completed their work in time.
    fn end(&mut self) {
        let shared = &self.shared;
        let world = shared.scenario.map_or_else(String::new, |scenario| {
            format!("{}, {}: ", scenario.name, shared.kind.name)
        });
        let (late, clients) = (shared.late(), shared.plan.clients);
        let (waiting, span) = (shared.watch.waiting(), shared.plan.liveness() / 1_000_000);
        let what = format!(
            "{world}{late} of {clients} clients did not get all locks {span} s after all was \
             healed; what is waited for: {waiting}"
        );
        shared.watch.violate("P7", what);
        self.ended = true;
    }

    fn give_birth(&mut self, client: usize) {
        if self.procs[client].is_some() {
            return;
        }
        let proc = self.shared.exec.process();
        self.procs[client] = Some(proc);
        self.shared.watch.say(|| format!("c{client} starts"));
        lock(&self.shared.progress)[client].resting = 0;
        Life::begin(&self.shared, proc, client, self.rng.fork());
    }

    fn copy(&mut self) {
        if self.shared.faults.is_copied() && !self.shared.is_healed() {
            let shared = &self.shared;
            let copy = || {
                let data = shared.net().servers[0].engine.snapshot();
                (shared.watch.copied(), data)
            };
            let now = shared.exec.now();
            if now >= self.next_old && shared.faults.has(Fault::OldSnapshot) {
                self.next_old = now + 500_000;
                keep(&mut self.old, copy(), 6);
            }
            keep(&mut self.copies, copy(), 5);
            shared.exec.after(40_000, Self::copy);
        }
    }

    fn heal(&mut self) {
        let shared = Arc::clone(&self.shared);
        if shared.healed.send_replace(true) {
            return;
        }
        if let Some(fault) = shared.scenario.and_then(|scenario| scenario.last) {
            self.take_over(fault);
        }
        shared.watch.heals();
        shared.net().heal();
        for client in 0..self.procs.len() {
            match self.procs[client] {
                Some(proc) => shared.exec.resume(proc),
                None => self.give_birth(client),
            }
        }
        shared.exec.after(shared.plan.liveness(), Self::end);
    }
}

impl Options {
    /// Returns the kind that a seed works on. It is drawn with separate random numbers, so that the
    /// rest of the seed does not depend on the number of kinds.
    pub fn kind_of(&self, seed: u64) -> Kind {
        let kinds = self.scenario;
        let kinds = kinds.map_or_else(|| KINDS.to_vec(), Scenario::kinds);
        let drawn = Rng::new(seed.rotate_left(32)).index(kinds.len());
        self.kind.unwrap_or(kinds[drawn])
    }

    fn draw_faults(&self, rng: &mut Rng) -> Faults {
        let within = self.scenario.map_or(&[][..], |scenario| scenario.faults);
        let forced: Vec<_> = self.faults.iter().chain(within).copied().collect();
        let faults = Faults::draw(rng, &forced);
        match self.scenario {
            Some(scenario) if scenario.alone => faults.only(&forced),
            _ => faults,
        }
    }
}

/// Adds an item, and removes the oldest if there are more than `most`.
pub(crate) fn keep<T>(kept: &mut Vec<T>, item: T, most: usize) {
    kept.push(item);
    if kept.len() > most {
        kept.remove(0);
    }
}

/// The latest end of the safety phase, in µs.
const SAFETY: u64 = 60_000_000;

/// The limit of steps in a run.
const STEPS: u64 = 3_000_000;
