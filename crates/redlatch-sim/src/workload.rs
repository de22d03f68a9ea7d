//! What clients do: lock, hold, re-enter, extend, give up half-way, release, ignore what they are told.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use redlatch_core::{
    Backoff, Client, ClientBuilder, Error, Owner, Released, WaitStrategy,
    seam::{Address, Login, Runtime},
};
use redlatch_reentrant::{Lock, LockGuard};
use tokio::select;

use crate::{
    exec::ProcId,
    faults::Fault,
    net::SimTransport,
    rng::Rng,
    runtime::{Clock, SimRuntime},
    scripts::{NAMES, label},
    watch::{Delivery, Id, Waits},
    world::Shared,
};

/// One life of one client.
#[derive(Debug)]
pub struct Life {
    shared: Arc<Shared>,
    runtime: Arc<SimRuntime>,
    clock: Clock,
    proc: ProcId,
    number: usize,
}

/// One of the tasks of a client that lock.
struct Worker {
    life: Arc<Life>,
    client: Client,
    label: String,
    rng: Rng,
    owner: Owner,
}

/// Whether an owner may hold the name already, or has held it before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nesting {
    Outer,
    Inner,
}

/// One acquisition to be made.
struct Wish {
    future: Acquiring,
    /// How long it may take in µs.
    limit: u64,
    waits: Waits,
    renewed: bool,
}

/// A delivered guard in its holder's hands; dropping it drops the guard.
struct Hold {
    shared: Arc<Shared>,
    id: Id,
    guard: Option<Arc<LockGuard>>,
    name: usize,
    token: u64,
    owner: Owner,
}

impl Life {
    /// Begins a life of client `number` as process `proc`.
    pub fn begin(shared: &Arc<Shared>, proc: ProcId, number: usize, mut rng: Rng) {
        let clock = shared.plan.clocks[number];
        let runtime = SimRuntime::new(Arc::clone(&shared.exec), proc, clock, rng.fork());
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
        let client = loop {
            match self.connect().await {
                Ok(client) => break client,
                Err(error) => {
                    self.say(|| format!("cannot connect: {error}"));
                    self.sleep(rng.between(50_000, 500_000)).await;
                }
            }
        };
        self.shared
            .watch
            .call_by(client.id().as_str(), &format!("c{}", self.number));
        self.say(|| "is connected".to_owned());
        let workers = self.shared.plan.workers;
        for number in 0..workers {
            let worker = Worker {
                life: Arc::clone(&self),
                client: client.clone(),
                label: format!("c{}.{number}", self.number),
                rng: rng.fork(),
                owner: client.owner(),
            };
            self.runtime.spawn("worker", Box::pin(worker.work()));
        }
        self.shared.done.of(self.number, workers).await;
        self.finish(&client).await;
    }

    async fn connect(&self) -> Result<Client, Error> {
        let plan = &self.shared.plan;
        let transport = SimTransport::new(Arc::clone(&self.shared.net), self.proc);
        let runtime: Arc<dyn Runtime> = Arc::clone(&self.runtime) as _;
        let builder: ClientBuilder =
            ClientBuilder::at(Address::Embedded("sim".to_owned()), Login::default());
        builder
            .transport(Arc::new(transport))
            .runtime(runtime)
            .application("sim")
            .default_lease(ms(plan.lease))
            .patience(ms(plan.patience))
            .token_retention(ms(plan.retention))
            .self_check(plan.self_check)
            .rules(self.shared.rules)
            .connect()
            .await
    }

    /// All work of this life is done: nothing may be left of it in the client or on the server.
    async fn finish(&self, client: &Client) {
        select! {
            biased;
            () = client.settled() => {}
            () = self.sleep(20_000_000) => self.shared.watch.violate("P11", format!("c{} does not settle", self.number)),
        }
        let tables = client.tables();
        if tables != redlatch_core::Tables::default() {
            self.shared.watch.violate(
                "P10",
                format!(
                    "c{} has done its work, and its tables hold {tables:?}",
                    self.number
                ),
            );
        }
        self.shared.finished(self.number, client.id().as_str());
    }

    async fn sleep(&self, micros: u64) {
        let until = self.runtime.now() + Duration::from_micros(micros);
        self.runtime.sleep_until(until).await;
    }

    /// Sleeps; sooner done once all is healed.
    async fn think(&self, micros: u64) {
        select! {
            biased;
            () = self.shared.healed() => self.sleep(micros.min(1_000)).await,
            () = self.sleep(micros) => {}
        }
    }

    fn say(&self, text: impl FnOnce() -> String) {
        self.shared
            .watch
            .say(|| format!("c{} {}", self.number, text()));
    }
}

