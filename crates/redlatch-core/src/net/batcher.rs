//! Joins the calls of tasks that are ready at the same time.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{select, sync::Notify};

use super::World;
use crate::{
    base::{
        items::server_millis,
        merge::{MergedCall, Part, Slots},
        script::{Merging, ScriptCall},
        sync::{lock, yield_once},
    },
    protocol::{
        classify::{Class, classify, refuses_all},
        time::Moment,
    },
    runtime::{Command, Conn, Outcome, ServerError, Value},
};

/// Collects calls of several tasks, and sends those that merge as one call.
///
/// [`run`](Self::run) sends them. It first yields once to all tasks that are ready, so that their
/// calls go along.
#[derive(Debug)]
pub(super) struct Batcher {
    queue: Mutex<Queue>,
    nudge: Notify,
    /// Calls that merge and have no answer yet, whether they are joined or not.
    under_way: AtomicUsize,
    /// Whether the keys of one call must share a slot.
    by_slot: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    calls: Vec<Joint>,
    /// Whether the connection has ended.
    ended: bool,
}

/// One call and the tasks that wait for its reply. If it is dropped without a reply, the tasks
/// learn that the outcome is unknown.
#[derive(Debug)]
struct Joint {
    /// Nobody else owns it before it is sent.
    call: Arc<MergedCall>,
    replies: Arc<Replies>,
    settled: bool,
}

/// The replies to the tasks of one call.
#[derive(Debug)]
struct Replies(Mutex<Answer>);

/// The replies, in the order in which the tasks joined, and when they came.
#[derive(Debug)]
struct Answer {
    replies: Vec<Reply>,
    at: Moment,
}

#[derive(Debug)]
enum Reply {
    Waiting(Option<Waker>),
    Ready(JoinedReply),
}

/// The reply to a task that has joined others.
#[derive(Clone, Debug)]
pub(crate) enum JoinedReply {
    /// The script replied, as the call's own script would.
    Replied(Value),
    /// The call has to be sent by itself.
    Alone(Before),
    /// There is no reply.
    Failed(Outcome),
}

/// The effect of a common call on a part that has to be sent by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// It has left the object as it was.
    Untouched,
    /// It was aborted by an error, perhaps behind this part.
    Unknown,
}

impl Before {
    /// Reads what a common call did that the server refused with `error`.
    fn refused(error: &ServerError) -> Self {
        match classify(&error.code, &error.message) {
            Class::Redirect(_) | Class::Retry(_) | Class::Fatal(_) => Self::Untouched,
            Class::NoScript | Class::Unknown | Class::Halted(_) => Self::Unknown,
        }
    }
}

/// A future for the reply to one task.
#[derive(Debug)]
pub(crate) struct Joined {
    replies: Arc<Replies>,
    at: usize,
}

impl Batcher {
    pub(super) fn new(slots: Slots) -> Self {
        Self {
            queue: Mutex::default(),
            nudge: Notify::new(),
            under_way: AtomicUsize::new(0),
            by_slot: AtomicBool::new(slots == Slots::Same),
        }
    }

