//! Certificates that change.

use std::{collections::BTreeSet, mem};

use async_trait::async_trait;
use redlatch::{
    ClientBuilder,
    runtime::{Address, Dial, DialError, Dialed, TlsOptions, Transport},
};
use redlatch_embedded::SteppedRuntime;

use super::deposed::Group;
use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn changed_certificates_reach_each_kind_of_connection() {
    for apart in [false, true] {
        let recorder = Recorder {
            group: Group::new(),
            dials: Arc::default(),
        };
        let mut builder = ClientBuilder::sentinel("main", ["rediss://sentinel:1"]);
        builder = builder.tls(trusting("old"));
        if apart {
            builder = builder.sentinel_tls(trusting("apart"));
        }
        let builder = builder.transport(Arc::new(recorder.clone()));
        let client = builder.runtime(Arc::new(SteppedRuntime::new()));
        let client = client.connect().await.unwrap();
        let guard = client.lock("x").lock().await.unwrap();
        for certificates in ["old", "new", "newer"] {
            let of_sentinels = if apart { "apart" } else { certificates };
            if certificates != "old" {
                client.set_tls(trusting(certificates));
                let server = recorder.group.servers[0].embedded_server();
                server.cut_connections();
            }
            // The clocks are compared every 300 s.
            sleep(310 * SECOND).await;
            let expected = [
                format!("tls:sentinel:1 Command {of_sentinels}"),
                format!("tls:sentinel:1 PubSub {of_sentinels}"),
                format!("tls:server:1 Command {certificates}"),
                format!("tls:server:1 PubSub {certificates}"),
                format!("tls:server:2 Command {certificates}"),
            ];
            assert_eq!(recorder.take(), BTreeSet::from(expected));
            assert_eq!(guard.state(), HoldState::Held);
        }
        guard.release().await.unwrap();
    }
}

fn trusting(root: &str) -> TlsOptions {
    let mut options = TlsOptions::default();
    options.root_pem = Some(root.into());
    options
}

/// A transport to a group of servers, which records what is dialled with which certificates.
#[derive(Clone, Debug)]
struct Recorder {
    group: Group,
    dials: Arc<Mutex<BTreeSet<String>>>,
}

impl Recorder {
    /// Returns the dials since the last call.
    fn take(&self) -> BTreeSet<String> {
        mem::take(&mut *self.dials.lock().unwrap())
    }
}

#[async_trait]
impl Transport for Recorder {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let Address::Tls { options, .. } = &dial.address else {
            unreachable!("it is {}", dial.address);
        };
        let root = options.root_pem.clone().unwrap_or_default();
        let root = String::from_utf8(root).unwrap();
        let line = format!("{} {:?} {root}", dial.address, dial.purpose);
        self.dials.lock().unwrap().insert(line);
        self.group.dial(dial).await
    }
}
