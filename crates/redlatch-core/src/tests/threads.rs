//! What scenarios of threads need. `cargo xtask check threads` runs the scenarios, in the files
//! `tests/threads.rs`, under many schedules: shuttle chooses at each lock and counter which thread
//! goes on. A thread that waits for ever fails the scenario, since the clock stands still.

use std::{
    collections::BTreeMap,
    env,
    future::{Future, pending},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use shuttle::{
    Config, MaxSteps, Runner, future,
    rand::{Rng, thread_rng},
    scheduler::{PctScheduler, RandomScheduler, ReplayScheduler},
};
pub(crate) use shuttle::{
    future::block_on,
    thread::{JoinHandle, spawn},
};
use tokio::sync::Notify;

use crate::{
    Backoff, Client, Error, Moment, Token, WaitStrategy,
    base::{
        primitive::{
            AcquireRequest, Answer, Grant, Identity, Primitive, ReleaseReply, ReleaseRequest,
            RenewRequest, Renewed,
        },
        script::{Script, ScriptCall},
        sync::{Mutex, lock, yield_once},
    },
    protocol::name::key,
    runtime::{
        BoxFuture, Command, Conn, Dial, DialError, Dialed, Outcome, Protocol, Purpose, Push,
        Pushes, Runtime, Transport, Value,
    },
};

/// Runs `scenario` under random schedules, and under random ones with few switches.
pub(crate) fn explore(scenario: fn()) {
    let mut config = Config::new();
    (config.stack_size, config.silence_warnings) = (1 << 19, true);
    config.max_steps = MaxSteps::FailAfter(50_000);
    if let Ok(schedule) = env::var("REDLATCH_SCHEDULE") {
        let replay = ReplayScheduler::new_from_encoded(&schedule);
        Runner::new(replay, config).run(scenario);
        return;
    }
    let schedules = env::var("REDLATCH_SCHEDULES").map_or(1_000, |count| count.parse().unwrap());
    Runner::new(RandomScheduler::new(schedules), config.clone()).run(scenario);
    // Such a schedule may let a thread look again and again while the thread that ends this waits.
    config.max_steps = MaxSteps::ContinueAfter(5_000);
    for switches in 1..4 {
        let few = PctScheduler::new(switches, schedules);
        Runner::new(few, config.clone()).run(scenario);
    }
}

/// Begins a thread that waits for `future`.
pub(crate) fn begin<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    spawn(|| block_on(future))
}

/// A client, its server, and its clock.
pub(crate) fn world() -> (Client, Server, Arc<Clock>) {
    let (server, clock) = (Server::default(), Arc::<Clock>::default());
    let client = Client::builder("redis://localhost")
        .runtime(Arc::new(Threads(Arc::clone(&clock))))
        .transport(Arc::new(server.clone()))
        .wait_strategy(WaitStrategy::Poll(Backoff::constant(Duration::from_secs(
            1,
        ))))
        .connect_lazy();
    (client.unwrap(), server, clock)
}

/// Shuttle's tasks.
#[derive(Debug)]
struct Threads(Arc<Clock>);

/// A clock that moves when it is set. Reading it switches no thread, since the client reads it
/// under locks of tokio.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64, Notify);

impl Clock {
    pub(crate) fn set(&self, now: Moment) {
        let nanos = now.since_origin().as_nanos();
        self.0.store(nanos.try_into().unwrap(), Ordering::SeqCst);
        self.1.notify_waiters();
    }

    fn now(&self) -> Moment {
        Moment::from_origin(Duration::from_nanos(self.0.load(Ordering::SeqCst)))
    }
}

/// The name of a task that the runtime drops, as it does when it ends.
pub(crate) const DROPPED: &str = "dropped";

