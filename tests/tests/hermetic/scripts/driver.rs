//! Drives the scripts of one kind in a random order, with replies that are lost, requests that are
//! sent again, and copies that come late. The kind contributes its operations, and a model that
//! says what each reply and the data have to be.

use std::{fmt, ops::Range, thread};

use redlatch_embedded::engine::KeyDump;

use super::prelude::*;

/// How far ahead of the server's time a request may act, in ms.
pub(crate) const REACH: u64 = 5_000;

/// Returns the seeds to run: those of the variable `REDLATCH_SEEDS`, a number or a range; else a
/// few, and more where tests may take their time.
pub(crate) fn seeds() -> Range<u64> {
    let few = if cfg!(feature = "servers") { 100 } else { 12 };
    let Ok(text) = std::env::var("REDLATCH_SEEDS") else {
        return 0..few;
    };
    match text.split_once("..") {
        Some((from, to)) => from.parse().unwrap()..to.parse().unwrap(),
        None => 0..text.parse().unwrap(),
    }
}

/// Runs a world with each model and each seed.
pub(crate) fn worlds(run: impl Fn(Model, u64)) {
    for model in Model::ALL {
        seeds().for_each(|seed| run(model, seed));
    }
}

/// The model is no accomplice: checks that runs of 200 worlds notice a script with a fault.
pub(crate) fn assert_noticed<K: Kind, R>(
    (script, right, wrong): (&'static Source, &str, &str),
    world: impl Fn(u64) -> World<K>,
    run: impl Fn(World<K>) -> R,
) {
    let text = script.text.replace(right, wrong);
    assert_ne!(text, script.text, "{right}");
    let noticed = (0..200).find(|&seed| {
        let mut world = world(seed);
        // A fault that is no script any more fails here.
        world.bed.replace(script.name, &text);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(world))).is_err()
    });
    let Some(seed) = noticed else {
        panic!("{} with {wrong}", script.name);
    };
    // The same world passes without the fault.
    run(world(seed));
}

/// A kind of object, with the model of one.
pub(crate) trait Kind: Sized {
    /// What an attempt asks for: a hold, or a change.
    type What: Clone;

    /// A request that belongs to no attempt.
    type Other: Clone;

    /// Draws what each copy of an attempt has by itself.
    fn draw(_: &mut Rng, _: &mut Self::What) {}

    /// Lets a request come to the server, and compares what it does with the model.
    fn act(world: &mut World<Self>, request: Request<Self::What, Self::Other>);

    /// Returns the times in ms at which something ends. May choose among the objects.
    fn ends(world: &mut World<Self>) -> Vec<u64>;

    /// Time has passed: the model forgets what the server was free to forget.
    fn passed(world: &mut World<Self>);

    /// Tells whether a full server may refuse a script that otherwise replies `answer`.
    fn wants_memory(_call: &Call, _answer: &[String]) -> bool {
        false
    }
}

/// A request on its way to the server.
#[derive(Clone)]
pub(crate) enum Request<W, O = Infallible> {
    /// A copy of an attempt, which may act until this ms.
    Ask(Attempt<W>, u64),
    /// Renews what an attempt holds, until this ms, for so many ms.
    Renew(Attempt<W>, u64, u64),
    /// Ends what an attempt has. Copies of the attempt may act until this ms.
    Release(Attempt<W>, Option<u64>),
    Other(O),
}

impl<W, O> Request<W, O> {
    /// Returns the change that this is, and until when it may act.
    pub(crate) fn change(self) -> (Attempt<W>, u64) {
        match self {
            Self::Ask(change, by) => (change, by),
            _ => unreachable!("a change is no hold"),
        }
    }
}

/// An attempt as its client knows it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt<W> {
    pub(crate) id: String,
    pub(crate) what: W,
    /// What its client knows to hold: the token, or what else names the hold.
    pub(crate) held: Option<u64>,
    /// When it was first sent, in ms.
    begun: u64,
    /// The largest `act_before` of all copies.
    by: u64,
    /// The number of copies without an answer, as far as the client knows.
    unanswered: usize,
}

impl<W> Attempt<W> {
    /// Returns until when copies may come; `None` if none is left.
    pub(crate) fn void(&self) -> Option<u64> {
        (self.unanswered > 0).then_some(self.by)
    }
}

/// How long a client sends copies of a change, in ms.
const INSIST: u64 = 20_000;