    /// Counts a call that may merge with others, until the returned guard is dropped.
    pub(super) fn begin(&self) -> UnderWay<'_> {
        UnderWay {
            batcher: self,
            others: self.under_way.fetch_add(1, Relaxed),
        }
    }

    /// Adds `call` to a common call. `None` if it does not merge with others, or if the connection
    /// has ended.
    ///
    /// # Cancel safety
    ///
    /// If the returned future is dropped, the server may execute the call.
    pub(super) fn join(
        &self,
        call: &ScriptCall,
        merging: &'static Merging,
        act_before: u64,
    ) -> Option<Joined> {
        let part = Part::of(call, merging, act_before, self.slots())?;
        let mut queue = lock(&self.queue);
        if queue.ended {
            return None;
        }
        // Older calls are full, or wait for calls of other kinds or slots.
        let mut newest = queue.calls.iter_mut().rev().take(OPEN);
        if let Some(joint) = newest.find_map(|joint| {
            let call = Arc::get_mut(&mut joint.call)?;
            call.add(&part).then_some(joint)
        }) {
            if joint.call.is_full() {
                self.nudge.notify_one();
            }
            return Some(Joined::new(&joint.replies));
        }
        let first = queue.calls.is_empty();
        let joint = Joint {
            call: Arc::new(MergedCall::of(&part)),
            replies: Arc::new(Replies::new(part.most())),
            settled: false,
        };
        let joined = Joined::new(&joint.replies);
        queue.calls.push(joint);
        drop(queue);
        if first {
            self.nudge.notify_one();
        }
        Some(joined)
    }

    /// Sends the calls over `conn` until dropped.
    pub(super) fn run<'a>(
        &'a self,
        conn: &'a dyn Conn,
        world: &'a World,
        observe: impl Fn(Moment, u64) + 'a,
    ) -> impl Future<Output = Infallible> + 'a {
        // The tasks learn of the end even if the future is never polled.
        let end = End(self);
        async move {
            let _end = end;
            self.send_all(conn, world, observe).await
        }
    }

    async fn send_all(
        &self,
        conn: &dyn Conn,
        world: &World,
        observe: impl Fn(Moment, u64),
    ) -> Infallible {
        // The scripts that were sent to the server with their text.
        let loaded = Mutex::new(Vec::new());
        let mut under_way = FuturesUnordered::new();
        // The same calls, to compare others with them.
        let mut sent = Vec::new();
        // How long the last call took.
        let mut took = Duration::ZERO;
        loop {
            select! {
                biased;
                Some(last) = under_way.next(), if !under_way.is_empty() => took = last,
                () = self.nudge.notified() => {}
            }
            // The tasks that are ready now join. Those of one reply go on before the next reply is
            // read, so that the server works on their calls meanwhile.
            yield_once().await;
            sent.retain(|call| Arc::strong_count(call) > 1);
            while let Some(joint) = self.next(&sent, took) {
                sent.push(Arc::clone(&joint.call));
                let command = joint.command(&loaded);
                let sending = self.send(conn, world, &observe, &loaded, joint, command);
                let mut sending = Box::pin(sending);
                // The first poll sends the call. The stream polls its futures one after another,
                // and would read replies first.
                match poll_once(sending.as_mut()).await {
                    Poll::Ready(last) => took = last,
                    Poll::Pending => under_way.push(sending),
                }
            }
        }
    }

    /// Removes the call that is to be sent next while the calls `sent` have no reply. `None` if each
    /// call waits for more tasks to join. `took` is how long the last call took.
    ///
    /// Releases go first. A full server refuses to take anything, and it has more room after a
    /// release.
    fn next(&self, sent: &[Arc<MergedCall>], took: Duration) -> Option<Joint> {
        let has_room = self.has_room(sent.len(), took);
        let goes = |joint: &Joint| {
            let waits = || sent.iter().any(|call| call.is_like(&joint.call));
            joint.call.is_full() || has_room || !waits()
        };
        let release = |joint: &Joint| !joint.call.is_dated() && goes(joint);
        let calls = &mut lock(&self.queue).calls;
        let at = calls.iter().position(release);
        let at = at.or_else(|| calls.iter().position(goes))?;
        Some(calls.remove(at))
    }

    /// Tells whether a call may be sent although it is not full, and one like it is under way.
    ///
    /// It usually may not. A client with several threads would send ever smaller calls, because the
    /// tasks of one reply are never all ready at the same time. If the server is far away, all tasks
    /// may wait for it at the same time, in full calls.
    fn has_room(&self, sent: usize, took: Duration) -> bool {
        took >= FAR && sent < self.under_way.load(Relaxed) / FULL
    }

    /// Sends one common call. If the server lacks the script, sends it again with its text. Returns
    /// how long it took.
    ///
    /// Each common call is a request of its own, so that the server works on one of them while the
    /// client builds the next, and a slow server is heard now and then.
    async fn send(
        &self,
        conn: &dyn Conn,
        world: &World,
        observe: &impl Fn(Moment, u64),
        loaded: &Loaded,
        joint: Joint,
        command: Command,
    ) -> Duration {
        let sent = world.now();
        let mut outcome = conn.send(vec![command]).await.pop();
        if outcome.as_ref().is_some_and(is_noscript) {
            lock(loaded).clear();
            outcome = conn.send(vec![joint.call.eval()]).await.pop();
        }
        // A joint without an outcome tells its tasks so when it is dropped.
        if let Some(outcome) = outcome {
            self.settle(world, observe, joint, outcome);
        }
        world.now() - sent
    }

    /// Passes the outcome of a common call on to its tasks.
    fn settle(
        &self,
        world: &World,
        observe: &impl Fn(Moment, u64),
        mut joint: Joint,
        outcome: Outcome,
    ) {
        let now = world.now();
        let value = match outcome {
            Outcome::Replied(Ok(value)) => value,
            Outcome::Replied(Err(error)) if !refuses_all(&error.code) => {
                self.refused(world, &error, &joint.call);
                let before = Before::refused(&error);
                return joint.settle_all(&JoinedReply::Alone(before), now);
            }
            failed => return joint.settle_all(&JoinedReply::Failed(failed), now),
        };
        let Some(lines) = value.as_str().and_then(|text| joint.call.lines(text)) else {
            // An empty text says that the call came too late.
            let before = match value.as_str() {
                Some("") => Before::Untouched,
                _ => Before::Unknown,
            };
            return joint.settle_all(&JoinedReply::Alone(before), now);
        };
        let mut millis = None;
        let replies = lines.zip(joint.call.first_keys()).map(|(line, key)| {
            let Some(line) = line else {
                world.contended.add(key, now);
                return JoinedReply::Alone(Before::Untouched);
            };
            let reply = Value::Bulk(line.into());
            millis = millis.or_else(|| server_millis(&reply));
            JoinedReply::Replied(reply)
        });
        joint.replies.settle(replies, now);
        joint.settled = true;
        if let Some(millis) = millis {
            observe(now, millis);
        }
    }

    /// Records that the server refused a common call. One of its names may be the cause, so each is
    /// asked for by itself for a while.
    pub(super) fn refused(&self, world: &World, error: &ServerError, merged: &MergedCall) {
        if error.code == "CROSSSLOT" {
            self.by_slot.store(true, Relaxed);
        }
        let now = world.now();
        merged
            .first_keys()
            .for_each(|key| world.contended.add(key, now));
    }

    /// Returns whether the keys of one call must share a slot.
    pub(super) fn slots(&self) -> Slots {
        if self.by_slot.load(Relaxed) {
            Slots::Same
        } else {
            Slots::Any
        }
    }
}

