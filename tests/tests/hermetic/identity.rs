//! Who is who: no two clients share an identity, however alike the processes are that made them.

use std::{
    collections::BTreeSet,
    env,
    fmt::Debug,
    io::{BufRead, BufReader, Write, stdin},
    pin::Pin,
    process::{Child, Command, Stdio},
};

use fork::Fork;
use futures_util::FutureExt;
use redlatch::blocking::{self, Wait, WaitIter, work};
use redlatch_embedded::{EmbeddedServer, EmbeddedTransport, Listening};
use tokio::runtime::Runtime;

use crate::{
    prelude::*,
    runtime_end::{current_thread as runtime, served},
};

const ROLE: &str = "REDLATCH_TEST_ROLE";
const SERVER: &str = "REDLATCH_TEST_SERVER";

/// Not a test: what the processes do that the tests below start.
#[test]
fn run_a_role_in_another_process() {
    let (Ok(role), Ok(url)) = (env::var(ROLE), env::var(SERVER)) else {
        return;
    };
    match role.as_str() {
        "forks" => forks(&url),
        "seeds" => {
            fastrand::seed(7);
            connect_and_try(&url);
        }
        "connects" => connect_and_try(&url),
        "uses after fork" => uses_after_fork(&url),
        "blocks after fork" => blocks_after_fork(&url),
        role => panic!("{role}"),
    }
    // Guards are not dropped: what is held stays held.
    std::process::exit(0);
}

/// Makes a client of this process, tries to hold `x`, and says who it is and whether it holds.
fn connect_and_try(url: &str) {
    runtime().block_on(async {
        // Hundreds of processes start at once.
        let builder = Client::builder(url).connect_timeout(GENEROUS);
        let client = builder.connect().await.unwrap();
        let guard = client.lock("x").try_lock().await.unwrap();
        println!("said {} {}", client.id(), guard.is_some());
        std::mem::forget(guard);
        std::mem::forget(client);
    });
}

fn forks(url: &str) {
    // From here on the generator has a state that the children inherit.
    fastrand::u64(..);
    for _ in 0..3 {
        let Fork::Parent(child) = fork::fork().unwrap() else {
            connect_and_try(url);
            std::process::exit(0);
        };
        fork::waitpid(child).unwrap();
    }
}

/// Workers that were forked, processes that seed the generator alike, and two hundred that start at
/// once.
#[test]
fn processes_that_are_alike_have_ids_of_their_own_and_exclude_each_other() {
    for (role, started, clients) in [("forks", 1, 3), ("seeds", 2, 2), ("connects", 200, 200)] {
        let server = Served::start();
        one_holds(&server.run(role, started), clients);
    }
}

#[test]
fn a_thousand_clients_of_one_process_have_ids_of_their_own() {
    let server = Served::start();
    let said = runtime().block_on(async {
        let embedded = EmbeddedTransport::new().serve("x", server.server.clone());
        let transport: Arc<dyn redlatch::runtime::Transport> = Arc::new(embedded);
        let connecting = (0..1000).map(|_| {
            let address = redlatch::runtime::Address::Embedded("x".to_owned());
            redlatch::ClientBuilder::at(address, redlatch::runtime::Login::default())
                .transport(Arc::clone(&transport))
                .connect_timeout(Duration::from_secs(60))
                .connect()
        });
        let clients = join_all(connecting).await;
        let mut said = Vec::new();
        let mut guards = Vec::new();
        for client in &clients {
            let client: &Client = client.as_ref().unwrap();
            let guard = client.lock("x").try_lock().await.unwrap();
            said.push(format!("{} {}", client.id(), guard.is_some()));
            guards.push(guard);
        }
        said
    });
    one_holds(&said, 1000);
}

#[test]
fn a_client_in_a_forked_process_refuses_and_sends_nothing() {
    child_sends_nothing("uses after fork");
}

