//! The fence: lost replies, late copies and dropped calls. Each write is made once or not at all.

use redlatch::{
    Token,
    fence::{Fenced, FencedScript},
    runtime::Value,
};

use crate::prelude::*;

fn token(number: u64) -> Token {
    Token::from_u64(number)
}

/// A script whose effect shows how often it ran.
fn append() -> FencedScript {
    FencedScript::new(
        "local data = (redis.call('GET', KEYS[1]) or '') .. ARGV[1]
        redis.call('SET', KEYS[1], data)
        return data",
    )
}

#[tokio::test(start_paused = true)]
async fn write_whose_reply_is_lost_is_made_once() {
    let (backend, [client]) = preloaded().await;
    let fence = client.fence("data");
    let written = fence.eval(token(1), append(), &[], &[b"a"]).await.unwrap();
    assert_eq!(written.written().flatten(), Some(Value::Bulk(b"a".into())));
    backend.embedded_server().drop_next_reply();
    let written = fence.eval(token(1), append(), &[], &[b"b"]).await.unwrap();
    // A copy found that it had run.
    assert_eq!(written, Fenced::Written(None));
    assert_eq!(backend.string("data").as_deref(), Some("ab"));
    backend.embedded_server().drop_next_reply();
    let refused = fence.set(token(0), "late").await.unwrap();
    assert_eq!(refused, Fenced::Refused { mark: token(1) });
    assert_eq!(backend.string("data").as_deref(), Some("ab"));
}

/// The key holds a string, so a copy fails like the first request.
#[tokio::test(start_paused = true)]
async fn failed_write_has_advanced_the_mark_and_says_so_although_its_reply_is_lost() {
    for lost in [false, true] {
        let (backend, [client]) = preloaded().await;
        let fence = client.fence("data");
        assert!(fence.set(token(1), "s").await.unwrap().is_written());
        if lost {
            backend.embedded_server().drop_next_reply();
        }
        let error = fence.hset(token(2), &[("a", "1")]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongKind, "{error}");
        assert_eq!(fence.mark().await.unwrap(), Some(token(2)));
        assert!(!error.is_not_executed(), "{error}");
        assert_eq!(backend.string("data").as_deref(), Some("s"));
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_write_is_an_error_that_says_so() {
    let (backend, [client]) = embedded().await;
    let fence = client.fence("data");
    backend.embedded_server().stop_for(60 * SECOND);
    assert_fails(fence.set(token(1), "a").await, ErrorKind::OutcomeUnknown);
    backend.pass(60 * SECOND).await;
    // The requests are executed long after they may act.
    assert_eq!(backend.string("data"), None);
    assert_eq!(fence.mark().await.unwrap(), None);
}

/// Polls a write k times and drops it, for all k. It is made once or not at all, and a later one is
/// not disturbed.
#[tokio::test(start_paused = true)]
async fn cancelled_write_is_made_once_or_not_at_all() {
    after_each_poll(async |polls| {
        let (backend, [client]) = preloaded().await;
        let task = async |client: Client| {
            let fence = client.fence("data");
            let written = fence.eval(token(2), append(), &[], &[b"a"]).await;
            assert!(written.unwrap().is_written());
            assert!(fence.raise(token(3)).await.unwrap().is_written());
            assert!(fence.mark().await.unwrap().is_some());
        };
        let mut task = Box::pin(task(client.clone()));
        let done = polled(&backend, &mut task, polls).await.is_some();
        drop(task);
        backend.pass(10 * MS).await;
        assert_tables_empty(&client).await;
        let data = backend.string("data");
        assert!([None, Some("a".to_owned())].contains(&data), "{data:?}");
        let fence = client.fence("data");
        let later = fence.eval(token(4), append(), &[], &[b"b"]).await;
        assert!(later.unwrap().is_written());
        let expected = data.unwrap_or_default() + "b";
        assert_eq!(backend.string("data"), Some(expected));
        done
    })
    .await;
}