/// An engine with the clients of one kind.
pub(crate) struct World<K: Kind> {
    seed: u64,
    pub(crate) rng: Rng,
    pub(crate) bed: Bed,
    pub(crate) kind: K,
    pub(crate) attempts: Vec<Attempt<K::What>>,
    flying: Vec<Request<K::What, K::Other>>,
    numbers: u32,
    /// Whether each script first runs on a server in trouble.
    probing: bool,
    /// How often a client has heard of a hold that it had not asked for again.
    pub(crate) ahead: usize,
    history: Vec<Event>,
}

/// Whatever has failed, the story says where.
impl<K: Kind> Drop for World<K> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.story());
        }
    }
}

/// A line of the story. Only a failure reads it, so its text is made then.
pub(crate) enum Event {
    Passed(Duration),
    Asked(u64, Call),
    Answered(Vec<String>),
    Told(Vec<(String, String)>),
    LostKey,
}

impl Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(span) => write!(f, "pass {span:?}"),
            Self::Asked(now, call) => write!(f, "{now} {call}"),
            Self::Answered(answer) => write!(f, "    {answer:?}"),
            Self::Told(messages) => write!(f, "    told: {messages:?}"),
            Self::LostKey => write!(f, "loses the key"),
        }
    }
}

impl<K: Kind> World<K> {
    pub(crate) fn new(bed: Bed, seed: u64, kind: K) -> Self {
        Self {
            seed,
            rng: Rng::with_seed(seed),
            bed,
            kind,
            attempts: Vec::new(),
            flying: Vec::new(),
            numbers: 0,
            probing: false,
            ahead: 0,
            history: Vec::new(),
        }
    }

    /// In each world whose seed `every` divides, runs each script first on servers in trouble,
    /// where it must do all or nothing.
    pub(crate) fn probing(mut self, every: u64) -> Self {
        self.probing = self.seed.is_multiple_of(every);
        self
    }

    /// Returns a number that was not used before.
    pub(crate) fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// Makes an attempt that has not been sent.
    pub(crate) fn attempt(&self, id: String, what: K::What) -> Attempt<K::What> {
        Attempt {
            id,
            what,
            held: None,
            begun: self.bed.millis(),
            by: 0,
            unanswered: 0,
        }
    }

    /// Adds an attempt, and sends it.
    pub(crate) fn begin(&mut self, id: String, what: K::What) {
        self.attempts.push(self.attempt(id, what));
        self.send(self.attempts.len() - 1);
    }

    /// Sends a copy of an attempt.
    pub(crate) fn send(&mut self, at: usize) {
        let by = self.bed.millis() + self.rng.u64(..=REACH);
        let attempt = &mut self.attempts[at];
        attempt.by = attempt.by.max(by);
        attempt.unanswered += 1;
        K::draw(&mut self.rng, &mut attempt.what);
        let copy = attempt.clone();
        self.dispatch(Request::Ask(copy, by));
    }

    /// Lets a copy come at once or later.
    pub(crate) fn dispatch(&mut self, copy: Request<K::What, K::Other>) {
        match self.rng.u8(..4) {
            0 => self.flying.push(copy),
            _ => K::act(self, copy),
        }
    }

    /// As `dispatch`, perhaps twice.
    pub(crate) fn dispatch_repeatedly(&mut self, copy: Request<K::What, K::Other>) {
        if self.rng.u8(..3) == 0 {
            self.flying.push(copy.clone());
        }
        self.dispatch(copy);
    }

    /// Lets a copy come that is on its way.
    pub(crate) fn deliver(&mut self) {
        if !self.flying.is_empty() {
            let at = self.rng.usize(..self.flying.len());
            let copy = self.flying.swap_remove(at);
            K::act(self, copy);
        }
    }

    /// Chooses one of the attempts to which `which` applies.
    pub(crate) fn any(&mut self, which: impl Fn(&Attempt<K::What>) -> bool) -> Option<usize> {
        let fitting = self.attempts.iter().enumerate();
        let fitting: Vec<_> = fitting.filter(|(_, attempt)| which(attempt)).collect();
        let at = self.rng.usize(..fitting.len().max(1));
        fitting.get(at).map(|(at, _)| *at)
    }

    /// Lets up to `most` ms pass, at times to the very millisecond in which something ends.
    pub(crate) fn pass(&mut self, most: u64) {
        let mut span = Duration::from_micros(self.rng.u64(..most * 1_000));
        if self.rng.u8(..4) == 0 {
            span = self.until_an_end().unwrap_or(span);
        }
        self.pass_exactly(span);
    }

