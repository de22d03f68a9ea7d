//! Work on all kinds that goes on until it is told to end, and counts who is in.

use std::fmt;

use super::prelude::*;

/// Tasks of two parties that work on every kind.
pub(super) struct Load {
    parties: [Party; 2],
    tag: String,
    rules: Rules,
    crews: Vec<Box<dyn Crew>>,
    orders: Vec<Arc<Order>>,
}

/// What is asked of the workers.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// How many times as many there are.
    crowd: usize,
    lease: Duration,
    /// Whether they exclude each other, and see no error but what passes.
    strict: bool,
    /// Whether replies are lost, so that what is told is how it was when it was asked again.
    lossy: bool,
}

const ALONE: Rules = Rules {
    crowd: 1,
    lease: Duration::from_secs(20),
    strict: true,
    lossy: false,
};

/// The tasks that work on one object.
#[async_trait]
pub(super) trait Crew: Send + Sync {
    /// Waits for the tasks, which have been told to end, and checks what they have done. Then
    /// deletes the object.
    async fn end(self: Box<Self>, done: &mut Done);
}

/// What a worker is told, and how often it has got on.
#[derive(Debug)]
pub(super) struct Order {
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

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::Relaxed)
    }

    fn is_ahead(&self) -> bool {
        self.rounds() >= self.limit.load(Ordering::Relaxed)
    }

    /// Ends a round, and returns when it is time for the next.
    pub(super) async fn next(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        sleep(PAUSE).await;
        while self.is_ahead() && !self.is_over() {
            sleep(PAUSE).await;
        }
    }
}

impl Load {
    /// Starts it, under names that begin with `tag`.
    pub(super) async fn start(parties: &[Party; 2], tag: &str) -> Self {
        Self::of(&kinds::on_one(), parties, tag, ALONE).await
    }

    /// Starts it where replies are lost.
    pub(super) async fn lossy(parties: &[Party; 2]) -> Self {
        let rules = Rules {
            lossy: true,
            ..ALONE
        };
        Self::of(&kinds::on_one(), parties, "", rules).await
    }

    /// Starts a crowd that queues, on servers that may forget who holds.
    pub(super) async fn crowd(parties: &[Party; 2]) -> Self {
        let mut kinds = kinds::on_one();
        kinds.retain(|kind| kind.queues());
        let rules = Rules {
            crowd: 5,
            lease: 3 * SECOND,
            strict: false,
            lossy: false,
        };
        Self::of(&kinds, parties, "", rules).await
    }

    async fn of(kinds: &[AnyKind], parties: &[Party; 2], tag: &str, rules: Rules) -> Self {
        let mut load = Self {
            parties: parties.clone(),
            tag: tag.to_owned(),
            rules,
            crews: Vec::new(),
            orders: Vec::new(),
        };
        for kind in kinds {
            kind.work(&mut load).await;
        }
        load
    }

    /// Lets workers take and free the object `name`, of which there are `size` units: one worker
    /// per entry, which takes so many units as its kind.
    pub(super) fn crew(&mut self, name: &str, size: u32, tasks: &[(AnyKind, u32)]) {
        let room = Room::new(size);
        let (mut workers, mut objects) = (Vec::new(), Vec::new());
        for (at, (kind, part)) in tasks.repeat(self.rules.crowd).into_iter().enumerate() {
            let object = self.objects(kind, name)[at % 2].clone();
            let (room, order) = (Arc::clone(&room), self.order());
            let work = work(object.clone(), room, part, self.rules, order);
            workers.push(tokio::spawn(work));
            objects.push(object);
        }
        self.add(Workers { workers, objects });
    }

    /// Adds tasks of another form.
    pub(super) fn add(&mut self, crew: impl Crew + 'static) {
        self.crews.push(Box::new(crew));
    }

    /// Tells whether replies are lost.
    pub(super) const fn is_lossy(&self) -> bool {
        self.rules.lossy
    }

    /// Returns an object of the load as each party sees it.
    pub(super) fn objects(&self, kind: AnyKind, name: &str) -> [Object; 2] {
        let name = format!("{}load-{name}", self.tag);
        let parties = self.parties.each_ref();
        parties.map(|party| Object::new(kind, &name, party))
    }

