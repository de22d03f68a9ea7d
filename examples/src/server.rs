//! A server to talk to: the one of `REDIS_URL`, the engine inside this process, or a private one
//! from the `PATH`.

use std::{collections::HashMap, env, sync::Arc};

use redlatch::runtime::TokioRuntime;
use redlatch_embedded::{EmbeddedServer, Listening};

use crate::{Result, process::Process};

/// A server. What was started for this goes when this is dropped.
#[derive(Debug)]
pub struct Server {
    url: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Somebody else's.
    Given,
    /// The engine inside this process, which listens for others.
    Embedded {
        engine: EmbeddedServer,
        _listening: Listening,
    },
    /// A process of our own.
    Private(Process),
}

impl Server {
    /// Takes the server of the variable `REDIS_URL`; without it starts one, as [`start`](Self::start) does.
    pub async fn from_env_or_start() -> Result<Self> {
        let Ok(url) = env::var("REDIS_URL") else {
            return Self::start().await;
        };
        println!("Server: the one of REDIS_URL.\n");
        let kind = Kind::Given;
        Ok(Self { url, kind })
    }

    /// Starts a server of our own and says which: the embedded engine, or a real one with `--real`
    /// among the arguments or with one named in `REDLATCH_TEST_SERVERS`.
    pub async fn start() -> Result<Self> {
        if env::args().any(|arg| arg == "--real") || env::var_os("REDLATCH_TEST_SERVERS").is_some()
        {
            println!("Server: a private redis-server or valkey-server.\n");
            return Self::real().await;
        }
        let server = Self::embedded().await?;
        println!(
            "Server: redlatch's own engine, inside this process, at {}.\n",
            server.url
        );
        Ok(server)
    }

    /// Starts the engine inside this process and lets it listen on a free port of this machine.
    pub async fn embedded() -> Result<Self> {
        let runtime = TokioRuntime::current().ok_or("examples run on tokio")?;
        let engine = EmbeddedServer::new(Arc::new(runtime));
        let listening = engine.listen("127.0.0.1:0").await?;
        Ok(Self {
            url: listening.url(),
            kind: Kind::Embedded {
                engine,
                _listening: listening,
            },
        })
    }

    /// Starts a private `redis-server` or `valkey-server` on a free port of this machine.
    pub async fn real() -> Result<Self> {
        let process = Process::start().await?;
        let url = process.url();
        let kind = Kind::Private(process);
        Ok(Self { url, kind })
    }

    /// Starts the servers of a test: the embedded engine always, a real server with the feature
    /// `servers`.
    pub async fn of_test() -> Result<Vec<Self>> {
        let mut servers = vec![Self::embedded().await?];
        if cfg!(feature = "servers") {
            servers.push(Self::real().await?);
        }
        Ok(servers)
    }

    /// Returns the address for `Client::connect`, here and in other processes of this machine.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops it in its tracks: connections stay, nothing is answered, its clock runs on.
    pub fn stop(&self) -> Result {
        match &self.kind {
            Kind::Embedded { engine, .. } => engine.stop(),
            Kind::Private(process) => process.signal("STOP")?,
            Kind::Given => return Err(NOT_OURS.into()),
        }
        Ok(())
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result {
        match &self.kind {
            Kind::Embedded { engine, .. } => engine.resume(),
            Kind::Private(process) => process.signal("CONT")?,
            Kind::Given => return Err(NOT_OURS.into()),
        }
        Ok(())
    }

    /// Returns the engine, if that is what this is.
    pub fn engine(&self) -> Option<&EmbeddedServer> {
        match &self.kind {
            Kind::Embedded { engine, .. } => Some(engine),
            _ => None,
        }
    }

    /// Reads the counters of a private server, as `INFO everything` tells them.
    pub async fn counters(&self) -> Result<HashMap<String, String>> {
        match &self.kind {
            Kind::Private(process) => process.counters().await,
            _ => Err("only a real server counts all that".into()),
        }
    }
}

const NOT_OURS: &str = "this server is not ours to stop";
