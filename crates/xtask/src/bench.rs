//! The benchmarks, built with optimisation.

use crate::{
    command::{self, cargo},
    suite::Verdict,
};

/// Runs the benchmarks with these arguments.
pub(crate) fn forward(args: &[String]) -> Result<Verdict, String> {
    let head = [
        "run",
        "--quiet",
        "--release",
        "--package",
        "redlatch-bench",
        "--",
    ];
    let args = head.into_iter().chain(args.iter().map(String::as_str));
    command::run(&mut cargo(&args.collect::<Vec<_>>())).map(|()| Verdict::Passed)
}
