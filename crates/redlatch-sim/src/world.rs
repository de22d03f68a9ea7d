//! One run: a server, its clients, and what befalls them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use redlatch_core::seam::BoxFuture;
use redlatch_embedded::{
    Model,
    engine::{Contents, KeyDump, Snapshot},
};
use tokio::sync::Notify;

use crate::{
    exec::{Death, Exec, ProcId, Step, lock},
    faults::{Fault, Faults},
    mutants::Mutant,
    net::{ConnId, Downward, Net, Upward},
    plan::Plan,
    rng::Rng,
    scripts::{NAMES, label, name_of},
    server::Server,
    watch::{Tally, Violation, Watch},
    workload::Life,
};

/// Something that is due.
#[derive(Debug)]
pub enum Event {
    /// A message reaches the server.
    Up(ConnId, Upward),
    /// A message reaches a client.
    Down(ConnId, Downward),
    /// A connection breaks.
    Cut(ConnId),
    /// The next timed fault.
    Nemesis,
    /// A paused process goes on.
    Resume(ProcId),
    /// The stopped server goes on.
    ServerResumes,
    /// A client begins its next life.
    Rebirth(usize),
    /// A copy of the data is taken, for a failover that loses what comes after it.
    Copy,
    /// All faults end.
    Heal,
    /// Everything must have ended.
    End,
}

/// What a run is asked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Faults that are on in any case.
    pub faults: Vec<Fault>,
    /// The planted fault.
    pub mutant: Option<Mutant>,
    /// Whether the story is told.
    pub told: bool,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The broken promises.
    pub violations: Vec<Violation>,
    /// Whether two holders were seen where they are expected.
    pub two_holders: bool,
    /// The sums.
    pub tally: Tally,
    /// Virtual time in µs.
    pub lasted: u64,
    /// Steps of the executor.
    pub steps: u64,
    /// The story, if it was told.
    pub story: Vec<String>,
}

/// What clients and the run share.
#[derive(Debug)]
pub struct Shared {
    /// Clock, tasks and timers.
    pub exec: Arc<Exec>,
    /// The network.
    pub net: Arc<Net>,
    /// The observer.
    pub watch: Arc<Watch>,
    /// What this seed is about.
    pub plan: Plan,
    /// The faults of the safety phase.
    pub faults: Faults,
    /// The rules that clients keep.
    pub rules: redlatch_core::rules::Rules,
    /// How far the workers of each client have come.
    pub done: Done,
    rounds: Mutex<Vec<u64>>,
    healed: AtomicBool,
    heal: Notify,
    resting: Mutex<Vec<usize>>,
    over: Mutex<BTreeSet<String>>,
    outside: ProcId,
}

/// Counts workers that have ended.
#[derive(Debug)]
pub struct Done {
    counts: Vec<AtomicUsize>,
    changed: Notify,
}

impl Done {
    /// Waits until `workers` of a client have ended.
    pub async fn of(&self, client: usize, workers: usize) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.counts[client].load(Ordering::Relaxed) >= workers {
                return;
            }
            changed.await;
        }
    }

    /// One more has ended.
    pub fn one(&self, client: usize) {
        self.counts[client].fetch_add(1, Ordering::Relaxed);
        self.changed.notify_waiters();
    }
}

impl Shared {
    /// Tells whether all faults have ended.
    pub fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    /// Resolves when all faults have ended.
    pub async fn healed(&self) {
        let mut heal = std::pin::pin!(self.heal.notified());
        heal.as_mut().enable();
        if !self.is_healed() {
            heal.await;
        }
    }

    /// Takes one of the client's rounds, if there are any left.
    pub fn takes_round(&self, client: usize) -> bool {
        let mut rounds = lock(&self.rounds);
        let taken = rounds[client] > 0;
        rounds[client] = rounds[client].saturating_sub(1);
        taken
    }