/// The names of scripts.
type Loaded = Mutex<Vec<&'static str>>;

/// Marks the end of the connection when dropped.
struct End<'a>(&'a Batcher);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0.queue);
        queue.ended = true;
        let calls = std::mem::take(&mut queue.calls);
        drop(queue);
        for joint in calls {
            let why = "the connection has closed".to_owned();
            let reply = JoinedReply::Failed(Outcome::NotSent(why));
            joint.settle_all(&reply, Moment::ORIGIN);
        }
    }
}

/// See [`Batcher::begin`].
#[derive(Debug)]
pub(crate) struct UnderWay<'a> {
    batcher: &'a Batcher,
    /// The number of other calls when this one began.
    others: usize,
}

impl UnderWay<'_> {
    /// Tells whether other calls are likely to be ready at the same time. A call that is alone must
    /// not wait for others.
    pub(crate) const fn has_company(&self) -> bool {
        self.others >= COMPANY
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.batcher.under_way.fetch_sub(1, Relaxed);
    }
}

impl Joint {
    /// Builds its command, with the script's text if that was not sent before. A server that lacks
    /// the script would refuse all calls that are under way, and answer them late.
    fn command(&self, loaded: &Loaded) -> Command {
        let script = self.call.script().name();
        let mut loaded = lock(loaded);
        if loaded.contains(&script) {
            return self.call.evalsha();
        }
        loaded.push(script);
        self.call.eval()
    }

    fn settle_all(mut self, reply: &JoinedReply, at: Moment) {
        self.settled = true;
        let replies = std::iter::repeat_n(reply, self.call.len());
        self.replies.settle(replies.cloned(), at);
    }
}

impl Drop for Joint {
    fn drop(&mut self) {
        if !self.settled {
            let why = "the connection closed before the answer".to_owned();
            let reply = JoinedReply::Failed(Outcome::Unknown(why));
            let replies = std::iter::repeat_n(reply, self.call.len());
            // A failure does not count as an answer, so it needs no time.
            self.replies.settle(replies, Moment::ORIGIN);
        }
    }
}

impl Replies {
    fn new(room: usize) -> Self {
        Self(Mutex::new(Answer {
            replies: Vec::with_capacity(room),
            at: Moment::ORIGIN,
        }))
    }

    fn settle(&self, replies: impl Iterator<Item = JoinedReply>, at: Moment) {
        let mut answer = lock(&self.0);
        answer.at = at;
        for (waiting, reply) in answer.replies.iter_mut().zip(replies) {
            if let Reply::Waiting(Some(waker)) = std::mem::replace(waiting, Reply::Ready(reply)) {
                waker.wake();
            }
        }
    }
}

impl Joined {
    fn new(replies: &Arc<Replies>) -> Self {
        let all = &mut lock(&replies.0).replies;
        all.push(Reply::Waiting(None));
        Self {
            replies: Arc::clone(replies),
            at: all.len() - 1,
        }
    }
}

impl Future for Joined {
    /// The reply, and when it came.
    type Output = (JoinedReply, Moment);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(JoinedReply, Moment)> {
        let mut answer = lock(&self.replies.0);
        let at = answer.at;
        // A place was made for this future when it was created.
        match &mut answer.replies[self.at] {
            Reply::Waiting(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            Reply::Ready(reply) => {
                let reply = std::mem::replace(reply, JoinedReply::Alone(Before::Untouched));
                Poll::Ready((reply, at))
            }
        }
    }
}

/// Polls `future` once.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

fn is_noscript(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Replied(Err(error)) if error.code == "NOSCRIPT")
}

