//! The statements of SQLite, on a real database.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests say what they expect"
)]

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use redlatch_core::Token;
use redlatch_fence::sql::{self, RowWrite, sqlite};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

fn token(number: u64) -> Token {
    Token::from_u64(number)
}

fn fenced(mark: u64) -> RowWrite {
    RowWrite::Fenced { mark: token(mark) }
}

fn database() -> Connection {
    let database = Connection::open_in_memory().unwrap();
    for create in [sqlite::CREATE_MARKS, sqlite::CREATE_ROWS] {
        // A second time does nothing.
        database.execute_batch(create).unwrap();
        database.execute_batch(create).unwrap();
    }
    database
}

fn row(database: &Connection, statement: &str, id: &str, value: &str, by: u64) -> RowWrite {
    let parameters = (id, value, sql::stored(token(by)));
    let returned = database.query_row(statement, parameters, |row| row.get(0));
    sql::judge(token(by), returned.optional().unwrap())
}

fn value(database: &Connection, id: &str) -> Option<String> {
    let read = "SELECT value FROM redlatch_rows WHERE id = ?1";
    let value = database.query_row(read, [id], |row| row.get(0));
    value.optional().unwrap()
}

#[test]
fn update_tells_written_fenced_absent_and_unchanged() {
    let database = database();
    let update = |value: &str, by| row(&database, sqlite::UPDATE_ROW, "x", value, by);
    assert_eq!(update("a", 5), RowWrite::Absent);
    assert_eq!(value(&database, "x"), None);
    let upserted = row(&database, sqlite::UPSERT_ROW, "x", "a", 5);
    assert_eq!(upserted, RowWrite::Written);
    assert_eq!(update("b", 5), RowWrite::Written, "the same holder");
    assert_eq!(update("b", 5), RowWrite::Written, "unchanged");
    assert_eq!(update("c", 4), fenced(5));
    assert_eq!(update("b", 4), fenced(5), "not taken for unchanged");
    assert_eq!(value(&database, "x").as_deref(), Some("b"));
    assert_eq!(update("d", 9), RowWrite::Written);
    assert_eq!(update("e", 8), fenced(9));
    assert_eq!(value(&database, "x").as_deref(), Some("d"));
}

#[test]
fn upsert_tells_written_and_fenced() {
    let database = database();
    let upsert = |value: &str, by| row(&database, sqlite::UPSERT_ROW, "x", value, by);
    let largest = (1 << 53) - 1;
    assert_eq!(upsert("a", 7), RowWrite::Written);
    assert_eq!(upsert("b", 6), fenced(7));
    assert_eq!(upsert("a", 7), RowWrite::Written, "unchanged");
    assert_eq!(upsert("c", largest), RowWrite::Written);
    assert_eq!(upsert("d", largest - 1), fenced(largest));
    assert_eq!(value(&database, "x").as_deref(), Some("c"));
}

fn advance(database: &Connection, name: &str, by: u64) -> RowWrite {
    let parameters = (name, sql::stored(token(by)));
    let stored = database.query_row(sqlite::ADVANCE, parameters, |row| row.get(0));
    sql::judge(token(by), Some(stored.unwrap()))
}

#[test]
fn mark_refuses_and_never_falls() {
    let database = database();
    for (by, expected) in [
        (3, RowWrite::Written),
        (3, RowWrite::Written),
        (2, fenced(3)),
        (8, RowWrite::Written),
        (3, fenced(8)),
    ] {
        assert_eq!(advance(&database, "stock", by), expected);
    }
    assert_eq!(advance(&database, "other", 1), RowWrite::Written);
}

/// Writers with rising and falling tokens at once: no write of an earlier holder lands after one of
/// a later holder.
#[test]
fn late_transactions_are_refused_under_load() {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let file = format!("redlatch-fence-{}-{number}.sqlite", std::process::id());
    let path = std::env::temp_dir().join(file);
    let open = || {
        let connection = Connection::open(&path).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection
    };
    let first = open();
    first.execute_batch(sqlite::CREATE_MARKS).unwrap();
    let create = "CREATE TABLE log (at INTEGER PRIMARY KEY, token INTEGER NOT NULL)";
    first.execute_batch(create).unwrap();
    thread::scope(|scope| {
        for writer in 0..4_u64 {
            let open = &open;
            scope.spawn(move || {
                let mut connection = open();
                for step in 0..25_u64 {
                    let by = 100 + step * 4 + (writer * 7 + step * 3) % 8;
                    let behaviour = TransactionBehavior::Immediate;
                    let transaction = connection.transaction_with_behavior(behaviour).unwrap();
                    if advance(&transaction, "stock", by) == RowWrite::Written {
                        let log = "INSERT INTO log (token) VALUES (?1)";
                        transaction.execute(log, [sql::stored(token(by))]).unwrap();
                        transaction.commit().unwrap();
                    }
                }
            });
        }
    });
    let mut read = first.prepare("SELECT token FROM log ORDER BY at").unwrap();
    let tokens = read.query_map([], |row| row.get(0)).unwrap();
    let tokens: Vec<i64> = tokens.map(Result::unwrap).collect();
    assert!(tokens.len() > 1 && tokens.is_sorted(), "{tokens:?}");
    drop(read);
    drop(first);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn all_dialects_have_the_same_statements() {
    use redlatch_fence::sql::{mariadb, postgres};
    for (theirs, others) in [
        (sqlite::ADVANCE, [mariadb::ADVANCE, postgres::ADVANCE]),
        (
            sqlite::UPSERT_ROW,
            [mariadb::UPSERT_ROW, postgres::UPSERT_ROW],
        ),
    ] {
        let head = theirs.split(" VALUES").next().unwrap();
        for other in others {
            assert!(other.starts_with(head) && other.ends_with("RETURNING token"));
        }
    }
}
