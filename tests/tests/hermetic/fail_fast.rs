//! A client that refuses calls while the server is away.

use std::pin::Pin;

use redlatch::{ClientBuilder, permits::PermitRelease};
use redlatch_embedded::{EmbeddedServer, calls};

use crate::{outages::Refusing, prelude::*, spawning::runtime_of};

const AFTER: Duration = Duration::from_secs(2);

/// The longest time from `AFTER` to the end of a call that waits already.
const SOON: Duration = Duration::from_millis(1_600);

async fn client(backend: &Backend) -> Client {
    backend.builder().fail_fast(AFTER).connect().await.unwrap()
}

fn go_away(server: &EmbeddedServer) {
    server.refuse_connections(true);
    server.cut_connections();
}

async fn come_back(server: &EmbeddedServer, client: &Client) {
    server.refuse_connections(false);
    let start = Instant::now();
    while !client.health().is_connected() {
        sleep(10 * MS).await;
    }
    assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
}

type Call<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>;

fn call<'a, R>(call: impl IntoFuture<Output = Result<R, Error>, IntoFuture: 'a>) -> Call<'a> {
    let call = call.into_future();
    Box::pin(async move { call.await.map(drop) })
}

/// One call of each sort that keeps no hold and gives nothing back.
async fn refused_calls(client: &Client, n: usize) -> Vec<Result<(), Error>> {
    let name = format!("n{}", n % 5);
    let (lock, latch) = (client.lock(&name), client.count_down_latch("latch"));
    let fair = client.fair_lock(format!("fair-{name}"));
    let semaphore = client.semaphore("semaphore").permits_if_unset(1);
    let both = client.multi_lock(&[&lock, &client.lock("b")]);
    join_all([
        call(lock.lock()),
        call(lock.try_lock()),
        call(lock.try_lock_for(SECOND)),
        call(fair.lock()),
        call(semaphore.acquire()),
        call(both.lock()),
        call(lock.is_locked()),
        call(latch.count_down(1)),
        call(latch.wait()),
        call(latch.count()),
        call(client.ping()),
    ])
    .await
}

