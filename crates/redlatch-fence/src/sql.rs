//! Fenced writes in SQL databases: statements, and what their answers mean.
//!
//! Each dialect has the same statements. None of them relies on the number of affected rows: zero
//! rows may mean that the write was fenced, that the row is absent, or, in MariaDB and MySQL, that
//! the row had the same value before. Instead, each statement returns the token that is stored
//! after it. [`judge`] compares it with the caller's.
//!
//! # A mark beside any data
//!
//! `CREATE_MARKS` creates a table of marks. In one transaction, run `ADVANCE` with the name of the
//! resource and the token. If [`judge`] says [`RowWrite::Fenced`], roll back. Otherwise write
//! whatever belongs to the resource, and commit. The row of the mark is locked until then, so a
//! later holder's transaction waits, and an earlier holder's is refused.
//!
//! # A token in the row itself
//!
//! `CREATE_ROWS` is the pattern of a table whose rows have a token: copy the column and the
//! conditions of `UPSERT_ROW`, which inserts or updates, and of `UPDATE_ROW`, which only updates.
//! One statement needs no transaction, except in MariaDB, where `UPDATE_ROW` is followed by
//! `READ_TOKEN` in the same transaction.
//!
//! The statements of SQLite are run by this crate's tests. Those of PostgreSQL and MariaDB are run
//! by the repository's `cargo xtask check databases`, against PostgreSQL 15 and MariaDB 10.11.
//!
//! # Examples
//!
//! ```
//! # fn main() -> Result<(), rusqlite::Error> {
//! use redlatch::Token;
//! use redlatch::fence::sql::{self, RowWrite, sqlite};
//!
//! let mut database = rusqlite::Connection::open_in_memory()?;
//! database.execute_batch(sqlite::CREATE_MARKS)?;
//! let token = Token::from_u64(42);
//!
//! let transaction = database.transaction()?;
//! let stored = transaction
//!     .query_row(sqlite::ADVANCE, ("stock", sql::stored(token)), |row| row.get(0))?;
//! if sql::judge(token, Some(stored)) == RowWrite::Written {
//!     // … write what belongs to the resource, in this transaction, and …
//!     transaction.commit()?;
//! }
//! # Ok(())
//! # }
//! ```

use redlatch_core::Token;

/// The outcome of a fenced statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a write with an outdated token is refused, and the caller has to stop then"]
pub enum RowWrite {
    /// The token was accepted. The row has the caller's value, whether or not it had it before.
    Written,
    /// A higher token has written before. Nothing was changed.
    Fenced {
        /// The highest token that has written.
        mark: Token,
    },
    /// There is no such row.
    Absent,
}

/// Judges a fenced statement by the token that it returned; `None` if it returned no row.
///
/// ```
/// use redlatch::Token;
/// use redlatch::fence::sql::{RowWrite, judge};
///
/// let token = Token::from_u64(7);
/// assert_eq!(judge(token, Some(7)), RowWrite::Written);
/// assert_eq!(judge(token, Some(9)), RowWrite::Fenced { mark: Token::from_u64(9) });
/// assert_eq!(judge(token, None), RowWrite::Absent);
/// ```
pub fn judge(token: Token, returned: Option<i64>) -> RowWrite {
    match returned {
        None => RowWrite::Absent,
        Some(mark) if mark > stored(token) => RowWrite::Fenced {
            // A number above a token is positive.
            mark: Token::from_u64(mark.unsigned_abs()),
        },
        Some(_) => RowWrite::Written,
    }
}

/// Returns `token` as it is stored. Tokens are below 2^53, so a `BIGINT` has room for each.
///
/// ```
/// use redlatch::Token;
/// use redlatch::fence::sql;
///
/// let parameter: i64 = sql::stored(Token::from_u64(7)); // for a column of type BIGINT
/// assert_eq!(parameter, 7);
/// ```
pub fn stored(token: Token) -> i64 {
    i64::try_from(token.as_u64()).unwrap_or(i64::MAX)
}

/// The statements of PostgreSQL, 9.5 or later.
pub mod postgres {
    /// Creates the table of marks, unless it exists.
    pub const CREATE_MARKS: &str = "\
        CREATE TABLE IF NOT EXISTS redlatch_fence (\
        name VARCHAR(512) PRIMARY KEY, token BIGINT NOT NULL)";

    /// Advances a mark. Parameters: name, token. Returns the stored token.
    pub const ADVANCE: &str = "\
        INSERT INTO redlatch_fence (name, token) VALUES ($1, $2) \
        ON CONFLICT (name) DO UPDATE \
        SET token = GREATEST(redlatch_fence.token, EXCLUDED.token) \
        RETURNING token";