/// The number of tasks in a full call of most scripts.
const FULL: usize = 16;

/// The time of a call from which the server counts as far away.
const FAR: Duration = Duration::from_millis(1);

/// The number of common calls that a call may join.
const OPEN: usize = 16;

/// The number of other calls under way from which a call waits for company. The simulator's tasks
/// are few.
const COMPANY: usize = if cfg!(redlatch_sim) { 1 } else { 4 };

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use redlatch_lua::REENTRANT;

    use super::*;
    use crate::{
        base::{merge::Slots, script::Script},
        protocol::name::{Key, Name, Prefix},
    };

    static SINGLE: LazyLock<Script> = LazyLock::new(|| Script::new(&REENTRANT.acquire));
    static MERGING: LazyLock<Merging> = LazyLock::new(|| Merging {
        script: Script::new(&REENTRANT.acquire_each),
        keys: &[0],
        objects: crate::base::script::Objects::Each,
        shared: &[],
        ids: &[0],
        texts: &[],
        most: 3,
    });

    const NEAR: Duration = Duration::from_micros(200);

    fn call(name: &str) -> ScriptCall {
        let key = Key::new(&Prefix::default(), &Name::parse(name).unwrap());
        ScriptCall::new(&SINGLE, &key).key(name).arg("c:1")
    }

    fn join(batcher: &Batcher, call: &ScriptCall) {
        let joined = batcher.join(call, &MERGING, 9);
        assert!(joined.is_some());
    }

    /// Calls for these names, sent as one.
    fn sent(names: &[&str]) -> Arc<MergedCall> {
        let batcher = Batcher::new(Slots::Any);
        for name in names {
            join(&batcher, &call(name).dated());
        }
        Arc::clone(&batcher.next(&[], NEAR).unwrap().call)
    }

    #[test]
    fn call_waits_for_company_while_one_like_it_is_under_way() {
        let under_way = [sent(&["a"])];
        let batcher = Batcher::new(Slots::Any);
        for name in ["x", "y"] {
            join(&batcher, &call(name).dated());
        }
        assert!(batcher.next(&under_way, NEAR).is_none());
        join(&batcher, &call("z").dated());
        let full = batcher.next(&under_way, NEAR).unwrap();
        assert_eq!(full.call.len(), 3);
        join(&batcher, &call("x").dated());
        assert!(batcher.next(&under_way, NEAR).is_none());
        let part = batcher.next(&[], NEAR).unwrap();
        assert_eq!(part.call.len(), 1);
        assert!(batcher.next(&[], NEAR).is_none());
    }

    #[test]
    fn call_that_could_not_join_those_under_way_waits_for_nobody() {
        let under_way = [sent(&["a", "b", "c"]), sent(&["d", "e", "f"])];
        let batcher = Batcher::new(Slots::Any);
        join(&batcher, &call("x"));
        assert!(batcher.next(&under_way, NEAR).is_some());
        let batcher = Batcher::new(Slots::Same);
        join(&batcher, &call("x").dated());
        assert!(batcher.next(&under_way, NEAR).is_some());
    }

    #[test]
    fn releases_go_first() {
        let batcher = Batcher::new(Slots::Any);
        join(&batcher, &call("x").dated());
        join(&batcher, &call("y"));
        assert!(!batcher.next(&[], NEAR).unwrap().call.is_dated());
        assert!(batcher.next(&[], NEAR).unwrap().call.is_dated());
    }

    #[test]
    fn more_calls_are_under_way_to_a_server_that_is_far_away() {
        let batcher = Batcher::new(Slots::Any);
        let _calls: Vec<_> = (0..4 * FULL).map(|_| batcher.begin()).collect();
        let under_way: Vec<_> = ["a", "b", "c", "d"]
            .iter()
            .map(|name| sent(&[name]))
            .collect();
        join(&batcher, &call("x").dated());
        assert!(batcher.next(&under_way[..3], NEAR).is_none());
        assert!(batcher.next(&under_way, FAR).is_none());
        assert!(batcher.next(&under_way[..3], FAR).is_some());
    }

    #[test]
    fn calls_end_with_the_run() {
        let batcher = Batcher::new(Slots::Any);
        join(&batcher, &call("x"));
        drop(End(&batcher));
        assert!(batcher.next(&[], NEAR).is_none());
        assert!(batcher.join(&call("y"), &MERGING, 9).is_none());
    }
}
