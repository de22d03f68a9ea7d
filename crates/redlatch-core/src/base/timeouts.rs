//! The fixed time limits of everything that talks to servers, each with its reason.
//!
//! A limit that depends on a lease, or that users set, stands where it is reckoned. When a waiter
//! looks again is decided in [`protocol`](crate::protocol).

use std::time::Duration;

use crate::protocol::backoff::Backoff;

/// Returns whole seconds.
const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns whole milliseconds.
const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

// Answers. A server in use answers within milliseconds. After a second without an answer the
// request is sent again, perhaps elsewhere; callers wait longer, for as long as the client is
// patient.

/// One try of a script that is not bound to a lease.
pub(crate) const REQUEST: Duration = secs(1);

/// One try of a plain command.
pub(crate) const PLAIN_COMMAND: Duration = secs(1);

/// One query about which server is in charge, with the connection that is made for it.
pub(crate) const TOPOLOGY_QUERY: Duration = secs(1);

/// One reading of a server's clock, to compare it with the clocks of others.
pub(crate) const CLOCK_READING: Duration = secs(1);

/// The first answers on a new connection: the time and the role.
pub(crate) const HANDSHAKE: Duration = secs(1);

/// The answer to a subscription or a `PING` on a pub/sub connection. Without one the connection is
/// made again.
pub(crate) const PUBSUB_ANSWER: Duration = secs(1);

/// A subscription before its waiter goes by the clock. Waiting longer would only delay the first
/// look.
pub(crate) const SUBSCRIPTION: Duration = secs(1);

/// The answer to the health check of a connection. A hold with a short lease cannot bear so long a
/// silence, and says so when it suspects the connection.
pub(crate) const HEALTH_ANSWER: Duration = secs(1);

/// The least silence that costs a connection, whatever a hold can bear: a server that saves its
/// data or a busy machine pauses for as long.
pub(crate) const HEALTH_ANSWER_MIN: Duration = millis(100);

/// The silence that a connection may keep once its server was seen to refuse or misdirect a
/// request.
pub(crate) const SUSPECTED_SILENCE: Duration = secs(1);

/// One try to write a client's record, or to remove it. A record that is not written is tried
/// again, and one that is not removed ends by itself.
pub(crate) const RECORD_WRITE: Duration = secs(1);

/// How long `close` waits for acquisitions under way to give up. Each of them undoes what it may
/// have taken.
pub(crate) const CLOSE_ACQUISITIONS: Duration = secs(1);

/// How long copies of one change are sent.
pub(crate) const CHANGE_COPIES: Duration = secs(20);

/// How long a script remembers the id of a change, so that no copy acts on it again. Copies are
/// sent for [`CHANGE_COPIES`], and each may act for five seconds more.
pub(crate) const CHANGE_REMEMBERED: Duration = secs(30);

// Intervals.

/// A connection without any reply for so long is asked whether its server lives. It is shorter than
/// what firewalls keep idle connections for, and longer than connections in use are silent.
pub(crate) const HEALTH_CHECK: Duration = secs(5);

/// Between two questions for the role of a server that is used, where another may take over. A
/// demoted server answers looks from old data for so long.
pub(crate) const ROLE_CHECK: Duration = secs(1);

/// Between two comparisons of the servers' clocks when nothing has changed. Clocks drift by
/// milliseconds in that time.
pub(crate) const CLOCK_COMPARISON: Duration = secs(300);

/// Between two comparisons of the servers' clocks in any case. While servers fail they have other
/// things to do.
pub(crate) const CLOCK_COMPARISON_MIN: Duration = secs(30);

/// Between two looks at all queues after connections: many connections are made at once.
pub(crate) const QUEUE_LOOK: Duration = secs(1);

/// Between two looks whether messages can go by shard, while a client connects.
pub(crate) const SHARD_LOOK: Duration = millis(50);

/// Renewals that are due within this time go together, which saves packets and costs a hold little
/// of its lease.
pub(crate) const RENEWAL_GATHER: Duration = millis(25);

/// How long a client's record outlives the client, for those who ask who it was.
pub(crate) const RECORD_TTL: Duration = secs(3600);

/// How long after the server refused a record it is written again.
pub(crate) const RECORD_RETRY: Duration = secs(60);

// Judgements.

/// A connection that ends sooner counts as a failure to connect, so that the next one is not made
/// at once.
pub(crate) const SHORT_CONNECTION: Duration = secs(1);

/// A timer that is so late says that this process did not run: answers may be here, and unread.
pub(crate) const STOOD_STILL: Duration = millis(100);

/// Waiting so long for a name that another owner of the same client holds is worth a warning.
pub(crate) const SELF_WAIT: Duration = secs(5);

// Pauses between tries. All grow by a factor and vary at random, so that clients do not act in
// step.

/// Between tries of a request without a clear answer that somebody waits for.
pub(crate) const REQUEST_RETRY: Backoff = Backoff::exponential(millis(10), millis(500));

/// Between tries of a release without a clear answer that nobody waits for.
pub(crate) const RELEASE_RETRY: Backoff = Backoff::exponential(millis(20), secs(1));

/// Between connections to one server. A restarted server is back soon; a missing one is asked by
/// many.
pub(crate) const RECONNECT: Backoff = Backoff::exponential(millis(20), secs(1));

/// Between looks for the servers in charge.
pub(crate) const TOPOLOGY_LOOK: Backoff = Backoff::exponential(millis(100), secs(1));
