//! The ways in which guards are acquired.

use std::time::Duration;

use redlatch_core::{Backoff, Durability, Owner, WaitStrategy};

use super::Worker;
use crate::watch::Waits;

/// The terms of an acquisition.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The owner of the hold.
    pub(crate) owner: Owner,
    /// How long it waits.
    pub(crate) how: How,
    /// Whether the lease is renewed.
    pub(crate) renewed: bool,
    /// The lease.
    pub(crate) lease: Duration,
    /// The wait strategy.
    pub(crate) strategy: WaitStrategy,
    /// The servers that have to know of the hold.
    pub(crate) durability: Durability,
}

/// How long an acquisition waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It does not wait: the `try_` method.
    Once,
    /// It waits for this time: the `try_…_for` method.
    For(Duration),
    /// It waits without a limit.
    Patiently,
}

impl Terms {
    /// Returns the terms under which every worker must get a name once all is healed.
    pub(super) fn patient(worker: &Worker) -> Self {
        Self {
            owner: worker.client.owner(),
            how: How::Patiently,
            renewed: true,
            lease: ms(worker.plan.lease),
            strategy: WaitStrategy::Notify,
            durability: worker.plan.durability,
        }
    }

    pub(super) fn draw(worker: &mut Worker, owner: &Owner) -> Self {
        let lease = worker.plan.lease;
        let renewed = worker.rng.chance(600);
        let span = if renewed {
            lease
        } else {
            worker.rng.between(60, lease)
        };
        let strategy = if worker.rng.chance(80) {
            WaitStrategy::Poll(Backoff::exponential(ms(5), ms(200)))
        } else {
            WaitStrategy::Notify
        };
        let way = worker.rng.below(10);
        let wait = worker.rng.between(0, lease * 2);
        Self {
            owner: owner.clone(),
            how: match way {
                0 => How::Once,
                1..=3 => How::For(ms(wait)),
                _ => How::Patiently,
            },
            renewed,
            lease: ms(span),
            strategy,
            durability: worker.plan.durability,
        }
    }

    pub(super) fn waits(&self) -> Waits {
        match (&self.strategy, self.how) {
            (WaitStrategy::Poll(_), _) => Waits::Polling,
            (_, How::Patiently) => Waits::Patiently,
            _ => Waits::Briefly,
        }
    }

    /// Returns the time limit in µs of an acquisition.
    pub(super) fn limit(&self, worker: &Worker) -> u64 {
        match self.how {
            How::For(wait) if !wait.is_zero() => {
                u64::try_from(wait.as_micros()).unwrap_or(u64::MAX) + 10_000
            }
            How::Once | How::For(_) => worker.patience(),
            How::Patiently => u64::MAX,
        }
    }

    pub(super) fn tell(&self, what: &str) -> String {
        let how = match self.how {
            How::Once => "tries to get".to_owned(),
            How::For(wait) => format!("waits {wait:?} for"),
            How::Patiently => "waits for".to_owned(),
        };
        let kind = if self.renewed { "renewed" } else { "fixed" };
        let (owner, lease) = (&self.owner, self.lease);
        format!("{how} {what} for {owner}, {kind} lease {lease:?}")
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
            $crate::workload::How::Once => {
                $crate::workload::terms::leased!($terms, $once $($options)*)
            }
            $crate::workload::How::For($wait) => {
                $crate::workload::terms::leased!($terms, $bounded $($options)*)
            }
            $crate::workload::How::Patiently => {
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
        let builder = if $terms.renewed {
            builder.renewed_lease($terms.lease)
        } else {
            builder.lease($terms.lease)
        };
        std::future::IntoFuture::into_future(builder)
    }};
}
pub(super) use {acquiring, leased};
