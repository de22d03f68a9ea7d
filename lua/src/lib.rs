#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

/// One Lua script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name in traces, `<primitive>/<file>`.
    pub name: &'static str,
    /// The text that is sent to the server, comments included.
    pub text: &'static str,
}

impl Fence {
    /// Returns the script that runs `body`, a Lua function's text with `KEYS` and `ARGV` of its
    /// own, behind the check of the token. The script `eval` has the body of `fence/sample.lua`.
    pub fn eval(&self, body: &str) -> String {
        let sample = include_str!("../fence/sample.lua");
        let body = format!("local function body(KEYS, ARGV)\n{body}\nend\n");
        self.eval.text.replacen(sample, &body, 1)
    }
}
