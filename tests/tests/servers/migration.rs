//! A slot with many keys that moves from node to node under load.

use std::time::Instant;

use redlatch_tests::{
    server::{ServerKind, Version},
    wait::by_night,
};

use crate::prelude::*;

redlatch_tests::on_every_server!(
    moving_a_slot_of_many_keys_loses_no_hold,
    atomic_slot_migration_loses_no_hold,
    name_in_a_moving_slot_is_kept_and_freed,
    calls_that_merge_go_on_while_their_slot_moves,
);

/// Holds of the tag `s`, which move together, with a client that acquires meanwhile. Of a slot on
/// the move a script with one key always runs somewhere; one that names two is refused until both
/// are in one place. So renewals and releases go on, and whoever acquires waits.
struct Load {
    clients: [Client; 2],
    guards: Arc<Vec<LockGuard>>,
    moved: Arc<AtomicBool>,
    looker: JoinHandle<(u32, Duration)>,
    settled: Arc<AtomicBool>,
    watcher: JoinHandle<(String, Duration)>,
}

impl Load {
    /// Fills the slot, which `source` is in charge of, and begins.
    async fn start(backend: &Backend, source: &Server) -> Self {
        let fill = "for i = 1, ARGV[1] do redis.call('SET', KEYS[1] .. i, 'x') end";
        let fill = ["EVAL", fill, "1", "{s}filler", &many().to_string()];
        source.command(&fill).unwrap();
        let clients = [backend.client().await, backend.client().await];
        let mut guards = Vec::new();
        for n in 0..HOLDS {
            let lock = clients[0].lock(format!("{{s}}{n}"));
            guards.push(lock.lock().renewed_lease(LEASE).await.unwrap());
        }
        let (guards, moved, settled) = (Arc::new(guards), Arc::default(), Arc::default());
        Self {
            looker: tokio::spawn(look(clients[1].clone(), Arc::clone(&moved))),
            watcher: tokio::spawn(watch(Arc::clone(&guards), Arc::clone(&settled))),
            clients,
            guards,
            moved,
            settled,
        }
    }

    /// Checks after the move that no hold was lost, and ends.
    async fn end(self, binary: &ServerBinary) {
        self.moved.store(true, Ordering::Relaxed);
        let (taken, longest) = self.looker.await.unwrap();
        println!("{binary}: {taken} acquisitions meanwhile, the longest took {longest:?}");
        sleep(LEASE).await;
        self.settled.store(true, Ordering::Relaxed);
        let (name, gap) = self.watcher.await.unwrap();
        println!("{binary}: the longest time between two renewals was {gap:?}, of {name}");
        for guard in Arc::into_inner(self.guards).expect("nobody watches them now") {
            assert_eq!(guard.state(), HoldState::Held, "{guard:?}");
            assert_eq!(guard.release().await.unwrap(), Released::Free);
        }
        assert_all_empty(&self.clients).await;
    }
}

async fn moving_a_slot_of_many_keys_loses_no_hold(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let cluster = backend.as_cluster();
    let slot = slot_of(b"{s}");
    let source = cluster.owner("{s}");
    let target = other_master(cluster, source);
    let load = Load::start(&backend, source).await;
    let first = load.clients[0].lock("{s}first").lock();
    let first = first.renewed_lease(LEASE).await.unwrap();
    let began = Instant::now();
    let (released, shortest) = tokio::join!(
        async {
            // In the middle of it: this one is freed although its waiters' index is nowhere.
            sleep(100 * MS).await;
            first.release().await.unwrap()
        },
        async {
            tokio::task::block_in_place(|| cluster.migrate(slot, target, 20));
            let left = load.guards.iter().map(|guard| guard.remaining());
            left.min().unwrap()
        }
    );
    let (keys, took) = (many(), began.elapsed());
    println!("{binary}: {keys} keys moved in {took:?}");
    println!("{binary}: the hold next to its end had {shortest:?} of {LEASE:?} left");
    assert_eq!(released, Released::Free);
    assert_eq!(cluster.owner("{s}").port(), target.port());
    load.end(&binary).await;
    let keys = target.command(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]);
    assert!(keys.int() >= many());
    // Others want the cluster as it was, and empty.
    target.flushall();
    cluster.migrate(slot, source, 20);
    cluster.await_agreement();
}

/// The waiters' index has moved and the hold has not: what names both is refused, what names the
/// hold goes on.
async fn name_in_a_moving_slot_is_kept_and_freed(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let cluster = backend.as_cluster();
    let (a, b) = (backend.client().await, backend.client().await);
    let (guard, waiter) = contended(cluster, [&a, &b], "x").await;
    let slot = slot_of(key("x").as_bytes());
    let target = other_master(cluster, cluster.owner(&key("x")));
    let source = cluster.begin_to_move(slot, target);
    cluster.move_key(&format!("{}:q", key("x")), source, target);
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert!(!waiter.is_finished(), "to acquire it names both");
    // The rest follows, and the waiter gets it.
    cluster.migrate(slot, target, 10);
    waiter.await.unwrap().release().await.unwrap();
    // The waiter had an address in the old shard, too. Nobody hears a call there, and the note that
    // somebody waits stays until the release after it.
    a.lock("x").lock().await.unwrap().release().await.unwrap();
    assert_nothing_left(&backend, &[&a, &b]).await;
    cluster.migrate(slot, source, 10);
    cluster.await_agreement();
}

