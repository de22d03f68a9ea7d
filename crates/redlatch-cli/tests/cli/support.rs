//! A server, and processes of the command.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use redlatch::Client;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::server::Server;

/// Longer than anything takes on a busy machine.
pub(crate) const GENEROUS: Duration = Duration::from_secs(120);

/// The path of the command.
pub(crate) const REDLATCH: &str = env!("CARGO_BIN_EXE_redlatch");

/// A server that listens, and a folder for files.
pub(crate) struct World {
    pub(crate) server: Server,
    folder: TempDir,
}

/// What a process has left behind.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) async fn new() -> Self {
        let server = Server::start().await;
        let folder = tempfile::tempdir().unwrap();
        Self { server, folder }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Connects a client of the library, as another user of the same names.
    pub(crate) async fn client(&self) -> Client {
        Client::builder(&self.url())
            .application("other")
            .connect()
            .await
            .unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds a call of the command. It runs in the folder of this world.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_at(&self.url(), args)
    }

    /// Builds a call of the command by a program that becomes it. Its arguments are still missing.
    pub(crate) fn command_through(&self, program: &[&str]) -> Command {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(REDLATCH);
        self.equip(&mut command, &self.url());
        command
    }

    pub(crate) fn command_at(&self, url: &str, args: &[&str]) -> Command {
        let mut command = Command::new(REDLATCH);
        command.args(args);
        self.equip(&mut command, url);
        command
    }

    /// Builds a call of the shell, which finds `redlatch` in its path.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        self.equip(&mut command, &self.url());
        let own = Path::new(REDLATCH).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", own.display()));
        command
    }

    /// Writes a program into the folder of this world.
    pub(crate) fn program(&self, name: &str, script: &str) {
        let file = self.file(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn equip(&self, command: &mut Command, url: &str) {
        command
            .current_dir(self.folder.path())
            .env("REDLATCH_URL", url)
            .env_remove("REDIS_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
    }

    pub(crate) async fn redlatch(&self, args: &[&str]) -> Output {
        output(&mut self.command(args)).await
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    /// Waits until a file has `lines` lines, and returns them.
    pub(crate) async fn lines(&self, name: &str, lines: usize) -> Vec<String> {
        let file = self.file(name);
        eventually(&format!("{lines} lines in {name}"), || {
            let found = read_lines(&file);
            (found.len() >= lines).then_some(found)
        })
        .await
    }

    /// Waits until nobody holds the plain lock `name`.
    pub(crate) async fn free(&self, name: &str) {
        let client = self.client().await;
        let end = Instant::now() + GENEROUS;
        while client.lock(name).is_locked().await.unwrap() {
            assert!(Instant::now() < end, "{name} is still held");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Runs a command to its end.
pub(crate) async fn output(command: &mut Command) -> Output {
    finished(command.spawn().unwrap()).await
}

/// Waits for the end of a process.
pub(crate) async fn finished(child: Child) -> Output {
    let output = timeout(GENEROUS, child.wait_with_output())
        .await
        .expect("it ends")
        .unwrap();
    Output {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Sends so many megabytes through the standard input and output of a command under a lock, and
/// checks that they come back unchanged.
pub(crate) async fn passes(world: &World, megabytes: usize) {
    let mut command = world.command(&["run", "a", "--", "cat"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let writing = async move {
        let mut blocks = Blocks::default();
        for _ in 0..megabytes {
            input.write_all(blocks.next()).await.unwrap();
        }
    };
    let reading = async {
        let (mut blocks, mut read) = (Blocks::default(), vec![0; MEGABYTE]);
        for at in 0..megabytes {
            output.read_exact(&mut read).await.unwrap();
            assert!(read == blocks.next(), "megabyte {at} has changed");
        }
        assert_eq!(output.read(&mut read).await.unwrap(), 0);
    };
    tokio::join!(writing, reading);
    let ended = finished(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

const MEGABYTE: usize = 1 << 20;

/// Megabytes of which no two are alike.
#[derive(Default)]
struct Blocks {
    state: u64,
    block: Vec<u8>,
}

impl Blocks {
    fn next(&mut self) -> &[u8] {
        self.block.clear();
        while self.block.len() < MEGABYTE {
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            self.block.extend((self.state >> 7).to_le_bytes());
        }
        &self.block
    }
}

/// Waits until `look` returns something.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + GENEROUS;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn read_lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    // A line that is being written is not there yet.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_owned).collect()
}

/// Tells whether a process is there and no zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

pub(crate) fn signal(pid: impl AsRef<OsStr>, name: &str) {
    let status = std::process::Command::new("kill")
        .arg(format!("-{name}"))
        .arg(pid)
        .status();
    assert!(status.unwrap().success());
}

pub(crate) fn pid_of(child: &Child) -> String {
    child.id().unwrap().to_string()
}

/// A way to the server that can be cut: connections stay, and nothing passes any more.
pub(crate) struct Wire {
    pub(crate) url: String,
    cut: watch::Sender<bool>,
    asked: watch::Sender<bool>,
}

impl Wire {
    pub(crate) async fn to(world: &World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let target = world.url().trim_start_matches("redis://").to_owned();
        let (cut, is_cut) = watch::channel(false);
        let (asked, _) = watch::channel(false);
        let ask = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (target, mut is_cut) = (target.clone(), is_cut.clone());
                let ask = ask.clone();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(target).await.unwrap();
                    let silent = async {
                        is_cut.wait_for(|&cut| cut).await.unwrap();
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        () = silent => {}
                    }
                    if near.readable().await.is_ok() {
                        ask.send_replace(true);
                    }
                    // The connection stays, and is never answered.
                    std::future::pending::<()>().await;
                });
            }
        });
        Self { url, cut, asked }
    }

    /// Waits until something is sent on a connection that was cut.
    pub(crate) async fn asked(&self) {
        let mut asked = self.asked.subscribe();
        asked.wait_for(|&asked| asked).await.unwrap();
    }

    /// Lets new connections pass. Those that were cut stay so.
    pub(crate) fn mend(&self) {
        self.cut.send_replace(false);
    }

    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }
}
