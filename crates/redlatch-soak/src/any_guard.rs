//! A common interface of all guards.

use std::{future::Future, time::Duration};

use redlatch::Error;

/// A hold that a worker keeps for a while.
pub(crate) trait AnyGuard: Send + 'static {
    /// Tells whether the hold is still believed to be valid.
    fn valid(&self) -> bool;

    /// Returns its names, each with its token, or 0 for none.
    fn parts(&self) -> Vec<(String, u64)>;

    /// Extends its time, if its kind can be extended.
    fn prolong(&self, span: Duration) -> impl Future<Output = Result<(), Error>> + Send;

    /// Releases it. Returns whether the server has freed it by this call.
    fn give_back(self) -> impl Future<Output = Result<bool, Error>> + Send;
}

/// Implements [`AnyGuard`] for guards with one name: each with its token, or 0 for none.
macro_rules! any_guards {
    ($($guard:ident, $token:expr;)*) => {$(
        impl $crate::any_guard::AnyGuard for $guard {
            fn valid(&self) -> bool {
                self.check().is_ok()
            }

            fn parts(&self) -> Vec<(String, u64)> {
                let token: fn(&Self) -> u64 = $token;
                vec![(self.name().to_owned(), token(self))]
            }

            async fn prolong(&self, span: std::time::Duration) -> Result<(), redlatch::Error> {
                self.extend(span).await
            }

            async fn give_back(self) -> Result<bool, redlatch::Error> {
                Ok(self.release().await? == redlatch::Released::Free)
            }
        }
    )*};
}

pub(crate) use any_guards;
