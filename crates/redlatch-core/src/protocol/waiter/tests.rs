mod table;

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

fn step(waiter: &mut Waiter, ms: u64) -> Step {
    waiter.step(at(ms), &QueueView::NONE, 0, &mut RateLimiter::new(1000))
}

fn busy(waiter: &mut Waiter, ms: u64, remaining: Duration, subscription: Subscription) {
    let busy = Busy {
        remaining,
        subscription,
        ..Busy::default()
    };
    assert_eq!(waiter.on_busy(at(ms), busy), None);
}

fn wait(until: Moment) -> Step {
    let listen = Listen::Own;
    Step::Wait { until, listen }
}

fn wait_for_all(until: Moment) -> Step {
    let listen = Listen::Everyone;
    Step::Wait { until, listen }
}

// L23
#[test]
fn queued_waiter_takes_its_ticket_before_it_subscribes() {
    let queued = Plan {
        discipline: Discipline::Queued,
        ..plan()
    };
    let mut it = Waiter::new(queued, at(0), Subscription::Inactive);
    assert_eq!(step(&mut it, 0), Step::Send(Registration::Notified));
    busy(&mut it, 1, Duration::MAX, Subscription::Inactive);
    assert_eq!(step(&mut it, 1), Step::Subscribe);
    it.on_subscribed();
    assert_eq!(step(&mut it, 2), Step::Send(Registration::Notified));
    it.on_unfinished(at(3));
    assert_eq!(step(&mut it, 3), Step::Send(Registration::Notified));
    busy(&mut it, 4, Duration::MAX, Subscription::Active);
    assert_eq!(step(&mut it, 4), wait_for_all(at(1604)));
    let mut queue = QueueView {
        turn: Turn::Others,
        heard: at(4),
        ..QueueView::NONE
    };
    let in_line = it.step(at(5), &queue, 0, &mut RateLimiter::new(1000));
    let in_line = matches!(in_line, Step::AwaitTurn { until, .. } if until == at(1005));
    assert!(in_line, "it looks whether the first one is polled");
    (queue.turn, queue.heard) = (Turn::Ours, at(1000));
    let first = it.step(at(1100), &queue, 0, &mut RateLimiter::new(1000));
    assert_eq!(
        first,
        wait_for_all(at(2600)),
        "as long after the last answer"
    );
}

#[test]
fn booked_recheck_keeps_its_time_and_to_the_rate_limit() {
    let nothing: fn(&mut Waiter) = |_| ();
    let requeue: fn(&mut Waiter) = |it| it.on_prompt(Prompt::Requeue);
    let elapse: fn(&mut Waiter) = Waiter::on_elapsed;
    for (due, interrupt) in [(elapse, nothing), (requeue, requeue)] {
        let mut limiter = RateLimiter::new(10);
        limiter.book(at(0));
        let mut it = Waiter::new(plan(), at(0), Subscription::Active);
        let mut next = |it: &mut Waiter, ms| it.step(at(ms), &QueueView::NONE, 0, &mut limiter);
        assert_eq!(next(&mut it, 0), Step::Send(Registration::Notified));
        busy(&mut it, 0, 30_000 * MS, Subscription::Active);
        due(&mut it);
        assert_eq!(next(&mut it, 1), wait(at(100)));
        interrupt(&mut it);
        assert_eq!(next(&mut it, 2), wait(at(100)));
        it.on_elapsed();
        assert_eq!(next(&mut it, 100), Step::Send(Registration::Notified));
    }
}

// L7
#[test]
fn unsubscribed_waiter_rechecks_by_the_clock_and_subscribes_again() {
    let mut it = Waiter::new(plan(), at(0), Subscription::Active);
    step(&mut it, 0);
    busy(&mut it, 1, 30_000 * MS, Subscription::Inactive);
    assert_eq!(step(&mut it, 1), wait(at(251)));
    it.on_notified();
    assert_eq!(step(&mut it, 251), Step::Send(Registration::None));
    busy(&mut it, 252, 30_000 * MS, Subscription::Inactive);
    assert_eq!(step(&mut it, 252), Step::Subscribe);
    it.on_unsubscribed();
    assert_eq!(step(&mut it, 252), wait(at(502)));
}

// L3, L4
#[test]
fn deadline_bounds_the_wait_and_failure_is_not_contention() {
    let plan = Plan {
        give_up: GiveUp::At(at(200)),
        ..plan()
    };
    let mut it = Waiter::new(plan, at(0), Subscription::Active);
    step(&mut it, 0);
    assert_eq!(it.plan().bound(at(1000)), at(200));
    busy(&mut it, 10, 30_000 * MS, Subscription::Active);
    assert_eq!(step(&mut it, 10), wait(at(200)));
    it.on_notified();
    step(&mut it, 200);
    busy(&mut it, 201, 30_000 * MS, Subscription::Active);
    assert_eq!(step(&mut it, 201), Step::End(End::Busy));

    let mut it = Waiter::new(plan, at(0), Subscription::Active);
    step(&mut it, 0);
    it.on_failed();
    assert!(matches!(step(&mut it, 100), Step::Pause { .. }));
    it.on_notified();
    step(&mut it, 150);
    it.on_failed();
    assert_eq!(step(&mut it, 200), Step::End(End::Unanswered));
}

