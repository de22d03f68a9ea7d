//! Wrong input gets a typed error that says what is allowed, before anything is sent.

use redlatch::{
    ErrorKind::{InvalidLease, InvalidName, InvalidOption},
    OnError, PermitId, Token,
    compat::SetNx,
    fence::FencedScript,
};
use redlatch_behaviours::once::{DAY, daily, day, succeed};

use crate::prelude::*;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Checks that each call ends with an error of this kind, whose text has these words.
macro_rules! refused {
    ($kind:expr, $words:expr; $($call:expr),+ $(,)?) => {$(
        let error = $call.await.map(drop).unwrap_err();
        assert_eq!(error.kind(), $kind, "{}: {error}", stringify!($call));
        assert!(error.to_string().contains($words), "{}: {error}", stringify!($call));
    )+};
}

async fn lead(_: &Term) {
    panic!("it must not lead");
}

async fn fail(_: &Term) -> Result<(), String> {
    panic!("it must not lead");
}

async fn work(_: &JobRun) -> Result<(), String> {
    Ok(())
}

async fn bed() -> (Backend, Client, u64) {
    let (backend, [client]) = embedded().await;
    let calls = backend.script_calls();
    (backend, client, calls)
}

/// An id that no grant has.
fn no_grant() -> PermitId {
    "0123456789abcdef0123456789abcdef:1:0".parse().unwrap()
}

/// Checks that nothing was sent since.
async fn assert_nothing_sent((backend, client, calls): &(Backend, Client, u64)) {
    assert_eq!(backend.script_calls(), *calls);
    assert_eq!(backend.keys(), [""; 0]);
    assert_tables_empty(client).await;
}

#[tokio::test(start_paused = true)]
async fn names_out_of_bounds_are_refused() {
    let bed = bed().await;
    let client = &bed.1;
    for name in ["", &"x".repeat(513)] {
        let (lock, latch) = (client.lock(name), client.count_down_latch(name));
        let (semaphore, job) = (client.semaphore(name), client.once(name).every(DAY));
        let election = client.election(name);
        let permits = client.permit_expirable_semaphore(name);
        let (row, id) = (client.striped_lock(name, 4).unwrap().of("a"), no_grant());
        let names = [lock.name(), latch.name(), semaphore.name(), job.name()];
        assert_eq!((names, election.name()), ([None; 4], None));
        refused! { InvalidName, "";
            lock.lock(), lock.try_lock(), lock.info(), lock.force_release(),
            latch.try_set_count(1), latch.count_down(1), latch.count(), latch.info(),
            latch.wait(), latch.wait_for(SECOND), latch.count_down_and_wait(1), latch.delete(),
            semaphore.acquire(), semaphore.set_permits(1), semaphore.add_permits(1),
            semaphore.totals(), semaphore.holders(),
            job.run(work), job.serve(work), job.last(), job.holder(), job.reset(),
            election.lead(lead), election.leader(),
            permits.acquire(), permits.release(&id), permits.remaining(&id), row.lock(),
        }
        let first = election.observe().next().await.unwrap();
        assert_eq!(first.unwrap_err().kind(), InvalidName);
    }
    let stripes = client.striped_lock("x".repeat(512), 4).unwrap();
    refused! { InvalidName, ""; stripes.of("a").lock() }
    let long = "x".repeat(513);
    for name in ["", "a{b", "{}", "a}b", "{a}{b}", "redlatch:{x}", &long] {
        let lock = SetNx::new(client, name).class("c").retry_delay(SECOND);
        refused! { InvalidName, "";
            lock.lock(), lock.info(), client.multi_lock(&[&lock]).lock(),
        }
    }
    // Keys that have no slot of their own.
    for key in ["", "a{b", "a}b", "{}x", "50%", &"k".repeat(513)] {
        let fence = client.fence(key);
        assert_eq!(fence.key(), None);
        let token = Token::from_u64(1);
        refused! { InvalidName, ""; fence.set(token, "a"), fence.mark(), fence.reset() }
    }
    assert_nothing_sent(&bed).await;
}

