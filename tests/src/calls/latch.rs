//! The latch.

use std::future::Future;

use async_trait::async_trait;
use redlatch::{Client, CountDownLatch, Error};

use super::{Call, Kind, LONG, SHORT, Wait, calls};

/// The latch.
#[derive(Debug)]
pub(super) struct Latch;

#[async_trait]
impl Kind for Latch {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let latch = clients[0].count_down_latch("latch");
        latch.try_set_count(3).await.unwrap();
        calls! {
            "try_set_count": |latch| latch.try_set_count(1);
            "count_down": |latch| latch.count_down(1);
            "count_down_and_wait": |latch| latch.count_down_and_wait(2);
            "wait": |latch| latch.wait();
            "wait_for": |latch| latch.wait_for(SHORT);
            "count": |latch| latch.count();
            "info": |latch| latch.info();
            "delete": |latch| latch.delete();
        }
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let of = |client: &Client, name: &str| client.count_down_latch(format!("latch-{name}"));
        let [a, b, c] = ["a", "b", "c"].map(|name| of(&clients[0], name));
        vec![
            Wait::new("wait", a.wait(), opens(of(&others[0], "a"), 1).await),
            Wait::new(
                "wait_for",
                async move {
                    assert!(b.wait_for(LONG).await?, "it is open");
                    Ok(())
                },
                opens(of(&others[0], "b"), 1).await,
            ),
            Wait::new(
                "count_down_and_wait",
                c.count_down_and_wait(1),
                opens(of(&others[0], "c"), 2).await,
            ),
        ]
    }
}

/// Sets the latch to `count`, and returns what counts it down once.
async fn opens(
    latch: CountDownLatch,
    count: u32,
) -> impl Future<Output = Result<u32, Error>> + Send + 'static {
    assert!(latch.try_set_count(count).await.unwrap());
    async move { latch.count_down(1).await }
}