impl Worker {
    async fn work(mut self) {
        while !self.life.shared.is_healed() && self.life.shared.takes_round(self.life.number) {
            self.round().await;
        }
        self.life.shared.rests(self.life.number);
        self.life.shared.healed().await;
        self.get_on().await;
        self.life.shared.done.one(self.life.number);
    }

    /// Everybody must get every lock once all is healed.
    async fn get_on(&mut self) {
        let names = self.life.shared.plan.names;
        for (name, &text) in NAMES.iter().enumerate().take(names) {
            loop {
                let lock = Lock::new(&self.client, text);
                let call = self
                    .life
                    .shared
                    .watch
                    .asks(self.life.proc, name, Waits::Patiently);
                let granted = lock
                    .lock()
                    .renewed_lease(ms(self.life.shared.plan.lease))
                    .await;
                let hold = granted.map(|guard| self.delivered(call, guard, true));
                self.life.shared.watch.asked(call);
                match hold {
                    Ok(hold) => {
                        self.write(&hold);
                        let released = self.release(hold).await;
                        self.say(|| format!("is done with {}: {released:?}", label(name)));
                        break;
                    }
                    Err(error) => {
                        self.say(|| format!("gets no answer for {}: {error}", label(name)));
                        self.life.sleep(20_000).await;
                    }
                }
            }
        }
    }

    async fn round(&mut self) {
        let lease = self.life.shared.plan.lease * 1000;
        let think = match self.rng.below(10) {
            0 => self.rng.between(0, lease * 3 / 2),
            1..=4 => 0,
            _ => self.rng.between(0, 50_000),
        };
        self.life.think(think).await;
        let name = self.rng.index(self.life.shared.plan.names);
        if self.life.shared.faults.has(Fault::Force) && self.rng.chance(60) {
            return self.force(name).await;
        }
        let (owner, nesting) = if self.rng.chance(250) {
            (self.owner.clone(), Nesting::Inner)
        } else {
            (self.client.owner(), Nesting::Outer)
        };
        if let Some(hold) = self.acquire(name, &owner, nesting).await {
            self.hold(hold, 0).await;
            if nesting == Nesting::Outer {
                self.left_nothing(name, &owner).await;
            }
        }
    }

    async fn force(&mut self, name: usize) {
        let force = Lock::new(&self.client, NAMES[name]).force_release();
        let gentle = self.rng.chance(500);
        let force = if gentle { force.after_lease() } else { force };
        let limit = self.life.shared.plan.patience * 2000 + 2_000_000;
        let label = self.label.clone();
        self.life
            .shared
            .watch
            .fault(Fault::Force, self.life.shared.exec.now(), || {
                format!("{label} releases {} by force", NAMES[name])
            });
        let forced = self
            .timed("force_release", limit, force.into_future())
            .await;
        self.say(|| format!("has forced {}: {forced:?}", NAMES[name]));
    }

    /// Acquires in one of the many ways; `nesting` tells whether the owner may hold already.
    async fn acquire(&mut self, name: usize, owner: &Owner, nesting: Nesting) -> Option<Hold> {
        let wish = self.wish(name, owner);
        let call = self
            .life
            .shared
            .watch
            .asks(self.life.proc, name, wish.waits);
        let cancels = self.life.shared.faults.has(Fault::Cancel) && self.rng.chance(200);
        let result = if cancels {
            self.cancelled(wish.future, name).await
        } else {
            Some(self.timed("acquire", wish.limit, wish.future).await)
        };
        let hold = match result {
            Some(Ok(Some(guard))) => Some(self.delivered(call, guard, wish.renewed)),
            Some(Ok(None)) => {
                self.say(|| format!("does not get {}", label(name)));
                None
            }
            Some(Err(error)) => {
                self.say(|| format!("fails to get {}: {error}", label(name)));
                None
            }
            None => None,
        };
        self.life.shared.watch.asked(call);
        if cancels && hold.is_none() && nesting == Nesting::Outer {
            self.left_nothing(name, owner).await;
        }
        hold
    }

