//! Messages that the server refuses are reported.

use std::{
    io,
    sync::{Arc, Mutex},
};

use redlatch::compat::{Redisson, SetNx};
use redlatch_embedded::engine::Condition;
use redlatch_tests::backend::{Backend, assert_tables_empty};

/// The events of this thread.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl Told {
    fn listen() -> (Self, tracing::subscriber::DefaultGuard) {
        let told = Self::default();
        let writer = told.clone();
        let subscriber = tracing_subscriber::fmt::Subscriber::builder()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (told, tracing::subscriber::set_default(subscriber))
    }

    /// Returns the events about refused messages since the last call.
    fn refusals(&self) -> Vec<String> {
        let text = std::mem::take(&mut *self.0.lock().unwrap());
        let text = String::from_utf8(text).unwrap();
        let refusals = text.lines().filter(|line| line.contains("message_refused"));
        refusals.map(str::to_owned).collect()
    }
}

impl io::Write for Told {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ends a hold in each way that sends a message.
#[tokio::test(start_paused = true)]
async fn refused_message_is_reported_once_for_each_client() {
    let (told, _guard) = Told::listen();
    for (kind, way) in [
        ("set_nx", Way::Release),
        ("set_nx", Way::Drop),
        ("redisson", Way::Release),
        ("redisson", Way::Drop),
        ("redisson", Way::Force),
    ] {
        let backend = Backend::embedded();
        let client = backend.client().await;
        end(&client, kind, way).await;
        assert!(told.refusals().is_empty(), "{kind}, {way:?}");
        let server = backend.embedded_server();
        server.set_condition(Condition::NoChannels, true);
        end(&client, kind, way).await;
        let refusals = told.refusals();
        let [refusal] = &refusals[..] else {
            panic!("{kind}, {way:?}: {refusals:?}");
        };
        for part in ["WARN", kind, "name=x", "NOPERM"] {
            assert!(refusal.contains(part), "{refusal}");
        }
        end(&client, kind, way).await;
        assert!(
            told.refusals().is_empty(),
            "it is told once: {kind}, {way:?}"
        );
        assert_tables_empty(&client).await;
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Release,
    Drop,
    Force,
}

async fn end(client: &redlatch::Client, kind: &str, way: Way) {
    let lock = Redisson::new(client, "x");
    let guard = if kind == "redisson" {
        lock.lock().await.unwrap()
    } else {
        SetNx::new(client, "x").lock().await.unwrap()
    };
    match way {
        Way::Release => assert!(guard.release().await.unwrap().is_clean()),
        Way::Drop => drop(guard),
        Way::Force => {
            assert!(lock.force_release().await.unwrap());
            drop(guard);
        }
    }
    client.settled().await;
}
