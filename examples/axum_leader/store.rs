//! The database of the jobs. All replicas write to it, each as long as it leads.

use std::{collections::BTreeSet, net::SocketAddr, path::Path, time::Duration};

use redlatch::{
    Token,
    fence::sql::{self, RowWrite, sqlite},
};
use redlatch_examples::Result;
use rusqlite::Connection;

pub(crate) struct Store(Connection);

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let database = Connection::open(path)?;
        database.busy_timeout(Duration::from_secs(10))?;
        database.execute_batch(sqlite::CREATE_MARKS)?;
        database.execute_batch(
            "CREATE TABLE IF NOT EXISTS jobs (at INTEGER PRIMARY KEY, id INTEGER NOT NULL UNIQUE, \
             token INTEGER NOT NULL, replica TEXT NOT NULL)",
        )?;
        Ok(Self(database))
    }

    /// Writes a job, once for each id. Returns `false` if a later leader has written.
    pub(crate) fn write(&mut self, token: Token, id: u64, by: SocketAddr) -> Result<bool> {
        let stored = sql::stored(token);
        let transaction = self.0.transaction()?;
        let mark = transaction.query_row(sqlite::ADVANCE, ("jobs", stored), |row| row.get(0))?;
        if sql::judge(token, Some(mark)) != RowWrite::Written {
            return Ok(false);
        }
        let insert =
            "INSERT INTO jobs (id, token, replica) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        transaction.execute(insert, (i64::try_from(id)?, stored, by.to_string()))?;
        transaction.commit()?;
        Ok(true)
    }

    /// Checks that jobs 0 to `count` are there and that tokens rise. Returns the number of terms.
    pub(crate) fn verify(&self, count: u64) -> Result<usize> {
        let mut rows = self.0.prepare("SELECT id, token FROM jobs ORDER BY at")?;
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (mut ids, mut tokens) = (BTreeSet::new(), Vec::<i64>::new());
        for row in rows {
            let (id, token): (i64, i64) = row?;
            ids.insert(u64::try_from(id)?);
            tokens.push(token);
        }
        if !ids.iter().copied().eq(0..count) {
            return Err(format!("{} of {count} jobs are in the database", ids.len()).into());
        }
        if !tokens.is_sorted() {
            return Err("a leader has written after a later one".into());
        }
        tokens.dedup();
        Ok(tokens.len())
    }
}