/// The names share a slot, so that their calls merge. While it moves, one absent key makes the
/// whole list a redirection or `TRYAGAIN`, and each of its calls goes by itself. Some time
/// after the move they merge again.
async fn calls_that_merge_go_on_while_their_slot_moves(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let cluster = backend.as_cluster();
    let client = backend.client().await;
    let slot = slot_of(b"{m}");
    let source = cluster.owner("{m}");
    let fill = "for i = 1, 5000 do redis.call('SET', KEYS[1] .. i, 'x') end";
    source.command(&["EVAL", fill, "1", "{m}filler"]).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let taken = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..16)
        .map(|n| {
            let lock = client.lock(format!("{{m}}{n}"));
            tokio::spawn(pairs(lock, Arc::clone(&over), Arc::clone(&taken)))
        })
        .collect();
    let before = merging(&backend, &taken).await;
    let target = other_master(cluster, source);
    tokio::task::block_in_place(|| cluster.migrate(slot, target, 50));
    let meanwhile = taken.load(Ordering::Relaxed) - before;
    let after = merging(&backend, &taken).await;
    println!("{binary}: {before} pairs, then {meanwhile} while the slot moved, {after} in all");
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    assert_tables_empty(&client).await;
    target.flushall();
    cluster.migrate(slot, source, 50);
    cluster.await_agreement();
}

/// Takes and frees a name until all is over.
async fn pairs(lock: Lock, over: Arc<AtomicBool>, taken: Arc<AtomicU64>) {
    while !over.load(Ordering::Relaxed) {
        let guard = lock.lock().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Free);
        taken.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until the servers run fewer scripts than there are pairs, over 100 pairs, so that most
/// calls merge. Returns the number of pairs so far.
async fn merging(backend: &Backend, taken: &AtomicU64) -> u64 {
    let seen = || (backend.script_calls(), taken.load(Ordering::Relaxed));
    let since = Mutex::new(seen());
    wait_for("calls to merge", async || {
        let now = seen();
        let mut since = since.lock().unwrap();
        let (scripts, pairs) = (now.0 - since.0, now.1 - since.1);
        // A busy machine needs several looks for as many pairs.
        if pairs > 100 {
            *since = now;
        }
        pairs > 100 && scripts < pairs
    })
    .await;
    taken.load(Ordering::Relaxed)
}

/// Valkey 9 and later copy a slot to another node and hand it over in one moment.
async fn atomic_slot_migration_loses_no_hold(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let cluster = backend.as_cluster();
    let slot = slot_of(b"{s}").to_string();
    let source = cluster.owner("{s}");
    let target = other_master(cluster, source);
    let migrate = |from: &Server, to: &Server| {
        let id = to.command(&["CLUSTER", "MYID"]).text();
        let range = ["SLOTSRANGE", &slot, &slot, "NODE", &id];
        from.command(&[&["CLUSTER", "MIGRATESLOTS"], &range[..]].concat())
    };
    if binary.kind == ServerKind::Redis || binary.version < Version(9, 0, 0) {
        let refused = migrate(source, target);
        let error = refused.error().expect("it moves no slot as a whole");
        let unknown = ["unknown subcommand", "Unknown subcommand"];
        assert!(unknown.iter().any(|words| error.contains(words)), "{error}");
        return;
    }
    let load = Load::start(&backend, source).await;
    let began = Instant::now();
    migrate(source, target).unwrap();
    let moved = async || cluster.owner("{s}").port() == target.port();
    wait_for("the slot to have moved", moved).await;
    let (keys, took) = (many(), began.elapsed());
    println!("{binary}: {keys} keys moved as a whole in {took:?}");
    load.end(&binary).await;
    // Others want the cluster as it was, and empty.
    cluster.await_agreement();
    target.flushall();
    migrate(target, source).unwrap();
    let moved_back = async || cluster.owner("{s}").port() == source.port();
    wait_for("the slot to have moved back", moved_back).await;
    cluster.await_agreement();
}

/// Returns the longest time between two renewals that were answered, and of whose hold it was. Each
/// moves the deadline by as much as it was sent after the one before it.
async fn watch(guards: Arc<Vec<LockGuard>>, settled: Arc<AtomicBool>) -> (String, Duration) {
    let mut ends: Vec<_> = guards.iter().map(|guard| guard.valid_until()).collect();
    let mut longest = (String::new(), Duration::ZERO);
    while !settled.load(Ordering::Relaxed) {
        for (guard, end) in guards.iter().zip(&mut ends) {
            let later = guard.valid_until();
            if later - *end > longest.1 {
                longest = (guard.name().to_owned(), later - *end);
            }
            *end = later;
        }
        sleep(10 * MS).await;
    }
    longest
}

/// Takes and frees a name until the slot has moved; returns how often, and how long the longest
/// acquisition took.
async fn look(client: Client, moved: Arc<AtomicBool>) -> (u32, Duration) {
    let lock = client.lock("{s}load");
    let (mut taken, mut longest) = (0, Duration::ZERO);
    while !moved.load(Ordering::Relaxed) {
        let began = Instant::now();
        let guard = lock.lock().await.unwrap();
        longest = longest.max(began.elapsed());
        taken += 1;
        assert_eq!(guard.release().await.unwrap(), Released::Free);
        sleep(MS).await;
    }
    (taken, longest)
}

/// The number of keys that fill the slot.
fn many() -> i64 {
    by_night(5_000, 20_000)
}

const HOLDS: usize = 50;

const LEASE: Duration = Duration::from_secs(3);
