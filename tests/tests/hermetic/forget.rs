//! The removal of a record, so that a name may become an object of another kind.

use std::future::IntoFuture as _;

use redlatch::{Forgotten, ObjectKind, Token};

use crate::prelude::*;

const NAME: &str = "orders:42";

async fn forgotten(client: &Client) -> Forgotten {
    client.settled().await;
    client.forget(NAME).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn name_of_any_lock_is_forgotten_when_it_is_free_and_tokens_rise() {
    let (backend, [client]) = embedded().await;
    assert_eq!(forgotten(&client).await, Forgotten::Unset);
    let mut last = Token::from_u64(0);
    for (kind, lock) in LOCKS.into_iter().take(4) {
        let guard = lock(&client, NAME).lock().await.unwrap();
        assert_eq!(forgotten(&client).await, Forgotten::Held, "{kind}");
        let token = guard.token();
        assert!(token > last, "{kind}");
        last = token;
        drop(guard);
        backend.pass(6 * SECOND).await;
        assert_eq!(forgotten(&client).await, Forgotten::Done, "{kind}");
    }
    for election in [client.election(NAME), client.election(NAME).fair()] {
        let token = std::sync::OnceLock::new();
        let work = async |term: &Term| {
            assert_eq!(client.forget(NAME).await.unwrap(), Forgotten::Held);
            token.set(term.token()).unwrap();
        };
        election.lead(work).await.unwrap();
        let token = *token.get().unwrap();
        assert!(token > last);
        last = token;
        backend.pass(6 * SECOND).await;
        assert_eq!(forgotten(&client).await, Forgotten::Done);
    }
    let left = backend.keys().into_iter().filter(|key| key.contains(NAME));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn semaphores_are_forgotten_when_no_permit_is_out() {
    let (backend, [client]) = embedded().await;
    let semaphore = client.semaphore(NAME);
    semaphore.set_permits(2).await.unwrap();
    let early = forgotten(&client).await;
    assert!(matches!(early, Forgotten::Early(rest) if rest > 25 * SECOND && rest <= 30 * SECOND));
    let permit = semaphore.acquire().await.unwrap();
    assert_eq!(forgotten(&client).await, Forgotten::Held);
    drop(permit);
    backend.pass(37 * SECOND).await;
    assert_eq!(forgotten(&client).await, Forgotten::Done);
    let permits = client.permit_expirable_semaphore(NAME).permits_if_unset(1);
    let id = permits.acquire().lease(60 * SECOND).await.unwrap();
    assert_eq!(forgotten(&client).await, Forgotten::Held);
    // The lease ends, and nobody has removed the hold.
    drop(id);
    backend.pass(67 * SECOND).await;
    assert_eq!(forgotten(&client).await, Forgotten::Done);
    drop(client.lock(NAME).lock().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn latches_and_jobs_are_left_to_their_own_methods() {
    let (backend, [client]) = embedded().await;
    let latch = client.count_down_latch(NAME);
    latch.try_set_count(1).await.unwrap();
    assert_eq!(forgotten(&client).await, Forgotten::Set);
    latch.delete().await.unwrap();
    assert!(matches!(forgotten(&client).await, Forgotten::Early(_)));
    backend.pass(37 * SECOND).await;
    assert_eq!(forgotten(&client).await, Forgotten::Done);
    let job = client.once(NAME).slot("1");
    let ran = job.run(async |_| Ok::<_, String>(())).await.unwrap();
    assert!(ran.is_done());
    assert_eq!(forgotten(&client).await, Forgotten::Set);
}

#[tokio::test(start_paused = true)]
async fn name_with_a_waiter_is_not_forgotten() {
    let (backend, [holder, other]) = embedded().await;
    let guard = holder.fair_lock(NAME).lock().await.unwrap();
    let lock = other.fair_lock(NAME);
    let waiting = tokio::spawn(lock.lock().into_future());
    while holder.object(NAME).await.unwrap().unwrap().waiters == 0 {
        backend.pass(SECOND / 100).await;
    }
    // The hold ends without a message to the waiter, whose next look is up to 2 s away.
    backend.command(&["HSET", "redlatch:{orders:42}", "u", "0000000000000"]);
    assert_eq!(forgotten(&holder).await, Forgotten::Waited);
    drop(guard);
    drop(waiting.await.unwrap().unwrap());
    other.settled().await;
    backend.pass(6 * SECOND).await;
    assert_eq!(forgotten(&holder).await, Forgotten::Done);
}

#[tokio::test(start_paused = true)]
async fn undone_attempts_and_tokens_ahead_of_the_clock_keep_the_record() {
    let (backend, [client, holder]) = embedded().await;
    let guard = holder.lock(NAME).lock().await.unwrap();
    let lock = client.lock(NAME);
    let mut waiting = std::pin::pin!(lock.lock().into_future());
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("it is held"),
        () = backend.pass(SECOND) => {}
    }
    let last = guard.token();
    drop(guard);
    holder.settled().await;
    backend.command(&["HSET", "redlatch:{orders:42}", "v", "9000000000000 a:1"]);
    assert!(matches!(forgotten(&client).await, Forgotten::Early(_)));
    backend.command(&["HDEL", "redlatch:{orders:42}", "v"]);
    // As after a clock that was set back by an hour.
    let ahead = (last.as_u64() + 3_600_000_000).to_string();
    backend.command(&["HSET", "redlatch:{orders:42}", "t", &ahead]);
    let early = forgotten(&client).await;
    assert!(matches!(early, Forgotten::Early(rest) if rest > 3000 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn names_and_records_that_are_wrong_are_told() {
    let (backend, [client]) = embedded().await;
    assert_fails(client.forget("").await, ErrorKind::InvalidName);
    backend.command(&["HSET", "redlatch:{orders:42}", "k", "other:7"]);
    let error = client.forget(NAME).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKind);
    let text = "object \"orders:42\": the name belongs to an object of kind other:7, which this \
                version of redlatch does not know; use the version that made it";
    assert_eq!(error.to_string(), text);
    let object = client.object(NAME).await.unwrap().unwrap();
    assert_eq!(object.kind, ObjectKind::Other("other:7".to_owned()));
}
