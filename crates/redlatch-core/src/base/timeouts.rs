//! The fixed time limits of all communication with servers, each with its reason.
//!
//! A limit that depends on a lease, or that users set, is defined where it is computed.
//! [`protocol`](crate::protocol) decides when a waiter re-checks.

use std::time::Duration;

use crate::protocol::backoff::Backoff;

/// Returns a duration of whole seconds.
const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns a duration of whole milliseconds.
const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

// Answers. A server in use answers within milliseconds. After 1 s without an answer, the client
// repeats the request, perhaps to another server. Callers wait longer, for the client's `patience`.

/// The limit for one attempt of a script that does not depend on a lease.
pub(crate) const REQUEST: Duration = secs(1);

/// The limit for one attempt of a plain command.
pub(crate) const PLAIN_COMMAND: Duration = secs(1);

/// The limit for one topology query, with the connection that it opens.
pub(crate) const TOPOLOGY_QUERY: Duration = secs(1);

/// The time that the other sentinels have to answer once more than half of them have answered.
/// Silent sentinels delay a new connection to the master by no more.
pub(crate) const LAST_ANSWERS: Duration = millis(50);

/// The limit for one reading of a server's clock, which is compared with the clocks of others.
pub(crate) const CLOCK_READING: Duration = secs(1);

/// The limit for one answer of the provider of credentials, which may ask a service in turn. The
/// old credentials are in use meanwhile.
pub(crate) const CREDENTIALS: Duration = secs(10);

/// The limit for the first answers on a new connection: the time and the role.
pub(crate) const HANDSHAKE: Duration = secs(1);

/// The limit for the answer to a subscription or a `PING` on a pub/sub connection. Without an
/// answer, the client reconnects.
pub(crate) const PUBSUB_ANSWER: Duration = secs(1);

/// The limit for a subscription. After it, the waiter re-checks by the clock: a longer wait would
/// only delay the first re-check.
pub(crate) const SUBSCRIPTION: Duration = secs(1);

/// The limit for the answer to the health check of a connection. A hold with a short lease cannot
/// tolerate such a long silence, and passes its own limit when it suspects the connection.
pub(crate) const HEALTH_ANSWER: Duration = secs(1);

/// The shortest silence that closes a connection, whatever limit a hold passes. A server that saves
/// its data, or a busy machine, pauses for as long.
pub(crate) const HEALTH_ANSWER_MIN: Duration = millis(100);

/// The longest silence of a connection after its server was seen to refuse or misdirect a request.
pub(crate) const SUSPECTED_SILENCE: Duration = secs(1);

/// The limit for one attempt to write or remove a client's record. A failed write is repeated, and
/// a record that is not removed expires.
pub(crate) const RECORD_WRITE: Duration = secs(1);

/// The limit for the removal of a record that no server has confirmed.
pub(crate) const UNCONFIRMED_RECORD: Duration = millis(100);

/// How long `close` waits for acquisitions in progress to give up. Each of them undoes anything
/// that it may have acquired.
pub(crate) const CLOSE_ACQUISITIONS: Duration = secs(1);

/// How long the client sends copies of one change.
pub(crate) const CHANGE_COPIES: Duration = secs(20);

/// How long a script remembers the id of a change, so that no copy acts on it again. The client
/// sends copies for [`CHANGE_COPIES`], and each may act for 5 s more.
pub(crate) const CHANGE_REMEMBERED: Duration = secs(30);

// Intervals.

/// The silence after which the client checks that a connection's server is alive. It is shorter
/// than the time for which firewalls keep idle connections, and longer than the silence of
/// connections in use.
pub(crate) const HEALTH_CHECK: Duration = secs(5);

/// The interval between two role checks of a server in use, where another may take over. A demoted
/// server answers queries from old data for this long.
pub(crate) const ROLE_CHECK: Duration = secs(1);

/// The interval between two comparisons of the servers' clocks if nothing has changed. Clocks drift
/// by milliseconds in that time.
pub(crate) const CLOCK_COMPARISON: Duration = secs(300);

/// The minimum interval between two comparisons of the servers' clocks. It keeps the load low while
/// servers fail.
pub(crate) const CLOCK_COMPARISON_MIN: Duration = secs(30);

/// The backlog of requests from which messages about holds are dropped. Each user with the right to
/// publish can send such messages.
pub(crate) const CHECK_BACKLOG: Duration = secs(1);

/// The minimum interval between two checks of all queues after connections. Many connections are
/// made at the same time.
pub(crate) const QUEUE_LOOK: Duration = secs(1);

/// The interval between two checks for sharded channels while a client connects.
pub(crate) const SHARD_LOOK: Duration = millis(50);

/// Renewals that are due within this time are sent together. That saves packets and costs a hold
/// little of its lease.
pub(crate) const RENEWAL_GATHER: Duration = millis(25);

/// How long a client's record outlives the client, for later inspection.
pub(crate) const RECORD_TTL: Duration = secs(3600);

/// The delay before a record is written again after the server refused it.
pub(crate) const RECORD_RETRY: Duration = secs(60);

// Thresholds.

/// A timer that is this late shows that the process did not run. Answers may have arrived without
/// being read.
pub(crate) const STOOD_STILL: Duration = millis(100);

// Pauses between attempts. All grow by a factor and vary at random, so that clients do not act in
// step.

/// The pause between attempts of a request without a clear answer, while a caller waits for it.
pub(crate) const REQUEST_RETRY: Backoff = Backoff::exponential(millis(10), millis(500));

/// The shortest time before its deadline at which a refused request is tried again.
pub(crate) const LAST_TRY: Duration = millis(50);

/// The pause between attempts of a background release without a clear answer.
pub(crate) const RELEASE_RETRY: Backoff = Backoff::exponential(millis(20), secs(1));

/// The pause between connection attempts to one server. A restarted server is back soon; many
/// clients ask for a missing one.
pub(crate) const RECONNECT: Backoff = Backoff::exponential(millis(20), secs(1));

/// The pause between questions to the provider of credentials that fails, or whose credentials are
/// refused.
pub(crate) const CREDENTIALS_RETRY: Backoff = Backoff::exponential(millis(100), secs(5));

/// The pause between topology queries.
pub(crate) const TOPOLOGY_LOOK: Backoff = Backoff::exponential(millis(100), secs(1));

/// The time of a list from which the server counts as far away.
pub(crate) const FAR_SERVER: Duration = Duration::from_millis(1);

// Grants by a release.

/// The longest lease of a hold that its holder has not confirmed. `core/give.lua` has the same.
pub(crate) const UNCONFIRMED_LEASE: Duration = secs(5);

/// A release grants no shorter lease ahead. If the message is lost, the waiter asks 2.4 s later at
/// most. A hold that had ended by then would have cost its place.
pub(crate) const SHORTEST_GRANTED_AHEAD: Duration = secs(4);

/// The time within which the holder confirms a hold that a release has granted.
pub(crate) const CONFIRMATION: Duration = millis(500);
