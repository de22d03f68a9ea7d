//! The command `redlatch` as a user calls it, against a server inside the test's own process.

#![cfg(target_os = "linux")]
// Helpers of tests fail by panicking, and tests run on real clocks.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used)]

mod address;
mod asked;
mod doctor;
mod elect;
mod killing;
mod limit;
mod manual;
mod once;
mod operate;
mod prelude;
mod recipes;
mod record;
mod run;
mod see;
mod server;
mod signals;
mod starts;
#[path = "../shared/support.rs"]
mod support;
mod terminal;
mod top;
#[path = "../shared/verbs.rs"]
mod verbs;
mod world;

use support::World;

macro_rules! on_the_embedded_server {
    ($($name:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                verbs::$name(World::new().await).await;
            }
        )*
    };
}

verbs::all!(on_the_embedded_server);
