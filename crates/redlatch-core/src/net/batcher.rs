//! Joins the calls of tasks that are ready at the same time.

mod queue;

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, Waker},
};

use futures_util::{
    future::poll_immediate,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::{select, sync::Notify};

use self::queue::{Answered, Queue};
use super::World;
use crate::{
    base::{
        items::server_millis,
        merge::{MergedCall, Part, Slots},
        script::{Failure, ScriptCall},
        sync::{AtomicBool, AtomicUsize, Mutex, lock, yield_once},
    },
    protocol::{classify::refuses_all, remains::Effect, time::Moment},
    runtime::{Command, Conn, Outcome},
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

/// One call and the tasks that wait for its reply. If it is dropped without a reply, the tasks
/// learn that the outcome is unknown.
#[derive(Debug)]
struct Joint {
    call: MergedCall,
    /// The class of the call in the queue.
    class: u64,
    answer: Arc<Mutex<Answer>>,
    settled: bool,
}

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

/// The outcome of a call of a list. The error is the effect of the list on a call that has to be
/// sent by itself.
pub(crate) type JoinedReply = Result<Outcome, Effect>;

/// A future for the reply to one task.
#[derive(Debug)]
pub(crate) struct Joined {
    answer: Arc<Mutex<Answer>>,
    at: usize,
}

impl Batcher {
    pub(super) fn new(by_slot: bool) -> Self {
        Self {
            queue: Mutex::default(),
            nudge: Notify::new(),
            under_way: AtomicUsize::new(0),
            by_slot: AtomicBool::new(by_slot),
        }
    }

    /// Counts a call that may merge with others, until the returned guard is dropped.
    pub(super) fn begin(&self) -> UnderWay<'_> {
        UnderWay {
            batcher: self,
            others: self.under_way.fetch_add(1, Relaxed),
        }
    }

    /// Adds `call` to a list. `None` if it does not merge with others, or if the connection
    /// has ended.
    ///
    /// # Cancel safety
    ///
    /// If the returned future is dropped, the server may execute the call.
    pub(super) fn join(&self, call: &ScriptCall, act_before: u64) -> Option<Joined> {
        let part = Part::of(call, act_before, self.slots())?;
        let (joined, wakes) = lock(&self.queue).join(&part)?;
        if wakes {
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
            // The scripts that were sent to the server with their text.
            let loaded = Mutex::new(Vec::new());
            let mut under_way = FuturesUnordered::new();
            loop {
                select! {
                    biased;
                    Some(answered) = under_way.next(), if !under_way.is_empty() => {
                        lock(&self.queue).answered(answered);
                    }
                    () = self.nudge.notified() => {}
                }
                // The tasks that are ready now join. Those of one reply go on before the next reply
                // is read, so that the server works on their calls meanwhile.
                yield_once().await;
                while let Some(joint) = self.next() {
                    let command = joint.command(&loaded);
                    let sending = self.send(conn, world, &observe, &loaded, joint, command);
                    let mut sending = Box::pin(sending);
                    // The first poll sends the call. The stream polls its futures one after
                    // another, and would read replies first.
                    match poll_immediate(&mut sending).await {
                        Some(answered) => lock(&self.queue).answered(answered),
                        None => under_way.push(sending),
                    }
                }
            }
        }
    }

    /// Removes the call that is to be sent next. The lock ends with this function.
    fn next(&self) -> Option<Joint> {
        lock(&self.queue).next()
    }

    /// Sends one list. If the server lacks the script, sends it again with its text.
    ///
    /// Each list is a separate request, so that the server works on one of them while the
    /// client builds the next, and a slow server is heard now and then.
    async fn send(
        &self,
        conn: &dyn Conn,
        world: &World,
        observe: &impl Fn(Moment, u64),
        loaded: &Loaded,
        joint: Joint,
        command: Command,
    ) -> Answered {
        let (sent, class, tasks) = (world.now(), joint.class, joint.call.len());
        let mut outcome = conn.send(vec![command]).await.pop();
        if outcome.as_ref().is_some_and(is_noscript) {
            lock(loaded).clear();
            outcome = conn.send(vec![joint.call.eval()]).await.pop();
        }
        // A joint without an outcome tells its tasks so when it is dropped.
        if let Some(outcome) = outcome {
            self.settle(world, observe, joint, outcome);
        }
        let took = world.now() - sent;
        Answered { class, tasks, took }
    }

    /// Passes the outcome of a list on to its tasks.
    fn settle(
        &self,
        world: &World,
        observe: &impl Fn(Moment, u64),
        joint: Joint,
        outcome: Outcome,
    ) {
        let now = world.now();
        let replies = self.split(world, &joint.call, outcome);
        let millis = replies.iter().find_map(|reply| match reply {
            Ok(Outcome::Replied(Ok(reply))) => server_millis(reply),
            _ => None,
        });
        joint.settle(replies, now);
        if let Some(millis) = millis {
            observe(now, millis);
        }
    }

    /// Returns the outcome of each call of a list.
    ///
    /// One name may be the cause if the server refused the list, or if the reply does not have a
    /// line for each entry. So the names join no list for a while.
    pub(super) fn split(
        &self,
        world: &World,
        merged: &MergedCall,
        outcome: Outcome,
    ) -> Vec<JoinedReply> {
        let effect = match outcome {
            Outcome::Replied(Ok(value)) => match merged.replies(&value) {
                Some(replies) => {
                    let replies = replies.into_iter().map(Outcome::Replied);
                    return replies.map(Ok).collect();
                }
                None => Effect::Unknown,
            },
            Outcome::Replied(Err(error)) if !refuses_all(&error.code) => {
                if error.code == "CROSSSLOT" {
                    self.by_slot.store(true, Relaxed);
                }
                Failure::of_reply(error).effect()
            }
            failed => return vec![Ok(failed); merged.len()],
        };
        let now = world.now();
        for key in merged.first_keys() {
            world.apart.add(key, now);
        }
        vec![Err(effect); merged.len()]
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
        let calls = lock(&self.0.queue).end();
        for joint in calls {
            let why = "the connection has closed".to_owned();
            let replies = vec![Ok(Outcome::NotSent(why)); joint.call.len()];
            joint.settle(replies, Moment::ORIGIN);
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
    fn new(part: &Part<'_>, class: u64) -> Self {
        Self {
            call: MergedCall::of(part),
            class,
            answer: Arc::new(Mutex::new(Answer {
                replies: Vec::with_capacity(part.most()),
                at: Moment::ORIGIN,
            })),
            settled: false,
        }
    }

    /// Builds its command, with the script's text if that was not sent before. A server that lacks
    /// the script would refuse all calls that are under way, and answer them late.
    fn command(&self, loaded: &Loaded) -> Command {
        let script = self.call.script().name;
        let mut loaded = lock(loaded);
        if loaded.contains(&script) {
            return self.call.evalsha();
        }
        loaded.push(script);
        self.call.eval()
    }

    fn settle(mut self, replies: impl IntoIterator<Item = JoinedReply>, at: Moment) {
        self.settled = true;
        lock(&self.answer).settle(replies, at);
    }
}

impl Drop for Joint {
    fn drop(&mut self) {
        if !self.settled {
            let why = "the connection closed before the answer".to_owned();
            let replies = std::iter::repeat_n(Ok(Outcome::Unknown(why)), self.call.len());
            // A failure does not count as an answer, so it needs no time.
            lock(&self.answer).settle(replies, Moment::ORIGIN);
        }
    }
}

impl Answer {
    fn settle(&mut self, replies: impl IntoIterator<Item = JoinedReply>, at: Moment) {
        self.at = at;
        for (waiting, reply) in self.replies.iter_mut().zip(replies) {
            if let Reply::Waiting(Some(waker)) = std::mem::replace(waiting, Reply::Ready(reply)) {
                waker.wake();
            }
        }
    }
}

impl Joined {
    fn new(answer: &Arc<Mutex<Answer>>) -> Self {
        let all = &mut lock(answer).replies;
        all.push(Reply::Waiting(None));
        Self {
            answer: Arc::clone(answer),
            at: all.len() - 1,
        }
    }
}

impl Future for Joined {
    /// The reply, and when it came.
    type Output = (JoinedReply, Moment);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(JoinedReply, Moment)> {
        let mut answer = lock(&self.answer);
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
                let reply = std::mem::replace(reply, Err(Effect::Nothing));
                Poll::Ready((reply, at))
            }
        }
    }
}

/// Tells whether the server lacks the script.
pub(super) fn is_noscript(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Replied(Err(error)) if error.code == "NOSCRIPT")
}

/// The number of other calls under way from which a call waits for company. The simulator's tasks
/// are few.
const COMPANY: usize = if cfg!(redlatch_sim) { 1 } else { 4 };

#[cfg(test)]
#[cfg(shuttle)]
#[path = "batcher/tests/threads.rs"]
mod threads;
