//! The vectors of clients, `vectors/client`: what the pure parts of this client send, decide and
//! believe. The Python client plays the same ones.
//!
//! Which copies a release has to stop is decided by the engine's `Attempt`, which needs a client.
//! So `void` and the address of a release are taken from the vector here.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value as Json, json};

use super::{FAIR_LOCK, PLAIN, object};
use crate::{
    Owner, Released, Token,
    base::{
        owner::{AttemptId, ClientId, Numbers},
        primitive::{
            AcquireRequest, Answer, Primitive, ReleaseRequest, RenewRequest, Renewed, WaiterAddress,
        },
        script::ScriptCall,
    },
    family::exclusive::kind::Object,
    protocol::{
        hold::{HoldState, LocalLease},
        lease::Trust,
        renewal::{Renewal, RenewalTable},
        server_clock::ServerClock,
        time::{Moment, at},
        waiter::{
            Admission, Busy, End, GiveUp, Granted, Limits, Plan, QueueView, Registration, Step,
            Subscription, WaitStrategy, Waiter,
        },
    },
    runtime::{Command, Value},
};

const STARTED: u64 = 1_700_000_000_000;
const RETENTION: Duration = Duration::from_secs(600);

#[test]
fn client_does_as_the_vectors_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/client");
    let mut played = 0;
    for file in ["plain.json", "fair.json"] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        let file: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(file["version"], json!(1));
        for scenario in file["scenarios"].as_array().unwrap() {
            Player::new(&file["client"], scenario).play(scenario);
            played += 1;
        }
    }
    assert!(played > 40, "{played}");
}

struct Player {
    object: Object,
    numbers: Numbers,
    owner: Owner,
    attempt: AttemptId,
    lease: Duration,
    jitter: u64,
    clock: ServerClock,
    waiter: Waiter,
    subscription: Subscription,
    /// When the last wait or pause ends.
    until: Option<Moment>,
    sent: Moment,
    phase: Phase,
    hold: LocalLease,
    token: Option<Token>,
    resent: bool,
    answer: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Acquiring,
    Held,
    Renewing,
    Releasing,
}

impl Player {
    fn new(client: &Json, scenario: &Json) -> Self {
        let kind = match scenario["kind"].as_str().unwrap() {
            "plain" => &PLAIN,
            _ => &FAIR_LOCK,
        };
        let numbers = Numbers::new(ClientId::from_entropy(7));
        assert_eq!(json!(numbers.client().as_str()), *client);
        let (owner, attempt) = (numbers.owner(), AttemptId::draw(&numbers));
        let give_up = match (&scenario["mode"], scenario["deadline"].as_u64()) {
            (mode, _) if mode == "try" => GiveUp::AtFirstAnswer,
            (_, Some(deadline)) => GiveUp::At(at(deadline)),
            _ => GiveUp::Never,
        };
        let plan = Plan {
            give_up,
            strategy: WaitStrategy::Notify,
            discipline: kind.discipline,
            admission: Admission::OneByOne,
            patience: Duration::from_secs(10),
        };
        let subscription = Subscription::from(scenario["subscribed"].as_bool().unwrap());
        let jitter = scenario["jitter"].as_f64().unwrap();
        Self {
            object: object(kind),
            lease: ms(&scenario["lease"]),
            jitter: (jitter * u64::MAX as f64) as u64,
            clock: ServerClock::new(at(0), STARTED),
            waiter: Waiter::new(plan, at(0), subscription),
            subscription,
            until: None,
            sent: at(0),
            phase: Phase::Acquiring,
            hold: LocalLease::new(Trust::default(), at(0), Duration::ZERO),
            token: None,
            resent: false,
            answer: Value::Nil,
            numbers,
            owner,
            attempt,
        }
    }

    fn play(&mut self, scenario: &Json) {
        for step in scenario["steps"].as_array().unwrap() {
            let title = format!("{} {}: {step}", self.object.kind.label, scenario["name"]);
            let now = at(step["at"].as_u64().unwrap());
            let known = self.input(step, now, &title) || self.output(step, now, &title);
            assert!(known || self.held(step, now, &title), "{title}");
        }
    }

    /// Tells the client what has happened.
    fn input(&mut self, step: &Json, now: Moment, title: &str) -> bool {
        if let Some(reply) = step.get("reply") {
            self.answer = value(reply);
            self.replied(now, title);
        } else if step.get("no_answer").is_some() {
            match self.phase {
                Phase::Acquiring => self.waiter.on_failed(),
                Phase::Renewing => drop(self.hold.troubled(now)),
                _ => self.resent = true,
            }
        } else if let Some(text) = step.get("message").and_then(Json::as_str) {
            let own = format!("{} {}", self.object.key(), self.attempt.number());
            if text == self.object.key().as_str() || text == own {
                self.waiter.on_notified();
                self.until = None;
            }
        } else if let Some(subscribed) = step.get("subscribed").and_then(Json::as_bool) {
            self.subscription = subscribed.into();
            match subscribed {
                true => self.waiter.on_subscribed(),
                false => self.waiter.on_unsubscribed(),
            }
        } else {
            return step.get("abandon").is_some();
        }
        true
    }

