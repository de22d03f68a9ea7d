//! Replies that are lost although the server did what it was asked: once, whatever it was.

use std::time::Instant;

use futures_util::future::join_all;
use redlatch::Client;
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    fixture::{MS, SECOND, preload},
    proxy::{Answered, Proxy, Then},
    server::ServerBinary,
    wait::{GENEROUS, eventually},
};

use super::{
    connect,
    hold::{Hold, ReleaseOutcome},
    kind::{AnyKind, Object, Party, stem},
    kinds,
    scene::assert_all_end,
};

redlatch_tests::on_every_server!(every_kind_counts_once_when_replies_are_lost);

/// A holder behind a proxy of its own, a waiter that is not, and what they want.
struct Rig {
    proxy: Proxy,
    mine: Object,
    theirs: Object,
    clients: [Client; 2],
}

impl Rig {
    async fn new(backend: &Backend, kind: AnyKind, then: Then) -> Self {
        let proxy = Proxy::start(backend.server().address());
        let urls = [proxy.url(), backend.server().url()];
        let [one, other] = [connect(&urls[0]).await, connect(&urls[1]).await];
        let name = format!("{}-{then:?}", stem(kind));
        let [mine, theirs] = [&one, &other].map(|client| {
            let party = Party {
                client: client.clone(),
                others: Vec::new(),
            };
            Object::new(kind, &name, &party)
        });
        Self {
            proxy,
            mine,
            theirs,
            clients: [one, other],
        }
    }

    /// Loses the reply to the next request that its kind chooses.
    fn lose(&self, backend: &Backend, then: Then) -> Answered {
        let Object { kind, name, .. } = &self.mine;
        self.proxy
            .drop_reply(kind.next_request(backend, name), then)
    }

    async fn counted(&self, expected: u64, when: &str) {
        let held = self.theirs.held().await.unwrap();
        assert_eq!(held, expected, "{:?}, {when}", self.mine.kind);
    }
}

async fn every_kind_counts_once_when_replies_are_lost(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    let ways = [Then::Cut, Then::Stall].into_iter();
    let kinds = kinds::on_one();
    let runs = ways.flat_map(|then| kinds.iter().map(move |&kind| (kind, then)));
    join_all(runs.map(async |(kind, then)| {
        let rig = Rig::new(&backend, kind, then).await;
        live(&backend, &rig, then).await;
    }))
    .await;
    assert_all_end(backend.server());
}

/// Takes, renews, extends and gives back, and each time the reply is lost.
async fn live(backend: &Backend, rig: &Rig, then: Then) {
    let kind = rig.mine.kind;
    let lost = rig.lose(backend, then);
    let lease = if kind.renews() { 9 } else { 60 };
    let hold = rig.mine.take(lease * SECOND).await.unwrap();
    lost.answered().await;
    rig.counted(kind.taken(), "taken").await;

    let waiter = tokio::spawn({
        let theirs = rig.theirs.clone();
        async move { theirs.get(60 * SECOND).await.unwrap() }
    });
    let what = format!("{kind:?} to be waited for");
    eventually(&what, GENEROUS, || async {
        rig.theirs.waiters().await.unwrap() > 0
    })
    .await;
    prolong(backend, rig, then, &*hold).await;
    rig.counted(kind.taken(), "prolonged").await;
    assert!(!waiter.is_finished(), "{kind:?} is held");

    let lost = rig.lose(backend, then);
    let outcome = hold.give_back().await.unwrap();
    assert_ne!(outcome, ReleaseOutcome::WasOver, "{kind:?}, {then:?}");
    lost.answered().await;
    let next = tokio::time::timeout(GENEROUS, waiter).await;
    let next = next.unwrap_or_else(|_| panic!("{kind:?} waits in vain"));
    let next = next.unwrap();
    rig.counted(kind.handed_over(), "handed over").await;
    assert_eq!(next.give_back().await.unwrap(), ReleaseOutcome::Ended);
    let left = rig.theirs.held().await.unwrap();
    assert!(kind.is_free(left), "{kind:?}: {left} when given back");
    rig.theirs.delete().await.unwrap();
    for client in &rig.clients {
        assert_tables_empty(client).await;
    }
}

/// Loses the replies to a renewal and to an extension.
async fn prolong(backend: &Backend, rig: &Rig, then: Then, hold: &dyn Hold) {
    if rig.mine.kind.renews() {
        rig.lose(backend, then).answered().await;
        // As it ends before the renewal counts, or later.
        let until = hold.left().map(|left| Instant::now() + left);
        eventually("a later renewal to count", GENEROUS, async || {
            assert!(hold.believed(), "{:?} is lost", rig.mine.kind);
            let now = Instant::now();
            hold.left().map(|left| now + left) > until.map(|until| until + 100 * MS)
        })
        .await;
    }
    if rig.mine.kind.extends() {
        let lost = rig.lose(backend, then);
        hold.prolong(120 * SECOND).await.unwrap();
        lost.answered().await;
    }
}
