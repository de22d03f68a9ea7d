//! `cargo xtask check peers`: the Python client's tests on all servers, its workers beside those of
//! the Rust client, and locks of other libraries beside `redlatch-compat`.

use crate::{
    libraries, programs, python,
    servers::{self, Wanted},
    steps::Steps,
    suite::Verdict,
};

/// Runs the check. The options are the number of holds of each lock, and of processes that a deploy
/// replaces.
pub(crate) fn run(args: &[String]) -> Result<Verdict, String> {
    let [mut holds, mut rounds, mut processes] = ["5000", "10000", "20"];
    for pair in args.chunks(2) {
        match pair {
            [name, number] if number.parse::<u32>().is_ok() => match name.as_str() {
                "--rounds" => (holds, rounds) = (number, number),
                "--processes" => processes = number,
                _ => return Err(USAGE.to_owned()),
            },
            _ => return Err(USAGE.to_owned()),
        }
    }
    let servers = servers::list(&servers::find(&Wanted::default())?);
    let mut steps = Steps::default();
    let peers = steps.run("peers", programs::peers);
    let tested = steps.run("python client", || python::test(&servers));
    if let (Some(peers), Some(python)) = (peers, tested) {
        steps.run("python client on other servers", || {
            python::test_on_others(&python, &servers)
        });
        steps.run("rust beside python", || {
            python::peers(&peers, &python, holds, &servers)
        });
        let built = [
            steps.run("build with go", libraries::build_go),
            steps.run("build with npm", libraries::build_node),
            steps.run("build with maven", libraries::build_java),
        ];
        if built.iter().all(Option::is_some) {
            steps.run("beside other libraries", || {
                libraries::run(&peers, &python, &[], [rounds, processes], &servers)
            });
        }
    }
    println!("\n{steps}");
    Ok(steps.verdict())
}

const USAGE: &str = "usage: cargo xtask check peers [--rounds N] [--processes N]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_argument_is_refused() {
        for wrong in [
            &["--round", "7"][..],
            &["--rounds", "many"],
            &["--processes"],
            &["7"],
        ] {
            let wrong: Vec<_> = wrong.iter().map(|&word| word.to_owned()).collect();
            assert!(
                run(&wrong).is_err_and(|error| error.contains("usage")),
                "{wrong:?}"
            );
        }
    }
}
