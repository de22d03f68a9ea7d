//! Messages that the server refuses are reported.

use redlatch::compat::{Redisson, SetNx};
use redlatch_embedded::engine::Condition;
use tracing::Level;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::{lock::observability::Log, prelude::*};

/// Returns the events about refused messages since the last call.
fn refusals(log: &Log) -> Vec<String> {
    let text = log.take();
    let refusals = text.lines().filter(|line| line.contains("message_refused"));
    refusals.map(str::to_owned).collect()
}

/// Ends a hold in each way that sends a message.
#[tokio::test(start_paused = true)]
async fn refused_message_is_reported_once_for_each_client() {
    let (log, _listening) = Log::listen(Level::INFO, FmtSpan::NONE);
    for (kind, way) in [
        ("set_nx", Way::Release),
        ("set_nx", Way::Drop),
        ("redisson", Way::Release),
        ("redisson", Way::Drop),
        ("redisson", Way::Force),
    ] {
        let (backend, [client]) = embedded().await;
        end(&client, kind, way).await;
        assert!(refusals(&log).is_empty(), "{kind}, {way:?}");
        let server = backend.embedded_server();
        server.set_condition(Condition::NoChannels, true);
        end(&client, kind, way).await;
        let told = refusals(&log);
        let [refusal] = &told[..] else {
            panic!("{kind}, {way:?}: {told:?}");
        };
        for part in ["WARN", kind, "name=x", "NOPERM"] {
            assert!(refusal.contains(part), "{refusal}");
        }
        end(&client, kind, way).await;
        let told = refusals(&log);
        assert!(told.is_empty(), "{kind}, {way:?}, again: {told:?}");
        assert_tables_empty(&client).await;
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Release,
    Drop,
    Force,
}

async fn end(client: &Client, kind: &str, way: Way) {
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
