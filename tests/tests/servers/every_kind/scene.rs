//! All kinds at once: one party holds, another waits, something happens, and the waiter gets what
//! it waits for.

use std::fmt::Write as _;

use tokio::{sync::Mutex, time::error::Elapsed};

use super::prelude::*;

/// A holder and a waiter of each kind.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) pairs: Vec<Pair>,
    parties: [Party; 2],
}

/// How long holders have it, unless it is renewed or extended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leases {
    renewed: Duration,
    /// Of ids, which nobody renews.
    fixed: Duration,
}

impl Leases {
    /// A minute where nobody renews them.
    pub(super) const fn renewed(renewed: Duration) -> Self {
        let fixed = Duration::from_secs(60);
        Self { renewed, fixed }
    }

    pub(super) const fn all(lease: Duration) -> Self {
        Self {
            renewed: lease,
            fixed: lease,
        }
    }

    /// Returns the lease of a kind.
    pub(super) fn of(self, kind: AnyKind) -> Duration {
        if kind.renews() {
            self.renewed
        } else {
            self.fixed
        }
    }
}

/// A holder, and a waiter of another client.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) kind: AnyKind,
    object: Object,
    seat: Seat,
    fence: Option<u64>,
    waiter: JoinHandle<Served>,
}

/// What the holder holds, until it begins to give it back.
type Seat = Arc<Mutex<Option<Box<dyn Hold>>>>;

/// The cause of a loss, in time.
pub(super) type Told = JoinHandle<Result<LossCause, Elapsed>>;

/// What a waiter got.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) got: Result<Box<dyn Hold>, Error>,
    at: Instant,
    /// Whether another believed to have it at that moment.
    beside: bool,
}

impl Scene {
    /// Lets one party take everything, and another wait for it. Returns when the server knows of
    /// all who wait. Names begin with `tag`.
    pub(super) async fn begin(
        kinds: &[AnyKind],
        parties: [Party; 2],
        tag: &str,
        leases: Leases,
    ) -> Self {
        let mut pairs = Vec::new();
        for &kind in kinds {
            let name = format!("{tag}{}", stem(kind));
            pairs.push(Pair::begin(kind, &name, &parties, leases).await);
        }
        Self { pairs, parties }
    }

    /// Begins to watch for losses, of all that can lose when one server is away. Returns for each
    /// kind when it will have been told why.
    pub(super) async fn watch(&self) -> Vec<(AnyKind, Told)> {
        let mut told = Vec::new();
        for pair in self.pairs.iter().filter(|pair| pair.kind.loses()) {
            let seat = pair.seat.lock().await;
            let lost = seat.as_ref().expect("it is held").lost();
            told.push((pair.kind, tokio::spawn(timeout(GENEROUS, lost))));
        }
        told
    }

    /// Checks that everybody holds what it held, and that nobody who waits has got it.
    pub(super) async fn assert_held(&self) {
        for pair in &self.pairs {
            assert!(pair.believed().await, "{:?} is lost", pair.kind);
            assert!(!pair.waiter.is_finished(), "{:?} is held", pair.kind);
        }
    }

    /// Waits until all leases have been renewed from now on; those that nobody renews are extended.
    /// Nobody may lose anything meanwhile.
    pub(super) async fn renewed(&self) {
        let mut marks = Vec::new();
        for pair in &self.pairs {
            let seat = pair.seat.lock().await;
            let hold = seat.as_ref().expect("it is held");
            if pair.kind.renews() {
                // Later than it ends at this moment, if anything.
                marks.push((pair, hold.left().map(|left| Instant::now() + left)));
            } else {
                hold.prolong(60 * SECOND).await.unwrap();
            }
        }
        wait_for("all leases to be renewed", async || {
            self.assert_held().await;
            let mut renewed = true;
            for (pair, mark) in &marks {
                // Sooner than it ends, if anything.
                let now = Instant::now();
                let left = pair.seat.lock().await.as_ref().and_then(|hold| hold.left());
                renewed &= left.map(|left| now + left) > mark.map(|mark| mark + 100 * MS);
            }
            renewed
        })
        .await;
    }

    /// Extends everything; nobody may have lost anything.
    pub(super) async fn prolong(&self, span: Duration) {
        self.assert_held().await;
        join_all(self.pairs.iter().map(|pair| pair.prolong(span))).await;
        self.assert_held().await;
    }

