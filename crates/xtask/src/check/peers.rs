//! `cargo xtask check peers`: the Python client's tests on all servers, its workers beside those of
//! the Rust client, and locks of other libraries beside `redlatch-compat`.

use super::no_arguments;
use crate::{libraries, programs, python, servers, steps::Steps};

/// Runs the check.
pub(super) fn run(args: &[String], steps: &mut Steps) -> Result<(), String> {
    no_arguments(args)?;
    let servers = servers::list(&servers::find()?);
    let peers = steps.run("peers", programs::peers);
    let tested = steps.run("python client", || python::test(&servers));
    if let (Some(peers), Some(python)) = (peers, tested) {
        steps.run("python client on other servers", || {
            python::test_on_others(&python, &servers)
        });
        steps.run("rust beside python", || {
            python::peers(&peers, &python, HOLDS, &servers)
        });
        let built = [
            steps.run("build with go", libraries::build_go),
            steps.run("build with npm", libraries::build_node),
            steps.run("build with maven", libraries::build_java),
        ];
        if built.iter().all(Option::is_some) {
            steps.run("beside other libraries", || {
                libraries::run(&peers, &python, &[], ROUNDS, &servers)
            });
        }
    }
    Ok(())
}

/// The number of holds of each lock beside Python.
const HOLDS: &str = "5000";

/// The number of holds of each lock, and of processes that a deploy replaces.
const ROUNDS: [&str; 2] = ["10000", "20"];
