//! Joins the calls of tasks that are ready at the same time.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    convert::Infallible,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
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

use super::World;
use crate::{
    base::{
        items::server_millis,
        merge::{MergedCall, Part, Slots},
        script::{Failure, ScriptCall},
        sync::{AtomicBool, Mutex, lock, yield_once},
        timeouts,
    },
    protocol::{classify::refuses_all, remains::Effect, time::Moment},
    runtime::{Conn, Outcome},
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
                    let mut sending = Box::pin(self.send(conn, world, &observe, joint));
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
        joint: Joint,
    ) -> Answered {
        // A server that lacks the script would refuse all calls that are under way, and answer them
        // late.
        let is_first = lock(&self.queue).loaded.insert(joint.call.script.name);
        let command = if is_first {
            joint.call.eval()
        } else {
            joint.call.evalsha()
        };
        let (sent, class, tasks) = (world.now(), joint.class, joint.call.len());
        let mut outcome = conn.send(vec![command]).await.pop();
        if outcome.as_ref().is_some_and(is_noscript) {
            lock(&self.queue).loaded.clear();
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
            tasks: Vec::with_capacity(part.list.most),
        }
    }

    /// Adds a task for the last of its calls. Returns what receives the reply.
    fn add_task(&mut self) -> oneshot::Receiver<Answer> {
        let (task, joined) = oneshot::channel();
        self.tasks.push(task);
        joined
    }

    fn settle(self, replies: impl IntoIterator<Item = JoinedReply>, at: Moment) {
        for (task, reply) in self.tasks.into_iter().zip(replies) {
            // The task may have gone.
            let _ = task.send((reply, at));
        }
    }
}

/// The calls of a connection that are to be sent.
///
/// All operations take a time that grows with the logarithm of the number of classes. A client may
/// have a class for each slot of a cluster.
#[derive(Debug, Default)]
struct Queue {
    classes: BTreeMap<u64, Class>,
    /// The classes with a release that may be sent now.
    releases: VecDeque<u64>,
    /// The other classes with a call that may be sent now.
    others: VecDeque<u64>,
    /// The scripts that were sent to the server with their text.
    loaded: BTreeSet<&'static str>,
    /// Whether the last call took long.
    far: bool,
    /// Whether the connection has ended.
    ended: bool,
}

/// Calls that could all be one call, if there was room. Two classes may be taken for one, if their
/// hashes are equal. They then wait for each other.
#[derive(Debug, Default)]
struct Class {
    /// All of them but the last are full.
    calls: VecDeque<Joint>,
    /// The number of calls without a reply.
    under_way: usize,
    /// The number of tasks of all these calls.
    tasks: usize,
    /// Whether the class is in a list of [`Queue`].
    listed: bool,
}

/// A call that has an outcome.
#[derive(Clone, Copy, Debug)]
struct Answered {
    class: u64,
    tasks: usize,
    took: Duration,
}

impl Queue {
    /// Adds a task to a call. Returns whether the sender has to be woken. `None` if the connection
    /// has ended.
    fn join(&mut self, part: &Part<'_>) -> Option<(oneshot::Receiver<Answer>, bool)> {
        if self.ended {
            return None;
        }
        let id = part.class();
        let class = self.classes.entry(id).or_default();
        class.tasks += 1;
        let last = class.calls.back_mut();
        let joined = last.and_then(|last| last.call.add(part).then(|| last.add_task()));
        let joined = joined.unwrap_or_else(|| {
            let mut joint = Joint::new(part, id);
            let joined = joint.add_task();
            class.calls.push_back(joint);
            joined
        });
        let sleeps = self.releases.is_empty() && self.others.is_empty();
        Some((joined, self.list(id) && sleeps))
    }

    /// Removes the call that is to be sent next. `None` if each call waits for more tasks to join.
    ///
    /// Releases go first. A full server refuses to take anything, and it has more room after a
    /// release.
    fn next(&mut self) -> Option<Joint> {
        while let Some(id) = self.first() {
            let far = self.far;
            let Some(class) = self.classes.get_mut(&id) else {
                continue;
            };
            class.listed = false;
            if class.goes(far)
                && let Some(joint) = class.calls.pop_front()
            {
                class.under_way += 1;
                self.list(id);
                return Some(joint);
            }
        }
        None
    }

