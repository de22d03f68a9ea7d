//! All behaviours, on the embedded server with stepped time.

use redlatch_behaviours::multi::Fleet;
use redlatch_tests::backend::Backend;

macro_rules! on_backends {
    ([$($boxed:tt)+] $($behaviour:ident),+) => {
        use $($boxed)+;

        $(#[tokio::test(start_paused = true)]
        async fn $behaviour() {
            boxed::$behaviour(&crate::behaviours::Backend::embedded()).await;
        })+
    };
}

macro_rules! on_fleets {
    ($count:literal [$($boxed:tt)+] $($behaviour:ident),+) => {
        use $($boxed)+;

        $(#[tokio::test(start_paused = true)]
        async fn $behaviour() {
            boxed::$behaviour(&crate::behaviours::Fleet::embedded($count)).await;
        })+
    };
}

redlatch_behaviours::all!();