    fn until_an_end(&mut self) -> Option<Duration> {
        let now = self.bed.millis();
        let mut ends = K::ends(self);
        ends.retain(|&end| end > now);
        let end = *ends.get(self.rng.usize(..ends.len().max(1)))?;
        Some(ServerTime::from_millis(end).since(self.bed.now))
    }

    /// Lets this much time pass.
    pub(crate) fn pass_exactly(&mut self, span: Duration) {
        self.note(Event::Passed(span));
        self.bed.pass(span);
        K::passed(self);
    }

    /// Runs a script, before that on a server in trouble if the world is probing.
    pub(crate) fn ask(&mut self, call: &Call) -> Vec<String> {
        let now = self.bed.millis();
        self.note(Event::Asked(now, call.clone()));
        if self.probing {
            self.probe(call);
        }
        let answer = self.bed.ask(call);
        self.note(Event::Answered(answer.clone()));
        answer
    }

    /// Runs a script that must write nothing.
    #[track_caller]
    pub(crate) fn inspect(&mut self, call: &Call) -> Vec<String> {
        let before = self.bed.dump();
        let answer = self.ask(call);
        self.assert_unchanged(&before, "it writes nothing");
        answer
    }

    fn probe(&mut self, call: &Call) {
        let (data, before) = (self.bed.engine.snapshot(), self.bed.dump());
        let answer = self.bed.ask(call);
        let wants_memory = K::wants_memory(call, &answer);
        let calm = (answer, self.bed.dump());
        for (condition, code) in [
            (Condition::Full, "OOM"),
            (Condition::ShortOfReplicas, "NOREPLICAS"),
        ] {
            self.bed.engine.restore(&data);
            self.bed.engine.set_condition(condition, true);
            let answer = self.bed.call(call);
            self.bed.engine.set_condition(condition, false);
            let after = self.bed.dump();
            match answer {
                Ok(answer) => assert_eq!((answer, after), calm),
                Err(error) => {
                    let refused = error.code == code || error.message.contains(code);
                    assert!(refused, "{error}");
                    assert_eq!(after, before, "refused whole");
                    let fits = code == "NOREPLICAS" || wants_memory;
                    assert!(fits, "{} on a full server", call.script.name);
                }
            }
        }
        self.bed.engine.restore(&data);
        self.bed.published();
    }

    /// Checks that a script did what is right.
    #[track_caller]
    pub(crate) fn assert_eq<A, B>(&self, found: &A, right: &B)
    where
        A: PartialEq<B> + fmt::Debug + ?Sized,
        B: fmt::Debug + ?Sized,
    {
        assert_eq!(found, right);
    }

    /// Checks that a reply is the server's time and these words.
    #[track_caller]
    pub(crate) fn assert_answer<W: AsRef<str>>(&self, answer: &[String], words: &[W]) {
        let now = self.bed.millis().to_string();
        let words = words.iter().map(W::as_ref);
        let right: Vec<&str> = std::iter::once(&*now).chain(words).collect();
        self.assert_eq(answer, &*right);
    }

    #[track_caller]
    pub(crate) fn assert(&self, fits: bool, what: impl Display) {
        assert!(fits, "{what}");
    }

    /// Checks that the data are those of `before`.
    #[track_caller]
    pub(crate) fn assert_unchanged(&self, before: &[KeyDump], what: &str) {
        assert_eq!(self.bed.dump(), before, "{what}");
    }

    /// Adds a line to the story.
    pub(crate) fn note(&mut self, event: Event) {
        self.history.push(event);
    }

    /// Tells how to repeat the run, and what happened last.
    pub(crate) fn story(&self) -> String {
        let from = self.history.len().saturating_sub(40);
        let told: Vec<_> = self.history[from..].iter().map(Event::to_string).collect();
        let told = told.join("\n");
        let model: Model = self.bed.engine.model();
        format!("{model:?}, seed {}, after\n{told}", self.seed)
    }
}

/// What clients do next.
impl<K: Kind> World<K> {
    /// Sends a copy of a change whose answer was lost, as long as a client may do so.
    pub(crate) fn insist(&mut self) {
        let now = self.bed.millis();
        self.attempts.retain(|change| now <= change.begun + INSIST);
        if let Some(at) = self.any(|_| true) {
            self.send(at);
        }
    }

