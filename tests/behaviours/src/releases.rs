//! Releases in the background, for each way to hold something.

use std::pin::Pin;

use redlatch::{PermitExpirableSemaphore, PermitId};
use redlatch_tests::wait::unique_name;

use crate::prelude::*;

behaviours! {
    Everywhere:
        dropped_guard_frees_the_name_for_the_next_try_of_its_client;
}

pub type Guard = Box<dyn std::any::Any + Send>;
pub type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Guard>, Error>> + Send>>;

/// One way to hold a name alone, or the only permit there is.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub kind: &'static str,
    pub lock: fn(&Client, &str) -> Acquiring,
    pub try_lock: fn(&Client, &str) -> Acquiring,
}

/// Makes the ways of these handles, with the methods that wait and that try, and that of permits.
macro_rules! ways {
    ($($kind:literal: |$client:ident, $of:ident| $handle:expr, $lock:ident, $try_lock:ident;)+) => {
        [$(Way {
            kind: $kind,
            lock: |$client, $of| {
                let acquiring = $handle.$lock();
                Box::pin(async move { acquiring.await.map(|guard| Some(Box::new(guard) as Guard)) })
            },
            try_lock: |$client, $of| {
                let acquiring = $handle.$try_lock();
                Box::pin(async move {
                    let guard = acquiring.await?;
                    Ok(guard.map(|guard| Box::new(guard) as Guard))
                })
            },
        },)+ Way {
            kind: "permits",
            lock: |client, name| permits(client, name, false),
            try_lock: |client, name| permits(client, name, true),
        }]
    };
}

pub const WAYS: [Way; 6] = ways! {
    "lock": |client, name| client.lock(name), lock, try_lock;
    "fair": |client, name| client.fair_lock(name), lock, try_lock;
    "write": |client, name| client.read_write_lock(name), write, try_write;
    "semaphore": |client, name| client.semaphore(name).permits_if_unset(1), acquire, try_acquire;
    "multi": |client, name| two(client, name), lock, try_lock;
};

fn two(client: &Client, name: &str) -> MultiLock {
    client.multi_lock(&[&client.lock(name), &client.lock(format!("{name}:2"))])
}

/// A permit with an id. When dropped it is given back, by one who insists.
struct Permit(PermitExpirableSemaphore, Option<PermitId>);

impl Drop for Permit {
    fn drop(&mut self) {
        let (permits, id) = (self.0.clone(), self.1.take().unwrap());
        tokio::spawn(async move {
            while permits.release(&id).await.is_err() {
                sleep(Duration::from_millis(50)).await;
            }
        });
    }
}

fn permits(client: &Client, name: &str, once: bool) -> Acquiring {
    let permits = client.permit_expirable_semaphore(name).permits_if_unset(1);
    Box::pin(async move {
        let id = if once {
            permits.try_acquire().await?
        } else {
            Some(permits.acquire().await?)
        };
        Ok(id.map(|id| Box::new(Permit(permits, Some(id))) as Guard))
    })
}

/// Whoever lets go and asks again at once has let go by then.
async fn dropped_guard_frees_the_name_for_the_next_try_of_its_client(client: Client) {
    for way in guarded() {
        let_go_and_try(&way, &client, 1000).await;
    }
    // Several at once keep the releaser busy.
    join_all((0..8).map(|_| let_go_and_try(&WAYS[0], &client, 300))).await;
}

/// The ways whose guards give back in the background.
pub fn guarded() -> impl Iterator<Item = Way> {
    WAYS.into_iter().filter(|way| way.kind != "permits")
}

async fn let_go_and_try(way: &Way, client: &Client, rounds: usize) {
    let name = unique_name(way.kind);
    let mut held = (way.try_lock)(client, &name).await.unwrap();
    for round in 0..rounds {
        assert!(held.is_some(), "{}: busy in round {round}", way.kind);
        drop(held.take());
        held = (way.try_lock)(client, &name).await.unwrap();
    }
}
