//! The lifetime of a server: start, stop, kill, restart, end.

use std::{
    env, fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{
    Certificates, Connection, Reply, ServerBinary, ServerOptions, clock,
    options::{ADMIN, Place},
    process::{LOG, ServerProcess},
};
use crate::{
    port::ReservedPort,
    wait::{GENEROUS, unique_name},
};

/// A server that belongs to a test. It ends when this value is dropped.
///
/// All methods take `&self`: an [`Arc`](std::sync::Arc) can share it between a test and the code
/// that disturbs the server. The methods block their thread, at most for [`GENEROUS`].
#[derive(Debug)]
pub struct Server {
    binary: ServerBinary,
    options: ServerOptions,
    port: ReservedPort,
    tls: Option<(ReservedPort, Certificates)>,
    dir: PathBuf,
    process: Mutex<Option<ServerProcess>>,
}

impl Server {
    /// Starts a server on a free port and returns when it answers.
    ///
    /// # Panics
    ///
    /// Panics if it does not start; the message holds the server's log.
    #[track_caller]
    pub fn start(binary: &ServerBinary, options: ServerOptions) -> Self {
        match Self::try_start(binary, &options) {
            Ok(server) => server,
            Err(message) => panic!("{binary} does not start: {message}"),
        }
    }

    /// Starts a server as [`start`](Self::start) does. If it does not start, the error holds its
    /// log.
    ///
    /// # Errors
    ///
    /// Returns an error if the server ends by itself, or does not answer for [`GENEROUS`].
    pub fn try_start(binary: &ServerBinary, options: &ServerOptions) -> Result<Self, String> {
        for _ in 0..START_ATTEMPTS {
            let server = Self::prepare(binary, options).expect("temporary files can be written");
            match server.launch() {
                Ok(()) => return Ok(server),
                Err(LaunchError::PortTaken) => {}
                Err(LaunchError::Broken(message)) => return Err(message),
            }
        }
        Err(format!("its port was taken {START_ATTEMPTS} times"))
    }

    /// Starts servers beside each other, as [`start`](Self::start) starts one.
    #[track_caller]
    pub(super) fn start_all(
        binary: &ServerBinary,
        options: impl IntoIterator<Item = ServerOptions>,
    ) -> Vec<Self> {
        thread::scope(|scope| {
            let start = |options| scope.spawn(move || Self::start(binary, options));
            let starts: Vec<_> = options.into_iter().map(start).collect();
            let started = starts.into_iter().map(|start| start.join());
            started.map(|start| start.expect("it starts")).collect()
        })
    }

    /// Suspends the server (`SIGSTOP`): connections stay open and nothing is answered.
    ///
    /// Administration is not answered either. Continue with [`cont`](Self::cont),
    /// [`kill`](Self::kill) or [`restart`](Self::restart).
    #[track_caller]
    pub fn stop(&self) {
        self.process().as_mut().expect(NOT_RUNNING).suspend();
    }

    /// Resumes a suspended server (`SIGCONT`).
    #[track_caller]
    pub fn cont(&self) {
        self.process().as_mut().expect(NOT_RUNNING).resume();
    }

    /// Kills the server (`SIGKILL`), as a crash would, and returns when it is gone. Connections to
    /// its port are then refused.
    pub fn kill(&self) {
        drop(self.process().take());
    }

    /// Starts the server again on the same port and directory and returns when it answers. A
    /// running server is killed first.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        match self.launch() {
            Ok(()) => {}
            Err(LaunchError::PortTaken) => panic!("somebody took port {}", self.port()),
            Err(LaunchError::Broken(message)) => panic!("{} is not back: {message}", self.binary),
        }
    }

    /// Sends one command over its own connection and returns the reply. An error reply is a
    /// [`Reply::Error`].
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be reached or does not answer for [`GENEROUS`].
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&self, args: &[A]) -> Reply {
        let command = || String::from_utf8_lossy(args[0].as_ref()).into_owned();
        let reply = self.try_command(args);
        reply.unwrap_or_else(|error| panic!("{} failed: {error}", command()))
    }

    /// Sends one command as [`command`](Self::command) does, to a server that may be away.
    pub(super) fn try_command<A: AsRef<[u8]>>(&self, args: &[A]) -> io::Result<Reply> {
        self.connect()?.command(args)
    }

    /// Opens a connection for administration, logged in if there is access control.
    pub fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection::open(self.address(), GENEROUS)?;
        if self.options.has_access_control() {
            connection.command(&["AUTH", ADMIN, ADMIN])?.unwrap();
        }
        Ok(connection)
    }

    /// Returns the running program.
    pub const fn binary(&self) -> &ServerBinary {
        &self.binary
    }

    /// Returns the port of plain TCP.
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the address of plain TCP.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()))
    }

    /// Returns `redis://127.0.0.1:port`. Passwords are not part of it.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Returns the unix socket, if [`ServerOptions::unix_socket`] requested one.
    pub fn unix_socket(&self) -> Option<PathBuf> {
        let socket = self.dir.join("server.sock");
        self.options.unix_socket.then_some(socket)
    }

    /// Returns the address of the TLS port and the certificates, if [`ServerOptions::tls`]
    /// requested them.
    pub fn tls(&self) -> Option<(SocketAddr, &Certificates)> {
        let (port, certificates) = self.tls.as_ref()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        Some((address, certificates))
    }

    /// Returns the server's directory: log, configuration, append-only file.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the server's log so far.
    pub fn log(&self) -> String {
        let log = fs::read(self.dir.join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn prepare(binary: &ServerBinary, options: &ServerOptions) -> io::Result<Self> {
        let dir = env::temp_dir().join(unique_name("redlatch"));
        fs::create_dir_all(&dir)?;
        let take = if options.cluster {
            ReservedPort::take_for_cluster
        } else {
            ReservedPort::take
        };
        let mut tls = None;
        if options.tls {
            assert!(binary.supports_tls(), "{binary} was built without TLS");
            let certificates = match &options.certificates {
                Some(certificates) => certificates.clone(),
                None => Certificates::make(&dir)?,
            };
            tls = Some((take()?, certificates));
        }
        Ok(Self {
            binary: binary.clone(),
            options: options.clone(),
            port: take()?,
            tls,
            dir,
            process: Mutex::new(None),
        })
    }

    fn launch(&self) -> Result<(), LaunchError> {
        let broken = |error: io::Error| LaunchError::Broken(error.to_string());
        let config = self.dir.join("server.conf");
        let unix_socket = self.unix_socket();
        let tls = self.tls.as_ref();
        let place = Place {
            dir: &self.dir,
            port: self.port(),
            unix_socket: unix_socket.as_deref(),
            tls: tls.map(|(port, certificates)| (port.number(), certificates)),
        };
        if !self.options.kept || !config.exists() {
            fs::write(&config, self.options.render(&self.binary, &place)).map_err(broken)?;
        }
        let logged_before = self.log().len();
        let mut clock = None;
        if self.options.own_clock {
            clock = Some(clock::environment(&self.dir).map_err(LaunchError::Broken)?);
        }
        let (clock, options) = (clock.into_iter().flatten(), &self.options);
        let process = ServerProcess::spawn(&self.binary, options, clock, &config, &self.dir);
        let process = self.await_ready(process.map_err(broken)?, logged_before)?;
        *self.process() = Some(process);
        Ok(())
    }

    fn await_ready(
        &self,
        mut process: ServerProcess,
        logged_before: usize,
    ) -> Result<ServerProcess, LaunchError> {
        let start = Instant::now();
        loop {
            if process.ended().is_some() {
                let log = self.log().split_off(logged_before);
                return Err(match log.contains("Address already in use") {
                    true => LaunchError::PortTaken,
                    false => LaunchError::Broken(log),
                });
            }
            if self.answers() {
                return Ok(process);
            }
            if start.elapsed() > GENEROUS {
                let log = self.log();
                return Err(LaunchError::Broken(format!("no answer; its log: {log}")));
            }
            thread::sleep(START_POLL);
        }
    }

    /// Tells whether the server answers without an error. A server that loads its data answers with
    /// an error.
    fn answers(&self) -> bool {
        matches!(self.try_command(&["PING"]), Ok(Reply::Status(pong)) if pong == "PONG")
    }

    /// Locks the process. A panic of another test thread leaves it usable.
    fn process(&self) -> MutexGuard<'_, Option<ServerProcess>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            let Self { binary, dir, .. } = self;
            eprintln!("log and data of {binary} are kept in {}", dir.display());
        } else {
            // A directory that stays behind in the system's temporary directory is harmless.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

enum LaunchError {
    PortTaken,
    Broken(String),
}

const NOT_RUNNING: &str = "the server runs";
const START_ATTEMPTS: usize = 10;
const START_POLL: Duration = Duration::from_millis(2);
