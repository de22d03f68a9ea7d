//! `cargo xtask check browser`: draws timelines with `redlatch timeline`, and looks at them in
//! headless Chromium, which it installs with apt if it is absent.
//!
//! `cargo xtask check browser --pictures` also renews the pictures of timelines in the documents.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
};

use crate::{
    command::{self, cannot_run, cargo, root, which},
    servers::with_apt,
    steps::Steps,
};

/// Runs the check.
pub(super) fn run(args: &[String], steps: &mut Steps) -> Result<(), String> {
    let pictures = match args {
        [] => false,
        [option] if option == "--pictures" => true,
        _ => return Err(format!("check browser takes --pictures only: {args:?}")),
    };
    let folder = env::temp_dir().join(format!("redlatch-browser-{}", process::id()));
    fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let chromium = steps.run("chromium", chromium);
    let build = || {
        let mut build = cargo(["build", "--quiet", "-p", "redlatch-cli", "--bins"]);
        if pictures {
            build.args(RECORDED);
        }
        command::run(&mut build)
    };
    if let (Some(chromium), Some(())) = (chromium, steps.run("command", build)) {
        let browser = Browser {
            chromium,
            folder: folder.clone(),
        };
        steps.run("a few holds", || few(&browser));
        steps.run("thousands of holds", || many(&browser));
        steps.run("a broken page is noticed", || broken(&browser));
        if pictures {
            steps.run("pictures", || draw(&browser));
        }
    }
    let removed = fs::remove_dir_all(&folder);
    removed.map_err(|error| format!("{}: {error}", folder.display()))
}

/// Finds a Chromium, and installs it if there is none.
fn chromium() -> Result<PathBuf, String> {
    let find = || NAMES.iter().find_map(|name| which(name));
    if let Some(found) = find() {
        return Ok(found);
    }
    with_apt(&["chromium"])?;
    find().ok_or_else(|| format!("apt has installed none of {NAMES:?}"))
}

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser without a window, and a folder for pages.
struct Browser {
    chromium: PathBuf,
    folder: PathBuf,
}

impl Browser {
    /// Draws a recording, and returns the path of the page.
    fn page(&self, name: &str, recording: &str) -> Result<PathBuf, String> {
        let lines = self.folder.join(format!("{name}.jsonl"));
        fs::write(&lines, recording).map_err(|error| format!("{}: {error}", lines.display()))?;
        let page = self.folder.join(format!("{name}.html"));
        timeline(&lines, &page)?;
        Ok(page)
    }

    /// Returns the elements of a page after its scripts have run. Fails if the page has written to
    /// the console, as it does with an error.
    fn elements(&self, page: &Path, search: &str) -> Result<String, String> {
        let mut call = self.call();
        call.arg("--dump-dom").arg(address(page, search));
        let output = call.stdin(Stdio::null()).output();
        let output = output.map_err(|error| cannot_run(&call, &error))?;
        let log = String::from_utf8_lossy(&output.stderr);
        let console = log.lines().filter(|line| line.contains("CONSOLE"));
        let console: Vec<_> = console.collect();
        if !console.is_empty() {
            return Err(format!("the page has written to the console: {console:#?}"));
        }
        let elements = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() || elements.is_empty() {
            return Err(format!("chromium ended with {}: {log}", output.status));
        }
        Ok(elements)
    }

    /// Takes a picture of a page.
    fn picture(&self, page: &Path, height: u32, file: &Path) -> Result<(), String> {
        let mut call = self.call();
        call.arg(format!("--screenshot={}", file.display()))
            .arg(format!("--window-size=1000,{height}"))
            .arg("--hide-scrollbars")
            .arg(address(page, ""));
        command::run(call.stderr(Stdio::null()))?;
        if file.exists() {
            Ok(())
        } else {
            Err(format!("chromium has not written {}", file.display()))
        }
    }

    fn call(&self) -> Command {
        let mut call = Command::new(&self.chromium);
        call.args(["--headless=new", "--disable-gpu", "--enable-logging=stderr"])
            // A container has no rights for the sandbox, and the pages are our own.
            .args(["--no-sandbox", "--virtual-time-budget=5000"]);
        let profile = self.folder.join("profile");
        call.arg(format!("--user-data-dir={}", profile.display()));
        call
    }
}

fn address(page: &Path, search: &str) -> String {
    format!("file://{}#{search}", page.display())
}

fn timeline(lines: &Path, page: &Path) -> Result<(), String> {
    let mut draw = Command::new(root().join("target/debug/redlatch"));
    command::run(draw.arg("timeline").arg(lines).arg("-o").arg(page))
}

