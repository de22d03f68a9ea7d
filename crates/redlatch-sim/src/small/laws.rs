//! What holds in each state of a small world.

use stateright::Property;

use super::{
    REACH, State, World,
    client::{Client, Phase},
    server::{Held, Line, Store, Verb, What},
};

/// What the laws remember of the past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ghost {
    /// The last hold of the server.
    last: Option<Last>,
    /// Whether a holder has died, and no later caller knows it.
    owed: bool,
    /// Whether the lease of any hold has ended without its release.
    unclean: bool,
    /// The largest token that a caller has.
    highest: u64,
    /// The number of guards that callers got.
    guards: u8,
    /// The waiters in the order in which they came.
    line: Vec<Place>,
    /// The tokens of holds that their callers have lost.
    pub(crate) lost: Vec<u64>,
    /// Whether a message was lost.
    pub(crate) quiet: bool,
    /// Whether a replica has taken over.
    forgot: bool,
    /// The law that was broken by the last events.
    broken: Option<&'static str>,
}

/// A waiter, and the tick until which it counts as alive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    client: u8,
    attempt: u8,
    alive: u8,
}

impl Place {
    fn is(&self, client: u8, attempt: u8) -> bool {
        (self.client, self.attempt) == (client, attempt)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Last {
    client: u8,
    attempt: u8,
    token: u64,
    taken: bool,
    ended: bool,
}

/// The names of the laws, each with its promise.
const EXCLUSION: &str = "exclusion (P1)";
const HELD: &str = "held at the server (P1)";
const TOKENS: &str = "tokens (P2)";
const NOTES: &str = "abandonment is reported";
const FINAL: &str = "loss is final (P4)";
const REMAINS: &str = "nothing remains (P6)";
const ENDS: &str = "every key has an end (P6)";
const PROGRESS: &str = "progress (P7)";
const CALLED: &str = "waiters are called (P8)";
const ORDER: &str = "order (P9)";

/// What a world reaches, or else its laws show nothing.
pub(super) const REACHED: &str = "a caller gets a guard behind another";

impl Ghost {
    fn break_law(&mut self, law: &'static str) {
        self.broken.get_or_insert(law);
    }

    /// The server has served a request at its tick `now`.
    pub(crate) fn served(
        &mut self,
        world: &World,
        (who, what, line): (u8, &What, &Line),
        store: &Store,
        now: u8,
    ) {
        match (what.verb, line) {
            (Verb::Release, _) => {
                self.leave(who, what.attempt);
                self.ended(who, what, store);
            }
            (Verb::Acquire, Line::Busy { .. }) => {
                if what.listed {
                    self.queue(who, what.attempt, now);
                }
                self.refused(who, store, now);
            }
            _ => {}
        }
        let last = self.last.as_ref().map(|last| last.token);
        if let Some(held) = store.held().filter(|held| Some(held.token) != last) {
            self.began(world, &held, now);
        }
    }

    /// A waiter that the server does not count as alive any more loses its place.
    fn queue(&mut self, client: u8, attempt: u8, now: u8) {
        let mut line = self.line.iter_mut();
        let known = line.find(|place| place.is(client, attempt) && place.alive > now);
        if let Some(place) = known {
            place.alive = now + REACH;
            return;
        }
        self.leave(client, attempt);
        self.line.push(Place {
            client,
            attempt,
            alive: now + REACH,
        });
    }

    fn leave(&mut self, client: u8, attempt: u8) {
        self.line.retain(|place| !place.is(client, attempt));
    }

    /// The server has answered that a client has to wait.
    fn refused(&mut self, who: u8, store: &Store, now: u8) {
        let held = store.held().is_some_and(|held| held.ends > now);
        let mut before = self.line.iter().take_while(|place| place.client != who);
        if !held && !before.any(|place| place.alive > now) && !self.forgot {
            self.break_law(PROGRESS);
        }
    }

    fn ended(&mut self, who: u8, what: &What, store: &Store) {
        let Some(last) = &mut self.last else { return };
        let gone = |held: Held| held.token != last.token || held.is_empty();
        last.ended |= match what.token {
            Some(token) => token == last.token,
            None => {
                let its = (last.client, last.attempt) == (who, what.attempt);
                its && store.held().is_none_or(gone)
            }
        };
    }

    /// A new hold has begun at the server.
    fn began(&mut self, world: &World, held: &Held, now: u8) {
        if let Some(last) = self.last.take()
            && !last.ended
        {
            self.unclean = true;
            self.owed |= last.taken;
        }
        let (client, attempt) = (held.client, held.attempt);
        let mut before = self.line.iter().take_while(|it| !it.is(client, attempt));
        let passed = before.any(|place| place.alive > now);
        if world.fair && passed && !self.forgot {
            self.break_law(ORDER);
        }
        self.leave(client, attempt);
        self.last = Some(Last::of(held));
    }

    /// A caller gets a guard.
    pub(crate) fn taken(&mut self, token: u64, abandoned: bool) {
        if token <= self.highest {
            self.break_law(TOKENS);
        }
        self.highest = self.highest.max(token);
        self.guards += 1;
        if !self.forgot && (self.owed && !abandoned || abandoned && !self.unclean) {
            self.break_law(NOTES);
        }
        self.owed &= !abandoned;
        if let Some(last) = &mut self.last
            && last.token == token
        {
            last.taken = true;
        }
    }

    /// A replica has taken over.
    pub(crate) fn took_over(&mut self, store: &Store) {
        self.forgot = true;
        self.line.clear();
        self.last = store.held().as_ref().map(Last::of);
    }
}

impl Last {
    const fn of(held: &Held) -> Self {
        Self {
            client: held.client,
            attempt: held.attempt,
            token: held.token,
            taken: false,
            ended: false,
        }
    }
}

/// Returns the laws, and what a world must reach at all.
pub(super) fn all() -> Vec<Property<World>> {
    vec![
        Property::always(EXCLUSION, |_, it: &State| {
            let trusts = |client: &&Client| client.trusts(it.now).is_some();
            it.clients.iter().filter(trusts).count() <= 1
        }),
        Property::always(HELD, |_, it: &State| {
            let held = it.store.held().filter(|held| held.ends > it.server_now());
            let held = held.map(|held| (held.client, held.owner, held.token));
            (0..).zip(&it.clients).all(|(who, client): (u8, _)| {
                let trusted = client.trusts(it.now);
                trusted.is_none_or(|(token, owner)| held == Some((who, owner, token)))
            })
        }),
        Property::always(FINAL, |_, it: &State| {
            let mut trusted = it.clients.iter().filter_map(|client| client.trusts(it.now));
            !trusted.any(|(token, _)| it.ghost.lost.contains(&token))
        }),
        Property::always(TOKENS, |_, it: &State| it.ghost.broken != Some(TOKENS)),
        Property::always(NOTES, |_, it: &State| it.ghost.broken != Some(NOTES)),
        Property::always(ORDER, |_, it: &State| it.ghost.broken != Some(ORDER)),
        Property::always(PROGRESS, |_, it: &State| it.ghost.broken != Some(PROGRESS)),
        Property::always(REMAINS, |_, it: &State| !is_over(it) || remains_nothing(it)),
        Property::always(ENDS, |_, it: &State| it.store.ends(it.server_now())),
        Property::always(CALLED, |_, it: &State| !is_silent(it) || is_called(it)),
        Property::sometimes(REACHED, |_, it: &State| it.ghost.guards > 1),
    ]
}

/// Tells whether all is over, and nothing was forgotten by a takeover or a death.
fn is_over(state: &State) -> bool {
    let idle = |client: &Client| client.phase == Phase::Idle;
    state.wires.is_empty() && !state.ghost.forgot && state.clients.iter().all(idle)
}

fn remains_nothing(state: &State) -> bool {
    let now = state.server_now();
    state.store.held().is_none_or(|held| held.ends <= now) && !state.store.has_waiters()
}

/// Tells whether the name was freed, and nothing is on its way.
fn is_silent(state: &State) -> bool {
    let dead = |client: &Client| client.phase == Phase::Dead;
    state.wires.is_empty()
        && state.store.held().is_none()
        && !state.ghost.quiet
        && !state.ghost.forgot
        && !state.clients.iter().any(dead)
}

/// Tells whether some client acts, if any waits.
fn is_called(state: &State) -> bool {
    let sleeps = |client: &Client| match client.phase {
        Phase::Waiting { .. } => !client.rung && client.is_registered(state.server_now()),
        _ => false,
    };
    let acts =
        |client: &Client| client.rung || matches!(client.phase, Phase::Asking | Phase::Leaving(_));
    !state.clients.iter().any(sleeps) || state.clients.iter().any(acts)
}
