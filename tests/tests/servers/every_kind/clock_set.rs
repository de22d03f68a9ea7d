//! A server whose clock is set between the requests of every kind.

use super::prelude::*;

redlatch_tests::on_servers_with!(
    "a clock that can be set", ServerBinary::has_settable_clock;
    requests_after_the_servers_clock_was_set_are_accepted,
);

/// A request says until when by the server's clock it may act. One that comes too late is refused,
/// and tells the time for the next.
async fn requests_after_the_servers_clock_was_set_are_accepted(binary: ServerBinary) {
    let server = Server::start(&binary, ServerOptions::new().own_clock());
    preload(&server);
    let party = Party::alone(connect(&server.url()).await);
    for kind in kinds::on_one() {
        let mut seen = Vec::new();
        for (at, ahead) in [0, 60, 0, -120, 0].into_iter().enumerate() {
            server.set_clock(ahead);
            let before = server.script_calls();
            // Each time another name, since a clock that is set changes what is left of the last.
            let object = Object::new(kind, &format!("{}{at}", stem(kind)), &party);
            let hold = object.take(30 * SECOND).await.unwrap();
            hold.prolong(60 * SECOND).await.unwrap();
            let outcome = hold.give_back().await.unwrap();
            assert_eq!(outcome, ReleaseOutcome::Ended, "{kind:?}");
            object.delete().await.unwrap();
            party.client.settled().await;
            seen.push(server.script_calls() - before);
        }
        let calls = seen[0];
        let step = u64::from(!kind.looks_first());
        let expected = [calls, calls + step, calls, calls, calls + step];
        // One is refused after each step forward.
        assert_eq!(seen, expected, "{kind:?}: {step}");
    }
    println!("{binary}: one request refused after each step forward, none after one back");
    assert_tables_empty(&party.client).await;
}
