//! Builders that are awaited.

/// Lets each of these builders be awaited: the future of its method `run` gives the output.
#[doc(hidden)]
#[macro_export]
macro_rules! awaited {
    ($($(#[$about:meta])* $builder:ident => $output:ty;)*) => {$(
        impl std::future::IntoFuture for $builder {
            $(#[$about])*
            type Output = Result<$output, $crate::Error>;
            type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.run())
            }
        }
    )*};
}
