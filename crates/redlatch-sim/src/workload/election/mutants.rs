//! The planted faults that runs of the election must find.

use redlatch_core::family::Rule;
use redlatch_lua::{ELECTION, FENCE};

use crate::mutants::{Mutant, client, script};

/// All planted faults.
pub(super) const ALL: &[Mutant] = &[
    script(
        "election-early-grant",
        &ELECTION.exclusive.acquire,
        "if held and owner ~= e.owner or",
        "if held and until_ms > (now + 100) .. '' and owner ~= e.owner or",
    ),
    script(
        "election-token-repeats",
        &ELECTION.exclusive.acquire,
        "local new = micros
  if token then
    if new <= token then",
        "local new = token or micros
  if token then
    if false then",
    ),
    script(
        "election-not-renewed",
        &ELECTION.exclusive.renew,
        "redis.call('HSET', key, 'u', later)",
        "",
    ),
    script(
        "election-fence-open",
        &FENCE.set,
        "mark[2] + 0 > token + 0",
        "false",
    ),
    script(
        "election-fence-refuses-the-same",
        &FENCE.set,
        "mark[2] + 0 > token + 0",
        "mark[2] + 0 >= token + 0",
    ),
    script(
        "election-fence-mark-stays",
        &FENCE.set,
        "'t', token)",
        "'t', mark[2] or token)",
    ),
    script(
        "election-fence-copies-write",
        &FENCE.set,
        "elseif call('ZSCORE', ops, op) then",
        "elseif false then",
    ),
    client("election-work-is-late", Rule::LookBeforeWork),
    client("election-task-is-late", Rule::LookBeforeTask),
    client("election-tasks-go-on", Rule::EndTasks),
    client("election-grace-is-too-long", Rule::EndGrace),
];