/// Runs a process that forks between two pauses, and checks that its child sends nothing and is
/// refused everything.
fn child_sends_nothing(role: &str) {
    let server = Served::start();
    let commands = || server.server.command_counts().values().sum::<u64>();
    let mut process = server.process(role);
    let mut stdin = process.stdin.take().unwrap();
    let mut counts = Vec::new();
    let said = said(&mut process, |line| {
        if let "before" | "after" = line {
            counts.push(commands());
            stdin.write_all(b"\n").unwrap();
        }
    });
    assert_eq!(counts[0], counts[1], "the child has sent something");
    assert_eq!(said, ["before", "refused", "after", "parent still holds"]);
}

/// Uses a client, a guard and a future of the parent in a forked child.
fn uses_after_fork(url: &str) {
    let runtime = runtime();
    let client = runtime.block_on(Client::connect(url)).unwrap();
    let hold = |name: &str| {
        let lock = client.lock(name);
        runtime.block_on(lock.lock().into_future()).unwrap()
    };
    let (held, dropped, released) = (hold("held"), hold("dropped"), hold("released"));
    let semaphore = client.semaphore("permits").permits_if_unset(2);
    let permit = || runtime.block_on(semaphore.acquire().into_future()).unwrap();
    let (returned, forgotten) = (permit(), permit());
    let holds = client.tables().holds;
    let limiter = client.rate_limiter("passes");
    let limiter = limiter.rate(1, Duration::from_secs(3600));
    let pass = runtime.block_on(limiter.acquire(1)).unwrap();
    let lock = client.lock("held");
    let mut waiting = Box::pin(lock.lock().into_future());
    let mut passing = Box::pin(limiter.acquire(1));
    let mut lost = Box::pin(held.lost());
    keeps_waiting(&runtime, &mut lost);
    keeps_waiting(&runtime, &mut waiting);
    keeps_waiting(&runtime, &mut passing);
    pause("before");
    let Fork::Parent(child) = fork::fork().unwrap() else {
        self::runtime().block_on(async {
            refused("lock", lock.lock().await);
            refused("try_lock", client.lock("y").try_lock().await);
            refused("info", lock.info().await);
            refused("extend", held.extend(Duration::from_secs(9)).await);
            is("state", held.state(), HoldState::Lost(LossCause::Forked));
            refused_as("check", held.check(), LOST);
            is("lost", held.lost().await, LossCause::Forked);
            is("lost before", lost.await, LossCause::Forked);
            is("closed", client.is_closed(), true);
            refused("release", released.release().await);
            refused("return of a permit", returned.release().await);
            refused("forgetting of a permit", forgotten.forget().await);
            // Another thread of the parent may have held the lock of the table.
            is("count of holds", client.tables().holds, holds);
            drop(dropped);
            refused("waiting", waiting.await);
            refused("settlement", pass.settle(0).await);
            refused("waiting for a pass", passing.await);
            client.close_now().await;
            let message = client.lock("y").try_lock().await.unwrap_err().to_string();
            let own = format!("process {}", std::process::id());
            assert!(message.contains(&own), "{message}");
            sleep(Duration::from_millis(50)).await;
        });
        println!("said refused");
        std::process::exit(0);
    };
    assert_eq!(fork::waitpid(child).unwrap(), 0);
    pause("after");
    for guard in [&held, &dropped] {
        let extending = guard.extend(Duration::from_secs(60));
        runtime.block_on(extending).unwrap();
    }
    println!("said parent still holds");
}

/// Polls a future that waits at the server, and goes on waiting.
fn keeps_waiting<F: Future>(runtime: &Runtime, waiting: &mut Pin<Box<F>>) {
    for _ in 0..20 {
        let polled = runtime.block_on(async {
            sleep(Duration::from_millis(5)).await;
            waiting.as_mut().now_or_never()
        });
        assert!(polled.is_none());
    }
}

#[test]
fn a_blocking_client_in_a_forked_process_refuses_at_once_and_sends_nothing() {
    child_sends_nothing("blocks after fork");
}