    /// Records that a call has an outcome.
    fn answered(&mut self, answered: Answered) {
        let id = answered.class;
        self.far = answered.took >= timeouts::FAR_SERVER;
        let Some(class) = self.classes.get_mut(&id) else {
            return;
        };
        class.under_way = class.under_way.saturating_sub(1);
        class.tasks = class.tasks.saturating_sub(answered.tasks);
        if class.under_way == 0 && class.calls.is_empty() {
            self.classes.remove(&id);
        } else {
            self.list(id);
        }
    }

    /// Ends the queue. Returns all calls that were not sent.
    fn end(&mut self) -> impl Iterator<Item = Joint> + use<> {
        self.ended = true;
        let classes = std::mem::take(&mut self.classes).into_values();
        classes.flat_map(|class| class.calls)
    }

    fn first(&mut self) -> Option<u64> {
        let release = self.releases.pop_front();
        release.or_else(|| self.others.pop_front())
    }

    /// Lists the class if its first call may be sent. Returns whether it is new in the list.
    fn list(&mut self, id: u64) -> bool {
        let far = self.far;
        let Some(class) = self.classes.get_mut(&id) else {
            return false;
        };
        if class.listed || !class.goes(far) {
            return false;
        }
        class.listed = true;
        let dated = class.calls.front().is_some_and(|joint| joint.call.dated);
        if dated {
            self.others.push_back(id);
        } else {
            self.releases.push_back(id);
        }
        true
    }
}

impl Class {
    /// Tells whether the first call may be sent now.
    ///
    /// A call that is not full usually waits while one of its class is under way. Otherwise, a
    /// client with several threads would send ever smaller calls, because the tasks of one reply
    /// are never all ready at the same time. If the server is far away, all tasks may wait for it
    /// at the same time, in full calls.
    fn goes(&self, far: bool) -> bool {
        let Some(first) = self.calls.front() else {
            return false;
        };
        let most = if far { self.tasks.div_ceil(FULL) } else { 1 };
        first.call.is_full() || self.under_way < most
    }
}

/// Tells whether the server lacks the script.
pub(super) fn is_noscript(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Replied(Err(error)) if error.code == "NOSCRIPT")
}

/// The number of other calls under way from which a call waits for company. The simulator's tasks
/// are few.
const COMPANY: usize = if cfg!(redlatch_sim) { 1 } else { 4 };

/// The number of tasks in a full call of most scripts.
const FULL: usize = 16;

