//! Ten thousand random operations under random faults, and then: nothing left, nobody held
//! together, no fence went back.

use std::{
    collections::BTreeMap,
    env,
    future::IntoFuture,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use fastrand::Rng;
use futures_util::future::join_all;
use redlatch::{Client, Error, Lock, LockGuard, Token};
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, assert_nothing_left},
    proxy::{Pick, Proxy, Then},
    server::{ClientType, ServerBinary},
};
use tokio::time::timeout;

redlatch_tests::on_every_server!(after_ten_thousand_operations_nothing_is_left);

/// What somebody believed: to hold from one instant of this machine's clock to another.
#[derive(Clone, Debug)]
struct Belief {
    from: Instant,
    until: Instant,
    token: Token,
}

#[derive(Default)]
struct Log {
    operations: AtomicU32,
    grants: AtomicU32,
    errors: AtomicU32,
    done: AtomicBool,
    beliefs: Mutex<BTreeMap<String, Vec<Belief>>>,
}

// L2, L10, L38, L49
async fn after_ten_thousand_operations_nothing_is_left(binary: ServerBinary) {
    let seed = env::var("REDLATCH_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    println!("{binary}: REDLATCH_TEST_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let backend = Backend::real(&binary);
    let log = Arc::new(Log::default());
    let (mut proxies, mut clients) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let proxy = Proxy::start(backend.server().address());
        clients.push(Client::connect(&proxy.url()).await.unwrap());
        proxies.push(proxy);
    }
    let started = Instant::now();
    let workers = (0..32).map(|i| {
        let (log, client) = (Arc::clone(&log), clients[i % clients.len()].clone());
        tokio::spawn(work(log, client, random.fork()))
    });
    let workers = join_all(workers.collect::<Vec<_>>());
    let nemesis = torment(&backend, &proxies, &log, random.fork());
    let workers = async {
        let ended = workers.await;
        log.done.store(true, Ordering::Relaxed);
        ended
    };
    let (ended, faults) = tokio::join!(workers, nemesis);
    for worker in ended {
        worker.unwrap();
    }
    println!(
        "{binary}: {OPERATIONS} operations, {} grants, {} errors, {faults} faults in {:?}",
        log.grants.load(Ordering::Relaxed),
        log.errors.load(Ordering::Relaxed),
        started.elapsed()
    );
    check_beliefs(&log);
    assert_nothing_left(&backend, &clients.iter().collect::<Vec<_>>()).await;
}

async fn work(log: Arc<Log>, client: Client, mut random: Rng) {
    while log.operations.fetch_add(1, Ordering::Relaxed) < OPERATIONS {
        // Names that begin with `f` are freed by force now and then, which breaks exclusion by
        // definition.
        let name = *random.choice(&["a", "b", "c", "d", "f1", "f2"]).unwrap();
        let lock = client.lock(name);
        if name.starts_with('f') && random.u8(..) < 20 {
            log.note(
                timeout(GIVE_UP, lock.force_release().into_future())
                    .await
                    .map_err(drop),
            );
        } else if let Some(guard) = acquire(&log, &lock, &mut random).await {
            log.grants.fetch_add(1, Ordering::Relaxed);
            hold(&log, &lock, guard, &mut random).await;
        }
    }
}

/// One way to acquire, dropped at some await or not.
async fn acquire(log: &Log, lock: &Lock, random: &mut Rng) -> Option<LockGuard> {
    let wait = random.u32(0..40) * MS;
    let lease = random.u32(60..1_200) * MS;
    let long = random.u32(1_000..3_000) * MS;
    let given = match random.u8(0..5) {
        0 => timeout(wait, lock.lock().renewed_lease(long))
            .await
            .map(|given| given.map(Some)),
        1 => timeout(wait, lock.lock().lease(lease))
            .await
            .map(|given| given.map(Some)),
        2 => timeout(wait, lock.try_lock().renewed_lease(long)).await,
        3 => timeout(GIVE_UP, lock.try_lock().lease(lease)).await,
        _ => timeout(GIVE_UP, lock.try_lock_for(wait).lease(lease)).await,
    };
    log.note(given.map_err(drop)).flatten()
}

