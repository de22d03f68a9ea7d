//! `redlatch timeline`: recorded changes as a picture of who held what and when.

mod recording;

use std::{
    fs,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use self::recording::{Recording, Timeline};
use crate::app::{
    args::TimelineArgs,
    exit::{Failure, no_file},
    json::VERSION,
    out,
};

const PAGE: &str = include_str!("timeline.html");

/// Runs the verb.
pub(crate) fn run(args: &TimelineArgs) -> Result<u8, Failure> {
    let wrong = |error: io::Error| {
        let file = args.file.as_deref().unwrap_or_else(|| Path::new("-"));
        no_file("recording", file, "read", &error)
    };
    let source: Box<dyn Read> = match &args.file {
        Some(file) if file.as_os_str() != "-" => Box::new(fs::File::open(file).map_err(wrong)?),
        _ => Box::new(io::stdin()),
    };
    let mut timeline = Recording::default();
    for (number, line) in BufReader::new(source).lines().enumerate() {
        let line = line.map_err(wrong)?;
        if line.trim().is_empty() {
            continue;
        }
        timeline.add(&line).map_err(|why| {
            let number = number + 1;
            let message = format!("line {number} is no line of redlatch ls --watch --json: {why}");
            Failure::usage(message)
        })?;
    }
    let page = page(&timeline.end());
    match &args.output {
        Some(file) => {
            let written = fs::write(file, page);
            written.map_err(|error| no_file("page", file, "written", &error))?;
        }
        None => out::print(&page)?,
    }
    Ok(0)
}

/// Returns the page. Nothing in names may end the script element that the data is in.
fn page(timeline: &Timeline) -> String {
    let data = serde_json::to_string(timeline).unwrap_or_default();
    PAGE.replacen("__DATA__", &data.replace('<', "\\u003c"), 1)
}
