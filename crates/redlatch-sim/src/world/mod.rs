//! One run: a server, its clients, and the faults.

mod depose;
mod end;
mod shared;
mod strike;

use std::{
    fs::File,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use redlatch_core::record::Recorder;
use redlatch_embedded::{Model, engine::Snapshot};
use tokio::sync::Notify;
use tracing_subscriber::{
    filter::Targets,
    layer::{Layer, SubscriberExt},
    registry,
};

use self::shared::Progress;
pub use self::shared::Shared;
use crate::{
    exec::{Exec, ProcId, Step, lock},
    faults::{Fault, Faults},
    mutants::Mutant,
    names::NAMES,
    net::{ConnId, Copy, Downward, Net, Parcel, Post, Seat, Upward},
    plan::Plan,
    rng::Rng,
    runtime::{Clock, SimRuntime},
    scenarios::Scenario,
    server::Server,
    watch::{Tally, Violation, Watch},
    workload::{self, Kind, Life},
};

/// An event that is due.
#[derive(Debug)]
pub enum Event {
    /// A message reaches the server.
    Up(ConnId, Upward),
    /// A message reaches a client.
    Down(ConnId, Downward),
    /// A copy of a request reaches the server.
    Double(Copy),
    /// A connection breaks.
    Cut(ConnId),
    /// The next timed fault occurs.
    Nemesis,
    /// A paused process resumes.
    Resume(ProcId),
    /// A stopped server resumes.
    ServerResumes(usize),
    /// A dead master of a cluster serves again.
    MasterReturns(usize),
    /// The next key of a slot moves.
    MoveOn,
    /// Data reach a replica.
    Parcel(Parcel),
    /// The time of a `WAIT` is over.
    Waited(ConnId),
    /// A replica takes over from the master of a shard.
    Appoint(usize),
    /// A server or a sentinel learns who is the master of a shard, and perhaps closes connections.
    Told(Seat, usize, Post, bool),
    /// A client begins its next life.
    Rebirth(usize),
    /// A copy of the data is taken, for a failover that loses later data.
    Copy,
    /// All faults end.
    Heal,
    /// All work must have ended.
    End,
}

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Faults that are always on.
    pub faults: Vec<Fault>,
    /// The kind of all seeds. If there is none, each seed draws its own.
    pub kind: Option<Kind>,
    /// The planted fault.
    pub mutant: Option<Mutant>,
    /// The scenario of all seeds.
    pub scenario: Option<&'static Scenario>,
    /// Whether the story is recorded.
    pub told: bool,
    /// The file for the holds of all clients, for `redlatch timeline`.
    pub record: Option<Arc<File>>,
    /// The file for the holds of all clients, for the judge in `tests/histories`.
    pub history: Option<Arc<File>>,
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
struct World {
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

/// A copy of the first server's data.
#[derive(Debug)]
struct Copied {
    number: u64,
    data: Snapshot,
}

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
    let server =
        |model, clock: &Clock, ahead| Server::new(model, clock.clone(), ahead, forgery.clone());
    let group = plan.group;
    if group.replicas == 0 {
        let clocks = plan.server_clocks.iter();
        return clocks
            .map(|clock| server(model, clock, plan.successors[0]))
            .collect();
    }
    // Clients compare the clocks that they see. Those that replace a replica differ.
    let seats = (0..group.all()).map(|_| server(model, &plan.server_clocks[0], 0));
    seats.collect()
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
        let (clock, proc) = (Clock::steady(0, 0), exec.process());
        let outside = SimRuntime::new(Arc::clone(&exec), proc, clock, Rng::new(0));
        let progress = Progress {
            rounds: plan.rounds,
            ..Progress::default()
        };
        let shared = Shared {
            planted,
            scenario: options.scenario,
            seed,
            progress: Mutex::new(vec![progress; plan.clients]),
            ends: Notify::new(),
            healed: AtomicBool::new(false),
            heal: Notify::new(),
            over: Mutex::default(),
            outside,
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

    fn go(&mut self) -> u64 {
        let exec = Arc::clone(&self.shared.exec);
        for client in 0..self.shared.plan.clients {
            exec.schedule(self.rng.below(50_000), Event::Rebirth(client));
        }
        exec.schedule(0, Event::Copy);
        self.schedule_nemesis();
        exec.schedule(SAFETY, Event::Heal);
        let mut steps = 0;
        while !self.ended {
            steps += 1;
            match exec.step() {
                Step::Polled => self.shared.watch.look(),
                Step::Fired => {}
                Step::Event(event) => self.happen(event),
                Step::Idle => break,
            }
            if steps > STEPS {
                self.shared
                    .watch
                    .violate("P11", format!("{STEPS} steps, and no end"));
                break;
            }
            let clients = self.shared.plan.clients * self.shared.plan.nodes();
            if lock(&self.shared.over).len() == clients && self.shared.is_healed() {
                self.check_end();
                break;
            }
        }
        steps
    }

    fn happen(&mut self, event: Event) {
        let shared = Arc::clone(&self.shared);
        match event {
            Event::Up(conn, message) => shared.net.arrive_up(conn, message),
            Event::Down(conn, message) => shared.net.arrive_down(conn, message),
            Event::Double(copy) => shared.net.double(&copy),
            Event::Cut(conn) => shared.net.cut(conn, true),
            Event::Nemesis => {
                if !shared.is_healed() {
                    self.strike();
                    self.schedule_nemesis();
                }
            }
            Event::Resume(proc) => shared.exec.resume(proc),
            Event::ServerResumes(node) => {
                shared.watch.say(|| format!("server {node} goes on"));
                shared.net.resume(node);
            }
            Event::MasterReturns(master) => {
                shared.watch.say(|| format!("master {master} is back"));
                shared.net.restore_master(master);
            }
            Event::MoveOn => {
                if let Some(span) = shared.net.move_on() {
                    shared.exec.after(span, Event::MoveOn);
                }
            }
            Event::Parcel(parcel) => shared.net.apply(parcel),
            Event::Waited(conn) => shared.net.waited(conn),
            Event::Appoint(shard) => self.appoint(shard),
            Event::Told(seat, shard, post, breaks) => shared.net.tell(seat, shard, post, breaks),
            Event::Rebirth(client) => self.give_birth(client),
            Event::Copy => self.copy(),
            Event::Heal => self.heal(),
            Event::End => {
                let world = match shared.scenario {
                    Some(scenario) => format!("{}, {}: ", scenario.name, shared.kind.name),
                    None => String::new(),
                };
                let (clients, waiting) = (shared.plan.clients, shared.watch.waiting());
                let late = clients - lock(&shared.over).len() / shared.plan.nodes();
                let span = shared.plan.liveness() / 1_000_000;
                let what = format!(
                    "{world}{late} of {clients} clients did not get all locks {span} s after all \
                     was healed; what is waited for: {waiting}"
                );
                shared.watch.violate("P7", what);
                self.ended = true;
            }
        }
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
            let copy = || Copied {
                number: self.shared.watch.copied(),
                data: self.shared.net.state().servers[0].snapshot(),
            };
            let now = self.shared.exec.now();
            if now >= self.next_old && self.shared.faults.has(Fault::OldSnapshot) {
                self.next_old = now + 500_000;
                keep(&mut self.old, copy(), 6);
            }
            keep(&mut self.copies, copy(), 5);
            self.shared.exec.after(40_000, Event::Copy);
        }
    }

    fn heal(&mut self) {
        let shared = Arc::clone(&self.shared);
        if shared.healed.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(fault) = shared.scenario.and_then(|scenario| scenario.last) {
            self.take_over(fault);
        }
        shared.watch.heals();
        shared.net.heal();
        for client in 0..self.procs.len() {
            match self.procs[client] {
                Some(proc) => shared.exec.resume(proc),
                None => self.give_birth(client),
            }
        }
        shared.heal.notify_waiters();
        shared.exec.after(shared.plan.liveness(), Event::End);
    }
}

impl Options {
    /// Returns the kind that a seed works on.
    pub fn kind_of(&self, seed: u64) -> Kind {
        let drawn = || match self.scenario {
            Some(scenario) => scenario.draw_kind(seed),
            None => workload::draw(seed),
        };
        self.kind.unwrap_or_else(drawn)
    }

    fn draw_faults(&self, rng: &mut Rng) -> Faults {
        let forced = self.forced();
        let faults = Faults::draw(rng, &forced);
        match self.scenario {
            Some(scenario) if scenario.alone => faults.only(&forced),
            _ => faults,
        }
    }

    fn forced(&self) -> Vec<Fault> {
        let within = self.scenario.map_or(&[][..], |scenario| scenario.faults);
        self.faults.iter().chain(within).copied().collect()
    }
}

/// Adds a copy, and removes the oldest if there are more than `most`.
fn keep(kept: &mut Vec<Copied>, copy: Copied, most: usize) {
    kept.push(copy);
    if kept.len() > most {
        kept.remove(0);
    }
}

/// The latest end of the safety phase, in µs.
const SAFETY: u64 = 60_000_000;

/// The limit of steps in a run.
const STEPS: u64 = 3_000_000;

const _: () = assert!(NAMES.len() == 8);
