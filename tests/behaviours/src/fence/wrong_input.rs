//! Wrong input ends at once with a typed error.

use std::time::Duration;

use redlatch::{ErrorKind, fence::FencedScript};
use redlatch_tests::backend::Backend;

use super::token;

const SECOND: Duration = Duration::from_secs(1);

behaviours! {
    Cluster:
        keys_that_have_no_slot_of_their_own_are_refused;
    Single:
        options_out_of_bounds_are_refused_before_anything_is_sent,
        foreign_mark_is_a_typed_error;
}

async fn keys_that_have_no_slot_of_their_own_are_refused(backend: &Backend) {
    let client = backend.client().await;
    let calls = backend.script_calls();
    for key in ["", "a{b", "a}b", "{}x", "50%", &"k".repeat(513)] {
        let fence = client.fence(key);
        assert_eq!(fence.key(), None);
        let error = fence.set(token(1), "a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{key:?}");
        let error = fence.mark().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{key:?}");
        let error = fence.reset().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{key:?}");
    }
    assert_eq!(backend.script_calls(), calls);
}

async fn options_out_of_bounds_are_refused_before_anything_is_sent(backend: &Backend) {
    let client = backend.client().await;
    let fence = client.fence("data");
    let calls = backend.script_calls();
    let script = FencedScript::new("return 1");
    let none: [(&str, &str); 0] = [];
    let many = vec![("f", "v"); 1_001];
    let day = 86_400 * SECOND;
    for (what, outcome) in [
        ("token", fence.set(token(1 << 53), "a").await),
        ("token", fence.raise(token(u64::MAX)).await),
        ("ttl", fence.set_for(token(1), "a", Duration::ZERO).await),
        ("ttl", fence.set_for(token(1), "a", 366 * day).await),
        ("life", fence.clone().keep(SECOND).delete(token(1)).await),
        ("life", fence.clone().keep(366 * day).delete(token(1)).await),
        ("fields", fence.hset(token(1), &none).await),
        ("fields", fence.hset(token(1), &many).await),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{what}");
    }
    let elsewhere = fence.eval(token(1), script, &["other"], &[]).await;
    assert_eq!(elsewhere.unwrap_err().kind(), ErrorKind::InvalidOption);
    let args = vec![&b"a"[..]; 1_001];
    let crowded = fence.eval(token(1), script, &[], &args).await;
    assert_eq!(crowded.unwrap_err().kind(), ErrorKind::InvalidOption);
    assert_eq!(backend.script_calls(), calls);
}

async fn foreign_mark_is_a_typed_error(backend: &Backend) {
    let client = backend.client().await;
    let fence = client.fence("data");
    backend.command(&["HSET", "redlatch:{data}:f", "k", "other:1"]);
    for error in [
        fence.set(token(1), "a").await.unwrap_err(),
        fence.mark().await.unwrap_err(),
        fence.reset().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::WrongKind, "{error}");
    }
    assert_eq!(backend.string("data"), None);
}
