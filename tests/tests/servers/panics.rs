//! Background tasks of clients of several servers, which panic.

use redlatch::runtime::TokioRuntime;
use redlatch_tests::{matrix, saboteur::Saboteur};

use crate::prelude::*;

/// The tasks that only clients of several servers have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panic_in_a_discovery_task_closes_the_client() {
    matrix::on_every_server(|binary| async move {
        let servers =
            SentinelGroup::start(&binary, 1, Duration::from_secs(5), &ServerOptions::new());
        // The comparison of clocks runs once on connecting, and then rests for long.
        let clocks = Saboteur {
            inner: Arc::new(TokioRuntime::current().unwrap()),
            task: "clocks",
            armed: Arc::new(AtomicBool::new(true)),
        };
        let client = Client::builder(&servers.url()).runtime(Arc::new(clocks));
        match client.connect().await {
            Ok(client) => {
                wait_for("clocks", async || client.is_closed()).await;
                let error = client.lock("z").try_lock().await.unwrap_err();
                assert!(error.to_string().contains("clocks"), "{error}");
            }
            Err(error) => assert!(error.to_string().contains("clocks"), "{error}"),
        }
        for task in ["discovery", "sentinel"] {
            let armed = Arc::new(AtomicBool::new(false));
            let runtime = Arc::new(Saboteur {
                inner: Arc::new(TokioRuntime::current().unwrap()),
                task,
                armed: Arc::clone(&armed),
            });
            let client = Client::builder(&servers.url()).runtime(runtime);
            let client = client.connect().await.unwrap();
            let held = client.lock(task).lock().await.unwrap();
            let lock = client.lock(task);
            let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
            armed.store(true, Ordering::Relaxed);
            // A connection that breaks makes the discovery run. A sentinel's task runs every
            // second.
            wait_for(task, async || {
                servers.master().client_kill(ClientType::Normal);
                client.is_closed()
            })
            .await;
            let error = waiting.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed, "{task}");
            assert!(error.to_string().contains(task), "{task}: {error}");
            assert_eq!(held.state(), HoldState::Lost(LossCause::Closed), "{task}");
            let error = client.lock("z").try_lock().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed, "{task}");
        }
    })
    .await;
}
