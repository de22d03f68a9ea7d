//! The courses of waiters with their times. `table.rs` has each transition by itself.

mod table;

use self::table::{Scene, brief};
use super::*;
use crate::protocol::{backoff::Backoff, time::at};

const MS: Duration = Duration::from_millis(1);

fn plan() -> Plan {
    Plan {
        give_up: GiveUp::Never,
        strategy: WaitStrategy::Notify,
        discipline: Discipline::Barging,
        admission: Admission::OneByOne,
        patience: 10_000 * MS,
    }
}

/// The name of a course with the options of its waiter. A row below it has the time in ms, the
/// inputs at that time, the resulting step, and the end of that step.
const COURSES: &str = "
queued waiter takes its ticket before it subscribes: queued inactive
0      -                        Send(Notified)
1      busy-unheard             Subscribe
2      subscribed               Send(Notified)
3      unfinished               Send(Notified)
4      busy                     Wait 1604
5      others                   AwaitTurn(1s) 1005
1100   ours,heard@1000          Wait 2600

queued waiter that polls takes a slot, and asks by itself before it counts as dead: queued rarely
0      others                   Send(Silent)
0      busy-unheard             Pause 2000

booked re-check keeps its time and to the rate limit: limited
0      -                        Send(Notified)
1      busy,elapsed             Wait 100
2      -                        Wait 100
100    elapsed                  Send(Notified)

re-check that is requested again keeps its time, too: limited
0      -                        Send(Notified)
1      busy,requeue             Wait 100
2      requeue                  Wait 100
100    elapsed                  Send(Notified)

unsubscribed waiter re-checks by the clock and subscribes again:
0      -                        Send(Notified)
1      busy-unheard             Wait 251
251    notified                 Send(None)
252    busy-unheard             Subscribe
252    unsubscribed             Wait 502

deadline bounds the wait: until-200
0      -                        Send(Notified)
10     busy                     Wait 200
199    notified                 Send(Notified)
201    busy                     End(Busy)

failure is not contention: until-200
0      -                        Send(Notified)
100    failed                   Pause 105
150    notified                 Send(Notified)
200    failed                   End(Unanswered)

pause and last request end with the patience, which starts anew with an answer:
0      -                        Send(Notified)
9990   failed                   Pause 9995
9999   -                        Pause 10000
9999   notified                 Send(Notified)
10000  busy                     Wait 11600
11000  notified                 Send(Notified)
19999  failed                   Pause 20000
20000  -                        End(Unanswered)

polling never subscribes or registers: often
0      -                        Send(None)
0      busy                     Pause 5
5      notified,busy            Pause 15

first waiter that is overdue is checked by the next:
0      busy                     Wait 1600
100    others                   AwaitTurn(2s) 2100
100    back@50                  AwaitTurn(2s) 2051
100    back@0                   AwaitTurn(2s) 2001
100    back@60000               AwaitTurn(2s) 2100

first waiter of an ordered queue is overdue sooner: queued
0      busy                     Wait 1600
100    others                   AwaitTurn(1s) 1100
100    back@50                  AwaitTurn(1s) 1051
100    back@0                   AwaitTurn(1s) 1001
100    back@60000               AwaitTurn(1s) 2100

waiter that has not had to wait prompts no other: together
0      -                        Send(Notified)
102    granted                  End(Busy)

waiter that the message has reached prompts no other: together
0      busy                     Wait 1600
50     notified                 Send(Notified)
102    granted                  End(Busy)

waiter that has asked by itself prompts all that are admitted with it: together
0      busy                     Wait 1600
50     elapsed                  Send(Notified)
102    granted                  Prompt(Retry)

only one is admitted:
0      busy                     Wait 1600
50     elapsed                  Send(Notified)
102    granted                  End(Busy)
";

// L3, L4, L7, L23
#[test]
fn waiters_take_each_step_at_its_time() {
    for course in COURSES.trim().split("\n\n") {
        let (head, rows) = course.split_once('\n').unwrap();
        let (name, options) = head.split_once(':').unwrap();
        let (mut scene, mut limiter) = scene_of(options);
        for row in rows.lines() {
            let cells: Vec<_> = row.split_whitespace().collect();
            let [ms, inputs, expected @ ..] = &cells[..] else {
                panic!("{name}: {row}");
            };
            scene.now = at(ms.parse().unwrap());
            for input in inputs.split(',').filter(|&input| input != "-") {
                match input.split_once('@') {
                    Some(("heard", ms)) => scene.queue.heard = at(ms.parse().unwrap()),
                    Some(("back", ms)) => scene.queue.first_back_at = Some(at(ms.parse().unwrap())),
                    _ => scene.apply(input),
                }
            }
            let step = dated(&scene.step(&mut limiter));
            assert_eq!(step, expected.join(" "), "{name}: {row}");
        }
    }
}

/// Returns a waiter with these options that starts at 0, and the rate limit of its client.
fn scene_of(options: &str) -> (Scene, Limits) {
    let (mut plan, mut subscription) = (plan(), Subscription::Active);
    let mut limiter = Limits::new(1000);
    for option in options.split_whitespace() {
        match option {
            "queued" => plan.discipline = Discipline::Queued,
            "together" => plan.admission = Admission::Together,
            "until-200" => plan.give_up = GiveUp::At(at(200)),
            "inactive" => subscription = Subscription::Inactive,
            "often" => {
                plan.strategy = WaitStrategy::Poll(Backoff::exponential(10 * MS, 100 * MS));
            }
            "rarely" => plan.strategy = WaitStrategy::Poll(Backoff::constant(60_000 * MS)),
            "limited" => {
                limiter = Limits::new(10);
                limiter.rechecks.book(at(0));
                limiter.requeues.book(at(0));
            }
            _ => panic!("no option {option}"),
        }
    }
    let waiter = Waiter::new(plan, at(0), subscription);
    (Scene::new(waiter, at(0)), limiter)
}

/// Returns a step with its times.
fn dated(step: &Result<Step, Prompt>) -> String {
    let ms = |until: Moment| until.since_origin().as_millis();
    match *step {
        Ok(Step::AwaitTurn { until, overdue }) => format!("AwaitTurn({overdue:?}) {}", ms(until)),
        Ok(Step::Wait { until, .. } | Step::Pause { until }) => {
            format!("{} {}", brief(step), ms(until))
        }
        _ => brief(step),
    }
}