    pub(crate) fn send_again(&mut self) {
        if let Some(at) = self.any(|attempt| attempt.held.is_none()) {
            self.send(at);
        }
    }

    pub(crate) fn renew(&mut self) {
        if let Some(at) = self.any(|attempt| attempt.held.is_some()) {
            let by = self.bed.millis() + self.rng.u64(..=REACH);
            let lease = [50, 1_000, 9_000][self.rng.usize(..3)];
            self.dispatch(Request::Renew(self.attempts[at].clone(), by, lease));
        }
    }

    /// Lets a renewal come, of which the model says what it does to each name.
    pub(crate) fn check_renewal(
        &mut self,
        call: &Call,
        by: u64,
        model: impl FnOnce(&mut K, u64) -> Vec<&'static str>,
    ) {
        let before = self.bed.dump();
        let answer = self.ask(call);
        let now = self.bed.millis();
        let right = match now > by {
            true => vec!["late"],
            false => model(&mut self.kind, now),
        };
        self.assert_answer(&answer, &right);
        if !right.contains(&"renewed") {
            self.assert_unchanged(&before, "it never creates");
        }
    }

    /// Releases what a client holds, or undoes what it has given up; perhaps twice, perhaps much
    /// later.
    pub(crate) fn end_one(&mut self) {
        if let Some(at) = self.any(|_| true) {
            self.end(at);
        }
    }

    /// As `end_one`, of this attempt.
    pub(crate) fn end(&mut self, at: usize) {
        let attempt = self.attempts.swap_remove(at);
        let void = attempt.void();
        self.dispatch_repeatedly(Request::Release(attempt, void));
    }

    /// Lets clients act and time pass. The acts of a kind are to begin an attempt, to ask again, to
    /// disturb the others, and to look.
    pub(crate) fn live(&mut self, rounds: u32, own: [fn(&mut Self); 4]) {
        let [begin, again, disturb, look] = own;
        for _ in 0..rounds {
            match self.rng.u8(..26) {
                0..5 => begin(self),
                5..9 => again(self),
                9..12 => self.deliver(),
                12..14 => self.renew(),
                14..17 => self.end_one(),
                17..19 => self.end_a_holder(),
                19..21 => disturb(self),
                21 => look(self),
                22 if self.rng.u8(..4) == 0 => self.pass(30_000),
                22 | 23 => self.pass(3_000),
                _ => self.pass(200),
            }
        }
    }

    fn end_a_holder(&mut self) {
        if let Some(at) = self.any(|one| one.held.is_some()) {
            self.end(at);
        }
    }

    /// Ends everything, in any order, and lets all copies come in, also late.
    pub(crate) fn wind_up(&mut self) {
        while !self.attempts.is_empty() || !self.flying.is_empty() {
            match self.rng.u8(..4) {
                0 => self.pass(500),
                1 => self.deliver(),
                _ => self.end_one(),
            }
        }
    }

    /// Returns the attempt `id` of the client, if it is still there and the client gets the reply.
    pub(crate) fn answered(&mut self, id: &str) -> Option<&mut Attempt<K::What>> {
        let lost = self.rng.u8(..3) == 0;
        let attempt = self.attempts.iter_mut().find(|known| known.id == id);
        let attempt = attempt.filter(|_| !lost)?;
        attempt.unanswered -= 1;
        Some(attempt)
    }

    /// As `answered`, by the reply that the attempt holds what `held` names, which the client may
    /// know already. Returns the attempt if it did not.
    pub(crate) fn told(&mut self, id: &str, held: Option<u64>) -> Option<&mut Attempt<K::What>> {
        let attempt = self.answered(id)?;
        let news = held.filter(|_| attempt.held.is_none());
        attempt.held = attempt.held.or(news);
        news.map(|_| attempt)
    }

    /// A message tells a client that its attempt `id` holds what `held` names, or is lost. Returns
    /// the attempt if it did not know.
    pub(crate) fn hear(&mut self, id: &str, held: u64) -> Option<&mut Attempt<K::What>> {
        let lost = self.rng.u8(..3) == 0;
        let waiter = self.attempts.iter_mut().find(|known| known.id == id);
        let waiter = waiter.filter(|waiter| waiter.held.is_none() && !lost)?;
        waiter.held = Some(held);
        self.ahead += 1;
        Some(waiter)
    }
}
