//! Refusals of managed services and compatible servers: the texts of the library and of `redlatch
//! doctor` for each wording, and the calls that work without the command. A proxy plays the
//! services.

use redlatch::{Backoff, Client, ErrorKind, WaitStrategy};
use redlatch_tests::{
    fixture::{MS, probe},
    proxy::{Pick, Proxy},
    server::{Server, ServerBinary, ServerKind, ServerOptions, Version},
};
use tokio::task::spawn_blocking;

use crate::{doctor::assert_told, server};

/// A refusal, and the texts that it causes.
struct Row {
    /// The scheme of the address.
    scheme: &'static str,
    /// The refused commands, with the reply.
    refused: &'static [(What, &'static str)],
    /// The kind and the words of the library's error; `None` if `connect` succeeds.
    library: Option<(ErrorKind, &'static str)>,
    /// The exit code of `redlatch doctor`, a part of a line and of the advice after the line.
    doctor: (i32, &'static str, &'static str),
}

#[derive(Clone, Copy)]
enum What {
    /// A command outside of scripts.
    Plain(&'static str),
    /// The script that tries all commands.
    Probe,
}
use What::{Plain, Probe};

const NOTHING: (i32, &str, &str) = (0, "pair", "");
const RENAMED: &str = "or use a service that has it";
const BOOK: &str = "the page \"Where it runs\" of the redlatch book";

const ROWS: &[Row] = &[
    // Commands that only inform, and one that is never sent.
    Row {
        scheme: "redis",
        refused: &[
            (Plain("HELLO"), "-ERR unknown command 'HELLO'"),
            (Plain("CLIENT"), "-ERR unknown command 'CLIENT'"),
            (Plain("CONFIG"), "-ERR unknown command 'CONFIG'"),
        ],
        library: None,
        doctor: NOTHING,
    },
    Row {
        scheme: "redis",
        refused: &[
            (Plain("HELLO"), "-ERR Command is not available: 'HELLO'."),
            (Plain("CLIENT"), "-ERR Command is not available: 'CLIENT'."),
        ],
        library: None,
        doctor: NOTHING,
    },
    Row {
        scheme: "redis",
        refused: &[(Plain("INFO"), "-ERR Command is not available: 'INFO'.")],
        library: None,
        doctor: (0, "does not say what it is", "version, role and eviction"),
    },
    Row {
        scheme: "redis",
        refused: &[(Plain("WAIT"), "-ERR unknown command 'WAIT'")],
        library: None,
        doctor: (
            0,
            "refuses WAIT: ERR unknown command 'WAIT'",
            "durability by replicas does not work",
        ),
    },
    // No scripts.
    Row {
        scheme: "redis",
        refused: &[
            (Plain("EVALSHA"), "-NOSCRIPT No matching script."),
            (Plain("EVAL"), "-ERR Could not find scripting engine 'lua'"),
        ],
        library: Some((
            ErrorKind::UnsupportedServer,
            "runs no Lua scripts, which redlatch needs; load the module lua into Valkey",
        )),
        doctor: (69, "FAULT    server       the server runs no Lua", BOOK),
    },
    Row {
        scheme: "redis",
        refused: &[(Plain("EVAL"), "-ERR unknown command 'EVAL'")],
        library: Some((ErrorKind::Permission, "unknown command 'EVAL'")),
        doctor: (77, "unknown command 'EVAL'", RENAMED),
    },
    // Scripts without a command.
    Row {
        scheme: "redis",
        refused: &[(
            Probe,
            "-ERR This Redis command is not allowed from script script: 53aa7d29, on @user_script:13.",
        )],
        library: Some((ErrorKind::UnsupportedServer, "not to TIME in a script")),
        doctor: (69, "not to TIME in a script", BOOK),
    },
    Row {
        scheme: "redis",
        refused: &[(
            Probe,
            "*2\r\n+0\r\n+PUBLISH: ERR PUBLISH is disabled, enable it.",
        )],
        library: Some((
            ErrorKind::UnsupportedServer,
            "not to PUBLISH in a script: ERR PUBLISH is disabled, enable it.; \
             a client with WaitStrategy::Poll needs no messages",
        )),
        doctor: (69, "?self_check=false at the end of the address", BOOK),
    },
    Row {
        scheme: "redis",
        refused: &[(Plain("TIME"), "-ERR unknown command 'TIME'")],
        library: Some((ErrorKind::Permission, "does not know TIME")),
        doctor: (77, "does not know TIME", RENAMED),
    },
    Row {
        scheme: "redis",
        refused: &[(Plain("SUBSCRIBE"), "-ERR unknown command 'SUBSCRIBE'")],
        library: Some((ErrorKind::Permission, "unknown command 'SUBSCRIBE'")),
        doctor: (77, "unknown command 'SUBSCRIBE'", RENAMED),
    },
    Row {
        scheme: "redis+cluster",
        refused: &[(
            Plain("CLUSTER"),
            "-ERR unknown command 'CLUSTER', with args beginning with: 'SLOTS'",
        )],
        library: Some((
            ErrorKind::UnsupportedServer,
            "belongs to no cluster; write redis:// instead of redis+cluster://",
        )),
        doctor: (69, "belongs to no cluster", "errors.md"),
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn refused_commands_are_named_with_what_to_do() {
    for binary in ServerBinary::all() {
        let server = Server::start(&binary, ServerOptions::new());
        let proxy = Proxy::start(server.address());
        for row in ROWS {
            for (what, line) in row.refused {
                let pick = match what {
                    Plain(command) => Pick::command(command),
                    Probe => probe(&server),
                };
                proxy.always_answer(pick, line);
            }
            let url = format!("{}://{}", row.scheme, proxy.address());
            row.hold_at(&url).await;
            proxy.withdraw_orders();
        }
    }
}

impl Row {
    async fn hold_at(&self, url: &str) {
        let connected = Client::connect(url).await;
        let refusal = self.refused[0].1;
        match (connected, self.library) {
            (Ok(client), None) => {
                let guard = client.lock("x").lock().await.unwrap();
                guard.release().await.unwrap();
            }
            (Err(error), Some((kind, words))) => {
                assert_eq!(error.kind(), kind, "{refusal}: {error:?}");
                assert!(error.to_string().contains(words), "{refusal}: {error}");
                println!("{refusal}\n    {error}");
            }
            (Ok(_), Some(_)) => panic!("{refusal}: connected"),
            (Err(error), None) => panic!("{refusal}: {error}"),
        }
        let (code, found, advice) = self.doctor;
        let url = url.to_owned();
        let told = spawn_blocking(move || assert_told(&url, code, found, advice));
        told.await.expect(refusal);
    }
}

/// The advice in the text about `PUBLISH` works.
#[tokio::test(flavor = "multi_thread")]
async fn server_that_publishes_nothing_is_polled() {
    for binary in ServerBinary::all() {
        let options = ServerOptions::new().config("rename-command PUBLISH \"\"");
        let world = server::Server::start(binary, options).await;
        let poll = WaitStrategy::Poll(Backoff::constant(5 * MS));
        let builder = Client::builder(&world.url()).wait_strategy(poll);
        let guard = builder.connect().await.unwrap().lock("x").lock().await;
        guard.unwrap().release().await.unwrap();
        world.ends(77, "run x -- true").await.says("PUBLISH");
        let url = format!("{}?self_check=false", world.url());
        world.ends_at(&url, 0, "run x -- true").await;
    }
}

/// Valkey 9.1 can unload its module.
#[tokio::test(flavor = "multi_thread")]
async fn valkey_without_its_lua_module_is_named() {
    let binaries = ServerBinary::all().into_iter();
    let modular = |binary: &ServerBinary| {
        binary.kind == ServerKind::Valkey && binary.version >= Version(9, 1, 0)
    };
    for binary in binaries.filter(modular) {
        let options = ServerOptions::new().config("enable-module-command yes");
        let server = Server::start(&binary, options);
        server.command(&["MODULE", "UNLOAD", "lua"]).unwrap();
        let error = Client::connect(&server.url()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedServer, "{error}");
        let url = server.url();
        let told = spawn_blocking(move || assert_told(&url, 69, "load the module lua", ""));
        told.await.unwrap();
    }
}
