//! How to test what your service does when it loses its lock, with no server and without waiting.
//!
//! `cargo test --example testing_loss` runs the tests at the end; run as a program it shows the
//! same service at work. Time is tokio's: in a test that starts with a paused clock, thirty seconds
//! of lease pass in no time.

// An example says what it expects.
#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use redlatch::{Client, Error, LossCause, embedded::Server};

/// Sends a thousand letters, one a second; two services must never be at it at the same time.
struct Mailer {
    client: Client,
    sent: Arc<AtomicU32>,
}

#[derive(Debug, PartialEq)]
enum Outcome {
    AllSent,
    SomebodyElseIsAtIt,
    /// The lock was lost; what was sent until then is sent.
    Stopped(LossCause),
}

impl Mailer {
    async fn run(&self) -> Result<Outcome, Error> {
        let Some(guard) = self.client.lock("letters").try_lock().await? else {
            return Ok(Outcome::SomebodyElseIsAtIt);
        };
        let outcome = match guard.run(self.send_all()).await {
            Ok(()) => Outcome::AllSent,
            Err(error) => match error.loss() {
                Some(cause) => return Ok(Outcome::Stopped(cause)),
                None => return Err(error),
            },
        };
        guard.release().await?;
        Ok(outcome)
    }

    async fn send_all(&self) {
        for _ in 0..1_000 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tokio::time::pause();
    let server = Server::start();
    let mailer = Mailer {
        client: server.client().await?,
        sent: Arc::default(),
    };
    let run = mailer.run();
    let trouble = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        server.lose("letters");
    };
    let (outcome, ()) = tokio::join!(run, trouble);
    println!(
        "After the server forgot the lock: {:?}, {} letters sent.",
        outcome?,
        mailer.sent.load(Ordering::Relaxed)
    );
    println!(
        "A run of its own: {:?}, {} letters sent.",
        mailer.run().await?,
        mailer.sent.load(Ordering::Relaxed)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn mailer(server: &Server) -> Mailer {
        Mailer {
            client: server.client().await.unwrap(),
            sent: Arc::default(),
        }
    }

    fn after(seconds: u64, trouble: impl FnOnce() + Send + 'static) {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            trouble();
        });
    }

    #[tokio::test(start_paused = true)]
    async fn sends_everything_when_nothing_happens() {
        let server = Server::start();
        let mailer = mailer(&server).await;
        assert_eq!(mailer.run().await.unwrap(), Outcome::AllSent);
        assert_eq!(mailer.sent.load(Ordering::Relaxed), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn leaves_it_to_another() {
        let server = Server::start();
        let _other = server
            .client()
            .await
            .unwrap()
            .lock("letters")
            .lock()
            .await
            .unwrap();
        assert_eq!(
            mailer(&server).await.run().await.unwrap(),
            Outcome::SomebodyElseIsAtIt
        );
    }

    #[tokio::test(start_paused = true)]
    async fn stops_when_the_server_forgets_the_lock() {
        let server = Server::start();
        let mailer = mailer(&server).await;
        let trouble = server.clone();
        after(100, move || assert!(trouble.lose("letters")));
        assert_eq!(
            mailer.run().await.unwrap(),
            Outcome::Stopped(LossCause::Forgotten)
        );
        // The lease of 30 s is renewed every third of it, and the next renewal tells.
        let sent = mailer.sent.load(Ordering::Relaxed);
        assert!((99..=110).contains(&sent), "{sent} letters");
    }

    #[tokio::test(start_paused = true)]
    async fn rides_out_a_failed_renewal_and_a_short_stop() {
        let server = Server::start();
        let mailer = mailer(&server).await;
        let trouble = server.clone();
        after(100, move || trouble.fail_next_renewal());
        let trouble = server.clone();
        after(200, move || trouble.stop_for(Duration::from_secs(3)));
        let trouble = server.clone();
        after(300, move || trouble.drop_next_reply());
        assert_eq!(mailer.run().await.unwrap(), Outcome::AllSent);
    }

    #[tokio::test(start_paused = true)]
    async fn stops_before_its_lease_ends_when_the_server_is_gone() {
        let server = Server::start();
        let mailer = mailer(&server).await;
        let trouble = server.clone();
        after(100, move || trouble.engine().stop());
        assert_eq!(
            mailer.run().await.unwrap(),
            Outcome::Stopped(LossCause::Unreachable)
        );
        let sent = mailer.sent.load(Ordering::Relaxed);
        assert!(
            sent < 130,
            "{sent} letters, and the last renewal was before the 100th"
        );
    }
}
