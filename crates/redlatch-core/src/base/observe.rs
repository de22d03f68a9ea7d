//! All events, spans and metrics of the family. `docs/book/src/operate/observability.md` lists
//! them.

mod meter;
#[cfg(feature = "record")]
pub(crate) mod record;

use std::{fmt, sync::Arc, time::Duration};

use tracing::{Span, field};

use crate::{
    Error,
    base::primitive::{Primitive, Token, Watched},
    protocol::{hold::LossCause, outage::Failures, server_clock::whole_millis},
    runtime::Address,
};

pub(crate) use self::meter::describe;

/// Emits an event of the family: its level, its name, its fields and its text.
macro_rules! event {
    ($level:ident: $name:literal, $($rest:tt)+) => {
        tracing::$level!(target: "redlatch", event = $name, $($rest)+)
    };
}

/// The labels of all metrics of one kind of object.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    pub(crate) kind: &'static str,
    pub(crate) class: Arc<str>,
}

impl Labels {
    pub(crate) fn of(primitive: &dyn Primitive) -> Self {
        let (kind, class) = (primitive.kind(), primitive.class());
        Self { kind, class }
    }

    fn watched(watched: &dyn Watched) -> Self {
        let (kind, class) = (watched.kind(), Arc::clone(&watched.identity().class));
        Self { kind, class }
    }
}

/// Opens the span of one acquisition, from the call to its end.
pub(crate) fn wait_span(primitive: &dyn Primitive, owner: &impl fmt::Display) -> Span {
    tracing::debug_span!(
        target: "redlatch", "wait", kind = primitive.kind(), class = &*primitive.class(), name = %primitive.name(), %owner,
        blocked_by = field::Empty, attempts = field::Empty, outcome = field::Empty
    )
}

/// Records in a wait span who holds the name.
pub(crate) fn blocked(span: &Span, holder: &str) {
    span.record("blocked_by", holder);
}

/// An acquisition that waits, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Waiting(Labels);

impl Waiting {
    pub(crate) fn begin(primitive: &dyn Primitive) -> Self {
        let labels = Labels::of(primitive);
        meter::change("redlatch_waiting", &labels, 1.0);
        Self(labels)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        meter::change("redlatch_waiting", &self.0, -1.0);
    }
}

/// Records that an acquisition has ended without a grant: `busy` or `failed`.
pub(crate) fn refused(labels: &Labels, outcome: &'static str) {
    meter::count_with("redlatch_refused_total", labels, "outcome", outcome);
}

/// Records the beginning of a hold, which [`ended`] ends.
pub(crate) fn begun(primitive: &dyn Primitive) {
    // Without metrics, a hold costs nothing here.
    if cfg!(feature = "metrics") {
        meter::change("redlatch_held", &Labels::of(primitive), 1.0);
    }
}

/// Tells that an acquisition waits for long for a hold of another client.
///
/// `of` is the application, host and process of that client, and the note says why it holds; both
/// may be unknown.
pub(crate) fn long_wait(
    labels: &Labels,
    name: &str,
    holder: &str,
    (of, note): (Option<(&str, &str, u32)>, Option<String>),
    waited: Duration,
) {
    event!(info: "long_wait", kind = labels.kind, class = &*labels.class, %name, holder,
        application = of.map(|(application, ..)| application), host = of.map(|(_, host, _)| host),
        pid = of.map(|(.., pid)| pid), note, seconds = waited.as_secs_f64(),
        "waiting for a name that another client holds");
}

/// Opens the span of one wait for the end of a phase.
pub(crate) fn watch_span(watched: &dyn Watched) -> Span {
    call_span(&Labels::watched(watched), watched.name())
}

/// Opens the span of one call that may wait and acquires no hold.
pub(crate) fn call_span(labels: &Labels, name: &str) -> Span {
    tracing::debug_span!(
        target: "redlatch", "wait", kind = labels.kind, class = &*labels.class, %name,
        attempts = field::Empty, outcome = field::Empty
    )
}

/// Records that a call has let its callers pass so many times after `waited`, or has not. `None` if
/// it has failed.
pub(crate) fn passed(
    labels: &Labels,
    span: &Span,
    outcome: Option<(usize, usize)>,
    waited: Duration,
) {
    let (passed, refused_times) = outcome.unwrap_or_default();
    for _ in 0..passed {
        acquired(labels, waited, 1, false);
    }
    for _ in 0..refused_times {
        refused(labels, "busy");
    }
    let outcome = match outcome {
        None => {
            refused(labels, "failed");
            "failed"
        }
        Some((_, 0)) => "granted",
        Some(_) => "busy",
    };
    span.record("outcome", outcome);
}

