//! The executor: tasks in seeded order, a virtual clock in microseconds, and processes that pause
//! and die.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Wake, Waker},
};

use redlatch_core::runtime::BoxFuture;

use crate::{rng::Rng, world::World};

/// The number of a process: one life of one client.
pub type ProcId = usize;

/// Runs tasks and holds pending events. No method waits; [`Exec::step`] performs one step at a
/// time.
pub struct Exec {
    now: AtomicU64,
    ready: Arc<Mutex<Ready>>,
    state: Mutex<State>,
}

/// The tasks to poll, in the order of their numbers. The order of their wake-ups must not matter,
/// because tokio's channels wake in their own order.
type Ready = BTreeSet<usize>;

struct State {
    rng: Rng,
    tasks: Vec<Option<Task>>,
    due: BTreeMap<(u64, u64), Event>,
    seq: u64,
    procs: Vec<Proc>,
    /// Tasks of processes that died without running their destructors.
    graveyard: Vec<BoxFuture<()>>,
    timer_late: u64,
}

struct Task {
    proc: ProcId,
    future: Option<BoxFuture<()>>,
    waker: Waker,
}

/// The state of a process.
struct Proc {
    fate: Fate,
    /// The time at which it began to run or to pause.
    since: u64,
    /// The µs of its former pauses.
    paused: u64,
    parked: BTreeSet<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Running,
    Paused,
    Dead,
}

/// What happens at its time.
type Event = Box<dyn FnOnce(&mut World) + Send>;

impl Exec {
    /// Starts at time zero. Timers fire up to `timer_late` µs late.
    pub fn new(rng: Rng, timer_late: u64) -> Arc<Self> {
        Arc::new(Self {
            now: AtomicU64::new(0),
            ready: Arc::default(),
            state: Mutex::new(State {
                rng,
                tasks: Vec::new(),
                due: BTreeMap::new(),
                seq: 0,
                procs: Vec::new(),
                graveyard: Vec::new(),
                timer_late,
            }),
        })
    }

    /// Returns the true time in microseconds.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Creates a process.
    pub fn process(&self) -> ProcId {
        let now = self.now();
        let mut state = self.state();
        state.procs.push(Proc {
            fate: Fate::Running,
            since: now,
            paused: 0,
            parked: BTreeSet::new(),
        });
        state.procs.len() - 1
    }

    /// Adds a task to a process. A dead process ignores it.
    pub fn spawn(&self, proc: ProcId, future: BoxFuture<()>) {
        let mut state = self.state();
        if state.procs[proc].fate == Fate::Dead {
            state.graveyard.push(future);
            return;
        }
        let id = state.tasks.len();
        let ready = Arc::clone(&self.ready);
        state.tasks.push(Some(Task {
            proc,
            future: Some(future),
            waker: Arc::new(TaskWaker { id, ready }).into(),
        }));
        drop(state);
        lock(&self.ready).insert(id);
    }

    /// Lets `event` happen at the time `at`.
    pub fn schedule(&self, at: u64, event: impl FnOnce(&mut World) + Send + 'static) {
        self.state().enter(at, Box::new(event));
    }

    /// Lets `event` happen `span` µs from now.
    pub fn after(&self, span: u64, event: impl FnOnce(&mut World) + Send + 'static) {
        self.schedule(self.now() + span, event);
    }

    /// Sets a timer. The returned key cancels it.
    pub(crate) fn timer(&self, at: u64, waker: Waker) -> (u64, u64) {
        let mut state = self.state();
        let latest = state.timer_late;
        let late = state.rng.below(latest + 1);
        let at = at.max(self.now()) + late;
        state.enter(at, Box::new(|_: &mut World| waker.wake()))
    }

    pub(crate) fn cancel(&self, key: (u64, u64)) {
        let timer = self.state().due.remove(&key);
        drop(timer);
    }

    /// Stops polling a process. Its clock runs on and its timers fire.
    pub fn pause(&self, proc: ProcId) {
        let now = self.now();
        let mut state = self.state();
        let proc = &mut state.procs[proc];
        if proc.fate == Fate::Running {
            (proc.fate, proc.since) = (Fate::Paused, now);
        }
    }