    /// Creates a table with a token in each row, as a pattern.
    pub const CREATE_ROWS: &str = "\
        CREATE TABLE IF NOT EXISTS redlatch_rows (\
        id VARCHAR(512) PRIMARY KEY, value TEXT NOT NULL, token BIGINT NOT NULL)";

    /// Inserts or updates a row. Parameters: id, value, token. Returns the stored token.
    pub const UPSERT_ROW: &str = "\
        INSERT INTO redlatch_rows (id, value, token) VALUES ($1, $2, $3) \
        ON CONFLICT (id) DO UPDATE SET \
        value = CASE WHEN redlatch_rows.token <= EXCLUDED.token \
        THEN EXCLUDED.value ELSE redlatch_rows.value END, \
        token = GREATEST(redlatch_rows.token, EXCLUDED.token) \
        RETURNING token";

    /// Updates a row. Parameters: id, value, token. Returns the stored token, and no row if there
    /// is none.
    pub const UPDATE_ROW: &str = "\
        UPDATE redlatch_rows SET \
        value = CASE WHEN token <= $3 THEN $2 ELSE value END, \
        token = GREATEST(token, $3) \
        WHERE id = $1 RETURNING token";
}

/// The statements of MariaDB, 10.5 or later.
pub mod mariadb {
    /// Creates the table of marks, unless it exists.
    pub const CREATE_MARKS: &str = "\
        CREATE TABLE IF NOT EXISTS redlatch_fence (\
        name VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, \
        token BIGINT NOT NULL) ENGINE = InnoDB";

    /// Advances a mark. Parameters: name, token. Returns the stored token.
    pub const ADVANCE: &str = "\
        INSERT INTO redlatch_fence (name, token) VALUES (?, ?) \
        ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token)) \
        RETURNING token";

    /// Creates a table with a token in each row, as a pattern.
    pub const CREATE_ROWS: &str = "\
        CREATE TABLE IF NOT EXISTS redlatch_rows (\
        id VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, \
        value TEXT NOT NULL, token BIGINT NOT NULL) ENGINE = InnoDB";

    /// Inserts or updates a row. Parameters: id, value, token. Returns the stored token.
    ///
    /// Assignments are made from left to right, so the value is decided by the earlier token.
    pub const UPSERT_ROW: &str = "\
        INSERT INTO redlatch_rows (id, value, token) VALUES (?, ?, ?) \
        ON DUPLICATE KEY UPDATE \
        value = IF(token <= VALUES(token), VALUES(value), value), \
        token = GREATEST(token, VALUES(token)) \
        RETURNING token";

    /// Updates a row. Parameters: token, value, token, id. Returns nothing: run
    /// [`READ_TOKEN`] in the same transaction.
    pub const UPDATE_ROW: &str = "\
        UPDATE redlatch_rows SET \
        value = IF(token <= ?, ?, value), \
        token = GREATEST(token, ?) \
        WHERE id = ?";

    /// Reads the token of a row. Parameter: id. Returns no row if there is none.
    pub const READ_TOKEN: &str = "SELECT token FROM redlatch_rows WHERE id = ? FOR UPDATE";
}

/// The statements of SQLite, 3.35 or later.
pub mod sqlite {
    /// Creates the table of marks, unless it exists.
    pub const CREATE_MARKS: &str = "\
        CREATE TABLE IF NOT EXISTS redlatch_fence (\
        name TEXT PRIMARY KEY, token INTEGER NOT NULL)";

    /// Advances a mark. Parameters: name, token. Returns the stored token.
    pub const ADVANCE: &str = "\
        INSERT INTO redlatch_fence (name, token) VALUES (?1, ?2) \
        ON CONFLICT (name) DO UPDATE SET token = max(token, excluded.token) \
        RETURNING token";

    /// Creates a table with a token in each row, as a pattern.
    pub const CREATE_ROWS: &str = "\
        CREATE TABLE IF NOT EXISTS redlatch_rows (\
        id TEXT PRIMARY KEY, value TEXT NOT NULL, token INTEGER NOT NULL)";

    /// Inserts or updates a row. Parameters: id, value, token. Returns the stored token.
    pub const UPSERT_ROW: &str = "\
        INSERT INTO redlatch_rows (id, value, token) VALUES (?1, ?2, ?3) \
        ON CONFLICT (id) DO UPDATE SET \
        value = CASE WHEN token <= excluded.token THEN excluded.value ELSE value END, \
        token = max(token, excluded.token) \
        RETURNING token";

    /// Updates a row. Parameters: id, value, token. Returns the stored token, and no row if there
    /// is none.
    pub const UPDATE_ROW: &str = "\
        UPDATE redlatch_rows SET \
        value = CASE WHEN token <= ?3 THEN ?2 ELSE value END, \
        token = max(token, ?3) \
        WHERE id = ?1 RETURNING token";
}