/// Records that a watched phase is over.
pub(crate) fn watched(watched: &dyn Watched, waited: Duration) {
    let labels = Labels::watched(watched);
    meter::record("redlatch_wait_seconds", &labels, waited.as_secs_f64());
}

/// Records the outcome in a wait span.
pub(crate) fn waited(span: &Span, attempts: u32, outcome: &'static str) {
    span.record("attempts", attempts);
    span.record("outcome", outcome);
}

/// Opens the span of one hold, from its grant until its last guard has gone. Without a renewal, its
/// holder may rely on it for `remaining`.
pub(crate) fn hold_span(
    primitive: &dyn Primitive,
    owner: &impl fmt::Display,
    token: &impl fmt::Display,
    remaining: Duration,
) -> Span {
    tracing::debug_span!(
        target: "redlatch", parent: None, "hold", kind = primitive.kind(), class = &*primitive.class(),
        name = %primitive.name(), %owner, %token, remaining_ms = whole_millis(remaining), outcome = field::Empty
    )
}

/// Records that an acquisition was granted after `waited`, with `attempts` requests.
pub(crate) fn acquired(labels: &Labels, waited: Duration, attempts: u32, contended: bool) {
    meter::count("redlatch_acquired_total", labels);
    if contended {
        meter::count("redlatch_contended_total", labels);
    }
    meter::record("redlatch_wait_seconds", labels, waited.as_secs_f64());
    meter::record("redlatch_attempts", labels, f64::from(attempts));
}

/// Records that the last guard of a hold has gone after `held`.
pub(crate) fn ended(labels: &Labels, span: Option<&Span>, held: Duration, loss: Option<LossCause>) {
    if let Some(span) = span {
        span.record("outcome", loss.map_or("released", LossCause::as_str));
    }
    meter::change("redlatch_held", labels, -1.0);
    meter::record("redlatch_hold_seconds", labels, held.as_secs_f64());
}

/// Records the loss of a hold.
pub(crate) fn lost(
    labels: &Labels,
    name: &str,
    owner: &impl fmt::Display,
    token: &impl fmt::Display,
    cause: LossCause,
) {
    event!(warn: "lost", kind = labels.kind, class = &*labels.class, %name, %owner, %token,
        cause = cause.as_str(), "a hold was lost");
    meter::count_with("redlatch_lost_total", labels, "cause", cause.as_str());
}

/// A run of a job that has ended.
#[derive(Clone, Copy, Debug)]
pub struct RunEnded<'a> {
    /// The claim under which it ran.
    pub primitive: &'a dyn Primitive,
    /// The slot that it was for.
    pub slot: &'a str,
    /// Its token.
    pub token: Token,
    /// Which attempt at the slot it was, from 1.
    pub attempt: u32,
    /// How it ended, one word of a few.
    pub outcome: &'static str,
    /// Whether that was a success.
    pub done: bool,
    /// Why it was none.
    pub why: &'a str,
    /// How long it ran, by this client's clock.
    pub ran: Duration,
}

impl RunEnded<'_> {
    /// Records the end of the run.
    pub fn report(self) {
        let labels = Labels::of(self.primitive);
        let (kind, class, name) = (labels.kind, &*labels.class, self.primitive.name());
        let (slot, token, attempt, outcome) = (self.slot, self.token, self.attempt, self.outcome);
        let seconds = self.ran.as_secs_f64();
        if self.done {
            event!(info: "run_ended", kind, class, %name, slot, %token, attempt, outcome, seconds,
                "a job is done");
        } else {
            event!(warn: "run_ended", kind, class, %name, slot, %token, attempt, outcome,
                why = self.why, seconds, "a run of a job has not succeeded");
        }
        meter::count_with("redlatch_runs_total", &labels, "outcome", outcome);
        meter::record("redlatch_run_seconds", &labels, seconds);
    }
}

/// Records a successful renewal. `late` means that less than a third of the lease was left.
pub(crate) fn renewed(labels: &Labels, late: bool) {
    meter::count("redlatch_renewals_total", labels);
    if late {
        meter::count("redlatch_late_renewals_total", labels);
    }
}

