//! The rules of servers on which scripts depend.

use std::time::Duration;

use redlatch_core::runtime::Push;
use redlatch_embedded::engine::{Condition, Model, SessionKind, Snapshot};

use crate::support::{Shell, command};

#[test]
fn undeclared_keys_are_refused() {
    let mut shell = Shell::new(Model::Redis7_0);
    let reply = shell.eval("return redis.call('GET', 'other')", &["k"]);
    assert!(reply.starts_with("!ERR Script attempted to access the undeclared key 'other'"));
    let both = shell.eval("return redis.call('DEL', KEYS[1], KEYS[2])", &["k", "h"]);
    assert_eq!(both, "0");
}

#[test]
fn a_full_server_refuses_until_the_first_write() {
    for model in Model::ALL {
        let mut shell = Shell::new(model);
        shell.run("HSET h a 1");
        shell.engine.set_condition(Condition::Full, true);
        assert!(shell.run("HSET h x 1").starts_with("!OOM "));
        assert_eq!(shell.run("HDEL h none"), "0");
        for (first, passes) in [
            ("", false),
            ("redis.call('HDEL', KEYS[1], 'none')", true),
            ("redis.call('PEXPIRE', KEYS[1], 9999)", true),
            ("redis.pcall('PEXPIRE', KEYS[1], 'no')", true),
            ("redis.pcall('HDEL', KEYS[1])", false),
            ("redis.pcall('HSET', KEYS[1], 'x', 1)", false),
            ("redis.call('PUBLISH', 'c', 'm')", false),
        ] {
            for grows in ["'HSET', KEYS[1], 'x', 1", "'HINCRBY', KEYS[1], 'a', 1"] {
                let reply = shell.eval(&format!("{first} return redis.call({grows})"), &["h"]);
                assert_eq!(!reply.contains("OOM"), passes, "{first} {grows}: {reply}");
            }
        }
    }
}

#[test]
fn writes_are_refused_without_replicas_and_on_replicas() {
    for (condition, code) in [
        (Condition::ShortOfReplicas, "NOREPLICAS"),
        (Condition::ReadOnly, "READONLY"),
    ] {
        let mut shell = Shell::new(Model::Redis7_0);
        shell.run("HSET h a 1");
        shell.engine.set_condition(condition, true);
        for line in ["SET k v", "DEL h", "PEXPIRE h 1", "HDEL h x"] {
            assert!(shell.run(line).starts_with(&format!("!{code} ")), "{line}");
        }
        let deleted = shell.eval("return redis.call('DEL', KEYS[1])", &["h"]);
        assert!(deleted.starts_with(&format!("!{code} ")), "{deleted}");
        let read = shell.eval("return redis.call('HGET', KEYS[1], 'a')", &["h"]);
        assert_eq!(read, "\"1\"");
        assert_eq!(shell.run("PUBLISH c m"), "0");
    }
}

#[test]
fn loading_and_busy_servers_refuse_commands() {
    let mut shell = Shell::new(Model::Redis7_0);
    shell.engine.set_condition(Condition::Loading, true);
    let loading = "!LOADING Redis is loading the dataset in memory";
    assert_eq!(shell.run("GET k"), loading);
    assert!(shell.run("INFO").starts_with('"'));
    shell.engine.set_condition(Condition::Loading, false);
    shell.engine.set_condition(Condition::Busy, true);
    let busy = shell.run("GET k");
    let refused = busy.starts_with("!BUSY Redis is busy running a script.");
    assert!(refused, "{busy}");
    assert_eq!(shell.run("SCRIPT KILL"), "OK");
    assert_eq!(shell.run("GET k"), "nil");
}

#[test]
fn time_in_scripts_moves_or_stands_still() {
    let source = "redis.call('SET', KEYS[1], 'v', 'PX', 1)
        local first = redis.call('TIME')[2]
        for _ = 1, 9 do redis.call('TIME') end
        local last = redis.call('TIME')[2]
        return {first == last and 'frozen' or 'moved', redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[1])}";
    for (model, expected) in [
        (Model::Redis7_0, "[\"moved\" 0 \"v\"]"),
        (Model::Valkey9_1, "[\"frozen\" 1 \"v\"]"),
    ] {
        let mut shell = Shell::new(model);
        shell.engine.set_script_step(Duration::from_millis(2));
        assert_eq!(shell.eval(source, &["k"]), expected);
    }
}

#[test]
fn published_and_sharded_messages_arrive_in_order_and_apart() {
    let mut shell = Shell::new(Model::Redis7_0);
    let listener = shell.engine.open(SessionKind::PubSub);
    for line in [["SUBSCRIBE", "a"], ["SSUBSCRIBE", "a"]] {
        let subscribed = shell.engine.execute(listener, &command(&line), shell.now);
        subscribed.unwrap();
    }
    let source = "redis.call('PUBLISH', 'a', '1') redis.call('SPUBLISH', 'a', '2') return redis.call('PUBLISH', 'b', '3')";
    assert_eq!(shell.eval(source, &[]), "0");
    let message = |payload: &str| Push::Message {
        channel: b"a".to_vec(),
        payload: payload.into(),
    };
    let subscribed = || Push::Subscribed(b"a".to_vec());
    let pushes = shell.engine.take_deliveries().into_iter();
    let pushes: Vec<_> = pushes.map(|delivery| delivery.push).collect();
    let expected = [subscribed(), subscribed(), message("1"), message("2")];
    assert_eq!(pushes, expected);
    shell.engine.close(listener);
    assert_eq!(shell.run("PUBLISH a x"), "0");
}

#[test]
fn snapshots_bring_data_back_and_restarts_forget_scripts() {
    let mut shell = Shell::new(Model::Redis7_0);
    shell.run("HSET h a 1");
    let before = shell.engine.snapshot();
    shell.run("HSET h a 2");
    shell.engine.restore(&before);
    assert_eq!(shell.run("HGET h a"), "\"1\"");
    shell.run_args(&["SCRIPT", "LOAD", "return 1"]);
    shell.engine.restart(&Snapshot::empty(), shell.now);
    assert_eq!(shell.run("KEYS *"), "[]");
    let known = shell.run("SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    assert_eq!(known, "[0]");
}
