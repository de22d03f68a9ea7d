//! The programs of the libraries, and a running one.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tokio::{sync::mpsc, time::timeout};

use super::Options;

/// The libraries that have a program.
pub(super) const PROGRAMS: [&str; 6] = [
    "redis-py",
    "redsync",
    "redislock",
    "node-redlock",
    "rslock",
    "redisson",
];

/// Returns the command of a library's program.
pub(super) fn command(program: &str, options: &Options, server: SocketAddr) -> Command {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("libraries");
    let built = &options.programs;
    let mut command = match program {
        "redis-py" => {
            let mut command = Command::new(&options.python);
            command.arg(sources.join("redis_py/peer.py"));
            command
        }
        "redsync" | "redislock" => Command::new(built.join("go/peer")),
        "node-redlock" => {
            let mut command = Command::new("node");
            command.arg(built.join("node/peer.js"));
            command
        }
        "redisson" => {
            let mut command = Command::new("java");
            // Small and quick to start, since twenty of them run at once.
            command.args([
                "-Xmx48m",
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-cp",
            ]);
            let folder = built.join("java");
            let (classes, lib) = (folder.join("classes"), folder.join("lib"));
            command.arg(format!("{}:{}/*", classes.display(), lib.display()));
            command.arg("Peer");
            command
        }
        name => {
            let mut command = own();
            command.arg(name);
            command
        }
    };
    command.args([server.ip().to_string(), server.port().to_string()]);
    if program == "redsync" || program == "redislock" {
        command.arg(program);
    }
    command
}

/// Returns a command for this program.
pub(super) fn own() -> Command {
    Command::new(env::current_exe().expect("this program"))
}

/// A running program. It is killed when it is dropped.
pub(super) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<(Instant, String)>,
}

/// The longest time that an answer may take: a start of Java beside nineteen others, and more.
const PATIENCE: Duration = Duration::from_secs(120);

impl Peer {
    pub(super) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program that starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (says, lines) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Nobody listens any more at the end.
                let _ = says.send((Instant::now(), line));
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
        }
    }

    /// Sends a command.
    pub(super) fn send(&mut self, line: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("its input has ended")?;
        writeln!(input, "{line}").map_err(|error| format!("it takes no commands: {error}"))
    }

    /// Returns the next line, and when it came.
    pub(super) async fn line(&mut self) -> Result<(Instant, String), String> {
        match timeout(PATIENCE, self.lines.recv()).await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err("it has ended".to_owned()),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }

    /// Returns a line that has come already.
    pub(super) fn said(&mut self) -> Option<String> {
        self.lines.try_recv().ok().map(|(_, line)| line)
    }

    /// Sends a command and returns the answer.
    pub(super) async fn ask(&mut self, line: &str) -> Result<String, String> {
        self.send(line)?;
        self.line().await.map(|(_, answer)| answer)
    }

    /// Sends a command and checks the answer. Returns when it came.
    pub(super) async fn expect(&mut self, line: &str, answer: &str) -> Result<Instant, String> {
        self.send(line)?;
        self.says(answer)
            .await
            .map_err(|error| format!("{line}: {error}"))
    }

    /// Checks the next line. Returns when it came.
    pub(super) async fn says(&mut self, answer: &str) -> Result<Instant, String> {
        let (at, line) = self.line().await?;
        if line == answer {
            Ok(at)
        } else {
            Err(format!("it says {line:?} and not {answer:?}"))
        }
    }

    /// Ends the input of a working program, and waits until it is done.
    pub(super) async fn finish(mut self) -> Result<(), String> {
        self.input = None;
        self.says("done").await.map(drop)
    }

    /// Kills it with SIGKILL.
    pub(super) fn kill(mut self) {
        self.child.kill().expect("a program that can be killed");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
