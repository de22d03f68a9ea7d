//! The ways in which guards are acquired.

use std::time::Duration;

use redlatch_core::{Backoff, Owner, WaitStrategy, family::Wait};

use super::Worker;
use crate::watch::Waits;

/// The terms of an acquisition.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The owner of the hold.
    pub(crate) owner: Owner,
    /// How long it waits.
    pub(crate) how: Wait,
    /// Whether the lease is renewed.
    pub(crate) renewed: bool,
    /// The lease.
    pub(crate) lease: Duration,
    /// The wait strategy.
    pub(crate) strategy: WaitStrategy,
}

impl Terms {
    /// Returns the terms under which every worker must get a name once all is healed.
    pub(super) fn patient(worker: &Worker) -> Self {
        Self {
            owner: worker.client.owner(),
            how: Wait::Forever,
            renewed: true,
            lease: ms(worker.plan.lease),
            strategy: WaitStrategy::Notify,
        }
    }

    pub(super) fn draw(worker: &mut Worker, owner: &Owner) -> Self {
        let lease = worker.plan.lease;
        let renewed = worker.rng.chance(600);
        let span = match renewed {
            true => lease,
            false => worker.rng.between(60, lease),
        };
        let strategy = draw_strategy(worker);
        let way = worker.rng.below(10);
        let wait = worker.rng.between(0, lease * 2);
        Self {
            owner: owner.clone(),
            how: match way {
                0 => Wait::Never,
                1..=3 => Wait::For(ms(wait)),
                _ => Wait::Forever,
            },
            renewed,
            lease: ms(span),
            strategy,
        }
    }

    pub(super) fn waits(&self) -> Waits {
        match (&self.strategy, self.how) {
            (WaitStrategy::Poll(_), _) => Waits::Polling,
            (_, Wait::Forever) => Waits::Patiently,
            _ => Waits::Briefly,
        }
    }

    /// Returns the time limit in µs of an acquisition.
    pub(super) fn limit(&self, worker: &Worker) -> u64 {
        match self.how {
            Wait::Forever => u64::MAX,
            Wait::For(wait) => worker.limit(wait),
            _ => worker.patience(),
        }
    }

    pub(super) fn tell(&self, what: &str) -> String {
        let how = match self.how {
            Wait::Never => "tries to get".to_owned(),
            Wait::For(wait) => format!("waits {wait:?} for"),
            _ => "waits for".to_owned(),
        };
        let kind = if self.renewed { "renewed" } else { "fixed" };
        let (owner, lease) = (&self.owner, self.lease);
        format!("{how} {what} for {owner}, {kind} lease {lease:?}")
    }
}

/// Draws how a caller waits.
pub(super) fn draw_strategy(worker: &mut Worker) -> WaitStrategy {
    match worker.rng.chance(80) {
        true => WaitStrategy::Poll(Backoff::exponential(ms(5), ms(200))),
        false => WaitStrategy::Notify,
    }
}

/// Returns a span of milliseconds.
pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Begins the acquisition that `$terms` ask for: the one that does not wait, the one that waits for
/// `$wait`, or the one that waits without a limit. `$options` are called on its builder, and then
/// the lease is set.
macro_rules! acquiring {
    (
        $terms:expr, $once:expr, |$wait:ident| $bounded:expr, $patient:expr; $($options:tt)*
    ) => {
        match $terms.how {
            redlatch_core::family::Wait::Never => {
                $crate::workload::terms::leased!($terms, $once $($options)*)
            }
            redlatch_core::family::Wait::For($wait) => {
                $crate::workload::terms::leased!($terms, $bounded $($options)*)
            }
            _ => {
                let future = $crate::workload::terms::leased!($terms, $patient $($options)*);
                Box::pin(async move { future.await.map(Some) })
            }
        }
    };
}

/// Sets the lease of a builder, and runs it.
macro_rules! leased {
    ($terms:expr, $($builder:tt)*) => {{
        let builder = $($builder)*;
        let builder = match $terms.renewed {
            true => builder.renewed_lease($terms.lease),
            false => builder.lease($terms.lease),
        };
        std::future::IntoFuture::into_future(builder)
    }};
}
pub(super) use {acquiring, leased};
