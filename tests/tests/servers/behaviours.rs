//! All behaviours, on a cluster and on sentinels of each server, and those of several servers that
//! do not know of each other.

use redlatch_behaviours::{Behaviour, FleetBehaviour, multi::Fleet};
use redlatch_tests::{backend::Backend, matrix, server::ServerBinary};

async fn on_cluster(behaviour: Behaviour) {
    let run = async |binary| behaviour(&Backend::cluster(&binary).await).await;
    matrix::beside_each_other(run).await;
}

async fn on_sentinels(behaviour: Behaviour) {
    let run = async |binary| behaviour(&Backend::sentinel(&binary).await).await;
    matrix::beside_each_other(run).await;
}

async fn on_fleet(behaviour: FleetBehaviour, count: usize) {
    for binary in ServerBinary::all() {
        behaviour(&Fleet::real(&binary, count)).await;
    }
}

macro_rules! on_backends {
    ([$($boxed:tt)+] $($behaviour:ident),+) => {
        use $($boxed)+;

        mod cluster {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                crate::behaviours::on_cluster(super::boxed::$behaviour).await;
            })+
        }

        mod sentinel {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                crate::behaviours::on_sentinels(super::boxed::$behaviour).await;
            })+
        }
    };
}

macro_rules! on_fleets {
    ($count:literal [$($boxed:tt)+] $($behaviour:ident),+) => {
        use $($boxed)+;

        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $behaviour() {
            crate::behaviours::on_fleet(boxed::$behaviour, $count).await;
        })+
    };
}

redlatch_behaviours::all!();
