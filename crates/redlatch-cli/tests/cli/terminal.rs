//! A terminal: who has its foreground, and what key presses do.

use pty_process::{Command, OwnedReadPty, OwnedWritePty};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Child,
    time::timeout,
};

use crate::prelude::*;

/// A program on a terminal of its own.
pub(crate) struct Terminal {
    reader: OwnedReadPty,
    writer: OwnedWritePty,
    child: Child,
    shown: String,
    screen: vt100::Parser,
}

impl Terminal {
    /// Starts the command.
    pub(crate) fn redlatch(world: &World, args: &(impl Args + ?Sized)) -> Self {
        Self::start(world, REDLATCH, &args.args(), (24, 80))
    }

    /// Starts a shell with job control, and waits for its prompt.
    async fn shell(world: &World) -> Self {
        let args = ["--norc", "--noprofile", "-i"];
        let mut shell = Self::start(world, "bash", &args, (24, 80));
        shell.until("ready> ").await;
        shell
    }

    /// Starts a program on a terminal of so many rows and columns.
    pub(crate) fn start(
        world: &World,
        program: &str,
        args: &[&str],
        (rows, columns): (u16, u16),
    ) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(pty_process::Size::new(rows, columns)).unwrap();
        let command = Command::new(program)
            .args(args)
            .env("REDLATCH_URL", world.url())
            .env("PS1", "ready> ")
            .current_dir(world.file(""))
            .kill_on_drop(true);
        let child = command.spawn(pts).unwrap();
        let (reader, writer) = pty.into_split();
        Self {
            reader,
            writer,
            child,
            shown: String::new(),
            screen: vt100::Parser::new(rows, columns, 0),
        }
    }

    pub(crate) async fn press(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).await.unwrap();
    }

    /// Reads until the terminal shows `text`, and forgets it and what was before it.
    pub(crate) async fn until(&mut self, text: &str) {
        let reading = async {
            let mut bytes = [0; 1024];
            while !self.shown.contains(text) {
                let n = self.reader.read(&mut bytes).await.unwrap();
                self.shown.push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        };
        let found = timeout(GENEROUS, reading).await;
        assert!(found.is_ok(), "no {text:?} in {:?}", self.shown);
        let end = self.shown.find(text).unwrap() + text.len();
        self.shown.drain(..end);
    }

    /// Returns the picture that [`Self::until_seen`] has read.
    pub(crate) fn seen(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads until the picture has `text`.
    pub(crate) async fn until_seen(&mut self, text: &str) {
        let reading = async {
            let mut bytes = [0; 1024];
            while !self.seen().contains(text) {
                let n = self.reader.read(&mut bytes).await.unwrap();
                self.screen.process(&bytes[..n]);
            }
        };
        let found = timeout(GENEROUS, reading).await;
        assert!(found.is_ok(), "no {text:?} in\n{}", self.seen());
    }

    /// Reads until the program ends. Returns its exit code and the last picture.
    pub(crate) async fn rest(mut self) -> (Option<i32>, String) {
        let reading = async {
            let mut bytes = [0; 1024];
            // A terminal without a program fails to be read.
            while let Ok(n @ 1..) = self.reader.read(&mut bytes).await {
                // The picture before the other screen is left.
                let shown = String::from_utf8_lossy(&bytes[..n]).replace("\x1b[?1049l", "");
                self.screen.process(shown.as_bytes());
            }
        };
        timeout(GENEROUS, reading).await.unwrap();
        let seen = self.seen();
        (self.code().await, seen)
    }

    pub(crate) async fn code(mut self) -> Option<i32> {
        let ended = timeout(GENEROUS, self.child.wait()).await;
        ended.unwrap().unwrap().code()
    }
}

const LISTENER: &str = "trap 'echo INT >> got' INT; echo started; \
     while [ ! -e stop ]; do sleep 0.05; done; echo over";

#[tokio::test(flavor = "multi_thread")]
async fn a_key_press_signal_is_delivered_once() {
    let world = World::new().await;
    let mut terminal = Terminal::redlatch(&world, &sh("run a", LISTENER));
    terminal.until("started").await;
    terminal.press("\x03").await;
    world.lines("got", 1).await;
    world.stop();
    terminal.until("over").await;
    assert_eq!(terminal.code().await, Some(0));
    assert_eq!(read_lines(&world.file("got")), ["INT"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_press_signal_is_delivered_once_in_a_pipeline() {
    let world = World::new().await;
    let line = format!("{REDLATCH} run a -- sh -c \"$0\" | cat; exit 0");
    let mut terminal = Terminal::start(&world, "bash", &["-mc", &line, LISTENER], (24, 80));
    terminal.until("started").await;
    terminal.press("\x03").await;
    world.lines("got", 1).await;
    world.stop();
    world.free("a").await;
    assert_eq!(read_lines(&world.file("got")), ["INT"]);
}

/// A shell without job control leads the session, so its group is orphaned.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_key_stops_nothing_that_no_shell_can_continue() {
    let world = World::new().await;
    let script = "trap 'echo CONT >> got' CONT; echo started; \
         while [ ! -e stop ]; do sleep 0.05; done; exit 5";
    let line = format!("{REDLATCH} run a -- sh -c \"$0\" | cat; exit ${{PIPESTATUS[0]}}");
    let mut terminal = Terminal::start(&world, "bash", &["-c", &line, script], (24, 80));
    terminal.until("started").await;
    terminal.press("\x1a").await;
    world.lines("got", 1).await;
    world.stop();
    assert_eq!(terminal.code().await, Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_press_ends_the_command_and_the_code_tells_it() {
    let world = World::new().await;
    let wait = sh("run a", "echo started; exec sleep 1000");
    let mut terminal = Terminal::redlatch(&world, &wait);
    terminal.until("started").await;
    terminal.press("\x03").await;
    assert_eq!(terminal.code().await, Some(128 + 2));
    world.free("a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_reads_the_terminal_and_gives_it_back() {
    let world = World::new().await;
    let mut shell = Terminal::shell(&world).await;
    let line = format!("{REDLATCH} run a -- sh -c 'read line; echo =$line='\n");
    shell.press(&line).await;
    shell.until("echo =").await;
    shell.press("typed\n").await;
    shell.until("=typed=").await;
    shell.until("ready> ").await;
    shell.press("exit 3\n").await;
    assert_eq!(shell.code().await, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_key_stops_the_command_and_fg_continues_it() {
    let world = World::new().await;
    let mut shell = Terminal::shell(&world).await;
    let script = "echo up; read line; echo =$line=";
    let line = format!("{REDLATCH} run a -- sh -c '{script}'\n");
    shell.press(&line).await;
    shell.until("up\r\n").await;
    shell.press("\x1a").await;
    shell.until("Stopped").await;
    shell.until("ready> ").await;
    shell.press("fg\n").await;
    shell.until("sh -c").await;
    shell.press("typed\n").await;
    shell.until("=typed=").await;
    shell.until("ready> ").await;
    shell.press("exit 4\n").await;
    assert_eq!(shell.code().await, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_on_a_terminal_says_who_has_the_name() {
    let world = World::new().await;
    let _held = world.client().await.lock("a").lock().await.unwrap();
    for line in [
        "run -w 3s a -- true",
        "wait -w 3s a",
        "hold a --for 1h -w 3s",
    ] {
        let mut terminal = Terminal::redlatch(&world, line);
        let told = "waiting for 2.0s already; a is held by other (pid";
        terminal.until(told).await;
        assert_eq!(terminal.code().await, Some(75));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_list_says_so_on_a_terminal() {
    let world = World::new().await;
    let mut terminal = Terminal::redlatch(&world, "ls orders");
    let told = "nothing matches orders (prefix redlatch); try a * at its end";
    terminal.until(told).await;
    assert_eq!(terminal.code().await, Some(0));
}