    fn replied(&mut self, now: Moment, title: &str) {
        let millis = crate::base::items::server_millis(&self.answer).expect(title);
        self.clock.observe(now, millis);
        match self.phase {
            Phase::Acquiring => self.answered(now),
            Phase::Renewing => match self.renewed() {
                Renewed::Renewed => {
                    let trust = Trust::default();
                    self.hold.extended(trust, self.sent, self.lease, now);
                }
                Renewed::Lost(cause) => drop(self.hold.lose(cause, now)),
                other => panic!("{title}: {other:?}"),
            },
            _ => {}
        }
    }

    fn renewed(&self) -> Renewed {
        let script = &self.object.kind.scripts.renew;
        self.object.renewed(script, &self.answer).unwrap()
    }

    fn answered(&mut self, now: Moment) {
        match self.object.acquired(&self.answer).unwrap() {
            Answer::Granted(grant) => {
                let mut hold = LocalLease::new(Trust::default(), self.sent, self.lease);
                if let HoldState::Lost(_) = hold.state(now) {
                    self.waiter.on_grant_expired();
                } else {
                    self.waiter.on_granted(Granted::default());
                    self.token = Some(grant.token);
                    (self.hold, self.phase) = (hold, Phase::Held);
                }
            }
            Answer::Busy {
                remaining, entered, ..
            } => {
                let busy = Busy {
                    remaining,
                    subscription: self.subscription,
                    entered,
                    ..Busy::default()
                };
                self.waiter.on_busy(now, busy);
            }
            Answer::Unfinished => self.waiter.on_unfinished(now),
            Answer::Late => self.waiter.on_late(now),
            Answer::Void => _ = self.waiter.on_void(now),
        }
    }

    /// Compares the next step of an acquisition.
    fn output(&mut self, step: &Json, now: Moment, title: &str) -> bool {
        if let Some(call) = step.get("send") {
            let Step::Send(registration) = self.next(now) else {
                panic!("{title}: nothing is sent");
            };
            self.sent = now;
            let sent = self.acquire(registration, step["send"]["args"][8] != "", now);
            assert_eq!(sent, *call, "{title}");
        } else if let Some(until) = step.get("wait") {
            let (until, found) = (moment(until), self.next(now));
            let waits = matches!(found, Step::Wait { until: found, .. } if found == until);
            assert!(waits, "{title}: {found:?}");
            self.until = Some(until);
        } else if let Some(until) = step.get("pause") {
            let until = moment(until);
            assert_eq!(self.next(now), Step::Pause { until }, "{title}");
            self.until = Some(until);
        } else if step.get("subscribe").is_some() {
            assert_eq!(self.next(now), Step::Subscribe, "{title}");
        } else if let Some(over) = step.get("start_over") {
            assert!(matches!(self.next(now), Step::StartOver(_)), "{title}");
            self.compare_release(&over["undo"], None, title);
            self.attempt = AttemptId::draw(&self.numbers);
        } else if let Some(how) = step.get("ended") {
            let end = if how == "busy" {
                End::Busy
            } else {
                End::Unanswered
            };
            assert_eq!(self.next(now), Step::End(end), "{title}");
        } else if let Some(call) = step.get("undo") {
            self.compare_release(call, None, title);
        } else {
            return false;
        }
        true
    }

    /// Compares what the holder does and believes.
    fn held(&mut self, step: &Json, now: Moment, title: &str) -> bool {
        let until = |hold: &LocalLease| json!(millis(hold.valid_until()));
        if let Some(granted) = step.get("granted") {
            let token = self.token.map(|token| json!(token.to_string()));
            assert_eq!(token.as_ref(), granted.get("token"), "{title}");
            assert_eq!(until(&self.hold), granted["valid_until"], "{title}");
        } else if let Some(due) = step.get("renew_due") {
            assert_eq!(self.due(now), *due, "{title}");
        } else if let Some(call) = step.get("renew") {
            (self.sent, self.phase) = (now, Phase::Renewing);
            let request = RenewRequest {
                owner: &self.owner,
                token: self.token.unwrap(),
                serial: 0,
                attempt: &self.attempt,
                lease: self.lease,
                retention: RETENTION,
            };
            let renewal = self.object.renew(&request);
            assert_eq!(self.wire(&renewal, now), *call, "{title}");
        } else if let Some(state) = step.get("state") {
            let (word, cause) = match self.hold.state(now) {
                HoldState::Held => ("held", None),
                HoldState::Unknown => ("unknown", None),
                HoldState::Lost(cause) => ("lost", Some(cause.as_str())),
            };
            assert_eq!(*state, word, "{title}");
            assert_eq!(until(&self.hold), step["valid_until"], "{title}");
            assert_eq!(cause, step.get("cause").and_then(Json::as_str), "{title}");
        } else if let Some(call) = step.get("release") {
            self.phase = Phase::Releasing;
            self.compare_release(call, self.token, title);
        } else if let Some(outcome) = step.get("released") {
            let script = &self.object.kind.scripts.release;
            let reply = self.object.released(script, &self.answer).unwrap();
            let released = Released::of(reply, self.resent);
            assert_eq!(*outcome, word(released), "{title}");
        } else {
            return false;
        }
        true
    }