#[cfg(test)]
#[cfg(shuttle)]
#[path = "batcher/tests/threads.rs"]
mod threads;

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use redlatch_lua::List;

    use super::*;
    use crate::{Client, base::script::Script, protocol::name::key, runtime::Command};

    static TAKE: Script = script("test/take", 3, 3);
    static TAKE_MANY: Script = script("test/take_many", FULL, 3);
    static GIVE: Script = script("test/give", 3, 2);

    const fn script(name: &'static str, most: usize, shared: usize) -> Script {
        let list = List {
            most,
            keys: 1,
            own: 1,
            shared,
        };
        Script {
            name,
            text: "",
            digest: "",
            list: Some(list),
        }
    }

    const NEAR: Duration = Duration::ZERO;

    fn of(script: &'static Script, name: &str, lease: u32) -> ScriptCall {
        let call = ScriptCall::new(script, &key(name));
        call.arg("c").arg(lease).arg(":1")
    }

    fn call(name: &str, lease: u32) -> ScriptCall {
        of(&GIVE, name, lease)
    }

    fn taking(name: &str, lease: u32) -> ScriptCall {
        of(&TAKE, name, lease).dated()
    }

    /// Adds a task. Returns whether the sender has to be woken.
    fn join(queue: &mut Queue, call: &ScriptCall) -> bool {
        join_in(queue, call, Slots::Any)
    }

    fn join_in(queue: &mut Queue, call: &ScriptCall, slots: Slots) -> bool {
        let part = Part::of(call, 9, slots).unwrap();
        let (_, wakes) = queue.join(&part).unwrap();
        wakes
    }

    /// Sends the next call, whose number of tasks has to be `tasks`.
    fn send(queue: &mut Queue, tasks: usize) -> Joint {
        let joint = queue.next().unwrap();
        assert_eq!(joint.call.len(), tasks);
        joint
    }

    fn answer(queue: &mut Queue, joint: &Joint, took: Duration) {
        queue.answered(Answered {
            class: joint.class,
            tasks: joint.call.len(),
            took,
        });
    }

    #[test]
    fn call_waits_while_one_of_its_class_is_under_way() {
        let mut queue = Queue::default();
        assert!(join(&mut queue, &taking("a", 9)));
        let first = send(&mut queue, 1);
        assert!(!join(&mut queue, &taking("x", 9)));
        assert!(queue.next().is_none());
        assert!(!join(&mut queue, &taking("y", 9)));
        assert!(join(&mut queue, &taking("z", 9)), "it is full");
        let _full = send(&mut queue, 3);
        join(&mut queue, &taking("x", 9));
        assert!(queue.next().is_none());
        answer(&mut queue, &first, NEAR);
        assert!(queue.next().is_none());
    }

    #[test]
    fn call_of_another_class_waits_for_nobody() {
        let mut queue = Queue::default();
        join(&mut queue, &taking("a", 9));
        let _first = send(&mut queue, 1);
        assert!(join(&mut queue, &taking("x", 8)), "another lease");
        let _second = send(&mut queue, 1);
        assert!(join(&mut queue, &call("x", 9)), "a release");
        let _third = send(&mut queue, 1);
        let one = taking("x", 9);
        assert!(join_in(&mut queue, &one, Slots::Same), "a slot of its own");
        let _fourth = send(&mut queue, 1);
    }

    #[test]
    fn tasks_of_many_classes_join_their_own() {
        let mut queue = Queue::default();
        let under_way: Vec<_> = (0..100)
            .map(|lease| {
                join(&mut queue, &taking("a", lease));
                send(&mut queue, 1)
            })
            .collect();
        for name in ["x", "y"] {
            for lease in 0..100 {
                join(&mut queue, &taking(name, lease));
            }
        }
        assert!(queue.next().is_none());
        for joint in &under_way {
            answer(&mut queue, joint, NEAR);
            let _next = send(&mut queue, 2);
        }
        assert!(queue.next().is_none());
    }

    #[test]
    fn releases_go_first_and_classes_take_turns() {
        let mut queue = Queue::default();
        for lease in [7, 8] {
            for name in ["u", "v", "w", "x"] {
                join(&mut queue, &taking(name, lease));
            }
        }
        join(&mut queue, &call("y", 9));
        assert!(!send(&mut queue, 1).call.dated);
        let classes = [send(&mut queue, 3).class, send(&mut queue, 3).class];
        assert_ne!(classes[0], classes[1]);
        assert!(queue.next().is_none());
    }

    #[test]
    fn more_calls_are_under_way_to_a_server_that_is_far_away() {
        for (took, goes) in [(NEAR, false), (timeouts::FAR_SERVER, true)] {
            let mut queue = Queue::default();
            join(&mut queue, &call("a", 7));
            let other = send(&mut queue, 1);
            answer(&mut queue, &other, took);
            // All tasks of a full call wait for the server, and one more does.
            let names = (0..FULL).map(|n| format!("n{n}"));
            for name in names.chain(["last".to_owned()]) {
                join(&mut queue, &of(&TAKE_MANY, &name, 9).dated());
            }
            let _full = send(&mut queue, FULL);
            assert_eq!(queue.next().is_some(), goes);
        }
    }

    /// A connection that closes before it has sent anything.
    #[derive(Debug)]
    struct Closes;

    #[async_trait]
    impl Conn for Closes {
        async fn send(&self, _: Vec<Command>) -> Vec<Outcome> {
            Vec::new()
        }
    }

    #[tokio::test]
    async fn calls_end_with_a_run_that_was_never_polled() {
        let client = Client::builder("redis://localhost").connect_lazy().unwrap();
        let batcher = Batcher::new(false);
        let joined = batcher.join(&call("x", 1), 9).unwrap();
        drop(batcher.run(&Closes, &client.net().world, |_, _| {}));
        let answer = joined.now_or_never();
        assert!(matches!(answer, Some((Ok(Outcome::NotSent(_)), _))));
        assert!(batcher.join(&call("y", 1), 9).is_none());
    }
}
