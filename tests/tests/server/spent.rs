//! Attempts that were undone: what they cost a server.

use std::collections::BTreeMap;

use redlatch_lua::Source;
use redlatch_tests::{
    attempts::{Act, FAR, Kind},
    server::{Server, ServerBinary, ServerOptions},
};

redlatch_tests::on_every_server!(ten_thousand_undone_attempts_do_not_slow_scripts_down);

/// What a call costs the server, as it says itself, before, during and after ten thousand attempts
/// that were undone at once.
async fn ten_thousand_undone_attempts_do_not_slow_scripts_down(binary: ServerBinary) {
    let server = Server::start(&binary, ServerOptions::new());
    let mut connection = server.connect().unwrap();
    for kind in Kind::ALL {
        let (acquire, release) = kind.scripts();
        let load = |script: &Source| server.command(&["SCRIPT", "LOAD", script.text]).text();
        let digests = [(acquire.name, load(acquire)), (release.name, load(release))];
        let digests = BTreeMap::from(digests);
        let mut act = |act: Act, attempt: &str| {
            let (script, keys, args) = kind.call(act, FAR, attempt);
            let head = [
                "EVALSHA".to_owned(),
                digests[script.name].clone(),
                keys.len().to_string(),
            ];
            let words: Vec<_> = head.into_iter().chain(keys).chain(args).collect();
            connection.command(&words).unwrap().unwrap();
        };
        let pairs = |act: &mut dyn FnMut(Act, &str), from: u32| {
            server.command(&["CONFIG", "RESETSTAT"]).unwrap();
            for n in from..from + 500 {
                act(Act::Acquire, &format!("a:{n}"));
                act(Act::Release, &format!("a:{n}"));
            }
            micros(&server)
        };
        let before = pairs(&mut act, 0);
        let time = server.command(&["TIME"]).array();
        let now = time[0].clone().text().parse::<u64>().unwrap() * 1_000;
        server.command(&["CONFIG", "RESETSTAT"]).unwrap();
        for n in 0..10_000 {
            act(Act::Undo(now + 6_000), &format!("b:{n}"));
        }
        let marking = micros(&server);
        let during = pairs(&mut act, 500);
        let bytes = server.command(&["MEMORY", "USAGE", &kind.key()]).int();
        println!(
            "{binary} {kind:?}: {before} µs a call before, {marking} to undo, {during} afterwards, with a record of {bytes} bytes"
        );
        // A mark for each undone attempt made it twenty to forty times as much.
        assert!(
            during < before * 5.0 + 20.0,
            "{kind:?}: {before} and {during} µs"
        );
        assert!(marking < before * 5.0 + 40.0, "{kind:?}: {marking} µs");
    }
}

/// Returns how long a script took on average, in µs.
fn micros(server: &Server) -> f64 {
    let stats = server.info("commandstats");
    let line = &stats["cmdstat_evalsha"];
    let (_, rest) = line.split_once("usec_per_call=").unwrap();
    let number = rest.split(',').next().unwrap();
    number.parse().unwrap()
}
