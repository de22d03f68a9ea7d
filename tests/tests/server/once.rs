//! Jobs on real servers: lost replies and late copies, restarts, no memory.

use redlatch::{
    Client, ErrorKind,
    once::{JobOutcome, JobRun, Once},
};
use redlatch_behaviours::once::{daily, fail, succeed};
use redlatch_lua::ONCE;
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    fixture::{MS, SECOND, call, preload},
    proxy::{Proxy, Then},
    server::{Server, ServerBinary, ServerOptions},
};

redlatch_tests::on_every_server!(
    claim_whose_reply_is_lost_is_one_attempt,
    outcome_whose_reply_is_lost_is_recorded_once,
    reset_whose_reply_is_lost_forgets_nothing_later,
    full_server_accepts_the_end_of_a_run_and_refuses_a_claim,
    restart_with_data_keeps_the_records,
    restart_without_data_runs_the_slot_again,
);

/// Returns a server, a proxy before it, and a client behind that.
async fn behind_a_proxy(binary: &ServerBinary) -> (Backend, Proxy, Client) {
    let backend = Backend::real(binary);
    preload(backend.server());
    let proxy = Proxy::start(backend.server().address());
    let client = Client::connect(&proxy.url()).await.unwrap();
    (backend, proxy, client)
}

async fn claim_whose_reply_is_lost_is_one_attempt(binary: ServerBinary) {
    for then in [Then::Cut, Then::Stall] {
        let (backend, proxy, client) = behind_a_proxy(&binary).await;
        let lost = proxy.drop_reply(call(backend.server(), &ONCE.claim, "x"), then);
        assert!(matches!(
            fail(&daily(&client, 20_000)).await,
            Once::Failed(_)
        ));
        let first = lost.answered().await;
        let reply = String::from_utf8_lossy(first.reply()).into_owned();
        assert!(reply.contains("granted"), "it ran: {reply}");
        // Once more, on a connection of its own.
        let copy = first.copy().deliver().await.unwrap();
        let copy = String::from_utf8_lossy(&copy).into_owned();
        assert!(copy.contains("moved") || copy.contains("void"), "{copy}");
        let work = async |run: &JobRun| Ok::<_, String>(run.attempt());
        let ran = daily(&client, 20_000).retries(1).run(work).await.unwrap();
        assert_eq!(ran.ran(), Some(2));
        first.copy().deliver().await.unwrap();
        assert_eq!(client.once("x").holder().await.unwrap(), None);
        assert_tables_empty(&client).await;
    }
}

async fn outcome_whose_reply_is_lost_is_recorded_once(binary: ServerBinary) {
    for then in [Then::Cut, Then::Stall] {
        let (backend, proxy, client) = behind_a_proxy(&binary).await;
        let lost = proxy.drop_reply(call(backend.server(), &ONCE.release, "x"), then);
        let job = daily(&client, 20_000);
        assert!(succeed(&job).await.ran().is_some(), "it is on record");
        let first = lost.answered().await;
        let record = job.last().await.unwrap().unwrap();
        assert_eq!(record.outcome, JobOutcome::Done);
        // A late copy comes when a later slot is on record.
        assert!(matches!(
            fail(&daily(&client, 20_001)).await,
            Once::Failed(_)
        ));
        first.copy().deliver().await.unwrap();
        let later = job.last().await.unwrap().unwrap();
        assert_eq!(later.outcome, JobOutcome::Failed);
        assert!(later.token > record.token);
    }
}

async fn reset_whose_reply_is_lost_forgets_nothing_later(binary: ServerBinary) {
    let (backend, proxy, client) = behind_a_proxy(&binary).await;
    let job = daily(&client, 20_000);
    assert!(succeed(&job).await.ran().is_some());
    let lost = proxy.drop_reply(call(backend.server(), &ONCE.reset, "x"), Then::Cut);
    assert!(job.reset().await.unwrap(), "it was this one");
    assert!(succeed(&job).await.ran().is_some());
    lost.answered().await.copy().deliver().await.unwrap();
    assert!(matches!(succeed(&job).await, Once::Done(_)));
}

async fn full_server_accepts_the_end_of_a_run_and_refuses_a_claim(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    let client = backend.client().await;
    for key in ["done", "failed"] {
        let job = client.once("x").slot(key).lease(SECOND);
        let work = async |_: &JobRun| {
            backend.server().config_set("maxmemory", "1");
            // Longer than the lease: it is renewed meanwhile.
            backend.pass(1500 * MS).await;
            if key == "done" {
                Ok(())
            } else {
                Err("no luck")
            }
        };
        let ran = job.run(work).await.unwrap();
        assert_eq!(ran.is_done(), key == "done", "{ran:?}");
        let refused = client
            .once("x")
            .slot("new")
            .run(async |_: &JobRun| Ok::<_, String>(()));
        let refused = refused.await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ServerFull);
        assert!(refused.is_not_executed());
        let record = client.once("x").last().await.unwrap().unwrap();
        assert_eq!(record.slot.key(), Some(key));
        backend.server().config_set("maxmemory", "0");
    }
    let day = daily(&client, 20_000);
    assert!(succeed(&day).await.ran().is_some());
    backend.server().config_set("maxmemory", "1");
    assert!(matches!(succeed(&day).await, Once::Done(_)));
    assert!(client.once("x").reset().await.unwrap());
    backend.server().config_set("maxmemory", "0");
    assert!(succeed(&day).await.ran().is_some());
    assert_tables_empty(&client).await;
}

async fn restart_with_data_keeps_the_records(binary: ServerBinary) {
    let options = ServerOptions::new()
        .append_only()
        .config("appendfsync always");
    let backend = Backend::Real(Server::start(&binary, options));
    let client = backend.client().await;
    assert!(succeed(&daily(&client, 20_000)).await.ran().is_some());
    let failed = daily(&client, 20_001).retries(1);
    assert!(matches!(fail(&failed).await, Once::Failed(_)));
    backend.server().kill();
    backend.server().restart();
    assert!(matches!(
        succeed(&daily(&client, 20_000)).await,
        Once::Done(_)
    ));
    let work = async |run: &JobRun| Ok::<_, String>(run.attempt());
    assert_eq!(failed.run(work).await.unwrap().ran(), Some(2));
}

async fn restart_without_data_runs_the_slot_again(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let client = backend.client().await;
    let (slot, token) = succeed(&daily(&client, 20_000)).await.ran().unwrap();
    backend.server().kill();
    backend.server().restart();
    let again = succeed(&daily(&client, 20_000)).await.ran().unwrap();
    assert_eq!(again.0, slot);
    assert!(again.1 > token, "tokens rise across a restart");
}
