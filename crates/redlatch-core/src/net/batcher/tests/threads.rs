//! Scenarios of threads whose calls go together.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use redlatch_lua::List;
use tokio::{select, sync::Notify};

use super::Batcher;
use crate::{
    base::{
        script::{Script, ScriptCall},
        sync::{Mutex, lock},
    },
    protocol::name::key,
    runtime::{Command, Conn, Outcome, Value},
    threads::{begin, explore, later, world},
};

/// Answers each call with its key, and records the keys.
#[derive(Debug, Default)]
struct Echo(Mutex<BTreeSet<String>>);

#[async_trait]
impl Conn for Echo {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        later().await;
        let words = batch[0].words();
        let keys = &words[3..3 + words[2].parse::<usize>().unwrap()];
        for key in keys {
            assert!(lock(&self.0).insert(key.clone()), "{key} was sent twice");
        }
        later().await;
        vec![Outcome::Replied(Ok(Value::Bulk(keys.join("\n").into())))]
    }
}

static CALL: Script = Script {
    name: "call",
    text: "",
    digest: "",
    list: Some(List {
        most: 2,
        keys: 1,
        own: 1,
        shared: 0,
    }),
};

#[test]
fn each_call_has_one_outcome_when_the_connection_ends() {
    explore(|| {
        let world = world().0.net().world.clone();
        let batcher = Arc::new(Batcher::new(false));
        let (conn, end) = (Arc::new(Echo::default()), Arc::new(Notify::new()));
        let driver = begin({
            let (batcher, conn, end) = (batcher.clone(), conn.clone(), end.clone());
            async move {
                select! {
                    biased;
                    never = batcher.run(conn.as_ref(), &world, |_, _| ()) => match never {},
                    () = end.notified() => {}
                }
            }
        });
        let callers: Vec<_> = (0..4)
            .map(|number| {
                let (batcher, conn) = (batcher.clone(), conn.clone());
                begin(async move {
                    let key = key(&number.to_string());
                    let call = ScriptCall::new(&CALL, &key).arg(number);
                    let Some(joined) = batcher.join(&call, 9) else {
                        return;
                    };
                    let sent = || lock(&conn.0).contains(key.as_str());
                    match joined.await.0 {
                        Ok(Outcome::Replied(Ok(reply))) => {
                            assert_eq!(reply.as_str(), Some(key.as_str()))
                        }
                        Ok(Outcome::NotSent(_)) => assert!(!sent()),
                        Ok(Outcome::Unknown(_)) => {}
                        other => panic!("{other:?}"),
                    }
                })
            })
            .collect();
        end.notify_one();
        callers.into_iter().for_each(|one| one.join().unwrap());
        driver.join().unwrap();
    });
}
