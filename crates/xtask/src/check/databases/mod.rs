//! `cargo xtask check databases`: runs the SQL statements of `redlatch-fence` in PostgreSQL and
//! MariaDB. It installs them with apt if they are absent. It starts servers of its own, on free
//! ports of loopback and with data in a temporary folder, and stops them by their ids.

mod place;
mod running;

use self::{
    place::{Place, program, user},
    running::Running,
};
use super::package::{cargo_in, lint};
use crate::{command, steps::Steps, suite::Verdict};

/// Runs the check.
pub(crate) fn run(args: &[String]) -> Result<Verdict, String> {
    if let Some(argument) = args.first() {
        return Err(format!("check databases takes no arguments: {argument:?}"));
    }
    let mut steps = Steps::default();
    steps.run("lints", || lint(FOLDER));
    for database in [POSTGRES, MARIADB] {
        steps.run(database.name, || test(database));
    }
    println!("\n{steps}");
    Ok(steps.verdict())
}

/// A database, and how it is started.
#[derive(Clone, Copy)]
pub(super) struct Database {
    /// The name of its test, too.
    name: &'static str,
    /// Who may run it if root may not. The first that exists is taken.
    users: &'static [&'static str],
    /// The variable that has the address for the tests.
    variable: &'static str,
    /// The address, without the port and what follows it.
    address: &'static str,
    start: fn(&Place) -> Result<Running, String>,
}

impl Database {
    /// Starts the database, passes the variable and the address to `work`, and stops the database.
    pub(super) fn with(
        self,
        work: impl FnOnce(&str, String) -> Result<(), String>,
    ) -> Result<(), String> {
        let place = Place::new(self.name, &user(self.users)?)?;
        let running = (self.start)(&place)?;
        let tail = if self.name == POSTGRES.name {
            "/postgres"
        } else {
            ""
        };
        let address = format!("{}:{}{tail}", self.address, running.port());
        work(self.variable, address)
    }
}

pub(super) const POSTGRES: Database = Database {
    name: "postgres",
    users: &["postgres", "nobody"],
    variable: "REDLATCH_POSTGRES",
    address: "postgres://redlatch@127.0.0.1",
    start: start_postgres,
};

const MARIADB: Database = Database {
    name: "mariadb",
    users: &["mysql", "nobody"],
    variable: "REDLATCH_MARIADB",
    address: "mysql://redlatch:redlatch@127.0.0.1",
    start: start_mariadb,
};

/// Runs the tests of a database, one at a time: one of them looks for waiting connections.
fn test(database: Database) -> Result<(), String> {
    let args = ["test", "--locked", "--test", database.name];
    let mut test = cargo_in(FOLDER, &args);
    test.args(["--", "--test-threads=1", "--show-output"]);
    database.with(|variable, address| command::run(test.env(variable, address)))
}

fn start_postgres(place: &Place) -> Result<Running, String> {
    let initdb = program("initdb", &["postgresql"])?;
    let data = place.path("data");
    let mut init = place.command(&initdb);
    init.args(["--username=redlatch", "--auth=trust", "--encoding=UTF8"]);
    command::run(init.arg("--no-sync").arg("--pgdata").arg(&data))?;
    let server = initdb.with_file_name("postgres");
    Running::start(
        |port| {
            let mut start = place.command(&server);
            start.arg("-D").arg(&data).arg("-k").arg(place.folder());
            start.args(["-h", "127.0.0.1", "-F", "-p"]);
            start.arg(port.to_string());
            start
        },
        "ready to accept connections",
        place,
    )
}

fn start_mariadb(place: &Place) -> Result<Running, String> {
    let server = program("mariadbd", &MARIADB_PACKAGES)?;
    program("my_print_defaults", &MARIADB_PACKAGES)?;
    let install = program("mariadb-install-db", &MARIADB_PACKAGES)?;
    let data = place.path("data");
    let mut init = place.command(&install);
    init.args(["--no-defaults", "--skip-test-db", "--skip-name-resolve"]);
    command::run(init.arg(option("--datadir", &data)))?;
    let begin = place.write("begin.sql", MARIADB_USER)?;
    Running::start(
        |port| {
            let mut start = place.command(&server);
            start.args(["--no-defaults", "--bind-address=127.0.0.1"]);
            start.args(["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0"]);
            start.arg(option("--datadir", &data));
            start.arg(option("--socket", &place.path("socket")));
            start.arg(option("--pid-file", &place.path("pid")));
            start.arg(option("--init-file", &begin));
            start.arg(format!("--port={port}"));
            start
        },
        "ready for connections",
        place,
    )
}

fn option(name: &str, path: &std::path::Path) -> String {
    format!("{name}={}", path.display())
}

const FOLDER: &str = "tests/databases";

/// The server, and the programs that its installation needs.
const MARIADB_PACKAGES: [&str; 2] = ["mariadb-server-core", "mariadb-client-core"];

const MARIADB_USER: &str = "\
CREATE USER redlatch@'127.0.0.1' IDENTIFIED BY 'redlatch';
GRANT ALL ON *.* TO redlatch@'127.0.0.1';
";
