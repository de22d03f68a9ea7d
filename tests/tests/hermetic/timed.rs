//! Bounded waits for what another client keeps end with `None`, however far the server is. A
//! request that the end cuts off leaves nothing.

use std::mem::forget;

use redlatch_tests::slow::FarTransport;

use crate::{
    prelude::*,
    ways::{WAYS, Wait, Way},
};

/// What is waited for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Way(Way),
    Permits,
    MultiLock,
    Latch,
}

impl Kind {
    /// Takes all of what another client then waits for, for good.
    async fn take(self, client: &Client) {
        match self {
            Self::Way(way) => forget(way.obstacle(client).await),
            Self::Permits => {
                let permits = client.permit_expirable_semaphore("x").permits_if_unset(1);
                permits.acquire().lease(3_600_000 * MS).await.unwrap();
            }
            Self::MultiLock => forget(client.fair_lock("x").lock().await.unwrap()),
            Self::Latch => {
                let latch = client.count_down_latch("x");
                assert!(latch.try_set_count(1).await.unwrap());
            }
        }
    }

    /// Tells whether the wait has got what it was for.
    async fn wait_for(self, client: &Client, wait: Duration) -> Result<bool, Error> {
        match self {
            Self::Way(way) => Ok(way.ask(client, Wait::For(wait)).await?.is_some()),
            Self::Permits => {
                let permits = client.permit_expirable_semaphore("x");
                Ok(permits.try_acquire_for(wait).await?.is_some())
            }
            Self::MultiLock => {
                let members: [&dyn Lockable; 2] = [&client.lock("a"), &client.fair_lock("x")];
                Ok(MultiLock::new(&members).try_lock_for(wait).await?.is_some())
            }
            Self::Latch => client.count_down_latch("x").wait_for(wait).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn busy_is_no_error_however_far_the_server_is() {
    let others = [Kind::Permits, Kind::MultiLock, Kind::Latch];
    for kind in WAYS.map(Kind::Way).into_iter().chain(others) {
        for round_trip in [2, 20, 80] {
            busy_is_no_error(kind, round_trip, WaitStrategy::Notify).await;
            let poll = WaitStrategy::Poll(Backoff::constant(37 * MS));
            busy_is_no_error(kind, round_trip, poll).await;
        }
    }
}

async fn busy_is_no_error(kind: Kind, round_trip: u32, strategy: WaitStrategy) {
    let (backend, [holder]) = embedded().await;
    kind.take(&holder).await;
    let far = FarTransport::new(Arc::new(backend.embedded_transport()), round_trip * MS / 2);
    let builder = backend.builder().transport(Arc::new(far));
    let client = builder.wait_strategy(strategy).connect().await.unwrap();
    let case = format!("{kind:?}, {round_trip} ms, {strategy:?}");
    let once = async |wait: u32| {
        let wait = wait * MS;
        let start = Instant::now();
        let got = kind.wait_for(&client, wait).await;
        assert!(!got.unwrap_or_else(|error| panic!("{case}, {wait:?}: {error:?}")));
        let took = start.elapsed();
        assert!(took >= wait && took <= wait + 2 * MS, "{case}: {took:?}");
    };
    // One after the other, also short ones, and then all of them in one line. The first one sends
    // the text of the script.
    let short = 2 * round_trip + 30..5 * round_trip + 130;
    for wait in (1600..2600).step_by(199).chain(short.step_by(7)) {
        once(wait).await;
    }
    join_all((1600..2600).step_by(47).map(&once)).await;
    assert_tables_empty(&client).await;
}

/// Only an answer says that a latch is closed. One that ends behind the look of another waiter has
/// none.
#[tokio::test(start_paused = true)]
async fn wait_that_ends_before_its_answer_says_nothing_of_the_latch() {
    let (backend, [other]) = embedded().await;
    other.count_down_latch("x").try_set_count(0).await.unwrap();
    let far = FarTransport::new(Arc::new(backend.embedded_transport()), 40 * MS);
    let client = backend.builder().transport(Arc::new(far));
    let latch = client.connect().await.unwrap().count_down_latch("x");
    let waits = [SECOND, 10 * MS].map(|wait| latch.wait_for(wait).into_future());
    let [whole, short] = <[_; 2]>::try_from(join_all(waits).await).unwrap();
    assert!(whole.unwrap());
    assert!(short.is_err(), "{short:?}");
}

/// Only an answer says that a name is busy.
#[tokio::test(start_paused = true)]
async fn silent_server_is_no_busy_member() {
    let (backend, [client]) = embedded().await;
    let (one, two) = (client.lock("{t}a"), client.lock("{t}b"));
    let members: [&dyn Lockable; 2] = [&one, &two];
    let both = MultiLock::new(&members);
    drop(both.try_lock().await.unwrap());
    client.settled().await;
    backend.embedded_server().stop();
    for wait in (20..400).step_by(7) {
        let tried = both.try_lock_for(wait * MS).lease(300 * MS).await;
        assert!(tried.is_err(), "{wait} ms");
    }
}
