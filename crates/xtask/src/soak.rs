//! The soak: load and faults on real servers.

use crate::{
    command::{self, cargo},
    suite::Verdict,
};

/// Passes the arguments on. Not optimised: the servers are what it waits for, and it checks its arithmetic.
pub(crate) fn forward(args: &[String]) -> Result<Verdict, String> {
    let args = args.iter().map(String::as_str);
    let run = ["run", "--quiet", "--package", "redlatch-soak", "--"].into_iter();
    let all: Vec<_> = run.chain(args).collect();
    command::run(&mut cargo(&all)).map(|()| Verdict::Passed)
}
