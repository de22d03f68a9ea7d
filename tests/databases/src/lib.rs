//! What the tests of all databases share: a database with the tables of `redlatch-fence`, and what
//! its statements have to do there.
//!
//! The addresses of the databases are in the variables `REDLATCH_POSTGRES` and `REDLATCH_MARIADB`.
//! `cargo xtask check databases` starts the databases and sets them. Without them, tests fail.

// Real databases need real clocks.
#![allow(clippy::disallowed_methods)]

pub mod behaviours;
mod mariadb;
mod postgres;

use redlatch_core::Token;
use redlatch_fence::sql::RowWrite;

pub use self::{mariadb::MariaDb, postgres::Postgres};

/// A connection to a database, in which a test has tables of its own.
pub trait Database: Send + Sized {
    /// Makes a space for the tables of a test, with the tables in it. Whatever was in it is gone.
    fn create(space: &str) -> Self;

    /// Connects to the space of another connection.
    fn connect(space: &str) -> Self;

    /// Runs statements without parameters and without results.
    fn run(&mut self, statement: &str);

    /// Runs `ADVANCE`, in the transaction that is open, if one is.
    fn advance(&mut self, name: &str, token: Token) -> Result<RowWrite, Deadlock>;

    /// Runs `UPSERT_ROW`.
    fn upsert(&mut self, id: &str, value: &str, token: Token) -> RowWrite;

    /// Runs `UPDATE_ROW`, with what belongs to it.
    fn update(&mut self, id: &str, value: &str, token: Token) -> RowWrite;

    /// Returns the value of a row.
    fn value(&mut self, id: &str) -> Option<String>;

    /// Returns a column of numbers.
    fn numbers(&mut self, query: &str) -> Vec<i64>;

    /// Returns how many connections wait for a lock.
    fn waiting(&mut self) -> i64;
}

/// The database has ended a transaction, which has to begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlock;

/// Returns the address in a variable.
fn address(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run the tests by `cargo xtask check databases`")
    })
}
