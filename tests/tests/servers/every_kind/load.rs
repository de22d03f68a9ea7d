//! Work on all kinds that goes on until it is told to end, and counts who is in.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use redlatch::{CountDownLatch, Error};
use redlatch_tests::{
    fixture::{MS, SECOND},
    wait::{GENEROUS, eventually},
};
use tokio::task::JoinHandle;

use super::{
    hold::ReleaseOutcome,
    kinds::{Kind, Object, Party},
};

/// Tasks of two parties that take and free every kind, and count a latch down.
pub(super) struct Load {
    workers: Vec<JoinHandle<Tally>>,
    counters: Vec<JoinHandle<Counted>>,
    latch: CountDownLatch,
    waiter: JoinHandle<Result<(), Error>>,
    objects: Vec<Object>,
    orders: Vec<Arc<Order>>,
}

/// What a worker is told, and how often it has got on.
#[derive(Debug)]
struct Order {
    over: AtomicBool,
    rounds: AtomicU32,
    /// After how many rounds it has to wait for the others.
    limit: AtomicU32,
}

impl Order {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            over: AtomicBool::new(false),
            rounds: AtomicU32::new(0),
            limit: AtomicU32::new(u32::MAX),
        })
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::Relaxed)
    }

    fn is_ahead(&self) -> bool {
        self.rounds() >= self.limit.load(Ordering::Relaxed)
    }

    /// Ends a round, and returns when it is time for the next.
    async fn next(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
        while self.is_ahead() && !self.is_over() {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// What a worker has done.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    taken: u32,
    longest: Took,
    transient: u32,
}

/// What a task that counts down was told.
#[derive(Debug, Default)]
struct Counted {
    left: Vec<u32>,
    in_doubt: u32,
}

/// What was done in all.
pub(super) struct Done {
    total: Tally,
    counted: usize,
    in_doubt: u32,
}

/// Who is in, in this process.
#[derive(Debug)]
struct Room {
    size: u32,
    state: Mutex<(u32, Option<u64>)>,
}

impl Room {
    fn new(size: u32) -> Arc<Self> {
        let state = Mutex::new((0, None));
        Arc::new(Self { size, state })
    }

    /// Enters, alone or beside others, with a token that has to be later than any before if nobody
    /// else may be in.
    fn enter(&self, kind: Kind, part: u32, fence: Option<u64>) {
        let mut state = self.state.lock().unwrap();
        state.0 += part;
        assert!(state.0 <= self.size, "too many have {kind:?}");
        if part == self.size && fence.is_some() {
            assert!(fence > state.1, "the token of {kind:?} does not rise");
            state.1 = fence;
        }
    }

    fn leave(&self, part: u32) {
        self.state.lock().unwrap().0 -= part;
    }
}

impl Load {
    /// Starts it, under names that begin with `tag`.
    pub(super) async fn start(parties: &[Party; 2], tag: &str) -> Self {
        let mut orders = Vec::new();
        let mut order = || {
            let order = Order::new();
            orders.push(Arc::clone(&order));
            order
        };
        let (mut workers, mut objects) = (Vec::new(), Vec::new());
        for (name, size, tasks) in ROOMS {
            let (name, room) = (format!("{tag}load-{name}"), Room::new(size));
            for (at, &(kind, part)) in tasks.iter().enumerate() {
                let object = Object::new(kind, &name, &parties[at % 2]);
                let work = work(object.clone(), Arc::clone(&room), part, order());
                workers.push(tokio::spawn(work));
                objects.push(object);
            }
        }
        let latches = parties.each_ref().map(|party| {
            let object = Object::new(Kind::Latch, &format!("{tag}load-latch"), party);
            objects.push(object.clone());
            object.latch()
        });
        assert!(latches[0].try_set_count(COUNT).await.unwrap());
        let counters = latches
            .each_ref()
            .map(|latch| tokio::spawn(count(latch.clone(), order())));
        let [latch, waiting] = latches;
        Self {
            workers,
            counters: counters.into(),
            latch,
            waiter: tokio::spawn(async move { waiting.wait().await }),
            objects,
            orders,
        }
    }

    /// Returns how many rounds all have done so far.
    pub(super) fn rounds(&self) -> u32 {
        self.orders.iter().map(|order| order.rounds()).sum()
    }

    /// Waits until everybody has got on twice since this was called; who has lets the others go
    /// first. So whoever is not called, and has to look, finds the name free: a plain lock knows no
    /// order.
    pub(super) async fn get_on(&self) {
        for order in &self.orders {
            order.limit.store(order.rounds() + 2, Ordering::Relaxed);
        }
        eventually("all workers to get on", GENEROUS, async || {
            self.orders.iter().all(|order| order.is_ahead())
        })
        .await;
        for order in &self.orders {
            order.limit.store(u32::MAX, Ordering::Relaxed);
        }
    }

    /// Lets it end: everybody who waits has to be served, and the latch has to have counted what it
    /// was told, and once.
    pub(super) async fn end(self) -> Done {
        for order in &self.orders {
            order.over.store(true, Ordering::Relaxed);
        }
        let mut total = Tally::default();
        for worker in self.workers {
            let tally = tokio::time::timeout(GENEROUS, worker).await;
            let tally = tally.expect("a worker waits in vain").unwrap();
            assert!(tally.taken > 0, "a worker got nothing");
            total.taken += tally.taken;
            total.transient += tally.transient;
            total.longest = longer(total.longest, tally.longest);
        }
        let (mut left, mut counted, mut in_doubt) = (BTreeSet::new(), 0, 0);
        for counter in self.counters {
            let told = counter.await.unwrap();
            counted += told.left.len();
            in_doubt += told.in_doubt;
            left.extend(told.left);
        }
        assert_eq!(left.len(), counted, "two were told the same");
        let rest = self.latch.count().await.unwrap();
        let gone = COUNT - rest;
        let told = u32::try_from(counted).unwrap();
        assert!((told..=told + in_doubt).contains(&gone), "{told} of {gone}");
        assert!(!self.waiter.is_finished(), "{rest} are left");
        assert_eq!(self.latch.count_down(rest).await.unwrap(), 0);
        let passed = tokio::time::timeout(GENEROUS, self.waiter).await;
        passed.expect("the latch is open").unwrap().unwrap();
        for object in &self.objects {
            if object.kind != Kind::Latch {
                assert_eq!(object.held().await.unwrap(), 0, "{:?}", object.kind);
            }
        }
        for object in &self.objects {
            object.delete().await.unwrap();
        }
        Done {
            total,
            counted,
            in_doubt,
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            taken,
            longest: (longest, kind),
            transient,
        } = self.total;
        let kind = kind.expect("somebody took something");
        let (counted, in_doubt) = (self.counted, self.in_doubt);
        write!(
            f,
            "taken {taken} times, the longest after {longest:?} ({kind:?}), {transient} transient errors; counted down {counted} times, {in_doubt} in doubt"
        )
    }
}

async fn work(object: Object, room: Arc<Room>, part: u32, order: Arc<Order>) -> Tally {
    let mut tally = Tally::default();
    while !order.is_over() {
        let began = Instant::now();
        match object.get(20 * SECOND).await {
            Ok(hold) => {
                let took = (began.elapsed(), Some(object.kind));
                tally.longest = longer(tally.longest, took);
                tally.taken += 1;
                room.enter(object.kind, part, hold.fence());
                tokio::time::sleep(MS).await;
                assert!(hold.believed(), "{object:?} is lost");
                room.leave(part);
                match hold.give_back().await {
                    Ok(outcome) => assert_ne!(outcome, ReleaseOutcome::WasOver, "{object:?}"),
                    Err(error) => tally.bear(&error),
                }
            }
            Err(error) => tally.bear(&error),
        }
        order.next().await;
    }
    tally
}

async fn count(latch: CountDownLatch, order: Arc<Order>) -> Counted {
    let mut counted = Counted::default();
    while !order.is_over() {
        match latch.count_down(1).await {
            Ok(left) => counted.left.push(left),
            Err(error) => {
                assert!(error.is_transient(), "{error:?}");
                counted.in_doubt += u32::from(!error.is_not_executed());
            }
        }
        order.next().await;
    }
    counted
}

type Took = (Duration, Option<Kind>);

fn longer(one: Took, other: Took) -> Took {
    if one.0 < other.0 { other } else { one }
}

impl Tally {
    fn bear(&mut self, error: &Error) {
        assert!(error.is_transient(), "{error:?}");
        self.transient += 1;
    }
}

/// A name, how much fits in, and who works there, taking how much of it.
type Work = (&'static str, u32, &'static [(Kind, u32)]);

const ROOMS: [Work; 7] = [
    ("lock", 1, &[(Kind::Lock, 1); 3]),
    ("fair", 1, &[(Kind::Fair, 1); 3]),
    (
        "sides",
        10,
        &[
            (Kind::Writer, 10),
            (Kind::Writer, 10),
            (Kind::Reader, 1),
            (Kind::Reader, 1),
            (Kind::Reader, 1),
        ],
    ),
    ("semaphore", 2, &[(Kind::Semaphore, 1); 4]),
    ("permits", 2, &[(Kind::Permits, 1); 4]),
    ("multi", 1, &[(Kind::Multi, 1); 3]),
    ("striped", 1, &[(Kind::Striped, 1); 3]),
];

/// More than can be counted down meanwhile.
const COUNT: u32 = 1_000_000;

const PAUSE: Duration = Duration::from_millis(5);
