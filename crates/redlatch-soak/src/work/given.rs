//! The ways to acquire.

/// Chooses one of the three ways to acquire, with one of the two kinds of lease.
macro_rules! given {
    ($bench:expr, $random:expr, $what:expr, $wait:expr, $attempt:expr, $attempt_for:expr) => {{
        let (bench, random): (&$crate::work::Bench, &mut fastrand::Rng) = ($bench, $random);
        let what: $crate::work::Wanted<'_> = $what;
        let renewed = random.bool();
        let lease = if renewed {
            $crate::work::millis(random, 1_000..3_000)
        } else {
            $crate::work::millis(random, 100..3_000)
        };
        macro_rules! with_lease {
            ($builder:expr) => {
                if renewed {
                    $builder.renewed_lease(lease)
                } else {
                    $builder.lease(lease)
                }
            };
        }
        match random.u8(..5) {
            0 => {
                let attempt = with_lease!($attempt);
                let given = bench.acquire(random, what.bounded(), attempt).await;
                given.and_then(|(asked, given)| Some((asked, given?)))
            }
            1 => {
                let wait = $crate::work::millis(random, 0..500);
                let attempt = with_lease!($attempt_for(wait));
                let given = bench.acquire(random, what.bounded(), attempt).await;
                given.and_then(|(asked, given)| Some((asked, given?)))
            }
            _ => bench.acquire(random, what, with_lease!($wait)).await,
        }
    }};
}

pub(super) use given;
