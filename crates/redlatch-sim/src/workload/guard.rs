//! What workers do with guards, whatever they guard.

use std::{future::Future, time::Duration};

use redlatch_core::{Error, LossCause, Owner, Released};

use crate::watch::{Part, Sighted};

/// A guard of some primitive.
pub trait Guard: Sighted + Sized + 'static {
    /// Returns the name.
    fn name(&self) -> &str;

    /// Returns who holds.
    fn owner(&self) -> &Owner;

    /// Returns the fencing token, if this is a hold that writes.
    fn token(&self) -> Option<u64>;

    /// Returns which hold of its name it belongs to: the guards of one hold are lost together.
    fn hold(&self) -> String {
        self.token().unwrap_or_default().to_string()
    }

    /// Returns what it leaves to others.
    fn part(&self) -> Part {
        Part::Whole
    }

    /// Tells whether it passes its check. Touches: it may tell the holder of its loss.
    fn is_good(&self) -> bool;

    /// Resolves when the hold is lost.
    fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static;

    /// Makes the lease longer.
    fn extend(&self, span: Duration) -> impl Future<Output = Result<(), Error>> + Send;

    /// Runs `work` for as long as the hold lasts.
    fn run(
        &self,
        work: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Releases.
    fn release(self) -> impl Future<Output = Result<Released, Error>> + Send + 'static;
}

/// Implements [`Sighted`] and [`Guard`] for a guard that has the methods all guards of the family have. Items in braces take the place of
/// the defaults.
macro_rules! guard {
    ($guard:ty, token: $token:expr, { $($item:item)* }) => {
        impl crate::watch::Sighted for $guard {
            fn valid_until(&self) -> redlatch_core::Moment {
                <$guard>::valid_until(self)
            }

            fn state(&self) -> redlatch_core::HoldState {
                <$guard>::state(self)
            }
        }

        impl crate::workload::Guard for $guard {
            fn name(&self) -> &str {
                <$guard>::name(self)
            }

            fn owner(&self) -> &redlatch_core::Owner {
                <$guard>::owner(self)
            }

            fn token(&self) -> Option<u64> {
                let token: fn(&$guard) -> Option<u64> = $token;
                token(self)
            }

            fn is_good(&self) -> bool {
                self.check().is_ok()
            }

            fn lost(&self) -> impl Future<Output = redlatch_core::LossCause> + Send + 'static {
                <$guard>::lost(self)
            }

            async fn extend(&self, span: std::time::Duration) -> Result<(), redlatch_core::Error> {
                <$guard>::extend(self, span).await
            }

            async fn run(&self, work: impl Future<Output = ()> + Send) -> Result<(), redlatch_core::Error> {
                <$guard>::run(self, work).await
            }

            async fn release(self) -> Result<redlatch_core::Released, redlatch_core::Error> {
                <$guard>::release(self).await
            }

            $($item)*
        }
    };
}
pub(crate) use guard;