fn assert_refused(result: &Result<(), Error>) {
    let error = result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.is_not_executed(), "{error}");
    let text = error.to_string();
    assert!(text.contains("fail_fast refuses calls after 2s"), "{text}");
    assert!(text.contains("no connection for "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn calls_are_refused_at_once_until_the_server_answers() {
    let backend = Backend::embedded();
    let (client, server) = (client(&backend).await, backend.embedded_server());
    let latch = client.count_down_latch("latch");
    latch.try_set_count(9).await.unwrap();
    go_away(server);
    sleep(AFTER - MS).await;
    // The server has not been away for long enough.
    let lock = client.lock("early");
    let early = timeout(MS / 2, lock.try_lock().into_future()).await;
    assert!(early.is_err(), "{early:?}");
    sleep(SECOND).await;
    let start = Instant::now();
    let results = join_all((0..100).map(|n| refused_calls(&client, n))).await;
    assert_eq!(start.elapsed(), Duration::ZERO, "a call has waited");
    results.iter().flatten().for_each(assert_refused);
    come_back(server, &client).await;
    let start = Instant::now();
    assert!(client.lock("n1").try_lock().await.unwrap().is_some());
    client.ping().await.unwrap();
    assert_eq!(latch.count().await.unwrap(), 9);
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_already_are_refused_soon() {
    let backend = Backend::embedded();
    let (client, server) = (client(&backend).await, backend.embedded_server());
    let other = backend.client().await;
    let _held = other.lock("x").lock().await.unwrap();
    let _fair = other.fair_lock("fair").lock().await.unwrap();
    let latch = client.count_down_latch("latch");
    latch.try_set_count(9).await.unwrap();
    let locks = [client.lock("x"), client.lock("x"), client.lock("free")];
    let fair = client.fair_lock("fair");
    let waiting = async {
        join_all([
            call(locks[0].lock()),
            call(locks[1].try_lock_for(60 * SECOND)),
            call(fair.lock()),
            call(fair.lock()),
            call(latch.wait()),
            call(async {
                sleep(SECOND + MS).await;
                locks[2].lock().await
            }),
        ])
        .await
    };
    let outage = async {
        sleep(SECOND).await;
        go_away(server);
        Instant::now()
    };
    let (results, began) = tokio::join!(waiting, outage);
    let took = began.elapsed();
    assert!(took >= AFTER && took < AFTER + SOON, "{took:?}");
    results.iter().for_each(assert_refused);
    come_back(server, &client).await;
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn holds_are_kept_and_given_back_during_an_outage() {
    let backend = Backend::embedded();
    let (client, server) = (client(&backend).await, backend.embedded_server());
    let kept = client.lock("kept").lock().await.unwrap();
    let extended = client.lock("extended").lock().await.unwrap();
    let released = client.lock("released").lock().await.unwrap();
    let dropped = client.lock("dropped").lock().await.unwrap();
    let permits = client.permit_expirable_semaphore("permits");
    let permits = permits.permits_if_unset(2);
    let [given, longer] = [(); 2].map(|()| permits.acquire());
    let (given, longer) = (given.await.unwrap(), longer.await.unwrap());
    go_away(server);
    sleep(AFTER + SECOND).await;
    drop(dropped);
    let going_on = async {
        tokio::join!(
            released.release(),
            extended.extend(60 * SECOND),
            permits.release(&given),
            permits.extend(&longer, 60 * SECOND),
        )
    };
    let back = async {
        sleep(3 * SECOND).await;
        assert_refused(&client.lock("other").lock().await.map(drop));
        come_back(server, &client).await;
    };
    let ((released, long, given, longer), ()) = tokio::join!(going_on, back);
    released.unwrap();
    long.unwrap();
    longer.unwrap();
    assert_eq!(given.unwrap(), PermitRelease::Released);
    sleep(SECOND).await;
    for free in ["released", "dropped"] {
        assert!(!client.lock(free).is_locked().await.unwrap(), "{free}");
    }
    sleep(40 * SECOND).await;
    kept.check().unwrap();
    extended.check().unwrap();
}

/// The reply is lost with the connection, and the refusal does not hide that.
#[tokio::test(start_paused = true)]
async fn call_that_may_have_been_executed_has_an_unknown_outcome() {
    let backend = Backend::embedded();
    let (client, server) = (client(&backend).await, backend.embedded_server());
    let latch = client.count_down_latch("latch");
    let lock = client.lock("x");
    // The server has the scripts from now on.
    latch.try_set_count(10).await.unwrap();
    latch.count_down(1).await.unwrap();
    lock.lock().await.unwrap().release().await.unwrap();
    for call in [call(latch.count_down(1)), call(lock.lock())] {
        server.drop_reply(calls::of_scripts(), LostReply::Cuts);
        server.refuse_connections(true);
        let error = call.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        assert!(!error.is_not_executed());
        assert!(error.to_string().contains("fail_fast"), "{error}");
        come_back(server, &client).await;
    }
    assert_eq!(latch.count().await.unwrap(), 8);
    sleep(SECOND).await;
    assert!(lock.try_lock().await.unwrap().is_some(), "undone");
}

/// No request finds the silent server, so the health check does.
#[tokio::test(start_paused = true)]
async fn silent_server_counts_as_away_when_its_connection_is_closed() {
    let backend = Backend::embedded();
    let (client, server) = (client(&backend).await, backend.embedded_server());
    let start = Instant::now();
    server.stop();
    while client.health().is_connected() {
        sleep(100 * MS).await;
    }
    let closed = start.elapsed();
    assert!(closed <= 6_100 * MS, "{closed:?}");
    sleep(AFTER).await;
    let start = Instant::now();
    assert_refused(&client.lock("x").lock().await.map(drop));
    assert_eq!(start.elapsed(), Duration::ZERO);
    server.resume();
    come_back(server, &client).await;
    let guard = client.lock("x").lock().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn client_that_has_never_reached_a_server_refuses_calls() {
    let backend = Backend::embedded();
    let runtime = runtime_of(&backend);
    let found = ClientBuilder::cluster(["a:1", "b:1"]);
    for builder in [backend.builder(), found] {
        let builder = builder.runtime(runtime.clone()).patience(3 * SECOND);
        let (nowhere, _) = Refusing::of(&backend, |_| true);
        let builder = builder.transport(nowhere);
        let client = builder.fail_fast(AFTER).connect_lazy().unwrap();
        let start = Instant::now();
        assert!(client.ping().await.is_err());
        assert_eq!(start.elapsed(), 3 * SECOND);
        let results = refused_calls(&client, 1).await;
        results.iter().for_each(assert_refused);
        assert_eq!(start.elapsed(), 3 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn observer_of_an_election_pauses_between_refusals() {
    let backend = Backend::embedded();
    let (client, server) = (client(&backend).await, backend.embedded_server());
    let mut leaders = client.election("x").observe();
    assert_eq!(leaders.next().await.unwrap().unwrap(), None);
    go_away(server);
    let start = Instant::now();
    for _ in 0..10 {
        assert_refused(&leaders.next().await.unwrap().map(drop));
    }
    assert!(start.elapsed() >= 9 * SECOND, "{:?}", start.elapsed());
}
