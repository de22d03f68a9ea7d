//! The statements of MariaDB, on a real database.

use redlatch_databases::{Database, MariaDb, behaviours::token};
use redlatch_fence::sql::RowWrite;

redlatch_databases::tests!(MariaDb);

/// Zero affected rows means fenced, absent or unchanged, and one affected row means written,
/// fenced or unchanged, as the connection has it. The returned token tells them apart.
#[test]
fn affected_rows_tell_nothing_and_the_token_tells() {
    let space = "affected_rows";
    let mut database = MariaDb::create(space);
    let mut found = MariaDb::connect_with_found_rows(space);
    assert_eq!(database.upsert("x", "a", token(5)), RowWrite::Written);
    let fenced = RowWrite::Fenced { mark: token(5) };
    for (id, value, by, affected, found_rows, outcome) in [
        ("y", "a", 5, 0, 0, RowWrite::Absent),
        ("x", "a", 5, 0, 1, RowWrite::Written),
        ("x", "b", 4, 0, 1, fenced),
    ] {
        assert_eq!(database.affected_by_update(id, value, token(by)), affected);
        assert_eq!(found.affected_by_update(id, value, token(by)), found_rows);
        assert_eq!(database.update(id, value, token(by)), outcome);
        assert_eq!(found.update(id, value, token(by)), outcome);
    }
    assert_eq!(database.value("x").as_deref(), Some("a"));
}
