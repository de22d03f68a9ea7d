//! A server, and processes of the command.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use redlatch::Client;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::{Instant, sleep, timeout},
};

use crate::server::Server;

/// Longer than anything takes on a busy machine.
pub(crate) const GENEROUS: Duration = Duration::from_secs(120);

/// The path of the command.
pub(crate) const REDLATCH: &str = env!("CARGO_BIN_EXE_redlatch");

/// One call of each verb that talks to a server. The command of a verb leaves a file behind.
const CALLS: [&str; 13] = [
    "run -n a -- touch ran",
    "once a --slot 1 -- touch ran",
    "elect a -- touch ran",
    "elect a --observe",
    "limit a --rate 1/s -- touch ran",
    "ls",
    "ls --watch --json",
    "show a",
    "wait a",
    "hold a --for 1h",
    "release 1@a",
    "break a --token 1",
    "forget a",
];

/// Checks that each verb ends with `code` if the server is at `url`, and that no command has run.
/// The calls run beside each other, since each may take until its time is over.
pub(crate) async fn all_end_with(code: i32, world: &World, url: &str) -> Vec<Output> {
    let mut all = Vec::new();
    let call = |line| (line, world.start_at(url, line));
    for (line, child) in CALLS.map(call) {
        let ended = finished(child).await;
        assert_eq!(ended.code, code, "{url} {line}: {ended:?}");
        all.push(ended);
    }
    assert!(!world.file("ran").exists());
    all
}

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

impl Output {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn ends(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Asserts that the standard error has `text`.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "{text:?} is not in {self:?}");
        self
    }

    /// Asserts that the standard output has `text`.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> &Self {
        assert!(self.stdout.contains(text), "{text:?} is not in {self:?}");
        self
    }

    /// Asserts that this is all that was written.
    #[track_caller]
    pub(crate) fn prints(&self, text: &str) -> &Self {
        assert_eq!((self.stdout.as_str(), self.stderr.as_str()), (text, ""));
        self
    }

    /// Asserts that nothing was written to the standard error.
    #[track_caller]
    pub(crate) fn is_silent(&self) -> &Self {
        assert_eq!(self.stderr, "");
        self
    }
}

/// Arguments of the command: a line that is split into its words, or the arguments themselves.
pub(crate) trait Args {
    fn args(&self) -> Vec<&str>;
}

impl Args for str {
    fn args(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Args for String {
    fn args(&self) -> Vec<&str> {
        self.as_str().args()
    }
}

impl Args for [&str] {
    fn args(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Args for [&str; N] {
    fn args(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Args for Vec<&str> {
    fn args(&self) -> Vec<&str> {
        self.clone()
    }
}

/// Returns the arguments of `line`, which end with a script for a shell.
pub(crate) fn sh<'a>(line: &'a str, script: &'a str) -> Vec<&'a str> {
    [&line.args()[..], &["--", "sh", "-c", script]].concat()
}

impl World {
    /// Takes a server, for one test.
    pub(crate) fn on(server: Server) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { server, folder }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Connects a client of the library, as another user of the same names.
    pub(crate) async fn client(&self) -> Client {
        let builder = Client::builder(&self.url()).application("other");
        builder.connect().await.unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds a call of the command. It runs in the folder of this world.
    pub(crate) fn command(&self, args: &(impl Args + ?Sized)) -> Command {
        self.command_at(&self.url(), args)
    }

    pub(crate) fn command_at(&self, url: &str, args: &(impl Args + ?Sized)) -> Command {
        let mut command = Command::new(REDLATCH);
        command.args(args.args());
        self.equip(&mut command, url);
        command
    }

    pub(crate) fn equip(&self, command: &mut Command, url: &str) {
        command
            .current_dir(self.folder.path())
            .env("REDLATCH_URL", url)
            .env_remove("REDIS_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
    }

    pub(crate) async fn redlatch(&self, args: &(impl Args + ?Sized)) -> Output {
        output(&mut self.command(args)).await
    }

    /// Runs the command to its end, and asserts its exit code.
    pub(crate) async fn ends(&self, code: i32, args: &(impl Args + ?Sized)) -> Output {
        self.ends_at(&self.url(), code, args).await
    }

    /// Runs the command to its end with the server at `url`, and asserts its exit code.
    pub(crate) async fn ends_at(
        &self,
        url: &str,
        code: i32,
        args: &(impl Args + ?Sized),
    ) -> Output {
        let ended = output(&mut self.command_at(url, args)).await;
        assert_eq!(ended.code, code, "{url} {:?}: {ended:?}", args.args());
        ended
    }

    /// Waits until another client waits for `name`.
    pub(crate) async fn awaited(&self, name: &str) {
        let client = self.client().await;
        let waiters = async || client.object(name).await.unwrap().unwrap().waiters;
        while waiters().await == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn start(&self, args: &(impl Args + ?Sized)) -> Child {
        self.start_at(&self.url(), args)
    }

    pub(crate) fn start_at(&self, url: &str, args: &(impl Args + ?Sized)) -> Child {
        self.command_at(url, args).spawn().unwrap()
    }

    /// Starts a command with the server at `url`, and returns the lines of its output.
    pub(crate) fn watch(&self, url: &str, line: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
        let mut child = self.start_at(url, line);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
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
}

/// Runs a command to its end.
pub(crate) async fn output(command: &mut Command) -> Output {
    finished(command.spawn().unwrap()).await
}

/// Waits for the end of a process.
pub(crate) async fn finished(child: Child) -> Output {
    let output = timeout(GENEROUS, child.wait_with_output()).await;
    let output = output.expect("it ends").unwrap();
    Output {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Sends so many megabytes through the standard input and output of a command under a lock, and
/// checks that they come back unchanged.
pub(crate) async fn passes(world: &World, megabytes: usize) {
    let mut command = world.command("run a -- cat");
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

pub(crate) fn signal(pid: impl AsRef<OsStr>, name: &str) {
    let mut kill = std::process::Command::new("kill");
    let status = kill.arg(format!("-{name}")).arg(pid).status();
    assert!(status.unwrap().success());
}

pub(crate) fn pid_of(child: &Child) -> String {
    child.id().unwrap().to_string()
}

/// Asserts that the object `value` has all fields of the object `fields`.
#[track_caller]
pub(crate) fn has(value: &Value, fields: Value) {
    for (name, field) in fields.as_object().unwrap() {
        assert_eq!(&value[name], field, "{name} in {value}");
    }
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Reads an event from the output of `redlatch ls --watch --json`.
pub(crate) async fn event(lines: &mut Lines<BufReader<ChildStdout>>) -> Value {
    json(&lines.next_line().await.unwrap().unwrap())
}
