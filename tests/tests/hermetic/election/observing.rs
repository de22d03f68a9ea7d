//! What observers of an election are told.

use crate::prelude::*;

/// The server forgets the last term in the end. Nobody has led since, so that is no news.
#[tokio::test(start_paused = true)]
async fn forgotten_term_is_no_news() {
    let backend = Backend::embedded();
    let builder = backend.builder().token_retention(10 * SECOND);
    let client = builder.connect().await.unwrap();
    let election = client.election("x").lease(SECOND);
    election.lead(async |_: &Term| ()).await.unwrap();
    let mut observer = election.observe();
    assert_eq!(observer.next().await.unwrap().unwrap(), None);
    let next = timeout(20 * SECOND, observer.next()).await;
    assert!(next.is_err(), "{next:?}");
    assert!(!backend.keys().contains(&"redlatch:{x}".to_owned()));
    // It sees the next term.
    let lead = election.lead(async |term: &Term| {
        let leader = observer.next().await.unwrap().unwrap().unwrap();
        assert_eq!(leader.token, term.token());
    });
    lead.await.unwrap();
}
