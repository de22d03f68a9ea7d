//! The command `redlatch` on every real server of `REDLATCH_TEST_SERVERS`, or of the `PATH`: what
//! can differ by server. Everything else runs in `cli` only.

#![cfg(target_os = "linux")]
// Helpers of tests fail by panicking, and tests run on real clocks.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used)]

mod cluster;
mod codes;
mod doctor;
mod load;
mod managed;
mod refusing;
mod server;
#[path = "../shared/support.rs"]
mod support;
#[path = "../shared/verbs.rs"]
mod verbs;

macro_rules! on_every_server {
    ($($name:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                server::on_every(verbs::$name).await;
            }
        )*
    };
}

verbs::all!(on_every_server);
