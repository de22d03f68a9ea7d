//! Streams with a name.

/// Makes each of these types, which wrap a boxed stream, the stream of its items.
#[doc(hidden)]
#[macro_export]
macro_rules! streams {
    ($($stream:ident => $item:ty;)*) => {$(
        impl $crate::family::Stream for $stream {
            type Item = Result<$item, $crate::Error>;

            fn poll_next(
                mut self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Self::Item>> {
                self.0.as_mut().poll_next(context)
            }
        }

        impl std::fmt::Debug for $stream {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($stream)).finish_non_exhaustive()
            }
        }
    )*};
}
