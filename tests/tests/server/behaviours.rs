//! All behaviours, on each server.

use redlatch_behaviours::Behaviour;
use redlatch_tests::{backend::Backend, matrix};

async fn run(behaviour: Behaviour) {
    matrix::beside_each_other(async |binary| behaviour(&Backend::real(&binary)).await).await;
}

macro_rules! on_backends {
    ([$($boxed:tt)+] $($behaviour:ident),+) => {
        use $($boxed)+;

        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $behaviour() {
            crate::behaviours::run(boxed::$behaviour).await;
        })+
    };
}

/// Those of several servers run in the binary `servers`.
macro_rules! on_fleets {
    ($($fleet:tt)*) => {};
}

redlatch_behaviours::all!();
