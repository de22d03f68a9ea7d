//! Servers that lack commands, or have renamed them.

use crate::prelude::*;

redlatch_tests::on_every_server!(
    command_that_is_missing_is_found_when_connecting,
    commands_that_only_tell_may_be_missing,
);

fn without(binary: &ServerBinary, commands: &str) -> Backend {
    let options = ServerOptions::new();
    let options = commands.split(' ').fold(options, |options, command| {
        options.config(format!("rename-command {command} \"\""))
    });
    Backend::Real(Server::start(binary, options))
}

async fn command_that_is_missing_is_found_when_connecting(binary: ServerBinary) {
    let needed = "EVAL EVALSHA TIME SUBSCRIBE HSET ZADD PEXPIRE PUBLISH";
    for command in needed.split(' ') {
        let backend = without(&binary, command);
        // The prefix and the user must not be read as words of the server.
        for prefix in ["redlatch", "channel", "a-key"] {
            let builder = Client::builder(&backend.server().url()).prefix(prefix);
            let error = builder.connect().await.map(drop).unwrap_err();
            let text = error.to_string();
            assert!(!error.is_transient(), "{command}: {error:?}");
            assert!(text.contains(command), "{command}: {text}");
            for advice in ["ACL SETUSER", "sentinel", "did not answer", "with args"] {
                assert!(!text.contains(advice), "{command}, {prefix}: {text}");
            }
            let twice = format!("{command}, {command}");
            assert!(!text.contains(&twice), "{command}: {text}");
            assert!(text.contains("has renamed it"), "{command}: {text}");
            assert_eq!(error.kind(), ErrorKind::Permission, "{command}: {error:?}");
        }
    }
}

async fn commands_that_only_tell_may_be_missing(binary: ServerBinary) {
    let backend = without(&binary, "INFO HELLO CLIENT");
    let client = Client::connect(&backend.server().url()).await.unwrap();
    let guard = client.lock("x").lock().await.unwrap();
    guard.release().await.unwrap();
}