/// A line of a recording.
fn event(at: u64, event: &str, client: u64, token: u64) -> String {
    format!(
        "{{\"v\":1,\"at_ms\":{at},\"event\":\"{event}\",\"name\":\"orders:{}\",\"kind\":\"lock\",\
         \"cause\":\"expired\",\"holder\":{{\"owner\":\"c{client}:{token}\",\"token\":{token},\
         \"application\":\"app{client}\",\"host\":\"h\",\"pid\":{client}}}}}\n",
        token % 7
    )
}

/// All that a picture may have.
fn few(browser: &Browser) -> Result<(), String> {
    let mut lines = event(1_000, "held", 1, 1001);
    lines += &event(2_000, "renewed", 1, 1001);
    lines += "{\"v\":1,\"at_ms\":2500,\"event\":\"unanswered\"}\n";
    lines += &event(3_000, "lost", 1, 1001);
    lines += "{\"v\":1,\"at_ms\":3500,\"event\":\"answered\"}\n";
    lines += &event(4_000, "gone", 1, 1001);
    let held = event(4_100, "held", 2, 1002);
    // It is over two seconds before its end.
    lines += &held.replace("\"pid\":2", "\"pid\":2,\"valid_ms\":2900");
    lines += &event(9_000, "gone", 2, 1002);
    let page = browser.page("few", &lines)?;
    let drawn = [
        ("class=\"bar\"", 2),
        ("data-token=\"1001\"", 1),
        ("data-token=\"1002\"", 1),
        ("class=\"renewal\"", 1),
        ("class=\"lost\"", 2),
        ("class=\"deadline\"", 1),
        ("class=\"silent\"", 1),
        ("app1 (pid 1 on h)", 1),
        (">2 holds<", 1),
    ];
    expect(&browser.elements(&page, "")?, &drawn)?;
    let (hit, miss) = ("class=\"bar hit\"", "class=\"bar miss\"");
    let found = [(hit, 1), (miss, 1), (">1 found<", 1)];
    expect(&browser.elements(&page, "1002")?, &found)
}

/// As many holds as a day may have, of which one is found by its token.
fn many(browser: &Browser) -> Result<(), String> {
    let mut lines = String::new();
    for n in 0..HOLDS {
        let (at, client, token) = (n * 100, n % 20, 5_000 + n);
        lines += &event(at, "held", client, token);
        lines += &event(at + 1_900, "gone", client, token);
    }
    let page = browser.page("many", &lines)?;
    let found = browser.elements(&page, "7777")?;
    let hit = [("class=\"bar hit\"", 1), ("data-token=\"7777\"", 1)];
    expect(&found, &hit)?;
    let bars = found.matches("class=\"bar").count();
    // Bars that fall upon each other are drawn once.
    if bars < 1_000 {
        return Err(format!("{bars} bars of {HOLDS} holds are drawn"));
    }
    Ok(())
}

const HOLDS: u64 = 5_000;

/// Shows that this check would notice a fault.
fn broken(browser: &Browser) -> Result<(), String> {
    let page = browser.page("broken", &event(1_000, "held", 1, 1001))?;
    let text = fs::read_to_string(&page).map_err(|error| error.to_string())?;
    let text = text.replacen("\"use strict\";", "\"use strict\"; nothing.is.here();", 1);
    fs::write(&page, text).map_err(|error| error.to_string())?;
    match browser.elements(&page, "") {
        Err(why) if why.contains("nothing is not defined") => Ok(()),
        Err(why) => Err(format!("another fault was noticed: {why}")),
        Ok(_) => Err("a page whose script fails was accepted".to_owned()),
    }
}

/// Checks how often parts are on a page. Its content is also in the data that it is made of, which
/// is one line.
fn expect(elements: &str, parts: &[(&str, usize)]) -> Result<(), String> {
    let drawn = elements
        .lines()
        .filter(|line| !line.contains("id=\"data\""));
    let drawn = drawn.collect::<Vec<_>>().join("\n");
    for &(part, count) in parts {
        let found = drawn.matches(part).count();
        if found != count {
            return Err(format!("{part} is on the page {found} times, not {count}"));
        }
    }
    Ok(())
}

/// Renews the picture of the book, a recording of the example `lost_lock`.
fn draw(browser: &Browser) -> Result<(), String> {
    let lines = browser.folder.join("lost_lock.jsonl");
    let mut show = Command::new(root().join("target/debug/examples/lost_lock"));
    show.env("REDLATCH_RECORD", &lines).stdout(Stdio::null());
    command::run(&mut show)?;
    let page = browser.folder.join("lost_lock.html");
    timeline(&lines, &page)?;
    let file = "docs/book/src/operate/lost_lock.png";
    browser.picture(&page, 150, &root().join(file))?;
    println!("{file}");
    Ok(())
}

/// What cargo has to build for the picture.
const RECORDED: [&str; 4] = ["-p", "redlatch-examples", "--example", "lost_lock"];
