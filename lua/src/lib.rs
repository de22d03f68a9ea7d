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
    /// The SHA-1 of the text, by which servers know the script.
    pub digest: &'static str,
    /// The entries of a call, if the script serves several.
    pub list: Option<List>,
}

/// The form of a script that serves several entries, each for itself. A call has the keys of all
/// entries, the shared arguments, and then the arguments of each entry. The reply has one line for
/// each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// The largest number of entries in one call.
    pub most: usize,
    /// The number of keys of an entry.
    pub keys: usize,
    /// The number of arguments of an entry.
    pub own: usize,
    /// The number of the shared arguments. The limit of time counts, if there is one.
    pub shared: usize,
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
