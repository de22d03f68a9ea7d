//! What the recipes share: servers with wrong clocks, three replicas for each, and a look at the
//! slots that ran.

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redlatch::{
    Client,
    once::{JobRun, Once},
    runtime::TokioRuntime,
};
use redlatch_embedded::{EmbeddedServer, Listening, Model, ServerTime};
use tokio::time::sleep;

/// What the functions of the recipes return.
pub type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// The time between two slots.
pub const PERIOD: Duration = Duration::from_secs(4);

/// The schedule of all recipes: every four seconds.
pub const EXPRESSION: &str = "*/4 * * * * *";

/// How long the replicas fire.
const RUN: Duration = Duration::from_secs(22);

/// The number of slots that begin in that time at least, without the first and the last one.
const SLOTS: usize = 4;

/// One replica of the service: its client, and the log that all of them share.
#[derive(Clone, Debug)]
pub struct Replica {
    client: Client,
    ran: Arc<Mutex<Vec<SystemTime>>>,
}

impl Replica {
    /// Runs the job for the slot of `instant`. The work stands for anything that takes a while.
    pub async fn fire(&self, instant: SystemTime) {
        let job = self.client.once("recipe:report").every(PERIOD).at(instant);
        let work = async |run: &JobRun| -> Result {
            let slot = run
                .slot()
                .instant()
                .ok_or("a slot of time has an instant")?;
            sleep(Duration::from_millis(100)).await;
            if instant < slot || instant >= slot + PERIOD {
                return Err("the slot is not the one for which the scheduler has fired".into());
            }
            let mut ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
            ran.push(slot);
            Ok(())
        };
        match job.run(work).await {
            Ok(Once::Ran(()) | Once::Done(_) | Once::UnderWay(_)) => {}
            Ok(other) => eprintln!("the slot did not run: {other:?}"),
            Err(error) => eprintln!("the slot did not run: {error}"),
        }
    }
}

/// Says how far a server's clock is from that of the schedulers.
#[derive(Clone, Copy)]
enum Clock {
    Behind(Duration),
    Ahead(Duration),
}

impl Clock {
    fn now(self) -> SystemTime {
        match self {
            Self::Behind(span) => SystemTime::now() - span,
            Self::Ahead(span) => SystemTime::now() + span,
        }
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind(Duration::ZERO) => write!(f, "right"),
            Self::Behind(span) => write!(f, "{span:?} behind"),
            Self::Ahead(span) => write!(f, "{span:?} ahead"),
        }
    }
}

const CLOCKS: [Clock; 4] = [
    Clock::Behind(Duration::ZERO),
    Clock::Behind(Duration::from_millis(50)),
    Clock::Behind(Duration::from_secs(300)),
    Clock::Ahead(Duration::from_millis(50)),
];

/// Runs three replicas beside a server of each clock, and checks that no slot was missed and none
/// ran twice. `schedule` starts the scheduler of a replica, which fires until it is dropped.
pub async fn check<S>(schedule: impl AsyncFn(Replica) -> Result<S>) -> Result {
    let mut beds = Vec::new();
    for clock in CLOCKS {
        beds.push(Bed::start(clock, &schedule).await?);
    }
    sleep(RUN).await;
    for bed in beds {
        let ran = bed.slots();
        println!("server's clock {}: {} slots ran", bed.clock, ran.len());
        if ran.len() < SLOTS {
            return Err(format!("fewer than {SLOTS} slots ran").into());
        }
        for two in ran.windows(2) {
            if two[0] == two[1] {
                return Err("a slot ran twice".into());
            }
            if two[1].duration_since(two[0])? != PERIOD {
                return Err("a slot was missed".into());
            }
        }
    }
    println!("No slot was missed, and none ran twice.");
    Ok(())
}

/// A server and its replicas.
struct Bed<S> {
    clock: Clock,
    ran: Arc<Mutex<Vec<SystemTime>>>,
    _server: (EmbeddedServer, Listening),
    _schedulers: Vec<S>,
}

impl<S> Bed<S> {
    async fn start(clock: Clock, schedule: &impl AsyncFn(Replica) -> Result<S>) -> Result<Self> {
        let runtime = TokioRuntime::current().ok_or("recipes run on tokio")?;
        let since = clock.now().duration_since(UNIX_EPOCH)?;
        let time = ServerTime::from_micros(u64::try_from(since.as_micros())?);
        let server = EmbeddedServer::starting_at(Arc::new(runtime), Model::default(), time);
        let listening = server.listen("127.0.0.1:0").await?;
        let (ran, mut schedulers) = (Arc::default(), Vec::new());
        for _ in 0..3 {
            let client = Client::connect(&listening.url()).await?;
            let ran = Arc::clone(&ran);
            schedulers.push(schedule(Replica { client, ran }).await?);
        }
        Ok(Self {
            clock,
            ran,
            _server: (server, listening),
            _schedulers: schedulers,
        })
    }

    /// Returns the slots that ran, sorted.
    fn slots(&self) -> Vec<SystemTime> {
        let mut ran = self
            .ran
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        ran.sort_unstable();
        ran
    }
}