// L19
#[tokio::test(start_paused = true)]
async fn leases_out_of_bounds_are_refused() {
    let bed = bed().await;
    let client = &bed.1;
    let (lock, semaphore) = (client.lock("x"), client.semaphore("x").permits_if_unset(5));
    let (permits, id) = (client.permit_expirable_semaphore("p"), no_grant());
    for lease in [Duration::ZERO, 49 * MS, YEAR + MS, Duration::MAX] {
        refused! { InvalidLease, "50ms to 365 days";
            lock.lock().lease(lease), semaphore.acquire().lease(lease),
        }
        let election = client.election("x").lease(lease);
        refused! { InvalidLease, "";
            lock.lock().renewed_lease(lease), semaphore.acquire().renewed_lease(lease),
            election.lead(lead), permits.acquire().lease(lease), permits.extend(&id, lease),
        }
    }
    let election = client.election("x").lease(SECOND / 2);
    let job = client.once("nightly").every(DAY).lease(MS);
    refused! { InvalidLease, "";
        semaphore.acquire().renewed_lease(999 * MS), election.lead(lead), job.run(work),
    }
    assert_nothing_sent(&bed).await;
    let guard = lock.lock().await.unwrap();
    refused! { InvalidLease, ""; guard.extend(Duration::ZERO) }
    guard.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn options_out_of_bounds_are_refused() {
    let bed = bed().await;
    let client = &bed.1;
    let latch = client.count_down_latch("x");
    for ttl in [Duration::ZERO, 999 * MS, YEAR + MS, Duration::MAX] {
        refused! { InvalidOption, "1 s to 365 days"; latch.try_set_count(1).ttl(ttl) }
        refused! { InvalidOption, ""; client.semaphore("x").set_permits(1).ttl(ttl) }
    }
    let semaphore = client.semaphore("x").permits_if_unset(5);
    let permits = client.permit_expirable_semaphore("p").permits_if_unset(2);
    for n in [0, 1_001, u32::MAX] {
        refused! { InvalidOption, ""; permits.acquire_many(n), permits.try_acquire_many(n) }
    }
    let lock = client.lock("y");
    for note in ["", &"x".repeat(257), &"ä".repeat(129)] {
        refused! { InvalidOption, "1 to 256 bytes"; lock.lock().note(note).lease(SECOND) }
        refused! { InvalidOption, ""; client.multi_lock(&[&lock]).try_lock().note(note) }
    }
    let stripes = client.striped_lock("rows", 0);
    assert_eq!(stripes.unwrap_err().kind(), InvalidOption);
    refused! { InvalidOption, "the least is 1";
        semaphore.acquire_many(0), semaphore.try_acquire_many(0),
    }
    let election = || client.election("x");
    refused! { InvalidOption, "";
        election().lease(10 * SECOND).grace(6 * SECOND).lead(lead),
        election().grace(16 * SECOND).lead(lead),
        election().value(&"v".repeat(1025)).lead(lead),
    }
    for pause in [Duration::ZERO, 9 * MS, YEAR + DAY] {
        for on_error in [OnError::Resign { pause }, OnError::Retry { pause }] {
            refused! { InvalidOption, ""; election().on_error(on_error).lead(fail) }
        }
    }
    let (fence, script) = (client.fence("data"), FencedScript::new("return 1"));
    let (none, many): ([(&str, &str); 0], _) = ([], vec![("f", "v"); 1_001]);
    let (one, token) = (Token::from_u64(1), Token::from_u64);
    refused! { InvalidOption, "";
        fence.set(token(1 << 53), "a"), fence.raise(token(u64::MAX)),
        fence.set_for(one, "a", Duration::ZERO), fence.set_for(one, "a", YEAR + DAY),
        fence.clone().keep(SECOND).delete(one), fence.clone().keep(YEAR + DAY).delete(one),
        fence.hset(one, &none), fence.hset(one, &many),
        fence.eval(one, script, &["other"], &[]),
        fence.eval(one, script, &[], &vec![&b"x"[..]; 1_001]),
    }
    assert_nothing_sent(&bed).await;
    assert!(latch.try_set_count(1).ttl(YEAR).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn options_of_a_job_out_of_bounds_are_refused() {
    let bed = bed().await;
    let client = &bed.1;
    let job = || client.once("nightly");
    let (long, key) = (Duration::MAX, "k".repeat(10_240));
    let (late, early) = (job().every(DAY).offset(DAY), UNIX_EPOCH - DAY);
    let caught_up = job().every(DAY).catch_up(1).at(day(20_000));
    for (job, said) in [
        (job(), "has no schedule"),
        (job().every(Duration::ZERO), "a period of 0ns"),
        (job().every(MS / 2), "1 ms to ten years"),
        (job().every(long), "1 ms to ten years"),
        (late, "not below its period of 86400s"),
        (job().gap(MS).offset(MS), "goes with `every` only"),
        (job().gap(Duration::ZERO), "a gap of 0ns"),
        (job().every(DAY).gap(DAY), "has `every` and `gap`"),
        (job().slot("a").slot("b"), "has `slot` and `slot`"),
        (job().slot(&key), "a slot of 10240 bytes"),
        (job().gap(DAY).at(UNIX_EPOCH), "`at`, which goes with"),
        (job().slot("a").catch_up(1), "`catch_up`, which goes with"),
        (job().every(DAY).catch_up(65), "at most 64"),
        (caught_up, "`catch_up` beside `at`"),
        (job().every(DAY).keep(DAY), "`keep`, which goes with `slot`"),
        (job().every(DAY).at(early), "has `at` before 1970"),
        (job().every(DAY).max_run(Duration::ZERO), "a max_run of 0ns"),
        (job().slot("a").keep(Duration::ZERO), "a keep of 0ns"),
        (job().every(DAY).retry_pause(long), "at most ten years"),
    ] {
        refused! { InvalidOption, said; job.run(work) }
        refused! { InvalidOption, "\"nightly\""; job.run(work) }
    }
    assert_nothing_sent(&bed).await;
    let longest = job().every(3653 * DAY).offset(3653 * DAY - MS);
    let longest = longest.at(day(9000));
    assert!(succeed(&longest).await.ran().is_some());
    for (job, kind, said) in [
        (job().slot("a"), InvalidOption, "keyed slot"),
        (daily(client, 20_000), InvalidOption, "has `at`"),
        (job(), InvalidOption, "no schedule"),
    ] {
        refused! { kind, said; job.serve(work) }
    }
}

#[tokio::test]
async fn options_of_a_client_out_of_bounds_are_refused() {
    let builder = || Client::builder("redis://localhost");
    for wrong in [
        builder().prefix(""),
        builder().prefix("a{b}"),
        builder().clock_drift(0.3),
        builder().token_retention(Duration::from_secs(1)),
        builder().patience(Duration::ZERO),
        builder().connect_timeout(Duration::ZERO),
        builder().long_wait(Duration::ZERO),
        builder().long_wait(YEAR + DAY),
        builder().server_clock_allowance(3601 * SECOND),
        #[cfg(feature = "tls")]
        builder().tls(Default::default()),
    ] {
        assert_eq!(wrong.connect().await.unwrap_err().kind(), InvalidOption);
    }
    let wrong = builder().default_lease(Duration::ZERO).connect();
    assert_fails(wrong.await, InvalidLease);
}
