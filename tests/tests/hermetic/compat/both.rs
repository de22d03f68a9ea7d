//! What both layouts have in common.

use redlatch::{
    Acquire, Held,
    compat::{Redisson, SetNx},
    runtime::Value,
};
use redlatch_lua::{REDISSON, SETNX, Source};
use redlatch_tests::copies::Copies;

use super::{java_holds, other};
use crate::prelude::*;

/// A layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    SetNx,
    Redisson,
}

use Layout::{Redisson as OfRedisson, SetNx as OfSetNx};

const LAYOUTS: [Layout; 2] = [OfSetNx, OfRedisson];

impl Layout {
    fn of(self, client: &Client, name: &str) -> Box<dyn Lockable> {
        match self {
            Self::SetNx => Box::new(SetNx::new(client, name)),
            Self::Redisson => Box::new(Redisson::new(client, name)),
        }
    }

    fn lock(self, client: &Client, name: &str) -> Acquire<Held> {
        self.of(client, name).lock()
    }

    async fn held(self, client: &Client, name: &str) -> Held {
        let lock = self.lock(client, name).renewed_lease(3 * SECOND);
        lock.await.unwrap()
    }

    /// Acquires the name for the owner of `guard` again.
    fn enter(self, client: &Client, name: &str, guard: &Held) -> Acquire<Held> {
        self.lock(client, name).owner(guard.owner())
    }

    /// Returns the scripts that acquire, renew and release.
    fn scripts(self) -> [&'static Source; 3] {
        match self {
            Self::SetNx => [&SETNX.acquire, &SETNX.renew, &SETNX.release],
            Self::Redisson => [&REDISSON.acquire, &REDISSON.renew, &REDISSON.release],
        }
    }
}

fn is_there(backend: &Backend) -> bool {
    other(backend, &["EXISTS", "x"]).unwrap() == Value::Int(1)
}

#[tokio::test(start_paused = true)]
async fn late_copies_of_an_undone_acquisition_take_nothing() {
    for layout in LAYOUTS {
        let (backend, [client]) = preloaded().await;
        let acquire = layout.scripts()[0].text;
        let copies = Copies::of_script(backend.embedded_server(), acquire);
        lose_reply(&backend, acquire, LostReply::Hangs);
        let short = layout.of(&client, "x").try_lock_for(50 * MS).await;
        assert!(short.is_err(), "{short:?}");
        assert_tables_empty(&client).await;
        for expected in ["void", "late"] {
            let verdicts = copies.deliver();
            let all = verdicts.iter().all(|verdict| verdict == expected);
            assert!(all && !verdicts.is_empty(), "{layout:?}: {verdicts:?}");
            assert!(!is_there(&backend));
            backend.pass(6 * SECOND).await;
        }
        backend.pass(60 * SECOND).await;
        assert_eq!(backend.keys(), [""; 0], "the marks have an end");
    }
}

#[tokio::test(start_paused = true)]
async fn late_copies_bring_no_hold_back_that_another_program_has_ended() {
    for layout in LAYOUTS {
        let (backend, [client]) = preloaded().await;
        let copies = Copies::of_script(backend.embedded_server(), layout.scripts()[0].text);
        let guard = layout.held(&client, "x").await;
        other(&backend, &["DEL", "x"]).unwrap();
        assert_eq!(copies.deliver(), ["void"]);
        assert!(!is_there(&backend));
        backend.pass(2 * SECOND).await;
        assert!(matches!(guard.state(), HoldState::Lost(_)), "{guard:?}");
        assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
    }
}

