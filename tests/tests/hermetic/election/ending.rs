//! Work that obeys the end of its term stays a candidate, and work that resigns does not.

use std::convert::Infallible;

use futures_util::{FutureExt, future::LocalBoxFuture};
use redlatch::OnError;
use tokio::select;

use crate::prelude::*;

/// The number of terms that have begun.
type Terms = Arc<AtomicU32>;

/// A way to lead.
type Way = fn(Election, Terms) -> LocalBoxFuture<'static, Result<(), Error>>;

/// All ways to lead, with the work that everybody writes first.
const WAYS: [Way; 4] = [
    |election, terms| {
        let lead = election.lead(async move |term: &Term| obey(term, &terms).await);
        lead.boxed_local()
    },
    |election, terms| {
        let lead = async move {
            let terms = &terms;
            let lead = election.lead_boxed(|term| async move { obey(term, terms).await }.boxed());
            lead.await
        };
        lead.boxed_local()
    },
    |election, terms| {
        let election = election.on_error(OnError::Retry { pause: SECOND });
        let work = async move |term: &Term| {
            obey(term, &terms).await;
            Ok::<_, Infallible>(())
        };
        election.lead(work).boxed_local()
    },
    |election, terms| {
        let election = election.on_error(OnError::Resign { pause: SECOND });
        let lead = async move {
            let terms = &terms;
            let lead = election.lead_boxed(|term| {
                let work = async move {
                    obey(term, terms).await;
                    Ok::<_, Infallible>(())
                };
                work.boxed()
            });
            lead.await
        };
        lead.boxed_local()
    },
];

/// Returns when the term ends. In the third term it means to resign.
async fn obey(term: &Term, terms: &AtomicU32) {
    let resigns = terms.fetch_add(1, Ordering::SeqCst) == 2;
    term.ending().await;
    term.check().unwrap();
    if resigns {
        term.resign();
    }
}

#[tokio::test(start_paused = true)]
async fn obedience_is_no_resignation() {
    for way in WAYS {
        for silence in [None, Some(6 * SECOND)] {
            let (backend, [client, operator]) = embedded().await;
            let terms = Terms::default();
            let election = client.election("x").lease(8 * SECOND).grace(2 * SECOND);
            let ends = async {
                for term in 1..=3 {
                    let begun = async || terms.load(Ordering::SeqCst) == term;
                    eventually("the next term", GENEROUS, begun).await;
                    match silence {
                        Some(silence) => backend.embedded_server().stop_for(silence),
                        None => {
                            let force = operator.election("x").force_release();
                            assert!(force.after_lease().await.unwrap());
                        }
                    }
                }
                std::future::pending::<()>().await;
            };
            select! {
                led = way(election, Arc::clone(&terms)) => led.unwrap(),
                () = ends => {}
            }
            assert_eq!(terms.load(Ordering::SeqCst), 3, "it resigned in the third");
            assert_eq!(operator.election("x").leader().await.unwrap(), None);
        }
    }
}
