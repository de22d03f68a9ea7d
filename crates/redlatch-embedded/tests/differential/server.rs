//! Real servers: which there are, starting and stopping one.

use std::{
    env, fmt,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use redlatch_embedded::engine::Model;
use tokio::net::TcpSocket;

use crate::client::Client;

/// The servers to test against.
pub(crate) fn paths() -> Vec<PathBuf> {
    let paths: Vec<_> = match env::var("REDLATCH_TEST_SERVERS") {
        Ok(list) => list.split(',').map(PathBuf::from).collect(),
        Err(_) => {
            let names = ["redis-server", "valkey-server"].into_iter();
            names.filter_map(on_path).collect()
        }
    };
    let advice = "no server: set REDLATCH_TEST_SERVERS or install one";
    assert!(!paths.is_empty(), "{advice}");
    paths
}

/// A server on a free port of the loopback, which ends with this value.
pub(crate) struct Server {
    child: Child,
    port: u16,
    /// Reserves the port on Linux. Otherwise a connection may get the port, even one to the port.
    _placeholder: Option<TcpSocket>,
    version: String,
}

impl Server {
    pub(crate) fn start(path: &Path) -> Self {
        let version = Command::new(path).arg("--version").output().unwrap();
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let placeholder = TcpSocket::new_v4().unwrap();
        placeholder
            .bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .unwrap();
        placeholder.set_reuseaddr(true).unwrap();
        let port = placeholder.local_addr().unwrap().port();
        let placeholder = Some(placeholder).filter(|_| cfg!(target_os = "linux"));
        let child = Command::new(path)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
            // Another server may have left its data in the folder.
            .args(["--dbfilename", &format!("differential-{port}.rdb")])
            // Keeps hashes in order of insertion whatever their size.
            .args(["--hash-max-ziplist-entries", "100000"])
            .args(["--hash-max-ziplist-value", "100000"])
            .current_dir(env::temp_dir())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self {
            child,
            port,
            _placeholder: placeholder,
            version,
        };
        server.client();
        server
    }

    /// Connects, waiting for the server to come up.
    pub(crate) fn client(&self) -> Client {
        for _ in 0..200 {
            if let Ok(client) = Client::connect(self.port) {
                return client;
            }
            thread::sleep(Duration::from_millis(25));
        }
        panic!("{self} does not answer");
    }

    /// The model of this server, and whether it is the very version that the model's texts come
    /// from.
    pub(crate) fn model(&self) -> (Model, bool) {
        let has = |mark: &str| self.version.contains(mark);
        if has("v=6.2.") {
            (Model::Redis6_2, true)
        } else if has("v=7.0.") {
            (Model::Redis7_0, true)
        } else if has("v=9.1.") {
            (Model::Valkey9_1, true)
        } else if has("Redis server") {
            (Model::Redis7_0, false)
        } else {
            (Model::Valkey9_1, false)
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.version.split(" sha=").next().unwrap_or_default();
        f.write_str(short.trim())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing more can be done about a process that will not be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut files = env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}
