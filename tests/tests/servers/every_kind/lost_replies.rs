//! Replies that are lost although the server did what it was asked: once, whatever it was.

use redlatch_tests::proxy::{Answered, Direction, Exchange, Flow};

use super::prelude::*;

redlatch_tests::on_every_server!(
    every_kind_counts_once_when_replies_are_lost,
    every_kind_counts_once_through_a_black_hole,
);

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
        let [mine, theirs] =
            [&one, &other].map(|client| Object::new(kind, &name, &Party::alone(client.clone())));
        Self {
            proxy,
            mine,
            theirs,
            clients: [one, other],
        }
    }

    /// Lets copies of what was answered come once more, which changes nothing.
    async fn copied(&self, copies: &[Exchange], expected: u64, when: &str) {
        for exchange in copies {
            exchange.copy().deliver().await.unwrap();
        }
        self.counted(expected, when).await;
    }

    /// Loses the reply to the next request that its kind chooses.
    fn lose(&self, backend: &Backend, then: Then) -> Answered {
        let Object { kind, name, .. } = &self.mine;
        self.proxy
            .drop_reply(kind.next_request(backend, name), then)
    }

    /// Lets the other wait for it.
    async fn waited_for(&self) -> JoinHandle<Box<dyn Hold>> {
        let theirs = self.theirs.clone();
        let waiter = tokio::spawn(async move { theirs.get(60 * SECOND).await.unwrap() });
        self.theirs.awaited().await;
        waiter
    }

    /// Gives back what is held, so that nothing is, and deletes what stays.
    async fn end(&self, hold: Box<dyn Hold>) {
        let kind = self.mine.kind;
        assert_eq!(hold.give_back().await.unwrap(), ReleaseOutcome::Ended);
        let left = self.theirs.held().await.unwrap();
        assert!(kind.is_free(left), "{kind:?}: {left} when given back");
        self.theirs.delete().await.unwrap();
    }

    async fn counted(&self, expected: u64, when: &str) {
        let held = self.theirs.held().await.unwrap();
        assert_eq!(held, expected, "{:?}, {when}", self.mine.kind);
    }
}

// L1, L13, L14, L25, L33, L37
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

/// Takes, renews, extends and gives back, and each time the reply is lost. Copies of the requests
/// come late, and change nothing.
async fn live(backend: &Backend, rig: &Rig, then: Then) {
    let kind = rig.mine.kind;
    let lost = rig.lose(backend, then);
    let lease = Leases::renewed(9 * SECOND).of(kind);
    let hold = rig.mine.take(lease).await.unwrap();
    let mut copies = vec![lost.answered().await];
    rig.copied(&copies, kind.taken(), "taken").await;

    let waiter = rig.waited_for().await;
    prolong(backend, rig, then, &*hold, &mut copies).await;
    rig.copied(&copies, kind.taken(), "prolonged").await;
    assert!(!waiter.is_finished(), "{kind:?} is held");

    let lost = rig.lose(backend, then);
    let outcome = hold.give_back().await.unwrap();
    assert!(outcome.may_have_lasted(), "{kind:?}, {then:?}");
    copies.push(lost.answered().await);
    let next = served(kind, waiter).await;
    rig.copied(&copies, kind.handed_over(), "handed over").await;
    rig.end(next).await;

    // The same caller again: only tokens and generations tell the two apart.
    let again = rig.mine.take(60 * SECOND).await.unwrap();
    rig.copied(&copies, kind.taken(), "taken again").await;
    rig.end(again).await;
    assert_all_empty(&rig.clients).await;
}

/// Loses the replies to a renewal and to an extension.
async fn prolong(
    backend: &Backend,
    rig: &Rig,
    then: Then,
    hold: &dyn Hold,
    copies: &mut Vec<Exchange>,
) {
    if rig.mine.kind.renews() {
        copies.push(rig.lose(backend, then).answered().await);
        // As it ends before the renewal counts, or later.
        let until = hold.left().map(|left| Instant::now() + left);
        wait_for("a later renewal to count", async || {
            assert!(hold.believed(), "{:?} is lost", rig.mine.kind);
            let now = Instant::now();
            hold.left().map(|left| now + left) > until.map(|until| until + 100 * MS)
        })
        .await;
    }
    if rig.mine.kind.extends() {
        let lost = rig.lose(backend, then);
        hold.prolong(120 * SECOND).await.unwrap();
        copies.push(lost.answered().await);
    }
}

/// What is said into a black hole is said again; what is answered into one counts once.
// L2, L3, L37
async fn every_kind_counts_once_through_a_black_hole(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    join_all(kinds::on_one().into_iter().map(async |kind| {
        let rig = Rig::new(&backend, kind, Then::Cut).await;
        let hold = rig.mine.take(60 * SECOND).await.unwrap();
        let waiter = rig.waited_for().await;
        rig.proxy.black_hole();
        let vanished = rig.proxy.vanished();
        let prolonged = async {
            hold.prolong(60 * SECOND).await.unwrap();
        };
        let heard_again = async {
            if kind.extends() {
                wait_for("it to be said", async || rig.proxy.vanished() > vanished).await;
            }
            rig.proxy.pass();
        };
        tokio::join!(prolonged, heard_again);
        rig.counted(kind.taken(), "prolonged").await;
        assert!(hold.believed(), "{kind:?} is lost");

        rig.proxy.set_flow(Direction::ToClient, Flow::BlackHole);
        let vanished = rig.proxy.vanished();
        let answered = async {
            let swallowed = async || rig.proxy.vanished() > vanished;
            wait_for("it to be answered", swallowed).await;
            for _ in 0..2 {
                rig.proxy.cut();
                sleep(100 * MS).await;
            }
            rig.proxy.pass();
            rig.proxy.cut();
        };
        let given_back = async { hold.give_back().await.unwrap() };
        let (outcome, ()) = tokio::join!(given_back, answered);
        let next = served(kind, waiter).await;
        assert!(outcome.may_have_lasted(), "{kind:?}");
        rig.counted(kind.handed_over(), "handed over").await;
        rig.end(next).await;
        assert_all_empty(&rig.clients).await;
    }))
    .await;
    assert_all_end(backend.server());
}

async fn served(kind: AnyKind, waiter: JoinHandle<Box<dyn Hold>>) -> Box<dyn Hold> {
    let served = timeout(GENEROUS, waiter).await;
    let served = served.unwrap_or_else(|_| panic!("{kind:?} waits in vain"));
    served.unwrap()
}
