//! A `redis-server` or `valkey-server` of our own, in a process of its own.

use std::{
    collections::HashMap,
    env, fs, io,
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{Result, Scratch};

/// The process. It is stopped, by its own id, when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    port: u16,
    scratch: Scratch,
}

impl Process {
    /// Starts a server on a free port of this machine.
    pub(crate) async fn start() -> Result<Self> {
        for _ in 0..3 {
            let mut process = Self::spawn()?;
            if process.is_up().await? {
                return Ok(process);
            }
            // It ended at once: somebody else may have taken the port just then.
        }
        Err("the server ended three times before it answered".into())
    }

    /// Returns the address for `Client::connect`.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends the process a signal, by its id.
    pub(crate) fn signal(&self, name: &str) -> Result {
        let pid = self.child.id().to_string();
        let status = Command::new("kill")
            .args([format!("-{name}"), pid])
            .status()?;
        if !status.success() {
            return Err(format!("kill -{name} failed: {status}").into());
        }
        Ok(())
    }

    /// Reads its counters, as `INFO everything` tells them.
    pub(crate) async fn counters(&self) -> Result<HashMap<String, String>> {
        let text = self.ask("INFO everything").await?;
        let fields = text.lines().filter_map(|line| line.trim().split_once(':'));
        Ok(fields.map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }

    fn spawn() -> Result<Self> {
        let scratch = Scratch::new()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        for program in candidates() {
            let log = fs::File::create(scratch.path().join("log"))?;
            let started = Command::new(&program)
                .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
                .args(["--save", "", "--appendonly", "no", "--dir"])
                .arg(scratch.path())
                .stdin(Stdio::null())
                .stdout(log)
                .stderr(Stdio::null())
                .spawn();
            match started {
                Ok(child) => {
                    return Ok(Self {
                        child,
                        port,
                        scratch,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{program} cannot be started: {error}").into()),
            }
        }
        Err(NO_SERVER.into())
    }

    /// Waits until it answers; `false` if it ended instead.
    async fn is_up(&mut self) -> Result<bool> {
        for _ in 0..500 {
            if self.child.try_wait()?.is_some() {
                return Ok(false);
            }
            if self.ask("PING").await.is_ok() {
                return Ok(true);
            }
            sleep(Duration::from_millis(20)).await;
        }
        let log = fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default();
        Err(format!("the server does not answer; its log:\n{log}").into())
    }

    /// Sends one command of plain words and returns the text of the reply.
    async fn ask(&self, command: &str) -> Result<String> {
        let talk = async {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
            // QUIT makes the server close after its replies, so there is no need to know where they
            // end.
            let request = format!("{command}\r\nQUIT\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut reply = String::new();
            stream.read_to_string(&mut reply).await?;
            io::Result::Ok(reply)
        };
        let reply = timeout(Duration::from_secs(5), talk).await??;
        if reply.is_empty() || reply.starts_with('-') {
            return Err(format!("the server says {reply:?} to {command}").into());
        }
        Ok(reply)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if the server has ended already. It has no data that is worth an orderly end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The test runner's list of servers comes first, so that the examples' tests use what all other
/// tests use.
fn candidates() -> Vec<String> {
    let listed = env::var("REDLATCH_TEST_SERVERS").unwrap_or_default();
    let listed = listed.split([',', ':']).map(str::trim);
    listed
        .filter(|program| !program.is_empty())
        .chain(["redis-server", "valkey-server"])
        .map(str::to_owned)
        .collect()
}

const NO_SERVER: &str = "\
neither redis-server nor valkey-server is in the PATH.
Install one (apt install redis-server, dnf install valkey, brew install valkey, …), or do without --real.";
