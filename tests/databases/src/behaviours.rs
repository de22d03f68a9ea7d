//! What the statements have to do in every database, as in SQLite.

use std::{
    thread,
    time::{Duration, Instant},
};

use redlatch_core::Token;
use redlatch_fence::sql::{self, RowWrite};

use crate::{Database, Deadlock};

/// Makes a test of each behaviour in a database, in a space of its own.
#[macro_export]
macro_rules! tests {
    ($database:ident) => {
        $crate::tests! {
            $database:
            update_tells_written_fenced_absent_and_unchanged,
            upsert_tells_written_and_fenced,
            mark_refuses_and_never_falls,
            later_transaction_waits_and_the_earlier_is_refused_after_it,
            late_transactions_are_refused_under_load,
        }
    };
    ($database:ident: $($name:ident,)*) => {
        $(#[test]
        fn $name() {
            $crate::behaviours::$name::<$database>(stringify!($name));
        })*
    };
}

/// Returns a token.
#[must_use]
pub const fn token(number: u64) -> Token {
    Token::from_u64(number)
}

const fn fenced(mark: u64) -> RowWrite {
    RowWrite::Fenced { mark: token(mark) }
}

/// An update tells whether it was fenced, whether the row is absent, and counts a row that had the
/// value before as written.
pub fn update_tells_written_fenced_absent_and_unchanged<D: Database>(space: &str) {
    let mut database = D::create(space);
    let mut update = |value: &str, by| {
        let outcome = database.update("x", value, token(by));
        (outcome, database.value("x"))
    };
    assert_eq!(update("a", 5), (RowWrite::Absent, None));
    drop(database);
    let mut database = D::connect(space);
    assert_eq!(database.upsert("x", "a", token(5)), RowWrite::Written);
    let mut update = |value: &str, by| {
        let outcome = database.update("x", value, token(by));
        (outcome, database.value("x").unwrap())
    };
    for (value, by, outcome, left) in [
        // The same holder, unchanged, and what is not taken for unchanged.
        ("b", 5, RowWrite::Written, "b"),
        ("b", 5, RowWrite::Written, "b"),
        ("c", 4, fenced(5), "b"),
        ("b", 4, fenced(5), "b"),
        ("d", 9, RowWrite::Written, "d"),
        ("e", 8, fenced(9), "d"),
    ] {
        let expected = (outcome, left.to_owned());
        assert_eq!(update(value, by), expected, "{value} {by}");
    }
}

/// An insert or update tells whether it was fenced.
pub fn upsert_tells_written_and_fenced<D: Database>(space: &str) {
    let mut database = D::create(space);
    let largest = (1 << 53) - 1;
    for (value, by, outcome) in [
        ("a", 7, RowWrite::Written),
        ("b", 6, fenced(7)),
        ("a", 7, RowWrite::Written),
        ("c", largest, RowWrite::Written),
        ("d", largest - 1, fenced(largest)),
    ] {
        assert_eq!(database.upsert("x", value, token(by)), outcome, "{value}");
    }
    assert_eq!(database.value("x").as_deref(), Some("c"));
}

/// A mark refuses earlier tokens, and does not fall. Names that differ in case have marks of their
/// own.
pub fn mark_refuses_and_never_falls<D: Database>(space: &str) {
    let mut database = D::create(space);
    for (by, expected) in [
        (3, RowWrite::Written),
        (3, RowWrite::Written),
        (2, fenced(3)),
        (8, RowWrite::Written),
        (3, fenced(8)),
    ] {
        assert_eq!(database.advance("stock", token(by)), Ok(expected));
    }
    assert_eq!(database.advance("Stock", token(1)), Ok(RowWrite::Written));
}

/// A later holder waits for the transaction of an earlier one. After it, the earlier is refused.
pub fn later_transaction_waits_and_the_earlier_is_refused_after_it<D: Database>(space: &str) {
    let mut early = D::create(space);
    // The row exists, so both transactions lock the same row.
    assert_eq!(early.advance("stock", token(1)), Ok(RowWrite::Written));
    early.run("CREATE TABLE log (token BIGINT NOT NULL)");
    early.run("START TRANSACTION");
    assert_eq!(early.advance("stock", token(5)), Ok(RowWrite::Written));
    thread::scope(|scope| {
        let late = scope.spawn(|| {
            let mut late = D::connect(space);
            late.run("START TRANSACTION");
            let outcome = late.advance("stock", token(9));
            // This transaction is behind the other, so it sees what the other has written.
            let before = late.numbers("SELECT token FROM log FOR UPDATE");
            late.run("COMMIT");
            (outcome, before)
        });
        let mut observer = D::connect(space);
        let begin = Instant::now();
        while observer.waiting() == 0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "nobody waits");
            assert!(!late.is_finished(), "it did not wait");
            // InnoDB shows anew what waits only if nobody has asked for a tenth of a second.
            thread::sleep(Duration::from_millis(150));
        }
        early.run("INSERT INTO log VALUES (5)");
        early.run("COMMIT");
        let (outcome, before) = late.join().unwrap();
        assert_eq!((outcome, before), (Ok(RowWrite::Written), vec![5]));
    });
    early.run("START TRANSACTION");
    assert_eq!(early.advance("stock", token(5)), Ok(fenced(9)));
    early.run("ROLLBACK");
}

/// Writers with rising and falling tokens at once: no write of an earlier holder lands after one of
/// a later holder.
pub fn late_transactions_are_refused_under_load<D: Database>(space: &str) {
    let mut first = D::create(space);
    // The mark's row is locked until the commit, so this number rises in the order of the commits.
    first.run("CREATE TABLE log (at BIGINT NOT NULL, token BIGINT NOT NULL)");
    first.run("CREATE TABLE turn (at BIGINT NOT NULL)");
    first.run("INSERT INTO turn VALUES (0)");
    let refused = thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u64)
            .map(|writer| scope.spawn(move || write_late::<D>(space, writer)))
            .collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum::<u64>()
    });
    let tokens = first.numbers("SELECT token FROM log ORDER BY at");
    println!("{} written, {refused} refused", tokens.len());
    assert_eq!(tokens.len() as u64 + refused, 4 * 50);
    let fits = tokens.len() > 1 && refused > 0 && tokens.is_sorted();
    assert!(fits, "{tokens:?}");
}

/// Writes 50 times, with tokens that rise on the whole. Returns how many writes were refused.
fn write_late<D: Database>(space: &str, writer: u64) -> u64 {
    let mut database = D::connect(space);
    let mut refused = 0;
    for step in 0..50_u64 {
        let by = 100 + step * 4 + (writer * 7 + step * 3) % 8;
        loop {
            database.run("START TRANSACTION");
            match database.advance("stock", token(by)) {
                Ok(RowWrite::Written) => {
                    let stored = sql::stored(token(by));
                    database.run("UPDATE turn SET at = at + 1");
                    database.run(&format!("INSERT INTO log SELECT at, {stored} FROM turn"));
                    database.run("COMMIT");
                    break;
                }
                Ok(_) => {
                    database.run("ROLLBACK");
                    refused += 1;
                    break;
                }
                Err(Deadlock) => database.run("ROLLBACK"),
            }
        }
    }
    refused
}