    /// Draws a way to acquire.
    fn wish(&mut self, name: usize, owner: &Owner) -> Wish {
        let (lease, patience) = (self.life.shared.plan.lease, self.life.shared.plan.patience);
        let lock = Lock::new(&self.client, NAMES[name]);
        let renewed = self.rng.chance(600);
        let span = ms(if renewed {
            lease
        } else {
            self.rng.between(60, lease)
        });
        let polls = self.rng.chance(80);
        let strategy = if polls {
            WaitStrategy::Poll(Backoff::exponential(ms(5), ms(200)))
        } else {
            WaitStrategy::Notify
        };
        let way = self.rng.below(10);
        let wait = self.rng.between(0, lease * 2);
        macro_rules! with {
            ($builder:expr) => {{
                let builder = $builder.owner(owner).strategy(strategy);
                let builder = if renewed {
                    builder.renewed_lease(span)
                } else {
                    builder.lease(span)
                };
                builder.into_future()
            }};
        }
        let slack = patience * 2000 + 2_000_000;
        let (how, future, limit): (_, Acquiring, u64) = match way {
            0 => ("tries to lock", with!(lock.try_lock()), slack),
            1..=3 if wait == 0 => ("tries to lock", with!(lock.try_lock_for(ms(0))), slack),
            1..=3 => (
                "waits for",
                with!(lock.try_lock_for(ms(wait))),
                wait * 1000 + 10_000,
            ),
            _ => {
                let future = with!(lock.lock());
                let future = Box::pin(async move { future.await.map(Some) });
                ("locks", future, u64::MAX)
            }
        };
        let kind = if renewed { "renewed" } else { "fixed" };
        self.say(|| format!("{how} {} for {owner}, {kind} lease {span:?}", label(name)));
        let waits = match way {
            _ if polls => Waits::Polling,
            0..=3 => Waits::Briefly,
            _ => Waits::Patiently,
        };
        Wish {
            future,
            limit,
            waits,
            renewed,
        }
    }

    /// Polls `future` a few times or for a while, then drops it.
    async fn cancelled(
        &mut self,
        future: Acquiring,
        name: usize,
    ) -> Option<Result<Option<LockGuard>, Error>> {
        let result = if self.rng.chance(500) {
            let polls = self.rng.between(1, 12);
            Fragile { future, polls }.await
        } else {
            let span = self.rng.between(0, 300_000);
            let life = Arc::clone(&self.life);
            select! {
                biased;
                result = future => Some(result),
                () = life.sleep(span) => None,
            }
        };
        if result.is_none() {
            let label = self.label.clone();
            let shared = &self.life.shared;
            shared.watch.fault(Fault::Cancel, shared.exec.now(), || {
                format!("{label} drops its call for {}", NAMES[name])
            });
        }
        result
    }

    /// P6 and P10: once undo and release are answered, nothing of a dropped call or guard is left.
    async fn left_nothing(&mut self, name: usize, owner: &Owner) {
        if self.rng.chance(700) {
            return;
        }
        select! {
            biased;
            () = self.client.settled() => {}
            () = self.life.shared.healed() => return,
        }
        let owner = owner.to_string();
        if self.life.shared.holder(name).as_ref() == Some(&owner) {
            self.life.shared.watch.violate(
                "P10",
                format!(
                    "{owner} holds {} though all of its calls and guards are gone and answered",
                    label(name)
                ),
            );
        }
    }

    fn delivered(&self, call: Id, guard: LockGuard, renewed: bool) -> Hold {
        let shared = &self.life.shared;
        let (token, owner, name) = (
            guard.token().as_u64(),
            guard.owner().clone(),
            crate::scripts::name_of(guard.name()).unwrap_or(0),
        );
        let lost = guard.lost();
        let guard = Arc::new(guard);
        let delivery = Delivery {
            proc: self.life.proc,
            who: &self.label,
            clock: self.life.clock,
            sight: Arc::downgrade(&guard),
            renewed,
        };
        let id = shared.watch.granted(call, delivery);
        let watch = Arc::clone(&shared.watch);
        self.life.runtime.spawn(
            "notice",
            Box::pin(async move { watch.told(id, lost.await) }),
        );
        Hold {
            shared: Arc::clone(shared),
            id,
            guard: Some(guard),
            name,
            token,
            owner,
        }
    }