    /// Resumes a paused process.
    pub fn resume(&self, proc: ProcId) {
        let now = self.now();
        let mut state = self.state();
        let proc = &mut state.procs[proc];
        if proc.fate == Fate::Paused {
            proc.paused += now - proc.since;
            (proc.fate, proc.since) = (Fate::Running, now);
            let parked = std::mem::take(&mut proc.parked);
            drop(state);
            lock(&self.ready).extend(parked);
        }
    }

    /// Ends a process. If it `unwinds`, all its tasks are dropped. Otherwise no destructor runs.
    pub fn kill(&self, proc: ProcId, unwinds: bool) {
        let mut state = self.state();
        state.procs[proc].fate = Fate::Dead;
        state.procs[proc].parked.clear();
        let take = |slot: &mut Option<Task>| slot.take_if(|task| task.proc == proc)?.future;
        let mut dead: Vec<_> = state.tasks.iter_mut().filter_map(take).collect();
        if !unwinds {
            state.graveyard.append(&mut dead);
        }
        drop(state);
        drop(dead);
    }

    /// Tells whether a process runs or is paused.
    pub fn is_alive(&self, proc: ProcId) -> bool {
        self.state().procs[proc].fate != Fate::Dead
    }

    /// Returns the µs of all pauses of a process, including the current one.
    pub fn paused(&self, proc: ProcId) -> u64 {
        let proc = &self.state().procs[proc];
        match proc.fate {
            Fate::Paused => proc.paused + self.now() - proc.since,
            _ => proc.paused,
        }
    }

    /// Returns the time at which a process last began to run; `None` while it is paused or dead.
    pub fn running_since(&self, proc: ProcId) -> Option<u64> {
        let proc = &self.state().procs[proc];
        (proc.fate == Fate::Running).then_some(proc.since)
    }

    /// Performs one step: polls one ready task, or advances the time to the next event or timer.
    /// Tells whether it has polled a task; `None` if nothing is left to do.
    pub fn step(&self, world: &mut World) -> Option<bool> {
        while let Some(id) = self.pick() {
            if self.poll(id) {
                return Some(true);
            }
        }
        let ((at, _), event) = self.state().due.pop_first()?;
        self.now.fetch_max(at, Ordering::Relaxed);
        event(world);
        Some(false)
    }

    /// Drops all remaining tasks and events, so that they do not keep each other alive.
    pub fn clear(&self) {
        loop {
            let mut state = self.state();
            let tasks = std::mem::take(&mut state.tasks);
            let graves = std::mem::take(&mut state.graveyard);
            let due = std::mem::take(&mut state.due);
            for proc in &mut state.procs {
                proc.fate = Fate::Dead;
            }
            drop(state);
            lock(&self.ready).clear();
            if tasks.is_empty() && graves.is_empty() && due.is_empty() {
                return;
            }
            // Destructors run without the lock and may add further tasks or events.
            drop((tasks, graves, due));
        }
    }

    fn pick(&self) -> Option<usize> {
        let mut ready = lock(&self.ready);
        let at = match ready.len() {
            0 | 1 => 0,
            len => self.state().rng.index(len),
        };
        let id = *ready.iter().nth(at)?;
        ready.remove(&id);
        Some(id)
    }

    /// Polls a task; `false` if it is gone or its process does not run.
    fn poll(&self, id: usize) -> bool {
        let mut state = self.state();
        let State { tasks, procs, .. } = &mut *state;
        let Some(task) = tasks[id].as_mut() else {
            return false;
        };
        if procs[task.proc].fate == Fate::Paused {
            procs[task.proc].parked.insert(id);
            return false;
        }
        // The poll may call back into the executor and needs its lock, so the future is taken out.
        let (Some(mut future), waker) = (task.future.take(), task.waker.clone()) else {
            return false;
        };
        drop(state);
        // Each poll takes time, so tasks cannot loop for ever at one instant.
        self.now.fetch_add(1, Ordering::Relaxed);
        let done = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.state();
        let slot = &mut state.tasks[id];
        if done.is_ready() {
            *slot = None;
        } else if let Some(task) = slot {
            task.future = Some(future);
        }
        // The destructor of a future that is over runs without the lock for the same reason.
        drop(state);
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn enter(&mut self, at: u64, event: Event) -> (u64, u64) {
        self.seq += 1;
        let key = (at, self.seq);
        self.due.insert(key, event);
        key
    }
}

impl fmt::Debug for Exec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exec").finish_non_exhaustive()
    }
}

struct TaskWaker {
    id: usize,
    ready: Arc<Mutex<Ready>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.ready).insert(self.id);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
