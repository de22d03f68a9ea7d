//! The latch. It is set to two and counted down once; its holder has to count down once more.

use std::collections::BTreeSet;

use futures_util::future::BoxFuture;
use redlatch::CountDownLatch;
use redlatch_lua::LATCH;

use crate::every_kind::{
    load::{Crew, Done, Order},
    prelude::*,
};

/// The latch.
#[derive(Debug)]
pub(in crate::every_kind) struct Latch;

#[async_trait]
impl Kind for Latch {
    async fn take(&self, object: &Object, _: Duration) -> Result<Box<dyn Hold>, Error> {
        let latch = latch(object);
        assert!(latch.try_set_count(2).await?);
        assert_eq!(latch.count_down(1).await?, 1);
        Ok(Box::new(Duty(Some(latch))))
    }

    async fn get(&self, object: &Object, _: Duration) -> Result<Box<dyn Hold>, Error> {
        latch(object).wait().await?;
        Ok(Box::new(Duty(None)))
    }

    /// The server knows of none.
    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        Ok(object.party.client.tables().listeners as u64)
    }

    /// Returns how many have been counted down.
    async fn held(&self, object: &Object) -> Result<u64, Error> {
        let info = latch(object).info().await?;
        Ok(info.map_or(0, |info| (info.initial - info.count).into()))
    }

    async fn delete(&self, object: &Object) -> Result<(), Error> {
        latch(object).delete().await.map(drop)
    }

    async fn work(&self, load: &mut Load) {
        let countdown = Countdown::start(load).await;
        load.add(countdown);
    }

    fn queues(&self) -> bool {
        false
    }

    /// Somebody else counts down what it had to.
    async fn after_death(&self, object: &Object) {
        assert_eq!(latch(object).count_down(1).await.unwrap(), 0);
    }

    fn renews(&self) -> bool {
        false
    }

    fn extends(&self) -> bool {
        false
    }

    fn handed_over(&self) -> u64 {
        2
    }

    /// It is open, or a server has forgotten it.
    fn is_free(&self, counted: u64) -> bool {
        [0, 2].contains(&counted)
    }

    /// A latch is not held.
    fn loses(&self) -> bool {
        false
    }

    async fn after_data_loss(&self, pair: &mut Pair) {
        let error = pair.served().await.got.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deleted, "{error:?}");
        assert_eq!(pair.let_go().await.unwrap_err().kind(), ErrorKind::NotSet);
    }

    /// Returns the next count-down.
    fn next_request(&self, backend: &Backend, name: &str) -> Pick {
        call(backend.server(), &LATCH.count_down, name)
    }
}

fn latch(object: &Object) -> CountDownLatch {
    object.party.client.count_down_latch(&object.name)
}

/// A latch that opens when its holder counts down; nothing, once it has been passed.
#[derive(Debug)]
struct Duty(Option<CountDownLatch>);

#[async_trait]
impl Hold for Duty {
    fn believed(&self) -> bool {
        true
    }

    fn left(&self) -> Option<Duration> {
        None
    }

    fn lost(&self) -> BoxFuture<'static, LossCause> {
        Box::pin(std::future::pending())
    }

    /// There is nothing to be prolonged; what is left to be counted must be known still.
    async fn prolong(&self, _: Duration) -> Result<(), Error> {
        if let Some(latch) = &self.0 {
            assert_eq!(latch.count().await?, 1, "it was counted down once");
        }
        Ok(())
    }

    async fn give_back(self: Box<Self>) -> Result<ReleaseOutcome, Error> {
        if let Some(latch) = &self.0 {
            assert_eq!(latch.count_down(1).await?, 0, "it was counted down once");
        }
        Ok(ReleaseOutcome::Ended)
    }
}

/// Two tasks that count one latch down, and one that waits for it.
struct Countdown {
    counters: [JoinHandle<Counted>; 2],
    latch: CountDownLatch,
    lossy: bool,
    waiter: JoinHandle<Result<(), Error>>,
}

/// What a task that counts down was told.
#[derive(Debug, Default)]
struct Counted {
    left: Vec<u32>,
    in_doubt: u32,
}

impl Countdown {
    async fn start(load: &mut Load) -> Self {
        let objects = load.objects(&Latch, "latch");
        let [latch, waiting] = objects.each_ref().map(latch);
        assert!(latch.try_set_count(COUNT).await.unwrap());
        let counters = [&latch, &waiting].map(|latch| {
            let order = load.order();
            tokio::spawn(count(latch.clone(), order))
        });
        Self {
            counters,
            latch,
            lossy: load.is_lossy(),
            waiter: tokio::spawn(async move { waiting.wait().await }),
        }
    }
}

#[async_trait]
impl Crew for Countdown {
    /// It has to have counted what it was told, and once.
    async fn end(self: Box<Self>, done: &mut Done) {
        let (mut left, mut counted, mut in_doubt) = (BTreeSet::new(), 0, 0);
        for counter in self.counters {
            let told = counter.await.unwrap();
            counted += told.left.len();
            in_doubt += told.in_doubt;
            left.extend(told.left);
        }
        let differ = left.len() == counted;
        assert!(self.lossy || differ, "two were told the same");
        let rest = self.latch.count().await.unwrap();
        let gone = COUNT - rest;
        let told = u32::try_from(counted).unwrap();
        assert!((told..=told + in_doubt).contains(&gone), "{told} of {gone}");
        assert!(!self.waiter.is_finished(), "{rest} are left");
        assert_eq!(self.latch.count_down(rest).await.unwrap(), 0);
        let passed = timeout(GENEROUS, self.waiter).await;
        passed.expect("the latch is open").unwrap().unwrap();
        self.latch.delete().await.unwrap();
        done.add_counted(counted, in_doubt);
    }
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

/// More than can be counted down meanwhile.
const COUNT: u32 = 1_000_000;