/// Tells in the span of a hold that it lasts for `remaining` now.
pub(crate) fn hold_renewed(span: &Span, remaining: Duration) {
    tracing::trace!(
        target: "redlatch", parent: span, event = "renewed", remaining_ms = whole_millis(remaining), "a hold was renewed"
    );
}

/// Records a renewal without a clear answer.
pub(crate) fn renewal_failed(labels: &Labels, name: &str, why: &impl fmt::Display) {
    event!(debug: "renewal_failed", kind = labels.kind, %name, %why,
        "a renewal had no clear answer");
    meter::count("redlatch_failed_renewals_total", labels);
}

/// Records that an abandoned attempt was undone.
pub(crate) fn undone(labels: &Labels) {
    meter::count("redlatch_undone_total", labels);
}

/// Warns that the server refuses a release or undo, which is tried again. The caller reports this
/// once until the server accepts one.
pub(crate) fn release_refused(labels: &Labels, name: &str, why: &impl fmt::Display) {
    event!(warn: "release_refused", kind = labels.kind, %name, %why,
        "the server refuses a release; it is tried again until the lease has ended");
}

/// Warns that the server refuses messages to others that a name is free. The caller reports this
/// once for each client.
pub(crate) fn message_refused(labels: &Labels, name: &str, why: &str) {
    event!(warn: "message_refused", kind = labels.kind, %name, %why,
        "the server refuses messages that a name is free; those who wait for it find out later");
}

/// Records that a release or undo was given up. The lease ends the hold.
pub(crate) fn release_given_up(labels: &Labels, name: &str, why: &impl fmt::Display) {
    event!(warn: "release_given_up", kind = labels.kind, %name, %why,
        "a release was not confirmed; the lease ends what is left");
    meter::count("redlatch_releases_given_up_total", labels);
}

/// Records that a fence has refused a write to `key`, since a higher token has written.
pub fn report_fenced(class: &Arc<str>, key: &str, token: Token, mark: Token) {
    let (kind, class) = ("fence", Arc::clone(class));
    let labels = Labels { kind, class };
    event!(warn: "fenced", kind, class = &*labels.class, name = %key, %token, %mark,
        "a write with an outdated token was refused");
    meter::count("redlatch_fenced_total", &labels);
}

/// An event in a term of a leader.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum TermEvent {
    /// The term has begun.
    Began,
    /// The term was lost, and its work was dropped.
    Lost(LossCause),
    /// The work has ended the candidacy.
    Resigned,
    /// The work has failed with this error.
    WorkFailed(String),
    /// The leader's value could not be told to observers.
    NotAnnounced(Error),
}

impl TermEvent {
    /// Records the event of a term of `primitive`.
    pub fn report(self, primitive: &dyn Primitive, token: Token) {
        let labels = Labels::of(primitive);
        let (kind, class, name) = (labels.kind, &*labels.class, primitive.name());
        match self {
            Self::Began => event!(info: "term", kind, class, %name, %token, "a term has begun"),
            Self::Lost(cause) => event!(warn: "term_lost", kind, class, %name, %token,
                cause = cause.as_str(), "a term was lost, and its work was dropped"),
            Self::Resigned => event!(info: "resigned", kind, class, %name, %token,
                "a leader has resigned, and ends its candidacy"),
            Self::WorkFailed(error) => {
                event!(warn: "work_failed", kind, class, %name, %token, %error,
                    "the work of a leader has failed");
                meter::count("redlatch_failed_work_total", &labels);
            }
            Self::NotAnnounced(error) => event!(warn: "not_announced", kind, class, %name, %token,
                %error, "observers do not learn the value of the leader"),
        }
    }
}

/// Warns of a long wait for a name that the same task has acquired with another owner.
pub(crate) fn waits_for_itself(labels: &Labels, name: &str, holder: &str) {
    event!(warn: "waits_for_itself", kind = labels.kind, %name, holder,
        "a task waits for a name that the task itself has acquired; if the task still has the guard, pass its owner");
}

