//! Servers whose clocks differ and that take over from each other.

use std::time::Instant;

use crate::prelude::*;

redlatch_tests::on_servers_with!(
    "a clock that can be set", ServerBinary::has_settable_clock;
    nobody_gets_a_name_early_when_a_server_whose_clock_differs_takes_over,
    nobody_gets_a_name_early_when_its_slot_moves_to_a_server_whose_clock_is_ahead,
);

async fn nobody_gets_a_name_early_when_a_server_whose_clock_differs_takes_over(
    binary: ServerBinary,
) {
    for ahead in [APART, -APART] {
        planned_failover(&binary, ahead).await;
    }
}

async fn planned_failover(binary: &ServerBinary, ahead: i64) {
    let servers = Replicated::start(binary, 1, &ServerOptions::new().own_clock());
    let [old, new] = servers.servers() else {
        panic!("there are two")
    };
    new.set_clock(ahead);
    servers.await_in_step();
    let clients = clients(&servers.url()).await;
    let names = ["fixed", "renewed", "dead"].map(str::to_owned);
    let held = Held::take(&clients.0, &names).await;
    let waiting = waiting(&clients.1, &names);
    for name in &names {
        registered(|| old, name).await;
        await_copy(new, name);
    }
    servers.promote(1);
    held.outlasts(&format!("{binary}, {ahead} s ahead"), waiting)
        .await;
    assert_tables_empty(&clients.1).await;
}

async fn nobody_gets_a_name_early_when_its_slot_moves_to_a_server_whose_clock_is_ahead(
    binary: ServerBinary,
) {
    // A clock that is set makes a node think that it has heard nobody for so long.
    let options = ClusterOptions {
        node_timeout: 30 * SECOND,
        node: ServerOptions::new().own_clock(),
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(&binary, &options);
    let masters = cluster.masters();
    let [source, target, ..] = masters.as_slice() else {
        panic!("there are three")
    };
    target.set_clock(APART);
    let clients = clients(&cluster.url()).await;
    let mut names = names_on(&cluster, source, "n");
    let names = std::array::from_fn(|_| names.next().unwrap());
    let held = Held::take(&clients.0, &names).await;
    let waiting = waiting(&clients.1, &names);
    for name in &names {
        registered(|| *source, name).await;
        cluster.migrate(slot_of(key(name).as_bytes()), target, 10);
    }
    held.outlasts(&format!("{binary}, a moved slot"), waiting)
        .await;
    assert_tables_empty(&clients.1).await;
}

/// Connects a holder and a waiter that have seen how much the clocks differ.
async fn clients(url: &str) -> (Client, Client) {
    let connect = || Client::connect(url);
    let clients = (connect().await.unwrap(), connect().await.unwrap());
    for client in [&clients.0, &clients.1] {
        let compared = async || client.server_clock_difference() > SECOND * 7;
        wait_for("the clocks to be compared", compared).await;
    }
    clients
}

/// Holds of one client: one that ends, one that is renewed, and one whose holder is dead.
struct Held {
    fixed: LockGuard,
    renewed: LockGuard,
    died: Instant,
}

/// Who waits for each of them, and when it was served.
type Waiting = [JoinHandle<(LockGuard, Instant)>; 3];

fn waiting(client: &Client, names: &[String; 3]) -> Waiting {
    names.each_ref().map(|name| {
        let lock = client.lock(name);
        tokio::spawn(async move { (lock.lock().await.unwrap(), Instant::now()) })
    })
}

impl Held {
    async fn take(holder: &Client, names: &[String; 3]) -> Self {
        let [fixed, renewed, dead] = names.each_ref().map(|name| holder.lock(name));
        let fixed = fixed.lock().lease(LEASE).await.unwrap();
        let renewed = renewed.lock().renewed_lease(LEASE).await.unwrap();
        std::mem::forget(dead.lock().lease(LEASE).await.unwrap());
        Self {
            fixed,
            renewed,
            died: Instant::now(),
        }
    }

    async fn outlasts(self, what: &str, [fixed, renewed, dead]: Waiting) {
        let cause = timeout(GENEROUS, self.fixed.lost()).await.unwrap();
        let told = Instant::now();
        assert_eq!(cause, LossCause::Expired);
        assert!(!fixed.is_finished(), "two believe");
        let (next, granted) = timeout(GENEROUS, fixed).await.unwrap().unwrap();
        let later = granted - told;
        println!("{what}: the next of one that ended had it {later:?} later");
        assert!(next.token() > self.fixed.token());
        next.release().await.unwrap();

        let (next, granted) = timeout(GENEROUS, dead).await.unwrap().unwrap();
        let waited = granted - self.died;
        println!(
            "{what}: what a dead holder left was had {waited:?} after its grant for {LEASE:?}"
        );
        assert!(next.is_after_abandonment());
        next.release().await.unwrap();

        assert_eq!(self.renewed.state(), HoldState::Held);
        assert!(!renewed.is_finished(), "two believe");
        let released = Instant::now();
        assert_eq!(self.renewed.release().await.unwrap(), Released::Free);
        let (next, granted) = timeout(GENEROUS, renewed).await.unwrap().unwrap();
        let later = granted - released;
        println!("{what}: one that was released was had after {later:?}");
        next.release().await.unwrap();
    }
}

const LEASE: Duration = Duration::from_secs(5);

/// By how many seconds the clocks differ.
const APART: i64 = 8;