#[tokio::test(start_paused = true)]
async fn copies_of_renewals_and_releases_touch_no_later_hold() {
    for layout in LAYOUTS {
        let (backend, [client]) = preloaded().await;
        let server = backend.embedded_server();
        let [_, renew, release] = layout.scripts();
        let renewals = Copies::of_script(server, renew.text);
        let releases = Copies::of_script(server, release.text);
        let guard = layout.lock(&client, "x").await.unwrap();
        let owner = guard.owner().clone();
        guard.extend(60 * SECOND).await.unwrap();
        guard.release().await.unwrap();
        // A later hold of the same owner.
        let later = layout.lock(&client, "x").owner(&owner);
        let later = later.lease(10 * SECOND).await.unwrap();
        assert_eq!(renewals.deliver(), ["taken"]);
        assert_eq!(releases.deliver(), ["already"]);
        assert!(backend.ttl("x").unwrap() <= 10 * SECOND + MS);
        later.check().unwrap();
        assert_eq!(later.release().await.unwrap(), Released::Free);
    }
}

#[tokio::test(start_paused = true)]
async fn later_hold_of_an_owner_counts_although_the_clock_was_set_back() {
    for layout in LAYOUTS {
        let (backend, [client]) = preloaded().await;
        let first = layout.lock(&client, "x").await.unwrap();
        other(&backend, &["DEL", "x"]).unwrap();
        backend.embedded_server().set_back(600 * SECOND);
        let second = layout.enter(&client, "x", &first).await.unwrap();
        assert_eq!(first.state(), HoldState::Lost(LossCause::Taken));
        assert_eq!(second.state(), HoldState::Held);
        let expected = match layout {
            OfSetNx => Released::TakenOver,
            OfRedisson => Released::Forgotten,
        };
        assert_eq!(first.release().await.unwrap(), expected);
        assert_eq!(second.release().await.unwrap(), Released::Free);
    }
}

#[tokio::test(start_paused = true)]
async fn full_server_refuses_acquisitions_and_accepts_what_keeps_and_ends() {
    for layout in LAYOUTS {
        let (backend, [client]) = preloaded().await;
        let server = backend.embedded_server();
        let guard = layout.held(&client, "held").await;
        let again = match layout {
            OfSetNx => None,
            OfRedisson => Some(layout.enter(&client, "held", &guard).await.unwrap()),
        };
        let undone = layout.of(&client, "x").try_lock_for(50 * MS);
        lose_reply(&backend, layout.scripts()[0].text, LostReply::Hangs);
        let undone = tokio::spawn(async move { undone.await });
        backend.pass(10 * MS).await;
        assert!(is_there(&backend));
        server.set_full(true);
        assert!(undone.await.unwrap().is_err());
        client.settled().await;
        let tables = client.tables();
        assert_eq!((tables.holds, tables.pending_releases), (1, 0));
        assert!(!is_there(&backend), "the undo was accepted");
        let keys = backend.keys();
        let mut refused = vec![layout.lock(&client, "x").await.unwrap_err()];
        if layout == OfRedisson {
            refused.push(layout.enter(&client, "held", &guard).await.unwrap_err());
        }
        for refused in refused {
            assert_eq!(refused.kind(), ErrorKind::ServerFull);
            assert!(refused.is_not_executed());
        }
        let busy = layout.of(&client, "held").try_lock();
        assert!(busy.await.unwrap().is_none());
        assert_eq!(backend.keys(), keys, "nothing was written");
        guard.extend(5 * SECOND).await.unwrap();
        backend.pass(20 * SECOND).await;
        guard.check().unwrap();
        if let Some(again) = again {
            assert_eq!(backend.hash("held").values().next().unwrap(), "2");
            assert_eq!(again.release().await.unwrap(), Released::StillHeld(1));
        }
        assert_eq!(guard.release().await.unwrap(), Released::Free);
        assert!(!backend.keys().contains(&"held".to_owned()));
        if layout == OfRedisson {
            server.set_full(false);
            java_holds(&backend, "30000");
            server.set_full(true);
            let lock = Redisson::new(&client, "x");
            assert!(lock.force_release().await.unwrap());
        }
        assert!(backend.keys().iter().all(|key| backend.ends(key)));
    }
}
