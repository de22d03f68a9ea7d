//! Check and write are one: what a later holder has written stays.

use redlatch::{
    fence::{Fence, Fenced, FencedScript},
    runtime::Value,
};

use super::{refused, token};
use crate::prelude::*;

behaviours! {
    Cluster:
        late_writer_is_refused,
        fields_are_written_behind_the_same_mark,
        script_runs_behind_the_check,
        fence_and_lock_of_one_name_are_apart;
    Single:
        failing_script_of_a_late_writer_is_refused_first,
        value_may_expire_before_its_mark,
        mark_expires_if_it_shall,
        fences_of_other_keys_are_apart,
        terms_of_leaders_fence_each_other,
        binary_data_are_kept_as_they_are,
        foreign_mark_is_a_typed_error;
}

const WRITTEN: Fenced = Fenced::Written(());

async fn late_writer_is_refused(backend: &Backend, [fence, late]: [Fence; 2]) {
    assert_eq!(fence.mark().await.unwrap(), None);
    assert_eq!(fence.set(token(5), "a").await.unwrap(), WRITTEN);
    assert_eq!(fence.set(token(5), "b").await.unwrap(), WRITTEN);
    assert_eq!(late.set(token(4), "late").await.unwrap(), refused(5));
    assert_eq!(late.delete(token(4)).await.unwrap(), refused(5));
    assert_eq!(backend.string("data").as_deref(), Some("b"));
    // Tokens of different lengths are numbers.
    assert_eq!(fence.set(token(10), "c").await.unwrap(), WRITTEN);
    assert_eq!(late.set(token(9), "late").await.unwrap(), refused(10));
    let largest = (1 << 53) - 1;
    assert_eq!(fence.set(token(largest), "d").await.unwrap(), WRITTEN);
    let almost = late.set(token(largest - 1), "late").await.unwrap();
    assert_eq!(almost, refused(largest));
    assert_eq!(fence.mark().await.unwrap(), Some(token(largest)));
    assert_eq!(backend.string("data").as_deref(), Some("d"));
    assert_eq!(fence.delete(token(largest)).await.unwrap(), WRITTEN);
    assert_eq!(backend.string("data"), None);
    assert_eq!(fence.mark().await.unwrap(), Some(token(largest)));
}

async fn fields_are_written_behind_the_same_mark(backend: &Backend, fence: Fence) {
    let fields = [("a", "1"), ("b", "2")];
    assert_eq!(fence.hset(token(2), &fields).await.unwrap(), WRITTEN);
    let late = fence.hset(token(1), &[("a", "late")]).await.unwrap();
    assert_eq!(late, refused(2));
    let hash = backend.hash("data");
    assert_eq!((hash["a"].as_str(), hash["b"].as_str()), ("1", "2"));
    let many: Vec<_> = (0..1_000).map(|n| (format!("f{n}"), "v")).collect();
    assert_eq!(fence.hset(token(3), &many).await.unwrap(), WRITTEN);
    assert_eq!(backend.hash("data").len(), 1_002);
    assert_eq!(fence.set(token(3), "a string").await.unwrap(), WRITTEN);
    let wrong = fence.hset(token(3), &fields).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::WrongKind, "{wrong}");
}

async fn script_runs_behind_the_check(backend: &Backend, client: Client) {
    let fence = client.fence("{t}data");
    let take = FencedScript::new(
        "local sum = (redis.call('GET', KEYS[1]) or 0) + ARGV[1]
        redis.call('SET', KEYS[1], sum)
        redis.call('SET', KEYS[2], ARGV[2])
        return sum",
    );
    let keys = ["{t}other"];
    for expected in [3, 6] {
        let done = fence.eval(token(7), take, &keys, &[b"3", b"x"]).await;
        assert_eq!(done.unwrap(), Fenced::Written(Some(Value::Int(expected))));
    }
    let late = fence.eval(token(6), take, &keys, &[b"3", b"late"]).await;
    assert_eq!(late.unwrap(), refused(7));
    assert_eq!(backend.string("{t}data").as_deref(), Some("6"));
    assert_eq!(backend.string("{t}other").as_deref(), Some("x"));
    let nothing = FencedScript::new("return nil");
    let done = fence.eval(token(7), nothing, &[], &[]).await.unwrap();
    assert_eq!(done, Fenced::Written(Some(Value::Nil)));
    assert_eq!(nothing, FencedScript::new("return nil"));
}

async fn failing_script_of_a_late_writer_is_refused_first(fence: Fence) {
    assert_eq!(fence.reset().await.unwrap(), None);
    assert_eq!(fence.raise(token(3)).await.unwrap(), WRITTEN);
    assert_eq!(fence.raise(token(2)).await.unwrap(), refused(3));
    for text in [
        "return redis.error_reply('MINE it is broken')",
        "redis.call('HSET', KEYS[1], 'f', 'v') redis.call('GET', KEYS[1])",
        "error('broken')",
        "error()",
        "error({1})",
        "error('\\255')",
        "return {err = '\\255'}",
    ] {
        let broken = FencedScript::new(text);
        let late = fence.eval(token(2), broken, &[], &[]).await.unwrap();
        assert_eq!(late, refused(3));
        let failed = fence.eval(token(4), broken, &[], &[]).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::ScriptFailed, "{text}");
        assert_eq!(fence.mark().await.unwrap(), Some(token(4)), "{text}");
        assert_eq!(fence.reset().await.unwrap(), Some(token(4)));
        assert_eq!(fence.raise(token(3)).await.unwrap(), WRITTEN);
    }
    for (text, kind) in [
        ("this is not Lua", ErrorKind::Protocol),
        ("return 'é'", ErrorKind::InvalidOption),
    ] {
        let wrong = FencedScript::new(text);
        assert_fails(fence.eval(token(9), wrong, &[], &[]).await, kind);
    }
    assert_eq!(fence.mark().await.unwrap(), Some(token(3)));
    let status = FencedScript::new("return {ok = '\\255'}");
    let reply = fence.eval(token(9), status, &[], &[]).await.unwrap();
    assert_eq!(reply, Fenced::Written(Some(Value::Bulk(vec![255]))));
}

