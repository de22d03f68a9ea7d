//! Those who wait in order of arrival, as all kinds with an order have them.

use super::prelude::*;

/// How long somebody who is called may take to come, in ms.
pub(crate) const GRACE: u64 = 5_000;

/// By how much the flag outlasts the registration that sets it, in ms.
const RESERVE: u64 = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Members and tickets, in order.
    pub(crate) members: Vec<(String, u64)>,
    /// Until when clients count as alive.
    pub(crate) lives: BTreeMap<String, u64>,
    /// Until when anybody may wait.
    pub(crate) flag: Option<u64>,
    /// Who was called last, and until when it may take its time.
    pub(crate) called: Option<(u64, String)>,
}

impl Queue {
    /// Reads the queue whose members are in the part `of` of a name.
    pub(crate) fn read(bed: &mut Bed, name: &str, of: &str) -> Self {
        let fields = bed.hash(&key(name));
        Self {
            members: bed.queue(&part(name, of)),
            lives: bed.sorted(&part(name, "l")),
            flag: fields.get("n").map(|flag| flag.parse().unwrap()),
            called: fields.get("y").map(|called| timed(called)),
        }
    }

    /// Returns until when a waiter counts as alive.
    pub(crate) fn alive(&self, member: &str) -> u64 {
        let alive = self.lives.get(client(member)).copied().unwrap_or(0);
        match &self.called {
            Some((patience, called)) if called == member => alive.min(*patience),
            _ => alive,
        }
    }

    /// Returns the first who is alive, and its ticket.
    pub(crate) fn first(&self, now: u64) -> Option<(&str, u64)> {
        let mut living = self.members.iter();
        let first = living.find(|(member, _)| self.alive(member) > now);
        first.map(|(member, ticket)| (member.as_str(), *ticket))
    }

    pub(crate) fn ticket(&self, member: &str) -> Option<u64> {
        let mut members = self.members.iter();
        let known = members.find(|(other, _)| other == member);
        known.map(|(_, ticket)| *ticket)
    }

    pub(crate) fn has(&self, member: &str) -> bool {
        self.ticket(member).is_some()
    }

    pub(crate) fn leave(&mut self, member: &str) {
        self.members.retain(|(other, _)| other != member);
    }

    pub(crate) fn is_called(&self, member: &str) -> bool {
        self.called.as_ref().is_some_and(|(_, who)| who == member)
    }

    /// Returns the times at which something ends.
    pub(crate) fn ends(&self) -> impl Iterator<Item = u64> {
        let called = self.called.iter().map(|(until, _)| *until);
        called.chain(self.lives.values().copied())
    }

    /// As `first`, with the time until which it is alive. The dead before it are gone.
    pub(crate) fn head(&mut self, now: u64) -> Option<(String, u64)> {
        while let Some((first, _)) = self.members.first() {
            let alive = self.alive(first);
            if alive > now {
                return Some((first.clone(), alive));
            }
            self.members.remove(0);
        }
        None
    }

    /// Records the client of an attempt as alive, if it registers a waiter.
    pub(crate) fn touch(&mut self, now: u64, ask: &Ask) {
        if let Some(register) = ask.register {
            let (client, alive) = (client(&ask.address), now + register);
            if self.flag <= Some(alive) {
                self.flag = Some(alive + RESERVE);
            }
            self.lives.insert(client.to_owned(), alive);
        }
    }

    /// Adds a waiter behind all others. Returns the word for whether it was not there.
    pub(crate) fn enter(&mut self, micros: u64, ask: &Ask) -> &'static str {
        if ask.register.is_none() || self.has(&ask.address) {
            return "0";
        }
        let last = self.members.last().map_or(0, |(_, ticket)| ticket + 1);
        self.members.push((ask.address.clone(), micros.max(last)));
        self.called = self.called.take().filter(|(_, who)| *who != ask.address);
        "1"
    }

    /// Until when anybody in front of `own` and among the first 16 counts as alive, the head until
    /// `alive`; who is further behind looks if few live.
    pub(crate) fn before(&self, now: u64, own: &str, alive: u64) -> Option<u64> {
        let mut clients = self.members.iter().map(|(member, _)| client(member));
        let first = clients.position(|client| client == own);
        let first = first.unwrap_or(self.members.len());
        let living = self.lives.values().filter(|&&until| until > now).count();
        if first == 0 || first > 15 && living > 16 {
            return None;
        }
        let ahead = self.members[1..first.min(16)].iter();
        let lives = ahead.filter_map(|(member, _)| self.lives.get(client(member)));
        Some(lives.copied().max().unwrap_or(0).max(alive))
    }
}

/// Splits a text that begins with a time in ms.
pub(crate) fn timed(text: &str) -> (u64, String) {
    (text[..13].parse().unwrap(), text[14..].to_owned())
}

/// A client by its channel.
pub(crate) fn client(member: &str) -> &str {
    member.split(' ').nth(1).unwrap_or_default()
}

/// A waiter by its number.
pub(crate) fn number(member: &str) -> &str {
    member.split(' ').nth(2).unwrap_or_default()
}

/// The client of an owner or an attempt.
pub(crate) fn client_of(owner: &str) -> &str {
    owner.split(':').next().unwrap()
}
