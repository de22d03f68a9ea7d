//! The vectors of `docs/contributing/protocol.md`, recorded on the embedded server.

use crate::{
    command::{self, cargo},
    suite::Verdict,
};

/// Records all vectors into the folder `vectors`. A test fails while the folder has others.
pub(crate) fn run() -> Result<Verdict, String> {
    let arguments = ["run", "--quiet", "--package", "redlatch-vectors"];
    command::run(&mut cargo(&arguments)).map(|()| Verdict::Passed)
}