    fn next(&mut self, now: Moment) -> Step {
        if self.until.take().is_some_and(|until| until <= now) {
            self.waiter.on_elapsed();
        }
        let mut limiter = Limits::new(1000);
        self.waiter
            .step(now, &QueueView::NONE, self.jitter, &mut limiter)
    }

    /// Returns the bounds of the next renewal.
    fn due(&self, now: Moment) -> Json {
        let bounds = [0, u64::MAX].map(|random| {
            let (mut table, mut renewal) = (RenewalTable::default(), Renewal::default());
            table.insert(1, &mut renewal, (), (self.lease, None), self.sent, random);
            if self.phase == Phase::Renewing {
                let due = table.take_due(Moment::FAR_FUTURE).remove(0);
                assert!(renewal.begin(due.at));
                table.answered(1, &mut renewal, (), None, now, random);
            }
            table.next_due().map(millis)
        });
        json!(bounds)
    }

    fn channel(&self) -> String {
        format!("redlatch:w:{}", self.numbers.client())
    }

    fn address<'a>(&self, channel: &'a str) -> WaiterAddress<'a> {
        WaiterAddress {
            prompted: false,
            verb: "PUBLISH",
            channel,
            attempt: self.attempt.number(),
            number: None,
            order: None,
        }
    }

    fn acquire(&self, registration: Registration, queues: bool, now: Moment) -> Json {
        let channel = self.channel();
        let register = registration != Registration::None;
        let request = AcquireRequest {
            owner: &self.owner,
            attempt: &self.attempt,
            lease: self.lease,
            retention: RETENTION,
            address: queues.then(|| self.address(&channel)),
            register: register.then_some(Duration::from_secs(5)),
        };
        self.wire(&self.object.acquire(&request), now)
    }

    fn compare_release(&self, call: &Json, token: Option<Token>, title: &str) {
        if call.is_null() {
            return;
        }
        let channel = self.channel();
        let call_of = |text: &Json| text.as_str().unwrap().parse().ok();
        let request = ReleaseRequest {
            owner: &self.owner,
            attempt: &self.attempt,
            token,
            serial: None,
            void_by: call_of(&call["args"][4]),
            retention: RETENTION,
            address: (call["args"][5] != "").then(|| self.address(&channel)),
            left: 0,
            forgotten: 0,
        };
        let release = self.object.release(&request);
        assert_eq!(self.wire(&release, at(0)), *call, "{title}");
    }

    /// Returns the script, `KEYS` and `ARGV` of a call that is sent now.
    fn wire(&self, call: &ScriptCall, now: Moment) -> Json {
        let command: Command = call.evalsha(self.clock.act_before(now));
        let words = command.words().split_off(2);
        let keys: usize = words[0].parse().unwrap();
        let (keys, args) = words[1..].split_at(keys);
        json!({ "script": call.script().name, "keys": keys, "args": args })
    }
}

fn ms(number: &Json) -> Duration {
    Duration::from_millis(number.as_u64().unwrap())
}

fn moment(number: &Json) -> Moment {
    Moment::from_origin(Duration::from_secs_f64(number.as_f64().unwrap() / 1000.0))
}

fn millis(moment: Moment) -> u64 {
    u64::try_from(moment.since_origin().as_millis()).unwrap()
}

fn value(json: &Json) -> Value {
    match json {
        Json::Number(number) => Value::Int(number.as_i64().unwrap()),
        Json::String(text) => Value::Bulk(text.clone().into_bytes()),
        Json::Array(items) => Value::Array(items.iter().map(value).collect()),
        other => panic!("{other}"),
    }
}

const fn word(released: Released) -> &'static str {
    match released {
        Released::Free => "free",
        Released::StillHeld(_) => "still_held",
        Released::Expired => "expired",
        Released::TakenOver => "taken_over",
        Released::Revoked => "revoked",
        Released::Forgotten => "forgotten",
        Released::Unconfirmed => "unconfirmed",
    }
}