/// Uses a blocking client and its guards in a forked child, which has no thread of the client.
fn blocks_after_fork(url: &str) {
    let client = blocking::Client::connect(url).unwrap();
    let hold = |name: &str| client.lock(name).lock().wait().unwrap();
    let (held, dropped, released) = (hold("held"), hold("dropped"), hold("released"));
    pause("before");
    let Fork::Parent(child) = fork::fork().unwrap() else {
        let lock = client.lock("held");
        refused("lock", lock.lock().wait());
        let tried = lock.try_lock_for(Duration::from_secs(9));
        refused("try_lock_for", tried.wait());
        let worked = client.with_lock("y", async |_| ());
        refused("with_lock", worked.wait());
        refused("info", lock.info().wait());
        refused("extend", held.extend(Duration::from_secs(9)).wait());
        refused("release", released.release().wait());
        refused("locks", client.locks("*").wait_iter().next().unwrap());
        is("state", held.state(), HoldState::Lost(LossCause::Forked));
        refused_as("check", held.check(), LOST);
        refused_as("run", held.run(work(&held, |_| ())).wait(), LOST);
        let message = lock.lock().wait().unwrap_err().to_string();
        assert!(message.contains("after the fork"), "{message}");
        // Neither waits for the thread that is not there.
        drop(dropped);
        client.close(Duration::from_secs(9)).wait();
        drop((lock, held, client));
        let own = blocking::Client::embedded().unwrap();
        let guard = own.lock("x").try_lock().wait().unwrap();
        is("hold of an own client", guard.is_some(), true);
        println!("said refused");
        std::process::exit(0);
    };
    assert_eq!(fork::waitpid(child).unwrap(), 0);
    pause("after");
    for guard in [&held, &dropped] {
        guard.extend(Duration::from_secs(60)).wait().unwrap();
    }
    println!("said parent still holds");
}

/// What a guard says after the fork.
const LOST: ErrorKind = ErrorKind::Lost(LossCause::Forked);

/// Says so unless the call was refused because of the fork.
fn refused<T>(what: &str, call: Result<T, Error>) {
    refused_as(what, call, ErrorKind::Forked);
}

fn refused_as<T>(what: &str, call: Result<T, Error>, kind: ErrorKind) {
    is(what, call.err().map(|error| error.kind()), Some(kind));
}

/// Says so unless it is as expected.
fn is<T: Debug + PartialEq>(what: &str, is: T, expected: T) {
    if is != expected {
        println!("said {what} {is:?}");
    }
}

/// Says something, and goes on when the test has taken note of it.
fn pause(what: &str) {
    println!("said {what}");
    stdin().read_line(&mut String::new()).unwrap();
}

fn one_holds(said: &[String], processes: usize) {
    let ids = said.iter().filter_map(|line| line.split(' ').next());
    let ids: BTreeSet<_> = ids.collect();
    let holders = said.iter().filter(|line| line.ends_with(" true")).count();
    let counts = (said.len(), ids.len(), holders);
    assert_eq!(counts, (processes, processes, 1), "{said:?}");
}

/// An embedded server that other processes reach.
struct Served {
    server: EmbeddedServer,
    listening: Listening,
    _runtime: Runtime,
}

impl Served {
    fn start() -> Self {
        let (_runtime, server, listening) = served();
        Self {
            server,
            listening,
            _runtime,
        }
    }

    /// Starts `count` processes at once; returns what they said.
    fn run(&self, role: &str, count: usize) -> Vec<String> {
        let processes: Vec<_> = (0..count).map(|_| self.process(role)).collect();
        let mut all = Vec::new();
        for mut process in processes {
            all.extend(said(&mut process, |_| {}));
        }
        all
    }

    fn process(&self, role: &str) -> Child {
        let test = "identity::run_a_role_in_another_process";
        Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(ROLE, role)
            .env(SERVER, self.listening.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

/// Reads what a process says, until it ends.
fn said(process: &mut Child, mut hears: impl FnMut(&str)) -> Vec<String> {
    let mut said = Vec::new();
    for line in BufReader::new(process.stdout.take().unwrap()).lines() {
        if let Some((_, line)) = line.unwrap().split_once("said ") {
            hears(line);
            said.push(line.to_owned());
        }
    }
    assert!(process.wait().unwrap().success(), "{said:?}");
    said
}
