//! Joins the calls of tasks that are ready at the same time.

mod queue;

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use futures_util::{
    FutureExt,
    future::poll_immediate,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::{
    select,
    sync::{Notify, oneshot},
};

use self::queue::{Answered, Queue};
use super::World;
use crate::{
    base::{
        items::server_millis,
        merge::{MergedCall, Part, Slots},
        script::ScriptCall,
        sync::{AtomicBool, Mutex, lock, yield_once},
    },
    protocol::{
        classify::{classify, refuses_all},
        remains::Effect,
        time::Moment,
    },
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
    /// Shared with each call that merges and has no answer yet, whether it is joined or not.
    under_way: Arc<()>,
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
    /// Where the replies go, in the order in which the tasks joined.
    tasks: Vec<oneshot::Sender<Answer>>,
}

/// The reply to one task, and when it came.
type Answer = (JoinedReply, Moment);

/// The outcome of a call of a list. The error is the effect of the list on a call that has to be
/// sent by itself.
pub(crate) type JoinedReply = Result<Outcome, Effect>;

impl Batcher {
    pub(super) fn new(by_slot: bool) -> Self {
        Self {
            queue: Mutex::default(),
            nudge: Notify::new(),
            under_way: Arc::default(),
            by_slot: AtomicBool::new(by_slot),
        }
    }

    /// Counts a call that may merge with others, until the returned value is dropped.
    pub(super) fn begin(&self) -> Arc<()> {
        Arc::clone(&self.under_way)
    }

    /// Tells whether other calls are likely to be ready at the same time as one that begins. A call
    /// that is alone must not wait for others.
    pub(super) fn has_company(&self) -> bool {
        // The batcher and the call have one each.
        Arc::strong_count(&self.under_way) - 2 >= COMPANY
    }

    /// Adds `call` to a list. `None` if it does not merge with others, or if the connection
    /// has ended.
    ///
    /// # Cancel safety
    ///
    /// If the returned future is dropped, the server may execute the call.
    pub(super) fn join(
        &self,
        call: &ScriptCall,
        act_before: u64,
    ) -> Option<impl Future<Output = Answer> + use<>> {
        let part = Part::of(call, act_before, self.slots())?;
        let (joined, wakes) = lock(&self.queue).join(&part)?;
        if wakes {
            self.nudge.notify_one();
        }
        let lost = || Outcome::Unknown("the connection closed before the answer".to_owned());
        // A failure does not count as an answer, so it needs no time.
        Some(joined.map(move |answer| answer.unwrap_or_else(|_| (Ok(lost()), Moment::ORIGIN))))
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
        let took = world.now() - sent;
        Answered { class, tasks, took }
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
                classify(&error.code, &error.message).effect()
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

impl Joint {
    fn new(part: &Part<'_>, class: u64) -> Self {
        Self {
            call: MergedCall::of(part),
            class,
            tasks: Vec::with_capacity(part.most()),
        }
    }

    /// Adds a task for the last of its calls. Returns what receives the reply.
    fn add_task(&mut self) -> oneshot::Receiver<Answer> {
        let (task, joined) = oneshot::channel();
        self.tasks.push(task);
        joined
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

    fn settle(self, replies: impl IntoIterator<Item = JoinedReply>, at: Moment) {
        for (task, reply) in self.tasks.into_iter().zip(replies) {
            // The task may have gone.
            let _ = task.send((reply, at));
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
