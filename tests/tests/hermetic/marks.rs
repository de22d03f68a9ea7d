//! Marks of undone attempts, which keep late copies of them from acting: what they cost, and that
//! they go away.

use std::{collections::BTreeMap, time::Duration};

use redlatch::runtime::{Command, Value};
use redlatch_embedded::engine::{Engine, Model, ServerTime, SessionId, SessionKind};
use redlatch_lua::POOL;
use redlatch_tests::attempts::{Act, FAR, Kind};

struct Bed {
    engine: Engine,
    now: ServerTime,
    session: SessionId,
}

impl Bed {
    fn new(model: Model) -> Self {
        let now = ServerTime::from_micros(1_700_000_000_123_456);
        let mut engine = Engine::new(model, now);
        let session = engine.open(SessionKind::Command);
        Self {
            engine,
            now,
            session,
        }
    }

    fn execute<A: AsRef<str>>(&mut self, args: &[A]) -> Value {
        let mut args = args.iter();
        let head = Command::new(args.next().unwrap().as_ref());
        let command = args.fold(head, |command, arg| command.arg(arg.as_ref()));
        self.engine
            .execute(self.session, &command, self.now)
            .unwrap()
    }

    /// Returns the verdict.
    fn act(&mut self, kind: Kind, act: Act, by: u64, attempt: &str) -> String {
        let reply = self.execute(&eval(kind, act, by, attempt));
        let items = redlatch_core::family::listed(reply);
        items.as_array().unwrap()[1].as_str().unwrap().to_owned()
    }

    /// Takes the name and gives it back; returns how many commands that runs, and the length of the
    /// longest field.
    fn cost(&mut self, kind: Kind, attempt: &str) -> (u64, usize) {
        let before = self.commands();
        for act in [Act::Acquire, Act::Release] {
            self.act(kind, act, FAR, attempt);
        }
        let after = self.commands();
        (after - before - 2, self.size(kind))
    }

    /// Changes a pool of three permits.
    fn change(&mut self, kind: Kind, verb: &str, ttl: &str) {
        let key = kind.key();
        let keys = ["", ":d", ":q", ":l", ":o", ":p"].map(|part| format!("{key}{part}"));
        let by = FAR.to_string();
        let head = ["EVAL", POOL.change.text, "6"];
        let args = [&by, "pool:1", &format!("c:{verb}"), "30000", verb, "3", ttl];
        let words = head
            .into_iter()
            .chain(keys.iter().map(String::as_str))
            .chain(args);
        self.execute(&words.collect::<Vec<_>>());
    }

    fn commands(&self) -> u64 {
        self.engine.command_counts().values().sum()
    }

    fn fields(&mut self, kind: Kind) -> BTreeMap<String, String> {
        let reply = self.execute(&["HGETALL", &kind.key()]);
        let items: Vec<_> = reply
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap().to_owned())
            .collect();
        items
            .chunks(2)
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect()
    }

    /// Returns the length of the longest field.
    fn size(&mut self, kind: Kind) -> usize {
        self.fields(kind)
            .values()
            .map(String::len)
            .max()
            .unwrap_or(0)
    }

    fn marks(&mut self, kind: Kind) -> usize {
        let fields = self.fields(kind);
        fields.keys().filter(|field| field.starts_with('v')).count()
    }
}

fn eval(kind: Kind, act: Act, by: u64, attempt: &str) -> Vec<String> {
    let (script, keys, args) = kind.call(act, by, attempt);
    let head = [
        "EVAL".to_owned(),
        script.text.to_owned(),
        keys.len().to_string(),
    ];
    head.into_iter().chain(keys).chain(args).collect()
}

#[test]
fn marks_of_a_name_in_use_are_removed() {
    for model in Model::ALL {
        for kind in Kind::ALL {
            let mut bed = Bed::new(model);
            bed.act(kind, Act::Acquire, FAR, "a:1");
            bed.act(kind, Act::Release, FAR, "a:1");
            let (commands, _) = bed.cost(kind, "a:2");
            let void = bed.now.millis() + 5_000;
            let mut costs = Vec::new();
            for n in 0..320 {
                let before = bed.commands();
                bed.act(kind, Act::Undo(void), FAR, &format!("b:{n}"));
                costs.push(bed.commands() - before);
            }
            assert!(costs.iter().all(|&cost| cost <= 12), "{kind:?} {costs:?}");
            assert_eq!(bed.act(kind, Act::Acquire, void, "b:0"), "void");
            assert_eq!(bed.act(kind, Act::Acquire, void, "b:319"), "void");
            let (with, longest) = bed.cost(kind, "a:3");
            assert!(
                with <= commands + 1,
                "{kind:?}: {with} commands, {commands} before"
            );
            let chunk = 14 + 64 * 8;
            assert!(longest <= chunk, "{kind:?}: a field of {longest} bytes");
            // The name stays in use.
            let mut most = 0;
            for n in 0..60 {
                bed.now = bed.now.after(Duration::from_millis(100));
                most = most.max(bed.cost(kind, &format!("a:n{n}")).0);
            }
            assert!(
                most <= commands + 6,
                "{kind:?}: {most} commands, {commands} before"
            );
            assert_eq!(bed.marks(kind), 0, "{kind:?} {:?}", bed.fields(kind));
            assert_eq!(bed.cost(kind, "a:4").0, commands, "{kind:?}");
        }
    }
}