    /// A worker has no rounds left.
    pub fn rests(&self, client: usize) {
        let mut resting = lock(&self.resting);
        resting[client] += 1;
        if !self.is_healed()
            && resting.iter().sum::<usize>() == self.plan.clients * self.plan.workers
        {
            self.exec.schedule(self.exec.now() + 1, Event::Heal);
        }
    }

    /// A client has done all its work.
    pub fn finished(&self, client: usize, id: &str) {
        lock(&self.over).insert(id.to_owned());
        self.watch.say(|| format!("c{client} has done its work"));
    }

    /// Returns who holds a name on the server.
    pub fn holder(&self, name: usize) -> Option<String> {
        let state = self.net.state();
        let now = state.server.time(self.exec.now());
        let dump = state.server.engine().dump(now);
        dump.iter()
            .filter(|key| name_of(&String::from_utf8_lossy(&key.key)) == Some(name))
            .find_map(|key| holder_of(key, now.millis()))
    }

    /// Runs `action` after `micros`, whatever becomes of the client.
    pub fn store(&self, micros: u64, action: BoxFuture<()>) {
        let sleep = crate::runtime::SimRuntime::new(
            Arc::clone(&self.exec),
            self.outside,
            crate::runtime::Clock {
                offset: 0,
                drift: 0,
            },
            Rng::new(0),
        );
        let until = redlatch_core::Moment::from_origin(std::time::Duration::from_micros(
            self.exec.now() + micros,
        ));
        let wait = redlatch_core::seam::Runtime::sleep_until(&sleep, until);
        self.exec.spawn(
            self.outside,
            Box::pin(async move {
                wait.await;
                action.await;
            }),
        );
    }
}

/// The run itself.
struct World {
    shared: Arc<Shared>,
    rng: Rng,
    /// The process of each client's present life.
    procs: Vec<Option<ProcId>>,
    copies: Vec<Snapshot>,
    ended: bool,
}

/// Runs one seed.
pub fn run(seed: u64, options: &Options) -> Report {
    let mut world = World::new(seed, options);
    let steps = world.go();
    let shared = Arc::clone(&world.shared);
    let report = Report {
        seed,
        violations: shared.watch.violations(),
        two_holders: shared.watch.saw_two_holders(),
        tally: shared.watch.tally(),
        lasted: shared.exec.now(),
        steps,
        story: shared.watch.story(),
    };
    shared.watch.clear();
    shared.exec.clear();
    report
}

