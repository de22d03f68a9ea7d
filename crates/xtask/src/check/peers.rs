//! `cargo xtask check peers`: the Python client's tests on all servers, its workers beside those of
//! the Rust client, and locks of other libraries beside `redlatch-compat`.

use crate::{programs, python, servers, steps::Steps, tools::script};

/// Runs the check.
pub(super) fn run(_: &[String], steps: &mut Steps) -> Result<(), String> {
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
            ("build with go", "go"),
            ("build with npm", "npm"),
            ("build with maven", "maven"),
        ];
        let built = built.map(|(step, tool)| steps.run(step, || script([tool])));
        if built.iter().all(Option::is_some) {
            steps.run("beside other libraries", || {
                python::libraries(&peers, &python, &[], ROUNDS, &servers)
            });
        }
    }
    Ok(())
}

/// The number of holds of each lock beside Python.
const HOLDS: &str = "5000";

/// The number of holds of each lock, and of processes that a deploy replaces.
const ROUNDS: [&str; 2] = ["10000", "20"];
