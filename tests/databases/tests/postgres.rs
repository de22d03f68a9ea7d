//! The statements of PostgreSQL, on a real database.

use redlatch_databases::{Postgres, behaviours};

/// Makes a test of each behaviour, in a space of its own.
macro_rules! tests {
    ($($name:ident,)*) => {
        $(#[test]
        fn $name() {
            behaviours::$name::<Postgres>(stringify!($name));
        })*
    };
}

tests!(
    update_tells_written_fenced_absent_and_unchanged,
    upsert_tells_written_and_fenced,
    mark_refuses_and_never_falls,
    later_transaction_waits_and_the_earlier_is_refused_after_it,
    late_transactions_are_refused_under_load,
);
