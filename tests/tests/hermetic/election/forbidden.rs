//! An operator forbids the renewal of a term: the work has its grace, and nobody else leads before.

use futures_util::future::pending;
use redlatch::runtime::Command;
use redlatch_behaviours::election::Working;
use redlatch_embedded::calls;
use tokio::sync::oneshot;

use super::beside;
use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn work_has_its_grace_when_its_renewal_is_forbidden() {
    let (_backend, [client, operator]) = embedded().await;
    let election = client.election("x").lease(30 * SECOND).grace(5 * SECOND);
    let (begun, force) = (Notify::new(), operator.election("x").force_release());
    let lead = election.lead(async |term: &Term| {
        begun.notify_one();
        term.ending().await;
        term.check().unwrap();
        let left = term.remaining();
        assert!(left <= 5 * SECOND && left > 4 * SECOND, "{left:?}");
        sleep(4 * SECOND).await;
        term.check().unwrap();
        // The server keeps the name while the work ends.
        let leader = operator.election("x").leader().await.unwrap();
        assert_eq!(leader.map(|leader| leader.token), Some(term.token()));
        term.resign();
    });
    let forbid = async {
        begun.notified().await;
        assert!(force.after_lease().await.unwrap());
    };
    let (led, ()) = tokio::join!(lead, forbid);
    led.unwrap();
    assert_eq!(operator.election("x").leader().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_end_is_dropped_after_its_grace() {
    let (_backend, [client, operator]) = embedded().await;
    for (lease, grace) in [(30, 5), (6, 3)].map(|(a, b)| (a * SECOND, b * SECOND)) {
        let at_work = Arc::<AtomicU32>::default();
        let election = client.election("x").fair();
        let election = election.lease(lease).grace(grace);
        let begun = Notify::new();
        let (told, was_told) = oneshot::channel();
        let mut told = Some(told);
        let lead = election.lead(async |term: &Term| {
            let _alive = Working::begin(&at_work);
            begun.notify_one();
            if let Some(told) = told.take() {
                term.ending().await;
                told.send(Instant::now()).unwrap();
            }
            pending::<()>().await;
        });
        let follow = async {
            begun.notified().await;
            let force = operator.election("x").fair().force_release();
            assert!(force.after_lease().await.unwrap());
            let told = was_told.await.unwrap();
            assert_eq!(at_work.load(Ordering::SeqCst), 1, "it has its grace");
            // In a fair election the next one comes before a new campaign of the first.
            let next = operator.election("x").fair();
            let work = async |_: &Term| assert_eq!(at_work.load(Ordering::SeqCst), 0);
            next.lead(work).await.unwrap();
            assert!(told.elapsed() <= grace + SECOND, "{:?}", told.elapsed());
            assert!(told.elapsed() + SECOND >= grace, "{:?}", told.elapsed());
        };
        beside(lead, follow).await;
    }
}

#[tokio::test(start_paused = true)]
async fn work_of_a_term_that_was_ended_at_once_is_not_polled_again() {
    let (_backend, [client, operator]) = embedded().await;
    let election = client.election("x").lease(30 * SECOND).grace(5 * SECOND);
    let (begun, ended) = (Notify::new(), AtomicU32::new(0));
    let lead = election.lead(async |term: &Term| {
        begun.notify_one();
        term.ending().await;
        ended.fetch_add(1, Ordering::SeqCst);
    });
    let force = async {
        begun.notified().await;
        let election = operator.election("x");
        assert!(election.force_release().await.unwrap());
        let lead = election.lead(async |_: &Term| sleep(SECOND).await);
        lead.await.unwrap();
        // The first candidate leads again, and its work waits again.
        begun.notified().await;
    };
    // Its work is not polled after the end.
    beside(lead, force).await;
    assert_eq!(ended.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn silent_server_leaves_a_forbidden_term_no_longer_than_its_deadline() {
    let (backend, [client, operator]) = embedded().await;
    let election = client.election("x").lease(6 * SECOND).grace(3 * SECOND);
    let (begun, at_work) = (Notify::new(), Arc::<AtomicU32>::default());
    let lead = election.lead(async |term: &Term| {
        let _alive = Working::begin(&at_work);
        begun.notify_one();
        term.ending().await;
        panic!("nobody can say that the name is kept");
    });
    let asked = Arc::new(Notify::new());
    let forbid = async {
        begun.notified().await;
        // The message for the leader is lost, so that the next renewal tells it.
        backend.embedded_server().drop_messages(1);
        let force = operator.election("x").force_release();
        assert!(force.after_lease().await.unwrap());
        // The renewal that tells it is answered, and the question after it is not.
        let tell = Arc::clone(&asked);
        let is_question = move |command: &Command| {
            let is_it = command.args().len() == 4 && calls::named("EVALSHA")(command);
            if is_it {
                tell.notify_one();
            }
            is_it
        };
        let server = backend.embedded_server();
        server.drop_reply(is_question, LostReply::Hangs);
        asked.notified().await;
        server.stop();
        assert_eq!(at_work.load(Ordering::SeqCst), 1);
        sleep(6 * SECOND).await;
    };
    beside(lead, forbid).await;
    assert_eq!(at_work.load(Ordering::SeqCst), 0);
}
