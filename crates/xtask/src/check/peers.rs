//! `cargo xtask check peers`: the Python client's tests, and its workers beside those of the Rust
//! client for some thousand holds.

use crate::{
    python,
    servers::{self, Wanted},
    steps::Steps,
    suite::Verdict,
};

/// Runs the check. The argument is the number of holds of each kind of lock.
pub(crate) fn run(args: &[String]) -> Result<Verdict, String> {
    let rounds = match args {
        [] => "5000",
        [option, rounds] if option == "--rounds" && rounds.parse::<u32>().is_ok() => rounds,
        _ => return Err("usage: cargo xtask check peers [--rounds N]".to_owned()),
    };
    let servers = servers::list(&servers::find(&Wanted::default())?);
    let mut steps = Steps::default();
    let tested = steps.run("python client", || python::test(&servers));
    if let Some(python) = tested {
        steps.run("rust beside python", || {
            python::peers(&python, rounds, &servers)
        });
    }
    println!("\n{steps}");
    Ok(steps.verdict())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_argument_is_refused() {
        for wrong in [&["--round", "7"][..], &["--rounds", "many"], &["7"]] {
            let wrong: Vec<_> = wrong.iter().map(|&word| word.to_owned()).collect();
            assert!(
                run(&wrong).is_err_and(|error| error.contains("usage")),
                "{wrong:?}"
            );
        }
    }
}