impl World {
    fn new(seed: u64, options: &Options) -> Self {
        let mut rng = Rng::new(seed);
        let faults = Faults::draw(&mut rng, &options.faults);
        let plan = Plan::draw(&mut rng, &faults);
        let exec = Exec::new(rng.fork(), rng.below(1_000));
        let watch = Watch::new(Arc::clone(&exec), plan.names, &faults, options.told);
        let forgery = options.mutant.and_then(Mutant::forgery);
        let model = Model::ALL[rng.index(Model::ALL.len())];
        let server = Server::new(model, plan.server_clock, forgery);
        let net = Net::new(
            Arc::clone(&exec),
            rng.fork(),
            server,
            faults.clone(),
            Arc::clone(&watch),
        );
        watch.say(|| format!("seed {seed}: {plan:?}"));
        watch.say(|| format!("faults: {:?}", faults.active()));
        let outside = exec.process();
        let shared = Shared {
            done: Done {
                counts: (0..plan.clients).map(|_| AtomicUsize::new(0)).collect(),
                changed: Notify::new(),
            },
            rules: options.mutant.and_then(Mutant::rules).unwrap_or_default(),
            rounds: Mutex::new(vec![plan.rounds; plan.clients]),
            healed: AtomicBool::new(false),
            heal: Notify::new(),
            resting: Mutex::new(vec![0; plan.clients]),
            over: Mutex::default(),
            outside,
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
            if lock(&self.shared.over).len() == self.shared.plan.clients && self.shared.is_healed()
            {
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
            Event::Cut(conn) => shared.net.cut(conn, true),
            Event::Nemesis => {
                if !shared.is_healed() {
                    self.strike();
                    self.schedule_nemesis();
                }
            }
            Event::Resume(proc) => shared.exec.resume(proc),
            Event::ServerResumes => {
                shared.watch.say(|| "the server goes on".to_owned());
                shared.net.resume();
            }
            Event::Rebirth(client) => self.give_birth(client),
            Event::Copy => self.copy(),
            Event::Heal => self.heal(),
            Event::End => {
                let over = lock(&shared.over).len();
                shared.watch.violate(
                    "P7",
                    format!(
                        "{} of {} clients did not get all locks {} s after all was healed",
                        shared.plan.clients - over,
                        shared.plan.clients,
                        shared.plan.liveness() / 1_000_000
                    ),
                );
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
        lock(&self.shared.resting)[client] = 0;
        Life::begin(&self.shared, proc, client, self.rng.fork());
    }

    fn copy(&mut self) {
        if self.shared.faults.has(Fault::LossyFailover) && !self.shared.is_healed() {
            let copy = self.shared.net.state().server.snapshot();
            self.copies.push(copy);
            if self.copies.len() > 5 {
                self.copies.remove(0);
            }
            self.shared
                .exec
                .schedule(self.shared.exec.now() + 40_000, Event::Copy);
        }
    }

    fn heal(&mut self) {
        let shared = Arc::clone(&self.shared);
        if shared.healed.swap(true, Ordering::Relaxed) {
            return;
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
        shared
            .exec
            .schedule(shared.exec.now() + shared.plan.liveness(), Event::End);
    }

    fn schedule_nemesis(&mut self) {
        let gap = self.rng.between(1_000, self.shared.faults.mean_gap * 2);
        self.shared
            .exec
            .schedule(self.shared.exec.now() + gap, Event::Nemesis);
    }

    /// Does one of the faults that come at moments of their own.
    fn strike(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(fault) = shared.faults.next_timed(&mut self.rng) else {
            return;
        };
        let now = shared.exec.now();
        let tell = |text: String| shared.watch.fault(fault, now, || text);
        match fault {
            Fault::Cut | Fault::HalfOpen | Fault::PubSubCut | Fault::Stall => {
                self.strike_connection(fault)
            }
            Fault::Pause | Fault::Crash | Fault::Kill | Fault::PowerLoss => {
                self.strike_client(fault)
            }
            Fault::ScriptFlush => {
                tell("the server forgets its scripts".to_owned());
                shared.net.state().server.flush_scripts();
            }
            Fault::ServerStop => {
                let span = self.rng.between(1_000, shared.plan.lease * 2000);
                tell(format!("the server stands still for {} ms", span / 1000));
                shared.net.stop();
                shared.exec.schedule(now + span, Event::ServerResumes);
            }
            Fault::Restart => {
                tell("the server restarts with its data".to_owned());
                let data = shared.net.state().server.snapshot();
                shared.net.restart(&data);
            }
            Fault::EmptyRestart => {
                tell("the server restarts without its data".to_owned());
                shared.net.restart(&Snapshot::empty());
            }
            Fault::LossyFailover => {
                tell("the server fails over and loses its last writes".to_owned());
                if let Some(copy) = self.copies.first() {
                    shared.net.restart(copy);
                }
            }
            Fault::ClockStep => {
                let span = self
                    .rng
                    .between(50_000, shared.plan.lease * 2000)
                    .cast_signed();
                let span = if self.rng.chance(300) { -span } else { span };
                tell(format!("the server's clock is set by {} ms", span / 1000));
                shared.net.state().server.step_clock(span);
            }
            _ => {}
        }
    }

    fn strike_connection(&mut self, fault: Fault) {
        let shared = Arc::clone(&self.shared);
        let conns: Vec<_> = shared
            .net
            .open_conns()
            .into_iter()
            .filter(|&conn| fault != Fault::PubSubCut || shared.net.is_pubsub(conn))
            .collect();
        if conns.is_empty() {
            return;
        }
        let conn = conns[self.rng.index(conns.len())];
        let now = shared.exec.now();
        if fault == Fault::Stall {
            let span = self.rng.between(1_000, 6_000_000);
            let which = self.rng.below(3);
            shared.watch.fault(fault, now, || {
                format!(
                    "connection {conn} holds up what it carries for {} ms ({})",
                    span / 1000,
                    ["both ways", "to the server", "to the client"]
                        [usize::try_from(which).unwrap_or(0)]
                )
            });
            shared.net.stall(conn, span, which != 2, which != 1);
            return;
        }
        shared
            .watch
            .fault(fault, now, || format!("connection {conn} breaks"));
        shared.net.cut(conn, fault != Fault::HalfOpen);
    }

    fn strike_client(&mut self, fault: Fault) {
        let shared = Arc::clone(&self.shared);
        let client = self.rng.index(self.procs.len());
        let Some(proc) = self.procs[client] else {
            return;
        };
        let now = shared.exec.now();
        let longest = shared.plan.lease * 3000;
        if fault == Fault::Pause {
            let span = self.rng.between(1_000, longest);
            shared.watch.fault(fault, now, || {
                format!("c{client} is not scheduled for {} ms", span / 1000)
            });
            shared.exec.pause(proc);
            shared.exec.schedule(now + span, Event::Resume(proc));
            return;
        }
        let away = self.rng.between(1_000, longest);
        shared.watch.fault(fault, now, || {
            format!("c{client} dies; it comes back after {} ms", away / 1000)
        });
        self.procs[client] = None;
        shared.watch.died(proc);
        let death = if fault == Fault::Crash {
            Death::Unwound
        } else {
            Death::Killed
        };
        shared.exec.kill(proc, death);
        shared.net.forsake(proc, fault != Fault::PowerLoss);
        shared.exec.schedule(now + away, Event::Rebirth(client));
    }

    /// P6 and P10: all have done their work and settled, so nothing of theirs is left; of the dead, nothing beyond a lease.
    fn check_end(&self) {
        let shared = &self.shared;
        if shared.faults.expects_trouble() {
            return;
        }
        let over = lock(&shared.over);
        let state = shared.net.state();
        let now = state.server.time(shared.exec.now());
        for key in state.server.engine().dump(now) {
            let text = String::from_utf8_lossy(&key.key).into_owned();
            let Some(name) = name_of(&text) else { continue };
            if key.expires.is_none() {
                shared.watch.violate("P6", format!("{text} has no end"));
            }
            if let Some(holder) = holder_of(&key, now.millis()) {
                let alive = over.iter().any(|id| holder.starts_with(id.as_str()));
                if alive {
                    shared.watch.violate(
                        "P6",
                        format!(
                            "{holder} still has {} after all has been released",
                            label(name)
                        ),
                    );
                }
            }
            if let Contents::SortedSet(waiters) = &key.contents {
                for (waiter, _) in waiters {
                    let waiter = String::from_utf8_lossy(waiter);
                    if over.iter().any(|id| waiter.contains(id.as_str())) {
                        shared
                            .watch
                            .violate("P6", format!("{waiter} still waits for {}", label(name)));
                    }
                }
            }
        }
    }
}

/// Reads the live holder out of a lock's key.
fn holder_of(key: &KeyDump, now: u64) -> Option<String> {
    let Contents::Hash(fields) = &key.contents else {
        return None;
    };
    let field = |name: &str| {
        let found = fields.iter().find(|(field, _)| field == name.as_bytes());
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let until: u64 = field("u")?.parse().ok()?;
    (until > now).then(|| field("o")).flatten()
}

/// The safety phase ends at the latest then, in µs.
const SAFETY: u64 = 60_000_000;

/// No run takes more steps.
const STEPS: u64 = 3_000_000;

const _: () = assert!(NAMES.len() == 3);