    /// Lets everybody give back what it has held until now, and everybody get what it waits for.
    /// Says how long that took.
    pub(super) async fn hand_over(&mut self) -> String {
        self.assert_held().await;
        let released = Instant::now();
        let releases = join_all(self.pairs.iter().map(async |pair| {
            let outcome = pair.let_go().await;
            let outcome = outcome.unwrap_or_else(|error| panic!("{:?}: {error:?}", pair.kind));
            assert_eq!(outcome, ReleaseOutcome::Ended, "{:?}", pair.kind);
        }));
        let mut times = String::from("served after");
        releases.await;
        for pair in &mut self.pairs {
            let served = pair.served().await;
            let after = served.at.saturating_duration_since(released);
            write!(times, " {:?} {} ms,", pair.kind, after.as_millis()).unwrap();
            served.exclusively(pair).await;
        }
        times
    }

    /// Checks that nobody has or waits for anything and that what is on the servers in charge has
    /// an end, but for what lasts until it is deleted, which is.
    pub(super) async fn end(self, masters: &[&Server]) {
        for Pair { object, .. } in &self.pairs {
            object.freed().await;
            object.delete().await.unwrap();
        }
        for party in &self.parties {
            for client in party.others.iter().chain([&party.client]) {
                assert_tables_empty(client).await;
            }
        }
        for master in masters {
            assert_all_end(master);
        }
    }
}

/// Checks that every key on it has an end.
pub(super) fn assert_all_end(server: &Server) {
    let mut connection = server.connect().unwrap();
    for key in server.keys() {
        let left = connection.command(&["PTTL", &key]).unwrap().int();
        assert_ne!(left, -1, "{key} has no end");
    }
}

impl Pair {
    async fn begin(kind: AnyKind, name: &str, parties: &[Party; 2], leases: Leases) -> Self {
        let [mine, theirs] = [0, 1].map(|at| Object::new(kind, name, &parties[at]));
        let hold = mine.take(leases.of(kind)).await.unwrap();
        let fence = hold.fence();
        let seat = Arc::new(Mutex::new(Some(hold)));
        let waiter = tokio::spawn({
            let (theirs, seat) = (theirs.clone(), Arc::clone(&seat));
            async move {
                // Longer than the test looks elsewhere before it gives it back.
                let got = theirs.get(60 * SECOND).await;
                let rival = seat.lock().await;
                let beside = rival.as_ref().is_some_and(|hold| hold.believed());
                let at = Instant::now();
                Served { got, at, beside }
            }
        });
        theirs.awaited().await;
        Self {
            kind,
            object: mine,
            seat,
            fence,
            waiter,
        }
    }

    pub(super) async fn believed(&self) -> bool {
        let seat = self.seat.lock().await;
        seat.as_ref().is_some_and(|hold| hold.believed())
    }

    /// Extends what is held.
    pub(super) async fn prolong(&self, span: Duration) {
        let seat = self.seat.lock().await;
        let prolonged = seat.as_ref().expect("it is held").prolong(span).await;
        prolonged.unwrap_or_else(|error| panic!("{:?}: {error:?}", self.kind));
    }

    /// Gives back what was held.
    pub(super) async fn let_go(&self) -> Result<ReleaseOutcome, Error> {
        let hold = self.seat.lock().await.take();
        hold.expect("it is held").give_back().await
    }

    /// Waits until the waiter has got it, or knows that it cannot.
    pub(super) async fn served(&mut self) -> Served {
        let served = timeout(GENEROUS, &mut self.waiter).await;
        let kind = self.kind;
        served
            .unwrap_or_else(|_| panic!("{kind:?} waits in vain"))
            .unwrap()
    }
}

impl Served {
    /// Checks that nobody else believed to have it and that its token is later, and gives it back.
    pub(super) async fn exclusively(self, pair: &Pair) {
        assert!(!self.beside, "two have {:?}", pair.kind);
        self.later(pair).await;
    }

    /// Checks that its token is later, and gives it back.
    pub(super) async fn later(self, pair: &Pair) {
        let kind = pair.kind;
        let hold = self
            .got
            .unwrap_or_else(|error| panic!("{kind:?}: {error:?}"));
        assert!(hold.believed(), "{kind:?} is lost at once");
        let (before, after) = (pair.fence, hold.fence());
        let follows = kind.follows(before, after);
        assert!(follows, "{kind:?}: {after:?} after {before:?}");
        let outcome = hold.give_back().await;
        let outcome = outcome.unwrap_or_else(|error| panic!("{kind:?}: {error:?}"));
        assert_eq!(outcome, ReleaseOutcome::Ended, "{kind:?}");
    }
}
