//! An engine and a server that are sent the same, and the differences between them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redlatch_core::runtime::{Command, Reply};
use redlatch_embedded::engine::{Engine, Model, ServerTime, SessionId, SessionKind};
use redlatch_tests::server::Server;

use crate::{TROUBLES, client::Client, commands, compare, lua, server};

pub(crate) struct Pair {
    pub(crate) model: Model,
    pub(crate) differences: Vec<String>,
    pub(crate) exact_texts: bool,
    engine: Engine,
    session: SessionId,
    client: Client,
    history: Vec<Command>,
    /// The longest time that a round took since both were empty.
    longest: Duration,
}

impl Pair {
    pub(crate) fn new(real: &Server) -> Self {
        let (model, exact_texts) = server::model(real.binary());
        let mut engine = Engine::new(model, wall_clock());
        let session = engine.open(SessionKind::Command);
        let client = Client::connect(real.port()).unwrap();
        Self {
            model,
            differences: Vec::new(),
            exact_texts,
            engine,
            session,
            client,
            history: Vec::new(),
            longest: Duration::ZERO,
        }
    }

    /// Sends a round to both; stops at the first difference and starts both from nothing.
    pub(crate) fn run(&mut self, round: Vec<Command>) {
        let (now, begun) = (wall_clock(), Instant::now());
        let theirs = self.client.pipeline(round.iter());
        self.longest = self.longest.max(begun.elapsed());
        for (command, theirs) in round.into_iter().zip(theirs) {
            let ours = self.engine.execute(self.session, &command, now);
            self.history.push(command.clone());
            let both = (&ours, &theirs);
            if !compare::same(&command, both, self.exact_texts, self.longest) {
                self.note(&command, &ours, &theirs);
                self.start_over();
                return;
            }
        }
    }

    /// Returns the field of a hash as the engine alone has it.
    pub(crate) fn field(&mut self, key: &str, field: &str) -> Option<String> {
        let look = Command::new("HGET").arg(key).arg(field);
        let found = self.engine.execute(self.session, &look, wall_clock());
        found.ok()?.as_str().map(str::to_owned)
    }

    /// Sends a round while a parameter is set that makes the server refuse commands.
    pub(crate) fn run_under(&mut self, trouble: Option<&str>, round: Vec<Command>) {
        let Some(parameter) = trouble else {
            return self.run(round);
        };
        let config = || Command::new("CONFIG").arg("SET").arg(parameter);
        let set = |value: &str| config().arg(value);
        self.run(std::iter::once(set("1")).chain(round).collect());
        self.run(vec![set("0")]);
    }

    /// Compares all that is stored.
    pub(crate) fn compare_data(&mut self) {
        self.run(commands::looks());
        // What led to equal data needs no telling any more; enough is kept to see where the data
        // come from.
        let keep = self.history.len().saturating_sub(5000);
        self.history.drain(..keep);
    }

    /// Panics if there were differences, having shown them.
    pub(crate) fn report(&self, seed: u64) {
        for difference in &self.differences {
            println!("{difference}");
        }
        let (model, same) = (self.model, self.differences.is_empty());
        assert!(same, "{model:?} differs from its server, seed {seed}");
    }

    fn note(&mut self, command: &Command, ours: &Reply, theirs: &Reply) {
        let keys = command.args().skip(1).filter(|arg| commands::is_key(arg));
        let keys: Vec<_> = keys.collect();
        let is_related = |old: &&Command| old.args().any(|arg| keys.contains(&arg));
        let related: Vec<_> = self.history.iter().filter(is_related).collect();
        let from = related.len().saturating_sub(8);
        let mut text = String::from("--- difference after\n");
        for old in &related[from..] {
            let shown = format!("    {old:?}\n");
            text.push_str(&shown.replace(format!("{:?}", lua::SHOW).trim_matches('"'), "SHOW "));
        }
        let (ours, theirs) = (compare::show(ours), compare::show(theirs));
        text.push_str(&format!("    engine {ours}\n    server {theirs}"));
        self.differences.push(text);
    }

    fn start_over(&mut self) {
        let quiet = |name: &str| Command::new("CONFIG").arg("SET").arg(name).arg("0");
        let resets = TROUBLES.map(quiet).into_iter();
        let resets: Vec<_> = resets.chain([Command::new("FLUSHALL")]).collect();
        for (reset, reply) in resets.iter().zip(self.client.pipeline(resets.iter())) {
            reply.unwrap();
            let ours = self.engine.execute(self.session, reset, wall_clock());
            ours.unwrap();
        }
        self.history.clear();
        self.longest = Duration::ZERO;
    }
}

fn wall_clock() -> ServerTime {
    ServerTime::default().after(SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
}
