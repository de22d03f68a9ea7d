//! Processes that share permits and are killed and stopped, and a resource outside of the library
//! that counts them.

use std::{
    env,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use redlatch::{
    Client, Moment, PermitExpirableSemaphore, PermitId, Semaphore, SemaphorePermit,
    semaphore::Totals,
};
use redlatch_tests::{
    backend::Backend,
    child,
    fixture::{MS, SECOND},
    server::ServerBinary,
    wait::{GENEROUS, eventually, eventually_blocking},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::gate::{GO_HOME, Gate, WELCOME, Word, after, wall};

redlatch_tests::on_every_server!(
    held_permits_never_exceed_the_limit_when_holders_are_killed_and_stopped,
    held_ids_never_exceed_the_limit_when_holders_are_killed_and_stopped,
    a_killed_holder_s_permits_come_back_with_its_lease,
);

// L31
async fn held_permits_never_exceed_the_limit_when_holders_are_killed_and_stopped(
    binary: ServerBinary,
) {
    never_too_many(binary, Kind::Guards).await;
}

// L31
async fn held_ids_never_exceed_the_limit_when_holders_are_killed_and_stopped(binary: ServerBinary) {
    never_too_many(binary, Kind::Ids).await;
}

async fn never_too_many(binary: ServerBinary, kind: Kind) {
    let backend = Backend::real(&binary);
    let client = backend.client().await;
    let gate = Gate::open(u64::from(LIMIT));
    let start = || Workers::start(&backend, &gate, kind, TASKS);
    let mut processes: Vec<_> = (0..5).map(|_| start()).collect();
    let mut rng = fastrand::Rng::with_seed(u64::from(std::process::id()));
    let began = Instant::now();
    let mut killed = 0;
    while killed < 3 || gate.tally().gave_up == 0 {
        let used = gate.tally().seats + 100;
        eventually("permits to be used", GENEROUS * 2, async || {
            gate.tally().seats >= used
        })
        .await;
        let at = a_stopped_holder(&gate, &processes, &mut rng).await;
        let pid = processes[at].pid();
        if killed == 1 && gate.tally().gave_up == 0 {
            // Until its leases are surely over.
            gate.stopped(pid);
            tokio::time::sleep(LEASE + SECOND).await;
            gate.goes_on();
            processes[at].resume();
        } else {
            let died = gate.tally().died;
            processes[at] = start();
            eventually("its seats to be empty", GENEROUS, async || {
                gate.seats_of(pid) == 0
            })
            .await;
            // One that had just given back its permits may have been stopped before the gate knew.
            killed += u32::from(gate.tally().died > died);
        }
    }
    gate.close();
    for process in processes {
        process.ended();
    }
    let tally = gate.tally();
    println!("{binary}, {kind:?}: {:?}, {tally:?}", began.elapsed());
    assert_eq!(tally.too_many, 0, "{tally:?}");
    assert_eq!(tally.went_on, 0, "{tally:?}");
    assert!(tally.peak > u64::from(LIMIT) / 2, "{tally:?}");
    eventually("all permits to be back", GENEROUS, async || {
        kind.totals(&client).await.acquired == 0
    })
    .await;
    assert_eq!(kind.totals(&client).await.available, LIMIT);
}

/// Stops a process that has permits at that moment.
async fn a_stopped_holder(gate: &Gate, processes: &[Workers], rng: &mut fastrand::Rng) -> usize {
    loop {
        let at = rng.usize(..processes.len());
        processes[at].suspend();
        // What it had said before is heard by then.
        tokio::time::sleep(100 * MS).await;
        if gate.seats_of(processes[at].pid()) > 0 {
            return at;
        }
        processes[at].resume();
        tokio::time::sleep(20 * MS).await;
    }
}

// L31
async fn a_killed_holder_s_permits_come_back_with_its_lease(binary: ServerBinary) {
    for kind in [Kind::Guards, Kind::Ids] {
        let backend = Backend::real(&binary);
        let client = backend.client().await;
        let gate = Gate::open(u64::from(LIMIT));
        let victim = Workers::start(&backend, &gate, kind, 0);
        eventually("it to hold all", GENEROUS, async || gate.tally().seats == 1).await;
        let waiter = tokio::spawn({
            let client = client.clone();
            async move { Permits::acquire(kind, &client, LIMIT).await }
        });
        eventually("a waiter to queue", GENEROUS, async || {
            kind.totals(&client).await.waiters == 1
        })
        .await;
        backend.pass(LEASE).await;
        assert!(!waiter.is_finished(), "it renews while it lives");
        drop(victim);
        let killed = Instant::now();
        let permits = waiter.await.unwrap();
        let waited = killed.elapsed();
        println!("{binary}, {kind:?}: all back {waited:?} after the kill, the lease was {LEASE:?}");
        assert!(waited < LEASE + 10 * SECOND, "{waited:?}");
        permits.release().await;
        assert_eq!(gate.tally().died, 1);
    }
}

/// Which of the two semaphores.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Guards,
    Ids,
}

impl Kind {
    fn guards(client: &Client) -> Semaphore {
        client.semaphore("x").permits_if_unset(LIMIT)
    }

    fn ids(client: &Client) -> PermitExpirableSemaphore {
        let permits = client.permit_expirable_semaphore("x");
        permits.permits_if_unset(LIMIT)
    }

    async fn totals(self, client: &Client) -> Totals {
        match self {
            Self::Guards => Self::guards(client).totals().await.unwrap(),
            Self::Ids => Self::ids(client).totals().await.unwrap(),
        }
    }
}

/// Permits as somebody has them who works under them.
enum Permits {
    Guard(SemaphorePermit),
    /// Nothing tells of their end but the clock, which was read before they were asked for.
    Ids {
        client: Client,
        ids: Vec<PermitId>,
        until: Moment,
    },
}

impl Permits {
    async fn acquire(kind: Kind, client: &Client, n: u32) -> Self {
        match kind {
            Kind::Guards => {
                let waiting = Kind::guards(client).acquire_many(n);
                Self::Guard(waiting.renewed_lease(LEASE).await.unwrap())
            }
            Kind::Ids => loop {
                let semaphore = Kind::ids(client);
                let permits = semaphore.acquire_many(n).lease(LEASE).await.unwrap();
                // How long the acquisition waited for them is not known: from here on they are
                // extended.
                let mut taken = Self::Ids {
                    client: client.clone(),
                    ids: permits,
                    until: client.now(),
                };
                if taken.goes_on().await {
                    return taken;
                }
            },
        }
    }

    /// Renews what nobody else renews; `false` if they are over.
    async fn goes_on(&mut self) -> bool {
        let Self::Ids { client, ids, until } = self else {
            return true;
        };
        for id in ids {
            let before = client.now();
            if Kind::ids(client).extend(id, LEASE).await.is_err() {
                return false;
            }
            // Three percent are for clocks that differ.
            *until = before + LEASE * 97 / 100;
        }
        true
    }

    fn remaining(&self) -> Duration {
        match self {
            Self::Guard(guard) => guard.remaining(),
            Self::Ids { client, until, .. } => *until - client.now(),
        }
    }

    fn lasts(&self) -> bool {
        match self {
            Self::Guard(guard) => guard.check().is_ok(),
            Self::Ids { client, until, .. } => *until > client.now(),
        }
    }

    async fn release(self) {
        match self {
            Self::Guard(guard) => drop(guard.release().await.unwrap()),
            Self::Ids { client, ids, .. } => {
                let released = Kind::ids(&client).release_all(&ids).await;
                drop(released.unwrap());
            }
        }
    }
}

/// A process with tasks that take permits, sit at the gate for a while, and give them back; killed
/// when this is dropped.
struct Workers(Child);

impl Workers {
    /// Starts this test binary anew; without tasks, it takes all permits and keeps them.
    fn start(backend: &Backend, gate: &Gate, kind: Kind, tasks: usize) -> Self {
        let child = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "pool::processes::run_as_a_worker_process",
            ])
            .env(URL, backend.server().url())
            .env(GATE, gate.address().to_string())
            .env(KIND, format!("{kind:?}"))
            .env(MANY, tasks.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn suspend(&self) {
        child::suspend(&self.0);
    }

    fn resume(&self) {
        child::resume(&self.0);
    }

    fn ended(mut self) {
        let child = &mut self.0;
        let ended = tokio::task::block_in_place(|| {
            eventually_blocking("a process to end", GENEROUS * 2, || {
                child.try_wait().unwrap()
            })
        });
        assert!(ended.success());
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Part of the tests above: does something only when they start it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn run_as_a_worker_process() {
    let (Ok(url), Ok(gate)) = (env::var(URL), env::var(GATE)) else {
        return;
    };
    let gate: SocketAddr = gate.parse().unwrap();
    let kind = match env::var(KIND).unwrap().as_str() {
        "Guards" => Kind::Guards,
        _ => Kind::Ids,
    };
    let client = Arc::new(Client::connect(&url).await.unwrap());
    let tasks: usize = env::var(MANY).unwrap().parse().unwrap();
    if tasks == 0 {
        let permits = Permits::acquire(kind, &client, LIMIT).await;
        sit(gate, permits, u64::from(LIMIT), u32::MAX).await;
    }
    let tasks = (0..tasks).map(|at| {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            let n = 1 + at as u64 % 3;
            let permits = || Permits::acquire(kind, &client, n as u32);
            while sit(gate, permits().await, n, 1 + at as u32).await {}
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    client.close(SECOND).await;
}

/// Uses permits for some steps of work, for as long as they last, and gives them back; `false` when
/// the gate is closed.
async fn sit(gate: SocketAddr, mut permits: Permits, n: u64, steps: u32) -> bool {
    let mut seat = TcpStream::connect(gate).await.unwrap();
    let mut answer = [WELCOME];
    if says(&mut seat, &permits, n).await {
        seat.read_exact(&mut answer).await.unwrap();
        for _ in 0..steps {
            tokio::time::sleep(10 * MS).await;
            let goes_on = permits.remaining() > LEASE / 2 || permits.goes_on().await;
            if !goes_on || !says(&mut seat, &permits, n).await {
                break;
            }
        }
        // Nobody else comes before it is noted that this one has gone.
        let farewell = Word {
            permits: 0,
            pid: 0,
            at: 0,
            until: 0,
        };
        seat.write_all(&farewell.bytes()).await.unwrap();
        let mut noted = [0];
        seat.read_exact(&mut noted).await.unwrap();
    }
    permits.release().await;
    answer[0] != GO_HOME
}

/// Tells the gate of a step, if the permits last; `false` if not.
async fn says(seat: &mut TcpStream, permits: &Permits, n: u64) -> bool {
    let at = wall();
    let until = after(at, permits.remaining());
    if !permits.lasts() {
        return false;
    }
    let word = Word {
        permits: u8::try_from(n).unwrap(),
        pid: std::process::id(),
        at,
        until,
    };
    seat.write_all(&word.bytes()).await.unwrap();
    true
}

const LIMIT: u32 = 8;
const TASKS: usize = 4;
const LEASE: Duration = Duration::from_secs(2);
const URL: &str = "REDLATCH_TEST_POOL_URL";
const GATE: &str = "REDLATCH_TEST_POOL_GATE";
const KIND: &str = "REDLATCH_TEST_POOL_KIND";
const MANY: &str = "REDLATCH_TEST_POOL_TASKS";
