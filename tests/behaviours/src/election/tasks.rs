//! Tasks of a term.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use super::{LEASE, Working};
use crate::prelude::*;

behaviours! {
    Single:
        awaited_tasks_give_their_output,
        tasks_end_before_the_name_is_given_back,
        lost_term_ends_its_tasks_before_the_next,
        handle_of_a_stopped_task_gives_none,
        panic_of_a_task_reaches_its_handle_only;
}

async fn awaited_tasks_give_their_output(election: Election) {
    let mut sum = 0;
    let lead = election.lead(async |term: &Term| {
        let tasks = [1, 2, 3].map(|n| {
            term.spawn(async move {
                sleep(n * MS).await;
                n
            })
        });
        for task in tasks {
            sum += task.await.unwrap();
        }
    });
    lead.await.unwrap();
    assert_eq!(sum, 6);
}

async fn tasks_end_before_the_name_is_given_back([client, other]: [Client; 2]) {
    let at_work = Arc::new(AtomicU32::new(0));
    let election = client.election("x");
    let counter = Arc::clone(&at_work);
    let lead = election.lead(async |term: &Term| {
        for _ in 0..10 {
            term.spawn(Working::begin(&counter).for_ever());
        }
        sleep(10 * MS).await;
    });
    let follows = async {
        sleep(5 * MS).await;
        let next = other.election("x");
        let work = async |_: &Term| assert_eq!(at_work.load(Ordering::SeqCst), 0, "all ended");
        next.lead(work).await.unwrap();
    };
    let (led, ()) = tokio::join!(lead, follows);
    led.unwrap();
}

async fn lost_term_ends_its_tasks_before_the_next(backend: &Backend, client: Client) {
    let at_work = Arc::new(AtomicU32::new(0));
    let election = client.election("x").lease(LEASE);
    let mut terms = 0;
    let lead = election.lead(async |term: &Term| {
        assert_eq!(at_work.load(Ordering::SeqCst), 0);
        terms += 1;
        if terms == 1 {
            term.spawn(Working::begin(&at_work).for_ever());
            backend.command(&["DEL", "redlatch:{x}"]);
            std::future::pending::<()>().await;
        }
    });
    lead.await.unwrap();
    assert_eq!(terms, 2);
}

async fn handle_of_a_stopped_task_gives_none(client: Client) {
    let election = client.election("x").lease(30 * SECOND);
    let mut handle = None;
    let lead = election.lead(async |term: &Term| {
        handle = Some(term.spawn(std::future::pending::<()>()));
    });
    lead.await.unwrap();
    assert_eq!(handle.unwrap().await, None);
}

async fn panic_of_a_task_reaches_its_handle_only(election: Election) {
    let lead = election.lead(async |term: &Term| {
        let task = term.spawn(async { panic!("the task is broken") });
        let ended: Result<Option<()>, _> = AssertUnwindSafe(task).catch_unwind().await;
        assert!(ended.is_err());
        term.check().unwrap();
    });
    lead.await.unwrap();
}
