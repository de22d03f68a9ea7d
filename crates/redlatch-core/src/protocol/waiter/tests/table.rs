//! The transitions of a waiter, one row each.

use std::collections::BTreeSet;

use super::*;

/// A row: the state before, the input, the state after, and the resulting step. A state's name with
/// a slot, such as `InLine(Waiting)/Queued`, belongs to a waiter with the queued discipline.
const TABLE: &str = "
Asking                    others             InLine(Asking)            AwaitTurn
Asking                    ours               Asking                    Send(Notified)
Asking                    late               Asking                    Send(Notified)
Asking                    late,late          Failed                    Pause
Asking                    unfinished         Asking                    Send(Notified)
Asking                    failed             Failed                    Pause
Asking                    busy               Waiting                   Wait
Asking                    busy-unheard       Waiting                   Wait
Asking                    granted            Done                      End(Busy)
Asking                    void               Asking                    StartOver(AttemptVoid)
Asking                    void,void          Asking                    StartOver(AttemptVoid)
Asking                    void,void,void,void,void,void,void,void,void Failed StartOver(AttemptVoid)
Asking                    silence,void,failed  Failed                  Pause
Asking                    void,silence,void    Failed                  StartOver(AttemptVoid)
Asking                    void,silence,void,failed  Failed             End(Unanswered)
Asking                    void,silence,late,failed  Failed             End(Unanswered)
Asking                    expired            Failed                    StartOver(GrantExpired)
Asking                    retry              Asking                    Send(Notified)
Asking                    requeue            Asking                    Send(Notified)
Asking                    retry,busy         Asking                    Send(Notified)
Asking                    requeue,busy       RecheckBooked             Wait
Asking                    inactive,busy      Subscribing               Subscribe
Asking                    inactive           Asking                    Send(None)
Asking                    over               Asking                    End(Busy)
Asking                    failed,over        Failed                    End(Unanswered)
Asking                    short              Waiting                   Wait
Asking                    short,notified     Waiting                   Wait
Asking                    short,failed,elapsed  Failed                 Pause
Asking                    cut-off            Failed                    End(Unanswered)
Asking                    short-lived        Failed                    End(Unanswered)
Asking                    silent-end         Failed                    End(Unanswered)
Asking                    busy,notified,cut-off  Waiting               End(Busy)
Asking                    busy,notified,silent-end  Failed             End(Unanswered)
Asking                    busy,failed,elapsed,cut-off  Failed          End(Unanswered)
InLine(Asking)            others             InLine(Asking)            AwaitTurn
InLine(Asking)            ours               Asking                    Send(Notified)
InLine(Asking)            others,elapsed     InLine(Asking)            AwaitTurn
InLine(Asking)            others,changed     InLine(Asking)            AwaitTurn
InLine(Asking)            others,retry       Asking                    Send(Notified)
InLine(Asking)            others,notified    Asking                    Send(Notified)
InLine(Asking)            others,requeue     Asking                    Send(Notified)
InLine(Asking)            others,over        InLine(Asking)            End(QueueUnanswered)
InLine(Asking)            answered,over      InLine(Asking)            End(Busy)
InLine(Asking)            unasked,answered,ours,short  Waiting         Wait
InLine(Asking)            unasked,answered,ours,over  Asking           End(Busy)
InLine(Asking)            unasked,ours,over    Asking                  Send(Notified)
InLine(Asking)            failing            InLine(Asking)            AwaitTurn
InLine(Asking)            failing,over       InLine(Asking)            End(QueueUnanswered)
InLine(Asking)            failing,silence    InLine(Asking)            End(QueueUnanswered)
InLine(Waiting)           ours               Waiting                   Wait
InLine(Failed)            ours               Failed                    Pause
Subscribing               others             InLine(Subscribing)       AwaitTurn
Subscribing               ours               Subscribing               Subscribe
Subscribing               subscribed         Asking                    Send(Notified)
Subscribing               unsubscribed       Waiting                   Wait
Subscribing               over               Subscribing               End(Busy)
Waiting                   others             InLine(Waiting)           AwaitTurn
Waiting                   ours               Waiting                   Wait
Waiting                   notified           Asking                    Send(Notified)
Waiting                   changed            Asking                    Send(Notified)
Waiting                   retry              Asking                    Send(Notified)
Waiting                   others,retry       Asking                    Send(Notified)
Waiting                   requeue            RecheckBooked             Wait
Waiting                   elapsed            RecheckBooked             Wait
Waiting                   elapsed,others     InLine(RecheckDue)        AwaitTurn
Waiting                   over               Waiting                   End(Busy)
Waiting                   elapsed,over       Asking                    End(Busy)
Waiting                   short,notified     Waiting                   Wait
Waiting                   short,elapsed      Waiting                   Wait
RecheckBooked             others             InLine(RecheckBooked)     AwaitTurn
RecheckBooked             ours               RecheckBooked             Wait
RecheckBooked             notified           Asking                    Send(Notified)
RecheckBooked             changed            Asking                    Send(Notified)
RecheckBooked             retry              Asking                    Send(Notified)
RecheckBooked             requeue            RecheckBooked             Wait
RecheckBooked             elapsed            Asking                    Send(Notified)
RecheckBooked             over               RecheckBooked             End(Busy)
RecheckBooked             short,elapsed      Waiting                   Wait
Failed                    others             InLine(Failed)            AwaitTurn
Failed                    ours               Failed                    Pause
Failed                    elapsed            Asking                    Send(Notified)
Failed                    silence            Failed                    End(Unanswered)
Failed                    over               Failed                    End(Unanswered)
Done                      notified           Done                      End(Busy)
Done                      elapsed            Done                      End(Busy)
Asking/Absent             others             Asking/Absent             Send(Notified)
Asking/Absent             busy               Waiting/Queued            Wait
Asking/Absent             busy,others        InLine(Waiting)/Queued    AwaitTurn
Asking/Absent             beside,others      Waiting/Absent            Wait
Asking/Absent             held               Waiting/Reentrant         Wait
Asking/Absent             entered            Waiting/Queued            Wait
Asking/Queued             others             Asking/Queued             Send(Notified)
Asking/Queued             entered            Waiting/Queued            Prompt(Requeue)
Asking/Queued             unqueued           Done/Queued               Prompt(Requeue)
Asking/Queued             unqueued-copies    Done/Queued               End(Busy)
Asking/Queued             short              Waiting/Queued            Wait
Asking/Queued             void               Asking/Absent             StartOver(AttemptVoid)
Asking/RequeueRequested   entered            Waiting/Queued            Wait
Asking/RequeueRequested   unqueued           Done/RequeueRequested     End(Busy)
InLine(Waiting)/Queued    others             InLine(Waiting)/Queued    AwaitTurn
InLine(Waiting)/Queued    ours               Waiting/Queued            Wait
InLine(Waiting)/Queued    others,notified    Asking/Queued             Send(Notified)
InLine(Waiting)/Queued    others,retry       Asking/Queued             Send(Notified)
InLine(Waiting)/Queued    others,requeue     RecheckBooked/RequeueRequested  Wait
InLine(Waiting)/Queued    others,changed     InLine(Waiting)/Queued    AwaitTurn
InLine(Waiting)/Queued    others,elapsed     InLine(Waiting)/Queued    AwaitTurn
InLine(Waiting)/Reentrant others             InLine(Waiting)/Reentrant AwaitTurn
InLine(Waiting)/Reentrant others,hold-ended  Waiting/Absent            Wait
Waiting/Queued            others             InLine(Waiting)/Queued    AwaitTurn
Waiting/Queued            hold-ended,others  InLine(Waiting)/Queued    AwaitTurn
Waiting/Reentrant         hold-ended,others  Waiting/Absent            Wait
RecheckBooked/RequeueRequested  others       RecheckBooked/RequeueRequested  Wait
RecheckBooked/RequeueRequested  others,requeue  RecheckBooked/RequeueRequested  Wait
RecheckBooked/RequeueRequested  others,elapsed  Asking/RequeueRequested  Send(Notified)
";

