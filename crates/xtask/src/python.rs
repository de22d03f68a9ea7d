//! The tests of the Python client.
//!
//! Everything is in virtual environments in the target folder. What cannot be had fails the step.

use std::process::Command;

use redlatch_lua::{Exclusive, FAIR, LIMIT, REENTRANT};

use crate::command::{self, root, script};

/// Builds the wheel from the source distribution, and runs the tests of the Python client with the
/// wheel installed. The programs of the README run in an environment that has the wheel alone.
pub(crate) fn test(servers: &str) -> Result<(), String> {
    script(["python"])?;
    let python = |environment: &str| root().join(format!("target/{environment}/bin/python"));
    check_scripts(&mut Command::new(python("python-fresh")))?;
    let checkout = root().join("clients/python/src");
    check_scripts(Command::new(python("python")).env("PYTHONPATH", checkout))?;
    script(["pytest", servers])
}

/// Checks that the client which a Python imports joins its scripts as the Rust client does.
fn check_scripts(python: &mut Command) -> Result<(), String> {
    let of = |of: &Exclusive| {
        [
            of.acquire,
            of.renew,
            of.release,
            of.inspect,
            of.force,
            of.withdraw,
        ]
    };
    let mut scripts = [of(&REENTRANT), of(&FAIR.exclusive)].concat();
    scripts.extend([LIMIT.acquire, LIMIT.settle, LIMIT.look]);
    let names = scripts.iter().map(|script| script.name);
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    command::show(python.args(["-c", JOIN]).args(names));
    let texts = scripts.iter().map(|script| script.text).collect();
    if command::output(python) == Some(texts) {
        Ok(())
    } else {
        Err("the Python client does not have the scripts of the Rust client".to_owned())
    }
}

const JOIN: &str = "\
import sys
from redlatch._scripts import script_text
print(*map(script_text, sys.argv[1:]), sep='', end='')";
