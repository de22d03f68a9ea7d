//! MariaDB. The space of a test is a database.

use mysql::{Conn, Opts, OptsBuilder, consts::CapabilityFlags, prelude::Queryable};
use redlatch_core::Token;
use redlatch_fence::sql::{self, RowWrite, mariadb as statements};

use crate::{Database, Deadlock, address};

/// A connection to MariaDB.
pub struct MariaDb(Conn);

impl MariaDb {
    /// Connects with the flag `CLIENT_FOUND_ROWS`, so that affected rows are those that were found.
    #[must_use]
    pub fn connect_with_found_rows(space: &str) -> Self {
        let found_rows = CapabilityFlags::CLIENT_FOUND_ROWS;
        Self(open(options(space).additional_capabilities(found_rows)))
    }

    /// Runs `UPDATE_ROW` alone, and returns the number of affected rows.
    pub fn affected_by_update(&mut self, id: &str, value: &str, token: Token) -> u64 {
        let stored = sql::stored(token);
        let parameters = (stored, value, stored, id);
        self.0
            .exec_drop(statements::UPDATE_ROW, parameters)
            .unwrap();
        self.0.affected_rows()
    }
}

fn open(options: OptsBuilder) -> Conn {
    Conn::new(options).unwrap()
}

fn options(space: &str) -> OptsBuilder {
    let opts = Opts::from_url(&address("REDLATCH_MARIADB")).unwrap();
    // Addresses of loopback are often given for a socket, which is not what is meant here.
    let builder = OptsBuilder::from_opts(opts).prefer_socket(false);
    builder.db_name((!space.is_empty()).then_some(space))
}

impl Database for MariaDb {
    fn create(space: &str) -> Self {
        let mut server = open(options(""));
        let drop = format!("DROP DATABASE IF EXISTS {space}");
        server.query_drop(drop).unwrap();
        server
            .query_drop(format!("CREATE DATABASE {space}"))
            .unwrap();
        let mut database = Self::connect(space);
        for create in [statements::CREATE_MARKS, statements::CREATE_ROWS] {
            // A second time does nothing.
            database.run(create);
            database.run(create);
        }
        database
    }

    fn connect(space: &str) -> Self {
        Self(open(options(space)))
    }

    fn run(&mut self, statement: &str) {
        self.0.query_drop(statement).unwrap();
    }

    fn advance(&mut self, name: &str, token: Token) -> Result<RowWrite, Deadlock> {
        let parameters = (name, sql::stored(token));
        match self.0.exec_first(statements::ADVANCE, parameters) {
            Ok(stored) => Ok(sql::judge(token, Some(stored.unwrap()))),
            Err(mysql::Error::MySqlError(error)) if error.code == DEADLOCK => Err(Deadlock),
            Err(error) => panic!("{error}"),
        }
    }

    fn upsert(&mut self, id: &str, value: &str, token: Token) -> RowWrite {
        let parameters = (id, value, sql::stored(token));
        let stored = self.0.exec_first(statements::UPSERT_ROW, parameters);
        sql::judge(token, stored.unwrap())
    }

    fn update(&mut self, id: &str, value: &str, token: Token) -> RowWrite {
        self.run("START TRANSACTION");
        self.affected_by_update(id, value, token);
        let stored = self.0.exec_first(statements::READ_TOKEN, (id,)).unwrap();
        self.run("COMMIT");
        sql::judge(token, stored)
    }

    fn value(&mut self, id: &str) -> Option<String> {
        let read = "SELECT value FROM redlatch_rows WHERE id = ?";
        self.0.exec_first(read, (id,)).unwrap()
    }

    fn numbers(&mut self, query: &str) -> Vec<i64> {
        self.0.query(query).unwrap()
    }

    fn waiting(&mut self) -> i64 {
        let waiting = "SELECT COUNT(*) FROM information_schema.innodb_trx \
                       WHERE trx_state = 'LOCK WAIT'";
        self.numbers(waiting)[0]
    }
}

/// "Deadlock found when trying to get lock; try restarting transaction".
const DEADLOCK: u16 = 1213;
