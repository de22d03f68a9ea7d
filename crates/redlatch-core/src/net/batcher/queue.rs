//! The calls that are to be sent, by class, and the order in which they are sent.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{Answer, Joint};
use crate::base::{merge::Part, timeouts};

/// The calls of a connection that are to be sent.
///
/// All operations take a time that grows with the logarithm of the number of classes. A client may
/// have a class for each slot of a cluster.
#[derive(Debug, Default)]
pub(super) struct Queue {
    classes: BTreeMap<u64, Class>,
    /// The classes with a release that may be sent now.
    releases: VecDeque<u64>,
    /// The other classes with a call that may be sent now.
    others: VecDeque<u64>,
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
pub(super) struct Answered {
    pub(super) class: u64,
    pub(super) tasks: usize,
    pub(super) took: Duration,
}

impl Queue {
    /// Adds a task to a call. Returns whether the sender has to be woken. `None` if the connection
    /// has ended.
    pub(super) fn join(&mut self, part: &Part<'_>) -> Option<(oneshot::Receiver<Answer>, bool)> {
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
    pub(super) fn next(&mut self) -> Option<Joint> {
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
    pub(super) fn answered(&mut self, answered: Answered) {
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
    pub(super) fn end(&mut self) -> impl Iterator<Item = Joint> + use<> {
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
        let dated = class
            .calls
            .front()
            .is_some_and(|joint| joint.call.is_dated());
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

/// The number of tasks in a full call of most scripts.
const FULL: usize = 16;

#[cfg(test)]
mod tests {
    use redlatch_lua::List;

    use super::*;
    use crate::{
        base::{
            merge::Slots,
            script::{Script, ScriptCall},
        },
        protocol::name::key,
    };

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
    fn answer_lets_the_next_call_of_its_class_go() {
        let mut queue = Queue::default();
        join(&mut queue, &taking("a", 9));
        let first = send(&mut queue, 1);
        join(&mut queue, &taking("x", 9));
        answer(&mut queue, &first, NEAR);
        let second = send(&mut queue, 1);
        answer(&mut queue, &second, NEAR);
        assert!(queue.classes.is_empty());
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
        assert!(!send(&mut queue, 1).call.is_dated());
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

    #[test]
    fn ended_queue_returns_what_was_not_sent() {
        let mut queue = Queue::default();
        for lease in [7, 8] {
            join(&mut queue, &call("x", lease));
        }
        assert_eq!(queue.end().count(), 2);
        let one = call("x", 9);
        let late = Part::of(&one, 9, Slots::Any).unwrap();
        assert!(queue.join(&late).is_none());
    }
}
