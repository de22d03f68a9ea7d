//! A wall clock for one server, which a test sets while the server runs.

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::{Server, ServerBinary, ServerOptions};
use crate::wait::{GENEROUS, eventually_blocking, unique_name};

impl Server {
    /// Sets the server's wall clock `ahead` seconds ahead of the machine's, or behind it if
    /// negative. Returns when the server shows that time. The clocks of other servers do not
    /// change.
    ///
    /// # Panics
    ///
    /// Panics without [`ServerOptions::own_clock`].
    #[track_caller]
    pub fn set_clock(&self, ahead: i64) {
        self.write_clock(ahead);
        let shown = || self.shows(ahead).then_some(());
        eventually_blocking("the clock to be set", GENEROUS, shown);
    }

    /// Returns the time of the server's clock, in ms since 1970.
    #[track_caller]
    pub fn millis(&self) -> u64 {
        let time = self.command(&["TIME"]).unwrap().array();
        let mut parts = time
            .into_iter()
            .map(|part| part.text().parse::<u64>().expect("a number"));
        let mut next = || parts.next().expect("seconds and microseconds");
        next() * 1000 + next() / 1000
    }

    fn write_clock(&self, ahead: i64) {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(self.dir().join(FILE));
        let written = file.and_then(|file| file.write_all_at(&ahead.to_ne_bytes(), 0));
        written.expect("it was started with a clock of its own");
    }

    /// Tells whether the server shows this time. Valkey caches its clock, so the time that it shows
    /// may be some ms old.
    fn shows(&self, ahead: i64) -> bool {
        let earliest = machine_millis() + ahead * 1000 - 1000;
        let shown = i64::try_from(self.millis()).expect("a time");
        (earliest..=machine_millis() + ahead * 1000).contains(&shown)
    }
}

impl ServerBinary {
    /// Tells whether the server's clock can be set, by setting it. It cannot if the shim does not
    /// build or has no effect on the server: outside of Linux, without a C compiler, or with a
    /// statically linked program.
    pub fn has_settable_clock(&self) -> bool {
        let server = match Server::try_start(self, &ServerOptions::new().own_clock()) {
            Ok(server) => server,
            Err(message) => {
                eprintln!("{self} does not start with a clock of its own: {message}");
                return false;
            }
        };
        server.write_clock(HOUR);
        let start = Instant::now();
        while !server.shows(HOUR) {
            if start.elapsed() > LONG {
                eprintln!("the clock of {self} shows nothing of an hour's step");
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
        true
    }
}

fn machine_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.expect("it is later than 1970").as_millis()).expect("and not by that much")
}

/// Creates the clock file for a server in `dir`, and returns the variables for the server's
/// environment.
pub(super) fn environment(dir: &Path) -> Result<[(&'static str, OsString); 2], String> {
    let file = dir.join(FILE);
    fs::write(&file, 0_i64.to_ne_bytes()).map_err(|error| error.to_string())?;
    let shim = SHIM.as_ref().map_err(Clone::clone)?;
    Ok([("LD_PRELOAD", shim.into()), ("REDLATCH_CLOCK", file.into())])
}

/// The shim, built once per run, beside the test program: no other user can replace it there.
static SHIM: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let text = |error: std::io::Error| format!("the clock shim cannot be built: {error}");
    let beside = env::current_exe().map_err(text)?;
    let built = beside.with_file_name("redlatch_clock_shim.so");
    // Several runs may build it at a time. All of them build the same, so the last rename may win.
    let (source, target) = (unique_name("clock"), unique_name("clock"));
    let source = beside.with_file_name(source).with_extension("c");
    let target = beside.with_file_name(target).with_extension("so");
    fs::write(&source, include_str!("clock_shim.c")).map_err(text)?;
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler)
        .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .args([&target, &source])
        .output();
    let removed = fs::remove_file(&source);
    let output = output.map_err(text)?;
    removed.map_err(text)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the clock shim does not build: {said}"));
    }
    fs::rename(&target, &built).map_err(text)?;
    Ok(built)
});

const FILE: &str = "clock";

const HOUR: i64 = 3600;

/// The time limit until the server shows a clock that was set.
const LONG: Duration = Duration::from_secs(10);