/// A later undo of the same attempt may reach further. The mark lasts until the last of them is
/// over.
#[test]
fn prolonged_mark_lasts_until_its_new_end() {
    for kind in Kind::ALL {
        let mut bed = Bed::new(Model::default());
        let (from, second) = (bed.now.millis(), Duration::from_secs(1));
        bed.act(kind, Act::Undo(from + 1_000), FAR, "b:0");
        bed.now = bed.now.after(second / 2);
        bed.act(kind, Act::Undo(from + 5_000), FAR, "b:0");
        for n in 0..4 {
            bed.now = bed.now.after(second);
            bed.cost(kind, &format!("a:{n}"));
            assert_eq!(
                bed.act(kind, Act::Acquire, from + 5_000, "b:0"),
                "void",
                "{kind:?} {n}"
            );
        }
        bed.now = bed.now.after(3 * second);
        bed.cost(kind, "a:x");
        bed.cost(kind, "a:y");
        assert_eq!(bed.marks(kind), 0, "{kind:?} {:?}", bed.fields(kind));
    }
}

/// Attempts that are undone at a steady rate leave the marks of five seconds, and a chunk of them.
#[test]
fn marks_do_not_pile_up() {
    for kind in Kind::ALL {
        let mut bed = Bed::new(Model::default());
        for n in 0..400 {
            bed.now = bed.now.after(Duration::from_millis(100));
            let void = bed.now.millis() + 5_000 - n % 7 * 500;
            bed.act(kind, Act::Undo(void), FAR, &format!("b:{n}"));
            assert!(bed.marks(kind) < 150, "{kind:?}: {}", bed.marks(kind));
        }
    }
}

/// Nobody comes to remove the marks: the key's own end does.
#[test]
fn marks_of_a_name_that_nobody_uses_end_with_its_key() {
    for kind in Kind::ALL {
        let mut bed = Bed::new(Model::default());
        let from = bed.now.millis();
        for n in 0..100 {
            bed.act(kind, Act::Undo(from + 5_000), FAR, &format!("b:{n}"));
        }
        let ttl = bed.execute(&["PTTL", &kind.key()]).as_int().unwrap();
        assert!((5_000..=600_000).contains(&ttl), "{kind:?} {ttl}");
        bed.now = bed.now.after(Duration::from_millis(600_001));
        assert_eq!(
            bed.execute(&["EXISTS", &kind.key()]),
            Value::Int(0),
            "{kind:?}"
        );
    }
}

/// A pool that ends by its time, or is deleted, may be made anew while copies are under way.
#[test]
fn marks_outlive_their_pool() {
    for kind in [Kind::Semaphore, Kind::Permits] {
        for deleted in [false, true] {
            let mut bed = Bed::new(Model::default());
            let from = bed.now.millis();
            bed.change(kind, "set", "1000");
            for n in 0..200 {
                bed.act(kind, Act::Undo(from + 5_000), FAR, &format!("b:{n}"));
            }
            if deleted {
                bed.change(kind, "delete", "");
            } else {
                bed.now = bed.now.after(Duration::from_secs(2));
            }
            for n in [0, 63, 64, 199] {
                let verdict = bed.act(kind, Act::Acquire, from + 5_000, &format!("b:{n}"));
                assert_eq!(verdict, "void", "{kind:?} {n}");
            }
            assert_eq!(bed.act(kind, Act::Acquire, FAR, "a:1"), "granted");
            assert_eq!(bed.act(kind, Act::Release, FAR, "a:1"), "released");
            bed.now = bed.now.after(Duration::from_secs(6));
            for n in 0..5 {
                bed.cost(kind, &format!("a:n{n}"));
            }
            assert_eq!(bed.marks(kind), 0, "{:?}", bed.fields(kind));
        }
    }
}