#[test]
fn each_input_leads_to_one_state_and_one_step() {
    let (mut pairs, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for row in TABLE.trim().lines() {
        let cells: Vec<_> = row.split_whitespace().collect();
        let [from, inputs, to, step] = cells[..] else {
            panic!("not four cells: {row}");
        };
        assert!(pairs.insert((from, inputs)), "twice: {row}");
        seen.extend(inputs.split(','));
        let (state, did) = run(from, inputs);
        assert_eq!((state.as_str(), did.as_str()), (to, step), "{row}");
    }
    assert_eq!(seen, INPUTS.split_whitespace().collect::<BTreeSet<_>>());
    let states = "Asking Subscribing Waiting RecheckBooked Failed Done InLine(Asking)";
    for state in states.split_whitespace() {
        let mut from = pairs.iter().map(|(from, _)| *from);
        assert!(from.any(|from| from == state), "{state} has no row");
    }
}

/// The name of each input.
const INPUTS: &str = "
others ours answered failing over unasked short cut-off short-lived silent-end silence inactive
notified changed retry requeue elapsed subscribed unsubscribed hold-ended busy busy-unheard
beside held entered granted unqueued unqueued-copies expired void late unfinished failed
";

/// A waiter, its queue and the time.
pub(super) struct Scene {
    waiter: Waiter,
    pub(super) queue: QueueView,
    pub(super) now: Moment,
    prompt: Option<Prompt>,
}

/// Applies the inputs of a row to a waiter in its state, and takes the step.
fn run(from: &str, inputs: &str) -> (String, String) {
    let mut scene = Scene::in_state(from);
    for input in inputs.split(',') {
        scene.apply(input);
    }
    let mut limits = Limits::new(10);
    // The next free slot of each rate limit is at 1100 ms.
    limits.rechecks.book(at(1000));
    limits.requeues.book(at(1000));
    let step = brief(&scene.step(&mut limits));
    (state_of(&scene.waiter, from.contains('/')), step)
}

impl Scene {
    pub(super) fn new(waiter: Waiter, now: Moment) -> Self {
        let queue = QueueView {
            heard: now,
            ..QueueView::NONE
        };
        Self {
            waiter,
            queue,
            now,
            prompt: None,
        }
    }

    /// Takes the step, and returns the prompt for the other waiters instead if there is one.
    pub(super) fn step(&mut self, limiter: &mut Limits) -> Result<Step, Prompt> {
        let step = self.waiter.step(self.now, &self.queue, 0, limiter);
        self.prompt.take().map_or(Ok(step), Err)
    }

    /// Returns a waiter in the state with this name.
    fn in_state(name: &str) -> Self {
        let queued = name.contains('/');
        let plan = Plan {
            give_up: GiveUp::At(at(60_000)),
            discipline: if queued {
                Discipline::Queued
            } else {
                Discipline::Barging
            },
            ..plan()
        };
        let remaining = Duration::MAX;
        let phases = [
            Phase::Asking,
            Phase::Subscribing,
            Phase::Waiting { remaining },
            Phase::RecheckDue,
            Phase::RecheckBooked { at: at(1100) },
            Phase::Failed,
        ];
        let states = phases.map(|phase| [State::InLine(phase), State::Active(phase)]);
        let mut waiter = Waiter::new(plan, at(1000), Subscription::Active);
        waiter.asked = true;
        for state in states.into_iter().flatten().chain([State::Done]) {
            for slot in [
                ServerSlot::Absent,
                ServerSlot::Queued,
                ServerSlot::Reentrant,
                ServerSlot::RequeueRequested,
            ] {
                (waiter.state, waiter.slot) = (state, slot);
                if state_of(&waiter, queued) == name {
                    return Self::new(waiter, at(1000));
                }
            }
        }
        panic!("no state {name}");
    }

    pub(super) fn apply(&mut self, input: &str) {
        let Self { waiter, now, .. } = self;
        let now = *now;
        if let Some(busy) = busy_named(input) {
            self.prompt = waiter.on_busy(now, busy);
            return;
        }
        let granted = |unqueued, has_copies| Granted {
            unqueued,
            has_copies,
        };
        match input {
            "ours" => self.queue.turn = Turn::Ours,
            "others" => self.queue.turn = Turn::Others,
            "answered" => (self.queue.turn, self.queue.contact) = (Turn::Others, Contact::Answered),
            "failing" => (self.queue.turn, self.queue.contact) = (Turn::Others, Contact::Failing),
            "over" => self.now = at(60_000),
            "unasked" => waiter.asked = false,
            "short" => {
                self.now = at(59_900);
                waiter.on_usual(100 * MS);
            }
            "cut-off" | "short-lived" | "silent-end" => {
                self.now = at(60_000);
                let took = match input {
                    "short-lived" => 20,
                    "cut-off" => 100,
                    _ => 101,
                };
                if !waiter.on_cut_off(at(60_000 - took), self.now) {
                    waiter.on_failed();
                }
            }
            "silence" => self.now = at(11_000),
            "inactive" => waiter.on_subscription(Subscription::Inactive),
            "notified" => waiter.on_notified(),
            "changed" => waiter.on_queue_changed(),
            "retry" => waiter.on_prompt(Prompt::Retry),
            "requeue" => waiter.on_prompt(Prompt::Requeue),
            "elapsed" => waiter.on_elapsed(),
            "subscribed" => waiter.on_subscribed(),
            "unsubscribed" => waiter.on_unsubscribed(),
            "hold-ended" => waiter.on_hold_ended(),
            "granted" => self.prompt = waiter.on_granted(granted(false, false)),
            "unqueued" => self.prompt = waiter.on_granted(granted(true, false)),
            "unqueued-copies" => self.prompt = waiter.on_granted(granted(true, true)),
            "expired" => waiter.on_grant_expired(),
            "void" => _ = waiter.on_void(now),
            "late" => waiter.on_late(now),
            "unfinished" => waiter.on_unfinished(now),
            "failed" => waiter.on_failed(),
            _ => panic!("no input {input}"),
        }
    }
}

/// Returns the content of a busy answer, if the input is one.
fn busy_named(input: &str) -> Option<Busy> {
    let mut busy = Busy {
        remaining: 30_000 * MS,
        subscription: Subscription::Active,
        ..Busy::default()
    };
    match input {
        "busy" => {}
        "busy-unheard" => busy.subscription = Subscription::Inactive,
        "beside" => busy.beside = true,
        "held" => busy.owner_holds = true,
        "entered" => busy.entered = true,
        _ => return None,
    }
    Some(busy)
}

/// Returns the names of the waiter's state and slot.
fn state_of(waiter: &Waiter, queued: bool) -> String {
    let name = |phase: Phase| {
        let shown = format!("{phase:?}");
        shown.split(' ').take(1).collect::<String>()
    };
    let state = match waiter.state {
        State::InLine(phase) => format!("InLine({})", name(phase)),
        State::Active(phase) => name(phase),
        State::GivenUp(restart) => format!("GivenUp({restart:?})"),
        State::Done => "Done".to_owned(),
    };
    if queued {
        format!("{state}/{:?}", waiter.slot)
    } else {
        state
    }
}

/// Returns a step without its times, or the prompt.
pub(super) fn brief(step: &Result<Step, Prompt>) -> String {
    match step {
        Err(prompt) => format!("Prompt({prompt:?})"),
        Ok(Step::AwaitTurn { .. }) => "AwaitTurn".to_owned(),
        Ok(Step::Wait { .. }) => "Wait".to_owned(),
        Ok(Step::Pause { .. }) => "Pause".to_owned(),
        Ok(step) => format!("{step:?}"),
    }
}