#[test]
fn patience_ends_with_silence_and_starts_anew_with_an_answer() {
    let mut it = Waiter::new(plan(), at(0), Subscription::Active);
    step(&mut it, 0);
    it.on_failed();
    // A pause ends with the patience, and so does the last request, a second later at most.
    assert_eq!(step(&mut it, 9_990), Step::Pause { until: at(9_995) });
    assert_eq!(step(&mut it, 9_999), Step::Pause { until: at(10_000) });
    it.on_notified();
    step(&mut it, 9_999);
    busy(&mut it, 10_000, 30_000 * MS, Subscription::Active);
    it.on_notified();
    step(&mut it, 11_000);
    it.on_failed();
    assert!(matches!(step(&mut it, 19_999), Step::Pause { .. }));
    assert_eq!(step(&mut it, 20_000), Step::End(End::Unanswered));
}

#[test]
fn polling_never_subscribes_or_registers() {
    let backoff = Backoff::exponential(10 * MS, 100 * MS);
    let plan = Plan {
        strategy: WaitStrategy::Poll(backoff),
        ..plan()
    };
    let mut it = Waiter::new(plan, at(0), Subscription::Active);
    assert_eq!(step(&mut it, 0), Step::Send(Registration::None));
    busy(&mut it, 0, 30_000 * MS, Subscription::Active);
    assert_eq!(step(&mut it, 0), Step::Pause { until: at(5) });
    it.on_notified();
    busy(&mut it, 5, 30_000 * MS, Subscription::Active);
    assert_eq!(step(&mut it, 5), Step::Pause { until: at(15) });
}

#[test]
fn overdue_first_waiter_is_checked_by_the_next() {
    let (slow, fast) = (2000 * MS, 1000 * MS);
    for (discipline, overdue) in [(Discipline::Barging, slow), (Discipline::Queued, fast)] {
        let mut it = Waiter::new(
            Plan {
                discipline,
                ..plan()
            },
            at(0),
            Subscription::Active,
        );
        it.slot = ServerSlot::Queued;
        it.state = State::Active(Phase::Waiting {
            remaining: Duration::MAX,
        });
        for (first_back_at, look) in [
            (None, at(100) + overdue),
            (Some(at(50)), at(51) + overdue),
            // The first waiter's future is not polled, and the next one has announced nothing.
            (Some(at(0)), at(1) + overdue),
            (Some(at(60_000)), at(100) + slow),
        ] {
            let queue = QueueView {
                turn: Turn::Others,
                first_back_at,
                ..QueueView::NONE
            };
            let in_line = it.step(at(100), &queue, 0, &mut RateLimiter::new(1000));
            let until = look;
            let expected = Step::AwaitTurn { until, overdue };
            assert_eq!(in_line, expected, "{discipline:?} {first_back_at:?}");
        }
    }
}

#[test]
fn waiters_admitted_together_notify_each_other_after_a_recheck() {
    let nothing: fn(&mut Waiter) = |_| ();
    let busy = |it: &mut Waiter| busy(it, 0, 100 * MS, Subscription::Active);
    let (told, asks) = (Waiter::on_notified, Waiter::on_elapsed);
    let (together, one_by_one) = (Admission::Together, Admission::OneByOne);
    let retry = Some(Prompt::Retry);
    for (admission, course, prompt, why) in [
        (together, [nothing, nothing], None, "nobody had to wait"),
        (together, [busy, told], None, "the message reached it"),
        (together, [busy, asks], retry, "it asked"),
        (one_by_one, [busy, asks], None, "only one is let in"),
    ] {
        let plan = Plan {
            admission,
            ..plan()
        };
        let mut it = Waiter::new(plan, at(0), Subscription::Active);
        for (event, ms) in course.into_iter().zip([0, 50]) {
            step(&mut it, ms);
            event(&mut it);
        }
        step(&mut it, 102);
        assert_eq!(it.on_granted(Granted::default()), prompt, "{why}");
    }
}

#[test]
fn a_queued_waiter_that_polls_takes_a_slot_and_asks_by_itself() {
    let mut it = Waiter::new(
        Plan {
            strategy: WaitStrategy::Poll(Backoff::constant(60_000 * MS)),
            discipline: Discipline::Queued,
            ..plan()
        },
        at(0),
        Subscription::Inactive,
    );
    let queue = QueueView {
        turn: Turn::Others,
        ..QueueView::NONE
    };
    let mut limiter = RateLimiter::new(1000);
    let first = it.step(at(0), &queue, 0, &mut limiter);
    assert_eq!(first, Step::Send(Registration::Silent));
    busy(&mut it, 0, Duration::MAX, Subscription::Inactive);
    let second = it.step(at(0), &queue, 0, &mut limiter);
    // The server would count a silent waiter as dead.
    assert_eq!(second, Step::Pause { until: at(2000) });
}
