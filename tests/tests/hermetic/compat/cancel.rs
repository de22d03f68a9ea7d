//! Every future of a lock in another layout may be dropped at every await (L2).

use std::time::Duration;

use redlatch::{
    Client, WaitStrategy,
    compat::{Redisson, SetNx},
};
use redlatch_tests::backend::Backend;

use crate::cancel::{MS, Subject, Task, cancellation_tests};

/// Makes a subject of a type of lock.
macro_rules! subject {
    ($subject:ident: $lock:ident) => {
        struct $subject;

        impl Subject for $subject {
            fn lock(client: &Client, wait: Option<Duration>, strategy: WaitStrategy) -> Task {
                let lock = $lock::new(client, "x");
                Box::pin(async move {
                    match wait {
                        Some(wait) => drop(lock.try_lock_for(wait).strategy(strategy).await),
                        None => drop(lock.lock().strategy(strategy).await.unwrap()),
                    }
                })
            }

            async fn obstacle(client: &Client) -> Task {
                Self::hold(client).await
            }

            async fn hold(client: &Client) -> Task {
                let guard = $lock::new(client, "x").lock().await.unwrap();
                Box::pin(async move {
                    guard.release().await.unwrap();
                })
            }

            async fn use_hold(client: &Client) -> Task {
                let guard = $lock::new(client, "x").lock().await.unwrap();
                Box::pin(async move {
                    guard.extend(Duration::from_secs(60)).await.unwrap();
                    let lost = guard.lost();
                    let run = guard.run(tokio::time::sleep(3 * MS));
                    futures_util::pin_mut!(lost, run);
                    futures_util::future::select(lost, run).await;
                })
            }

            /// The server has no list of waiters.
            async fn assert_nobody_waits(_: &Client) {}

            async fn assert_nothing_left(backend: &Backend, client: &Client) {
                backend.assert_only_counters_left();
                let again = $lock::new(client, "x").try_lock().await.unwrap();
                assert!(again.is_some(), "the name is free");
            }
        }
    };
}

mod set_nx {
    use super::*;

    subject!(Name: SetNx);

    cancellation_tests!(Name);
}

mod redisson {
    use super::*;

    subject!(Name: Redisson);

    cancellation_tests!(Name);
}