async fn hold(log: &Log, lock: &Lock, guard: LockGuard, random: &mut Rng) {
    let from = Instant::now();
    let mut belief = Belief {
        from,
        until: from,
        token: guard.token(),
    };
    let mut guards = vec![guard];
    for _ in 0..random.u8(0..4) {
        let before = Instant::now();
        if guards[0].check().is_ok() {
            belief.until = before;
        }
        match random.u8(0..5) {
            0 => drop(
                log.note(
                    timeout(3 * MS, guards[0].extend(500 * MS))
                        .await
                        .map_err(drop),
                ),
            ),
            1 => {
                let again = lock.try_lock().owner(guards[0].owner());
                let given = log
                    .note(timeout(5 * MS, again).await.map_err(drop))
                    .flatten();
                // After a loss it may be another hold of the same owner.
                guards.extend(given.filter(|again| again.token() == belief.token));
            }
            2 => drop(log.note(timeout(3 * MS, lock.info()).await.map_err(drop))),
            _ => tokio::time::sleep(random.u32(0..2_000) * (MS / 1_000)).await,
        }
    }
    random.shuffle(&mut guards);
    while let Some(guard) = guards.pop() {
        let before = Instant::now();
        if guard.check().is_ok() {
            belief.until = before;
        }
        match random.u8(0..3) {
            0 => drop(guard),
            1 => drop(log.note(timeout(GIVE_UP, guard.release()).await.map_err(drop))),
            _ => drop(log.note(timeout(MS, guard.release()).await.map_err(drop))),
        }
    }
    let name = lock.name().unwrap().to_owned();
    log.beliefs
        .lock()
        .unwrap()
        .entry(name)
        .or_default()
        .push(belief);
}

/// Makes trouble until all is done; returns how often.
async fn torment(backend: &Backend, proxies: &[Proxy], log: &Log, mut random: Rng) -> u32 {
    let mut faults = 0;
    while !log.done.load(Ordering::Relaxed) {
        let proxy = random.choice(proxies).unwrap();
        match random.u8(0..7) {
            0 => drop(backend.server().client_kill(ClientType::Normal)),
            1 => drop(backend.server().client_kill(ClientType::PubSub)),
            2 => backend.server().script_flush(),
            3 => proxy.cut(),
            4 => drop(proxy.drop_reply(Pick::command("EVALSHA"), Then::Cut)),
            5 => drop(proxy.drop_reply(Pick::command("EVALSHA"), Then::Stall)),
            _ => {
                proxy.stall();
                tokio::time::sleep(random.u32(10..250) * MS).await;
                proxy.pass();
            }
        }
        faults += 1;
        tokio::time::sleep(random.u32(20..200) * MS).await;
    }
    for proxy in proxies {
        proxy.withdraw_orders();
        proxy.pass();
    }
    faults
}

/// P1 and P2: by one clock no two believed at a time, and later holds have greater tokens.
fn check_beliefs(log: &Log) {
    for (name, beliefs) in &mut *log.beliefs.lock().unwrap() {
        beliefs.sort_by_key(|belief| belief.from);
        if name.starts_with('f') {
            continue;
        }
        for pair in beliefs.windows(2) {
            assert!(
                pair[0].until <= pair[1].from,
                "two holders of {name}: {pair:?}"
            );
            assert!(
                pair[0].token < pair[1].token,
                "the fence of {name} went back: {pair:?}"
            );
        }
    }
}

impl Log {
    /// Unwraps what was not given up; only failures that pass and losses are allowed.
    fn note<T>(&self, outcome: Result<Result<T, Error>, ()>) -> Option<T> {
        match outcome.ok()? {
            Ok(value) => Some(value),
            Err(error) => {
                assert!(error.is_transient() || error.loss().is_some(), "{error:?}");
                self.errors.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

const OPERATIONS: u32 = 10_000;

/// Longest patience with one operation.
const GIVE_UP: Duration = Duration::from_millis(500);
