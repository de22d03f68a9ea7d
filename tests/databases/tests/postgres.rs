//! The statements of PostgreSQL, on a real database.

use redlatch_databases::Postgres;

redlatch_databases::tests!(Postgres);