    /// Returns what another task is told.
    pub(super) fn order(&mut self) -> Arc<Order> {
        let order = Order::new();
        self.orders.push(Arc::clone(&order));
        order
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
        let all_ahead = async || self.orders.iter().all(|order| order.is_ahead());
        wait_for("all workers to get on", all_ahead).await;
        for order in &self.orders {
            order.limit.store(u32::MAX, Ordering::Relaxed);
        }
    }

    /// Lets it end: everybody who waits has to be served.
    pub(super) async fn end(self) -> Done {
        for order in &self.orders {
            order.over.store(true, Ordering::Relaxed);
        }
        let mut done = Done::default();
        for crew in self.crews {
            crew.end(&mut done).await;
        }
        done
    }
}

/// Workers that take and free one object.
struct Workers {
    workers: Vec<JoinHandle<Tally>>,
    objects: Vec<Object>,
}

#[async_trait]
impl Crew for Workers {
    async fn end(self: Box<Self>, done: &mut Done) {
        for worker in self.workers {
            let tally = timeout(GENEROUS, worker).await;
            let tally = tally.expect("a worker waits in vain").unwrap();
            assert!(tally.taken > 0, "a worker got nothing");
            done.total.add(tally);
        }
        for object in &self.objects {
            object.freed().await;
        }
        for object in &self.objects {
            object.delete().await.unwrap();
        }
    }
}

async fn work(
    object: Object,
    room: Arc<Room>,
    part: u32,
    rules: Rules,
    order: Arc<Order>,
) -> Tally {
    let mut tally = Tally::default();
    while !order.is_over() {
        // Some are dropped wherever they are. Permits with ids would last.
        if object.kind.renews() && fastrand::u8(..8) == 0 {
            let patience = fastrand::u32(..40) * MS;
            drop(timeout(patience, object.get(rules.lease)).await);
        }
        let began = Instant::now();
        let round = async {
            let hold = object.get(rules.lease).await?;
            let took = (began.elapsed(), Some(object.kind));
            tally.longest = longer(tally.longest, took);
            tally.taken += 1;
            if rules.strict {
                room.enter(object.kind, part, hold.fence());
            }
            sleep(MS).await;
            if rules.strict {
                assert!(hold.believed(), "{object:?} is lost");
                room.leave(part);
            }
            let (left, released) = (hold.left(), Instant::now());
            let outcome = hold.give_back().await?;
            // A hold that a release has granted lasts 5 s until it is confirmed. Faults may keep
            // its own release away for longer.
            let lasts = left.is_none_or(|left| released.elapsed() < left);
            let fits = outcome.may_have_lasted() || !lasts || !rules.strict;
            assert!(fits, "{object:?} was over, {left:?} before its end");
            Ok(())
        };
        match round.await {
            Ok(()) => {}
            Err(error) => tally.bear(&error, rules.strict),
        }
        order.next().await;
    }
    tally
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
    fn enter(&self, kind: AnyKind, part: u32, fence: Option<u64>) {
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

/// What a worker has done.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    taken: u32,
    longest: Took,
    transient: u32,
}

impl Tally {
    fn bear(&mut self, error: &Error, strict: bool) {
        assert!(error.is_transient() || !strict, "{error:?}");
        self.transient += 1;
    }

    fn add(&mut self, other: Self) {
        self.taken += other.taken;
        self.transient += other.transient;
        self.longest = longer(self.longest, other.longest);
    }
}

type Took = (Duration, Option<AnyKind>);

fn longer(one: Took, other: Took) -> Took {
    if one.0 < other.0 { other } else { one }
}

/// What was done in all.
#[derive(Debug, Default)]
pub(super) struct Done {
    total: Tally,
    counted: usize,
    in_doubt: u32,
}

impl Done {
    /// Adds what was counted down: told, and in doubt.
    pub(super) fn add_counted(&mut self, counted: usize, in_doubt: u32) {
        self.counted += counted;
        self.in_doubt += in_doubt;
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

const PAUSE: Duration = Duration::from_millis(5);
