//! Tests that no reply makes a decoder panic, and that all its words are read.

use std::time::Duration;

use redlatch_core::{
    Error, ErrorKind, LossCause,
    family::{Answer, Identity, Items, Key, Name, Prefix, Primitive, ReleaseReply, Renewed},
    runtime::Value,
};
use redlatch_lua::{REDISSON, SETNX};

use super::{
    Names, message_refused,
    redisson::{self, Forced, RedissonName},
    setnx::{self, SetNxName},
};
use crate::SetNxInfo;

fn names() -> Names {
    let identity = Identity {
        class: "".into(),
        key: Key::new(&Prefix::default(), &Name::parse("n").unwrap()),
    };
    Names {
        identity,
        side: "n:side".to_owned(),
        channel: "n:channel".into(),
    }
}

fn forced(reply: &Value) -> Result<Forced, Error> {
    redisson::forced(&Items::new(&REDISSON.force, reply)?)
}

fn rlock_looked(reply: &Value) -> Result<Option<redisson::Looked>, Error> {
    redisson::looked(&Items::new(&REDISSON.look, reply)?)
}

fn set_nx_looked(reply: &Value) -> Result<Option<SetNxInfo>, Error> {
    setnx::looked(&Items::new(&SETNX.look, reply)?)
}

fn set_nx() -> SetNxName {
    let retry = Duration::from_millis(100);
    SetNxName {
        names: names(),
        retry,
    }
}

fn rlock() -> RedissonName {
    RedissonName(names())
}

fn list(items: &[&str]) -> Value {
    let text = |item: &&str| Value::Bulk(item.as_bytes().to_vec());
    Value::Array(items.iter().map(text).collect())
}

#[test]
fn busy_answer_is_bounded_by_the_retry_delay() {
    for (left, expected) in [("40", 40), ("30000", 100), ("", 100)] {
        let answer = set_nx()
            .acquired(&list(&["1", "busy", left, "ab:7"]))
            .unwrap();
        let Answer::Busy {
            remaining, holder, ..
        } = answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!(remaining, Duration::from_millis(expected), "{left:?}");
        assert_eq!(holder, "ab:7");
    }
}

#[test]
fn value_of_any_bytes_is_shown() {
    let reply = Value::Array(vec![
        Value::Bulk(b"1".to_vec()),
        Value::Bulk(b"held".to_vec()),
        Value::Int(5),
        Value::Bulk(vec![0xff, 0, 7]),
    ]);
    let info = set_nx_looked(&reply).unwrap().unwrap();
    assert_eq!(info.value, [0xff, 0, 7]);
    assert_eq!(info.remaining, Some(Duration::from_millis(5)));
    assert_eq!(set_nx_looked(&list(&["1", "free"])).unwrap(), None);
}

#[test]
fn every_word_of_a_reply_is_read() {
    let granted = rlock()
        .acquired(&list(&["1", "granted", "2", "1700000000000001"]))
        .unwrap();
    let Answer::Granted(grant) = granted else {
        panic!("{granted:?}");
    };
    assert_eq!((grant.count, grant.serial), (2, 1_700_000_000_000_001));
    for (word, expected) in [("late", Answer::Late), ("void", Answer::Void)] {
        let reply = list(&["1", word]);
        assert_eq!(rlock().acquired(&reply).unwrap(), expected);
        assert_eq!(set_nx().acquired(&reply).unwrap(), expected);
    }
    let revoked = list(&["1", "revoked"]);
    let lost = Renewed::Lost(LossCause::Revoked);
    assert_eq!(rlock().renewed(&REDISSON.renew, &revoked).unwrap(), lost);
    for (word, expected) in [
        ("renewed", Renewed::Renewed),
        ("gone", Renewed::Lost(LossCause::Forgotten)),
        ("taken", Renewed::Lost(LossCause::Taken)),
        ("late", Renewed::Late),
    ] {
        let reply = list(&["1", word]);
        assert_eq!(rlock().renewed(&REDISSON.renew, &reply).unwrap(), expected);
        assert_eq!(set_nx().renewed(&SETNX.renew, &reply).unwrap(), expected);
    }
    for (word, expected) in [
        ("released", ReleaseReply::Released(0)),
        ("taken", ReleaseReply::Taken),
        ("gone", ReleaseReply::Gone),
        ("revoked", ReleaseReply::Revoked),
        ("already", ReleaseReply::Already(0)),
    ] {
        let reply = list(&["1", word, "0"]);
        let released = rlock().released(&REDISSON.release, &reply);
        assert_eq!(released.unwrap(), expected);
        let released = set_nx().released(&SETNX.release, &reply);
        assert_eq!(released.unwrap(), expected);
    }
    for (word, freed) in [("done", true), ("gone", false)] {
        let forced = forced(&list(&["1", word])).unwrap();
        assert_eq!((forced.freed, forced.refused), (freed, None));
    }
    let kind = list(&["1", "kind"]);
    for error in [
        rlock().acquired(&kind).unwrap_err(),
        forced(&kind).unwrap_err(),
        rlock_looked(&kind).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::WrongKind);
    }
}

#[test]
fn refused_message_is_found_behind_the_other_items() {
    let why = "NOPERM no channel";
    let reply = list(&["1", "released", "0", why]);
    assert_eq!(message_refused(&reply), Some(why));
    assert_eq!(message_refused(&list(&["1", "released", "0"])), None);
    assert_eq!(message_refused(&Value::Nil), None);
    let forced = forced(&list(&["1", "done", why])).unwrap();
    assert_eq!(forced.refused.as_deref(), Some(why));
}

#[test]
fn damaged_reply_is_an_error() {
    for reply in [
        Value::Nil,
        Value::Int(7),
        list(&[]),
        list(&["1"]),
        list(&["1", "granted"]),
        list(&["1", "granted", "x", "y"]),
        list(&["1", "busy"]),
        list(&["1", "busy", "x", ""]),
        list(&["1", "held"]),
        list(&["1", "held", "", "x", "y"]),
        list(&["1", "nonsense"]),
    ] {
        let errors = [
            set_nx().acquired(&reply).unwrap_err(),
            rlock().acquired(&reply).unwrap_err(),
            rlock_looked(&reply).unwrap_err(),
            set_nx().renewed(&SETNX.renew, &reply).unwrap_err(),
            forced(&reply).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Protocol, "{reply:?}");
        }
    }
}