/// Records that a connection ended or could not be made. `uses` says what it is for. Only some of a
/// series of failures are logged.
pub(crate) fn disconnected(
    address: &Address,
    uses: &'static str,
    error: &Error,
    failures: Option<Failures>,
) {
    meter::count_bare("redlatch_reconnects_total");
    match failures {
        None => {}
        Some(Failures { tries: 1, .. }) => {
            event!(warn: "disconnected", %address, connection = uses, %error, "not connected");
        }
        Some(Failures { tries, span }) => {
            event!(warn: "disconnected", %address, connection = uses, %error, tries,
                "not connected for {span:.1?}, {tries} tries");
        }
    }
}

/// Warns of a server in charge that did not answer when the client connected.
pub(crate) fn unreachable(address: &Address) {
    event!(warn: "unreachable", %address,
        "a server in charge does not answer; calls for its names wait and fail until it does");
}

/// Warns of slots that no server is in charge of.
pub(crate) fn unserved(slots: &str) {
    event!(warn: "unserved", slots,
        "no server is in charge of these slots of the cluster; calls for their names fail");
}

/// Warns of a right without which other users' waiters hear nothing of this client.
pub(crate) fn lacks_shard_right(right: &str) {
    event!(warn: "missing_right", right,
        "wakes go over the whole cluster; users that share names need this right all together or none of them");
}

/// Warns of parameters of an address that have no effect. Their values may be secret.
pub(crate) fn unknown_parameters(names: &[String]) {
    let parameters = names.join(", ");
    event!(warn: "unknown_parameters", parameters,
        "the address has parameters that redlatch does not know; they have no effect");
}

/// Records that a connection was made. `uses` says what it is for.
pub(crate) fn connected(address: &Address, uses: &'static str, over: Option<Failures>) {
    match over {
        Some(Failures { tries, span }) => {
            event!(info: "connected", %address, connection = uses, tries,
                "connected again after {span:.1?}, {tries} tries");
        }
        None => event!(info: "connected", %address, connection = uses, "connected"),
    }
}

/// Warns that a server does not report changes of keys, although the client asks for them.
pub(crate) fn unwatched(address: &Address, error: &Error) {
    event!(warn: "unwatched", %address, %error,
        "the server does not report changes of the keys of holds");
}

/// Warns that the server refuses changed credentials on a connection, which stays open.
pub(crate) fn login_refused(address: &Address, error: &Error) {
    event!(warn: "login_refused", %address, %error,
        "the server refuses the new credentials; connections stay open with the old ones");
}

/// Warns that the provider of credentials has failed. The caller reports this once until the
/// provider answers.
pub(crate) fn provider_failed(error: &Error) {
    event!(warn: "provider_failed", %error, "no new credentials; asking again");
}

/// Records that a background task has panicked. The client closes.
pub(crate) fn panicked(task: &'static str, message: &str) {
    event!(error: "panicked", task, message, "a background task has panicked; the client closes");
    meter::count_bare("redlatch_panicked_tasks_total");
}

/// Records that the tokio runtime of a client has ended. The client closes.
pub(crate) fn runtime_ended() {
    event!(info: "runtime_ended",
        "the tokio runtime of this client has ended; the client is closed");
}

/// Records that the set of masters has changed.
pub(crate) fn in_charge(masters: &[Address]) {
    let masters: Vec<_> = masters.iter().map(ToString::to_string).collect();
    let masters = masters.join(" ");
    event!(info: "topology", masters, "who is in charge has changed");
}

/// Records a new estimate of the difference between the servers' clocks: a greater one than before,
/// or a smaller one of late.
pub(crate) fn clocks_differ(difference: Duration, allowance: Duration) {
    let (difference, allowance) = (difference.as_secs_f64(), allowance.as_secs_f64());
    meter::set_bare("redlatch_server_clock_difference_seconds", difference);
    if difference <= allowance / 2.0 {
        tracing::debug!(target: "redlatch", difference, allowance, "the clocks of two servers differ");
        return;
    }
    event!(warn: "clocks", difference, allowance,
        "the clocks of two servers differ by more than half of what is allowed for; a hold that was renewed by the one may end too early on the other: \
         set the clocks, or raise server_clock_allowance");
}

/// Records that a sentinel reports a new master of `service`.
pub(crate) fn switched(service: &str) {
    event!(info: "switch", service, "a sentinel says that the master has changed");
}

/// Returns the name of the executable of this process.
pub(crate) fn executable() -> Option<String> {
    let path = std::env::current_exe().ok()?;
    Some(path.file_stem()?.to_string_lossy().into_owned())
}
