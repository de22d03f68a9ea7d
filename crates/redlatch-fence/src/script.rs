//! Scripts of users that run behind the check of a token.

use std::{
    collections::HashMap,
    fmt,
    sync::{LazyLock, Mutex, PoisonError},
};

use redlatch_core::family::Script;

use crate::scripts::fenced;

/// A Lua script that [`Fence::eval`](crate::Fence::eval) runs behind the check of the token, in the
/// same server call.
///
/// Its text is the body of a function. `KEYS[1]` is the key of the fence, further keys follow, and
/// `ARGV` has the arguments; `redis.call` is there as always. What it returns is the reply.
///
/// The text has ASCII characters only: servers quote a part of a wrong line in their error, which
/// may be half of another character. Write others as escapes, such as `'\195\169'`, or pass them
/// as arguments.
///
/// The check comes first and is a write, so `SCRIPT KILL` cannot end a body that never returns.
///
/// Each text is kept for the life of the process, once. Make a script once per text, not per call
/// with values in the text.
///
/// # Examples
///
/// ```
/// use redlatch::fence::FencedScript;
///
/// let take = FencedScript::new("return redis.call('DECRBY', KEYS[1], ARGV[1])");
/// # assert_eq!(take, FencedScript::new("return redis.call('DECRBY', KEYS[1], ARGV[1])"));
/// ```
#[derive(Clone, Copy)]
pub struct FencedScript {
    body: &'static str,
    pub(crate) script: &'static Script,
}

/// The texts that were used once.
static KNOWN: LazyLock<Mutex<HashMap<&'static str, FencedScript>>> = LazyLock::new(Mutex::default);

impl FencedScript {
    /// Creates a script of a function's body. The server compiles the script with the first
    /// call, which reports a syntax error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::fence::FencedScript;
    ///
    /// let guard = client.lock("invoices").lock().await?;
    /// let count = FencedScript::new("return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)");
    /// let invoices = client.fence("invoices:counts");
    /// let sent = invoices.eval(guard.token(), count, &[], &[b"sent"]).await?;
    /// assert_eq!(sent.written().flatten().and_then(|sent| sent.as_int()), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(body: &str) -> Self {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(body) {
            return *known;
        }
        let script = fenced(body);
        let body: &'static str = Box::leak(body.into());
        known.insert(body, Self { body, script });
        Self { body, script }
    }

    /// Returns the first character of the text that is not ASCII.
    pub(crate) fn foreign(self) -> Option<char> {
        self.body.chars().find(|char| !char.is_ascii())
    }
}

impl PartialEq for FencedScript {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.script, other.script)
    }
}

impl Eq for FencedScript {}

impl fmt::Debug for FencedScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FencedScript").field(&self.body).finish()
    }
}