    /// Works under a lock.
    fn hold(&mut self, hold: Hold, depth: usize) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let lease = self.life.shared.plan.lease * 1000;
            let mut inner = Vec::new();
            for _ in 0..self.rng.below(4) {
                let span = match self.rng.below(20) {
                    0 => self.rng.between(0, lease * 3),
                    1..=3 => self.rng.between(0, lease),
                    _ => self.rng.between(0, 20_000),
                };
                match self.rng.below(10) {
                    0 | 1 if depth < 2 => {
                        if let Some(again) =
                            self.acquire(hold.name, &hold.owner, Nesting::Inner).await
                        {
                            inner.push(again);
                        }
                    }
                    2 => self.extend(&hold).await,
                    3 => self.run(&hold, span).await,
                    _ => self.life.think(span).await,
                }
                self.write(&hold);
                if hold.is_lost() && self.rng.chance(800) {
                    break;
                }
            }
            inner.push(hold);
            while !inner.is_empty() {
                let at = self.rng.index(inner.len());
                let hold = inner.swap_remove(at);
                self.end(hold).await;
            }
        })
    }

    async fn extend(&mut self, hold: &Hold) {
        let span = ms(self.rng.between(50, self.life.shared.plan.lease * 2));
        let Some(guard) = &hold.guard else { return };
        let limit = self.life.shared.plan.patience * 2000 + 2_000_000;
        let extended = self.timed("extend", limit, guard.extend(span)).await;
        self.say(|| format!("extends {} by {span:?}: {extended:?}", label(hold.name)));
    }

    async fn run(&mut self, hold: &Hold, span: u64) {
        let Some(guard) = &hold.guard else { return };
        let done = guard.run(self.life.think(span)).await;
        self.say(|| {
            format!(
                "ran for {} ms under {}: {done:?}",
                span / 1000,
                label(hold.name)
            )
        });
    }

    /// Writes if the guard's check passes, or sends a write that comes late, after the check.
    fn write(&mut self, hold: &Hold) {
        let watch = &self.life.shared.watch;
        let good = hold
            .guard
            .as_ref()
            .is_some_and(|guard| guard.check().is_ok());
        if good {
            let newest = watch.is_newest(hold.id);
            watch.writes(&self.label, hold.name, hold.token, newest);
        }
        if self.rng.chance(100) {
            let late = self.rng.between(0, self.life.shared.plan.lease * 3000);
            let (life, who, name, token) = (
                Arc::clone(&self.life),
                self.label.clone(),
                hold.name,
                hold.token,
            );
            let shared = Arc::clone(&life.shared);
            // A write in the storage's queue outlives its sender.
            shared.store(
                late,
                Box::pin(async move {
                    life.shared.watch.writes(&who, name, token, false);
                }),
            );
        }
    }

    async fn end(&mut self, hold: Hold) {
        match self.rng.below(10) {
            0..=3 => drop(hold),
            4 if self.life.shared.faults.has(Fault::Cancel) => {
                let polls = self.rng.between(1, 4);
                if let Some(guard) = hold.take() {
                    let future: Releasing = Box::pin(guard.release());
                    let _ = Fragile { future, polls }.await;
                }
            }
            _ => {
                let released = self.release(hold).await;
                self.say(|| format!("has released: {released:?}"));
            }
        }
    }

    /// Releases and compares the answer with the guards that are out.
    async fn release(&mut self, hold: Hold) -> Result<Released, Error> {
        let watch = Arc::clone(&self.life.shared.watch);
        let (name, token) = (hold.name, hold.token);
        let Some(guard) = hold.take() else {
            return Ok(Released::Free);
        };
        let before = watch.companions(name, token);
        let limit = self.life.shared.plan.patience * 2000 + 2_000_000;
        let released = self.timed("release", limit, guard.release()).await;
        let after = watch.companions(name, token);
        let stayed = before.intersection(&after).count();
        let left = match released {
            Ok(Released::Free) => 0,
            Ok(Released::StillHeld(left)) => left as usize,
            _ => usize::MAX,
        };
        if left < stayed && !self.life.shared.faults.has(Fault::Force) {
            watch.violate(
                "P5",
                format!(
                    "{} released one guard of {}, {left} are said to be left and {stayed} are out",
                    self.label,
                    label(name)
                ),
            );
        }
        released
    }

    /// P11: the call ends within `limit` µs of this client's running time.
    async fn timed<F: Future>(&self, what: &str, limit: u64, future: F) -> F::Output {
        let exec = &self.life.shared.exec;
        let (began, paused) = (exec.now(), exec.pauses(self.life.proc).total);
        let output = future.await;
        let paused = exec.pauses(self.life.proc).total - paused;
        let took = exec.now() - began;
        // A pause may hit just before the end, and what was due meanwhile comes at once after it.
        let allowed = limit
            .saturating_add(limit / 50)
            .saturating_add(5_000)
            .saturating_add(paused);
        if took > allowed {
            self.life.shared.watch.violate(
                "P11",
                format!(
                    "{}: {what} took {} ms, {} ms were allowed",
                    self.label,
                    took / 1000,
                    allowed / 1000
                ),
            );
        }
        output
    }

    fn say(&self, text: impl FnOnce() -> String) {
        self.life
            .shared
            .watch
            .say(|| format!("{} {}", self.label, text()));
    }
}

impl Hold {
    fn take(mut self) -> Option<LockGuard> {
        self.shared.watch.leaves(self.id);
        self.guard.take().and_then(Arc::into_inner)
    }

    fn is_lost(&self) -> bool {
        self.guard
            .as_ref()
            .is_none_or(|guard| guard.check().is_err())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shared.watch.leaves(self.id);
    }
}

type Acquiring = Pin<Box<dyn Future<Output = Result<Option<LockGuard>, Error>> + Send>>;
type Releasing = Pin<Box<dyn Future<Output = Result<Released, Error>> + Send>>;

/// A future that is given up after some polls.
struct Fragile<F> {
    future: F,
    polls: u64,
}

impl<F: Future + Unpin> Future for Fragile<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        let last = self.polls == 0;
        match Pin::new(&mut self.future).poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if last => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