async fn value_may_expire_before_its_mark(backend: &Backend, fence: Fence) {
    let set = fence.set_for(token(5), "a", SECOND).await.unwrap();
    assert_eq!(set, WRITTEN);
    assert!(backend.ttl("data").unwrap() <= SECOND);
    backend.pass(SECOND + SECOND / 10).await;
    assert_eq!(backend.string("data"), None);
    assert_eq!(fence.set(token(4), "late").await.unwrap(), refused(5));
    assert_eq!(fence.set(token(5), "b").await.unwrap(), WRITTEN);
    assert_eq!(backend.ttl("data"), None, "no TTL any more");
}

async fn mark_expires_if_it_shall(backend: &Backend, fence: Fence) {
    let short = fence.clone().keep(60 * SECOND);
    assert_eq!(fence.set(token(5), "a").await.unwrap(), WRITTEN);
    assert_eq!(backend.ttl("redlatch:{data}:f"), None);
    assert_eq!(short.set(token(5), "a").await.unwrap(), WRITTEN);
    let ttl = backend.ttl("redlatch:{data}:f").unwrap();
    assert!((50 * SECOND..=60 * SECOND).contains(&ttl), "{ttl:?}");
    assert_eq!(fence.set(token(6), "a").await.unwrap(), WRITTEN);
    assert_eq!(backend.ttl("redlatch:{data}:f"), None, "the last one");
    let operations = backend.ttl("redlatch:{data}:fo").unwrap();
    assert!(operations <= 60 * SECOND, "operations are forgotten");
}

async fn fences_of_other_keys_are_apart(backend: &Backend, client: Client) {
    let keys = ["a", "{a}", "a:f", "{a}b", "b{a}", "{a}:f"];
    for (key, number) in keys.into_iter().zip((95..=100).rev()) {
        let fence = client.fence(key);
        assert_eq!(fence.key(), Some(key));
        assert_eq!(fence.set(token(number), key).await.unwrap(), WRITTEN);
        assert_eq!(fence.mark().await.unwrap(), Some(token(number)));
        assert_eq!(backend.string(key).as_deref(), Some(key));
    }
}

async fn fence_and_lock_of_one_name_are_apart(client: Client) {
    let fence = client.fence("x");
    let mut last = None;
    for _ in 0..2 {
        let guard = client.lock("x").lock().await.unwrap();
        assert_eq!(fence.set(guard.token(), "a").await.unwrap(), WRITTEN);
        assert_eq!(fence.mark().await.unwrap(), Some(guard.token()));
        if let Some(late) = last.replace(guard.token()) {
            let late = fence.set(late, "late").await.unwrap();
            assert_eq!(late, refused(guard.token().as_u64()));
        }
        guard.release().await.unwrap();
    }
    let latch = client.count_down_latch("x2");
    assert!(latch.try_set_count(1).await.unwrap());
    let fence = client.fence("x2");
    assert_eq!(fence.set(token(1), "a").await.unwrap(), WRITTEN);
    latch.count_down(1).await.unwrap();
}

async fn terms_of_leaders_fence_each_other(client: Client) {
    let (election, fence) = (client.election("x"), client.fence("data"));
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let lead = election.lead(async |term| {
            assert_eq!(fence.set(term.token(), "a").await.unwrap(), WRITTEN);
            tokens.push(term.token());
        });
        lead.await.unwrap();
    }
    let late = fence.set(tokens[0], "late").await.unwrap();
    assert_eq!(late, refused(tokens[1].as_u64()));
}

async fn binary_data_are_kept_as_they_are(backend: &Backend, fence: Fence) {
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(fence.set(token(1), &bytes).await.unwrap(), WRITTEN);
    let read = FencedScript::new("return redis.call('GET', KEYS[1])");
    let data = fence.eval(token(1), read, &[], &[]).await.unwrap();
    assert_eq!(data, Fenced::Written(Some(Value::Bulk(bytes.clone()))));
    let echo = FencedScript::new("return ARGV[1]");
    let data = fence.eval(token(1), echo, &[], &[&bytes]).await.unwrap();
    assert_eq!(data.written().flatten(), Some(Value::Bulk(bytes)));
    assert_eq!(fence.set(token(1), "").await.unwrap(), WRITTEN);
    assert_eq!(backend.string("data").as_deref(), Some(""));
}

async fn foreign_mark_is_a_typed_error(backend: &Backend, fence: Fence) {
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
