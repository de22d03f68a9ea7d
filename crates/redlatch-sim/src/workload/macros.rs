//! The parts of workloads that differ in names only.

/// The methods `round` and `get_on` of a `Workload` that implements `Holding`.
macro_rules! holding_rounds {
    () => {
        fn round<'a>(&'a self, worker: &'a mut Worker) -> Work<'a> {
            Box::pin(crate::workload::holding::round(self, worker))
        }

        fn get_on<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a> {
            Box::pin(crate::workload::holding::get_on(self, worker, name))
        }
    };
}

/// The methods `round` and `get_on` of a `Workload`, which call functions of its file.
macro_rules! own_rounds {
    () => {
        fn round<'a>(&'a self, worker: &'a mut Worker) -> Work<'a> {
            Box::pin(round(worker))
        }

        fn get_on<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a> {
            Box::pin(get_on(worker, name))
        }
    };
}

/// Begins the acquisition that `$terms` ask for: the one that does not wait, the one that waits for
/// `$wait`, or the one that waits without a limit. `$options` are called on its builder, and then
/// the lease is set.
macro_rules! acquiring {
    (
        $terms:expr, $once:expr, |$wait:ident| $bounded:expr, $patient:expr; $($options:tt)*
    ) => {
        match $terms.how {
            How::Once => leased!($terms, $once $($options)*),
            How::For($wait) => leased!($terms, $bounded $($options)*),
            How::Patiently => {
                let future = leased!($terms, $patient $($options)*);
                Box::pin(async move { future.await.map(Some) })
            }
        }
    };
}

/// Sets the lease of a builder, and runs it.
macro_rules! leased {
    ($terms:expr, $($builder:tt)*) => {{
        let builder = $($builder)*;
        let builder = if $terms.renewed {
            builder.renewed_lease($terms.lease)
        } else {
            builder.lease($terms.lease)
        };
        std::future::IntoFuture::into_future(builder)
    }};
}
