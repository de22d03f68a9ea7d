//! PostgreSQL. The space of a test is a schema.

use postgres::{Client, NoTls, error::SqlState};
use redlatch_core::Token;
use redlatch_fence::sql::{self, RowWrite, postgres as statements};

use crate::{Database, Deadlock, address};

/// A connection to PostgreSQL.
pub struct Postgres(Client);

impl Postgres {
    fn row(&mut self, statement: &str, id: &str, value: &str, token: Token) -> RowWrite {
        let stored = sql::stored(token);
        let row = self.0.query_opt(statement, &[&id, &value, &stored]);
        sql::judge(token, row.unwrap().map(|row| row.get(0)))
    }
}

impl Database for Postgres {
    fn create(space: &str) -> Self {
        let mut client = Client::connect(&address("REDLATCH_POSTGRES"), NoTls).unwrap();
        let create = format!("DROP SCHEMA IF EXISTS {space} CASCADE; CREATE SCHEMA {space}");
        client.batch_execute(&create).unwrap();
        let mut database = Self::connect(space);
        for create in [statements::CREATE_MARKS, statements::CREATE_ROWS] {
            // A second time does nothing.
            database.run(create);
            database.run(create);
        }
        database
    }

    fn connect(space: &str) -> Self {
        let mut client = Client::connect(&address("REDLATCH_POSTGRES"), NoTls).unwrap();
        let path = format!("SET search_path TO {space}");
        client.batch_execute(&path).unwrap();
        Self(client)
    }

    fn run(&mut self, statement: &str) {
        self.0.batch_execute(statement).unwrap();
    }

    fn advance(&mut self, name: &str, token: Token) -> Result<RowWrite, Deadlock> {
        let parameters: [&(dyn postgres::types::ToSql + Sync); 2] = [&name, &sql::stored(token)];
        match self.0.query_one(statements::ADVANCE, &parameters) {
            Ok(row) => Ok(sql::judge(token, Some(row.get(0)))),
            Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => Err(Deadlock),
            Err(error) => panic!("{error}"),
        }
    }

    fn upsert(&mut self, id: &str, value: &str, token: Token) -> RowWrite {
        self.row(statements::UPSERT_ROW, id, value, token)
    }

    fn update(&mut self, id: &str, value: &str, token: Token) -> RowWrite {
        self.row(statements::UPDATE_ROW, id, value, token)
    }

    fn value(&mut self, id: &str) -> Option<String> {
        let read = "SELECT value FROM redlatch_rows WHERE id = $1";
        let row = self.0.query_opt(read, &[&id]).unwrap();
        row.map(|row| row.get(0))
    }

    fn numbers(&mut self, query: &str) -> Vec<i64> {
        let rows = self.0.query(query, &[]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    fn waiting(&mut self) -> i64 {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        self.numbers(waiting)[0]
    }
}