impl Runtime for Threads {
    fn now(&self) -> Moment {
        self.0.now()
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<()> {
        let clock = Arc::clone(&self.0);
        Box::pin(async move {
            let mut changed = pin!(clock.1.notified());
            while clock.now() < until {
                changed.as_mut().await;
                changed.set(clock.1.notified());
            }
        })
    }

    fn spawn(&self, task: &'static str, future: BoxFuture<()>) {
        if task != DROPPED {
            drop(future::spawn(future));
        }
    }

    fn random(&self) -> u64 {
        7
    }

    fn entropy(&self) -> u128 {
        7
    }
}

/// Lets the caller's other futures run, in some schedules.
pub(crate) async fn later() {
    if thread_rng().r#gen() {
        yield_once().await;
    }
}

/// A server whose names are held by one attempt each. An answer may come late.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server(Arc<Mutex<BTreeMap<String, String>>>);

impl Server {
    /// Tells whether no name is held.
    pub(crate) fn is_free(&self) -> bool {
        lock(&self.0).is_empty()
    }

    fn execute(&self, command: &Command) -> Value {
        let words = command.words();
        let (name, attempt) = (words.get(3), words.last().unwrap());
        let mut held = lock(&self.0);
        match (words.get(1).map(String::as_str), name) {
            (Some("take"), Some(name)) if held.contains_key(name) => Value::Int(0),
            (Some("take"), Some(name)) => {
                held.insert(name.clone(), attempt.clone());
                Value::Int(1)
            }
            (Some("give"), Some(name)) => {
                let ours = held.get(name) == Some(attempt);
                Value::Int(i64::from(ours && held.remove(name).is_some()))
            }
            _ if words[0] == "TIME" => Value::Array(vec![Value::Int(1_000), Value::Int(0)]),
            _ => Value::Status("OK".into()),
        }
    }
}

#[async_trait]
impl Transport for Server {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        if dial.purpose == Purpose::PubSub {
            pending::<()>().await;
        }
        Ok(Dialed {
            conn: Arc::new(self.clone()),
            pushes: Box::new(Self::default()),
            protocol: Protocol::Resp2,
        })
    }
}

#[async_trait]
impl Conn for Server {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        let answers = batch.iter().map(|command| self.execute(command));
        let answers = answers.map(|answer| Outcome::Replied(Ok(answer))).collect();
        later().await;
        answers
    }
}

#[async_trait]
impl Pushes for Server {
    async fn next(&mut self) -> Option<Push> {
        pending().await
    }
}

/// A name on that server.
#[derive(Debug)]
pub(crate) struct Name(Identity);

impl Name {
    pub(crate) fn of(name: &str) -> Arc<dyn Primitive> {
        Arc::new(Self(Identity {
            class: Arc::default(),
            key: key(name),
        }))
    }
}

static TAKE: Script = script("take");
static KEEP: Script = script("keep");
static GIVE: Script = script("give");

const fn script(name: &'static str) -> Script {
    Script {
        name,
        text: name,
        digest: name,
        list: None,
    }
}

impl Primitive for Name {
    fn kind(&self) -> &'static str {
        "name"
    }

    fn identity(&self) -> &Identity {
        &self.0
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        let call = ScriptCall::new(&TAKE, self.key()).dated();
        call.arg(request.attempt)
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        let busy = || Answer::busy(crate::protocol::waiter::RECHECK, "other");
        let taken = *reply == Value::Int(1);
        let grant = Grant::new(Token::from_u64(1));
        Ok(if taken {
            Answer::Granted(grant)
        } else {
            busy()
        })
    }

    fn renew(&self, _: &RenewRequest<'_>) -> ScriptCall {
        ScriptCall::new(&KEEP, self.key()).dated()
    }

    fn renewed(&self, _: &'static Script, _: &Value) -> Result<Renewed, Error> {
        Ok(Renewed::Renewed)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        ScriptCall::new(&GIVE, self.key()).arg(request.attempt)
    }

    fn released(&self, _: &'static Script, _: &Value) -> Result<ReleaseReply, Error> {
        Ok(ReleaseReply::Released(0))
    }
}
