//! The calls of each kind, for tests of what all calls have in common.

mod counts;
mod locks;
mod others;

use std::{fmt, future::IntoFuture, time::Duration};

use async_trait::async_trait;
use futures_util::{FutureExt, future::BoxFuture};
use redlatch::{Client, Error};

/// All kinds.
pub static KINDS: &[&dyn Kind] = &[
    &locks::Lock,
    &locks::Fair,
    &locks::ReadWrite,
    &counts::Semaphore,
    &counts::Permits,
    &counts::Latch,
    &counts::Limit,
    &others::Jobs,
    &locks::Multi,
    &locks::Red,
    &others::Election,
    &others::Fence,
];

/// A primitive with its calls.
#[async_trait]
pub trait Kind: fmt::Debug + Sync {
    /// Returns the number of servers that it is on. Its methods need a client of each.
    fn servers(&self) -> usize {
        1
    }

    /// Makes objects and holds, and returns each call that asks a server. None has begun. On a
    /// healthy server each succeeds without waiting if they run one after the other.
    async fn calls(&self, clients: &[Client]) -> Vec<Call>;

    /// Lets `others` hold objects, and returns each call that waits for them. None has begun.
    async fn waits(&self, _others: &[Client], _clients: &[Client]) -> Vec<Wait> {
        Vec::new()
    }
}

/// A call that has not begun.
#[expect(missing_debug_implementations, reason = "a future has no form to show")]
pub struct Call {
    /// Its name.
    pub what: &'static str,
    /// The call.
    pub run: BoxFuture<'static, Result<(), Error>>,
    /// Whether it first checks the hold of its guard, and ends with the loss of that.
    pub checks_hold: bool,
}

impl Call {
    /// Makes a call that ends with an error of its own.
    pub fn new<T>(what: &'static str, run: impl Run<T>) -> Self {
        Self {
            what,
            run: boxed(run),
            checks_hold: false,
        }
    }

    /// Makes a call that first checks the hold of its guard.
    pub fn of_hold<T>(what: &'static str, run: impl Run<T>) -> Self {
        Self {
            checks_hold: true,
            ..Self::new(what, run)
        }
    }
}

/// A call that waits, and what it waits for.
#[expect(missing_debug_implementations, reason = "a future has no form to show")]
pub struct Wait {
    /// Its name.
    pub what: &'static str,
    /// The call. It releases what it gets.
    pub call: BoxFuture<'static, Result<(), Error>>,
    /// Releases what the call waits for.
    pub free: BoxFuture<'static, Result<(), Error>>,
}

impl Wait {
    /// Makes a call that waits until `free` has run.
    pub fn new<T, U>(what: &'static str, call: impl Run<T>, free: impl Run<U>) -> Self {
        Self {
            what,
            call: boxed(call),
            free: boxed(free),
        }
    }
}

/// Something to await that ends with a result.
pub trait Run<T>: IntoFuture<Output = Result<T, Error>, IntoFuture: Send + 'static> {}

impl<T, R> Run<T> for R where R: IntoFuture<Output = Result<T, Error>, IntoFuture: Send + 'static> {}

fn boxed<T>(run: impl Run<T>) -> BoxFuture<'static, Result<(), Error>> {
    run.into_future().map(|outcome| outcome.map(drop)).boxed()
}

/// Makes the list of calls of clones of handles. The `last` ones use a handle up.
macro_rules! calls {
    (
        $($what:literal: |$($handle:ident),*| $call:expr;)*
        $(last: $last:literal: $used_up:expr;)*
    ) => {
        vec![
            $({
                $(let $handle = $handle.clone();)*
                $crate::calls::Call::new($what, async move { $call.await })
            },)*
            $($crate::calls::Call::new($last, async move { $used_up.await }),)*
        ]
    };
}

/// Makes the list of calls that wait, and of what they wait for.
macro_rules! waits {
    ($($what:literal: $call:expr => $free:expr;)*) => {
        vec![$(
            $crate::calls::Wait::new($what, async move { $call.await }, async move { $free.await })
        ),*]
    };
}

use {calls, waits};

/// How long a call may wait that need not.
const SHORT: Duration = Duration::from_millis(200);

/// How long a call may wait that has to.
const LONG: Duration = Duration::from_secs(9);
