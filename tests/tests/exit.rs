//! Programs with blocking clients that end in several ways while guards are alive. The program
//! starts itself, so that a plain `main` ends and not that of a test harness.

// Tests say what they expect, and real processes need real clocks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use std::{
    cell::RefCell,
    env,
    process::{Command, ExitCode, Output, exit},
    sync::{Arc, LazyLock, Mutex, mpsc},
    thread,
    time::Duration,
};

use libtest_mimic::{Arguments, Failed, Trial};
use redlatch::{
    LockGuard,
    blocking::{Client, Wait},
    runtime::TokioRuntime,
};
use redlatch_embedded::EmbeddedServer;

const LEAVES_NOTHING: &str = "last_client_of_main_finishes_its_releases_and_removes_its_record";

const VARIABLE: &str = "REDLATCH_TEST_EXIT";

/// One way to end, and what is left of it.
struct Case {
    name: &'static str,
    /// Runs in a process of its own.
    child: fn(),
    code: i32,
    free: &'static [&'static str],
    held: &'static [&'static str],
}

macro_rules! cases {
    ($($name:expr, exits $code:literal, free $free:expr, held $held:expr; $child:block)*) => {
        &[$(Case {
            name: $name,
            child: || $child,
            code: $code,
            free: &$free,
            held: &$held,
        }),*]
    };
}

const CASES: &[Case] = cases! {
    "guard_of_main_is_released_although_the_client_is_static", exits 0, free ["a"], held []; {
        let _guard = STATIC.lock("a").lock().wait().unwrap();
    }
    "guards_that_nobody_drops_hold_no_process_up", exits 0, free [],
    held ["leaked", "static", "thread0", "thread1", "thread2", "thread3"]; {
        std::mem::forget(STATIC.lock("leaked").lock().wait().unwrap());
        keep(STATIC.lock("static").lock().wait().unwrap());
        let (tell, held) = mpsc::channel();
        for name in ["thread0", "thread1", "thread2", "thread3"] {
            let tell = tell.clone();
            thread::spawn(move || {
                let guard = STATIC.lock(name).lock().wait().unwrap();
                tell.send(()).unwrap();
                loop {
                    thread::park();
                    guard.check().unwrap();
                }
            });
        }
        (0..4).for_each(|_| held.recv().unwrap());
    }
    "close_releases_the_guards_that_nobody_drops", exits 0, free ["a"], held []; {
        keep(STATIC.lock("a").lock().wait().unwrap());
        STATIC.close(Duration::ZERO).wait();
    }
    "process_exit_runs_no_destructor", exits 7, free [], held ["a"]; {
        let _guard = STATIC.lock("a").lock().wait().unwrap();
        exit(7);
    }
    "panic_of_main_releases", exits 101, free ["a"], held []; {
        let _guard = STATIC.lock("a").lock().wait().unwrap();
        panic!("as intended");
    }
    "guard_in_a_thread_local_value_is_released_with_its_thread", exits 0, free ["a"], held []; {
        thread_local! {
            static MINE: RefCell<Option<LockGuard>> = const { RefCell::new(None) };
        }
        let thread = thread::spawn(|| MINE.set(Some(STATIC.lock("a").lock().wait().unwrap())));
        thread.join().unwrap();
        MINE.set(Some(STATIC.lock("b").lock().wait().unwrap()));
    }
    LEAVES_NOTHING, exits 0, free ["many0", "many49"], held []; {
        let client = Client::from_env().unwrap();
        let guards: Vec<_> = (0..50)
            .map(|number| client.lock(format!("many{number}")).lock().wait().unwrap())
            .collect();
        drop(client);
        drop(guards);
    }
};

static STATIC: LazyLock<Client> = LazyLock::new(|| Client::from_env().unwrap());
static KEPT: Mutex<Vec<LockGuard>> = Mutex::new(Vec::new());

fn keep(guard: LockGuard) {
    KEPT.lock().unwrap().push(guard);
}

fn main() -> ExitCode {
    if let Ok(name) = env::var(VARIABLE) {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        (case.child)();
        return ExitCode::SUCCESS;
    }
    let trials = CASES
        .iter()
        .map(|case| Trial::test(case.name, || run(case)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn run(case: &Case) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
    let server = EmbeddedServer::new(Arc::new(TokioRuntime::new(runtime.handle().clone())));
    let listening = runtime.block_on(server.listen("127.0.0.1:0")).unwrap();
    let Output { status, stderr, .. } = Command::new(env::current_exe().unwrap())
        .env(VARIABLE, case.name)
        .env("REDLATCH_URL", listening.url())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&stderr);
    if status.code() != Some(case.code) {
        return Err(format!("it ended with {status}: {said}").into());
    }
    if (case.code == 101) != said.contains("panicked") {
        return Err(format!("it said: {said}").into());
    }
    if case.name == LEAVES_NOTHING {
        let mut records = server.keys().into_iter().filter(|key| key.ends_with(b":m"));
        if let Some(record) = records.next_back() {
            let record = String::from_utf8_lossy(&record).into_owned();
            return Err(format!("the record of the client is left: {record}").into());
        }
    }
    let client = Client::connect(&listening.url()).unwrap();
    for (names, free) in [(case.free, true), (case.held, false)] {
        for name in names {
            if client.lock(name).is_locked().wait().unwrap() == free {
                let wanted = if free { "free" } else { "held" };
                return Err(format!("{name} should be {wanted}").into());
            }
        }
    }
    Ok(())
}
