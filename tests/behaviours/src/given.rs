//! What behaviours are given as arguments, and what they may not leave behind.

use std::{
    future::{Ready, ready},
    ops::Deref,
};

use redlatch::{CountDownLatch, ReadWriteLock, fence::Fence};

use crate::{multi::Fleet, prelude::*};

/// The servers of a behaviour, and the clients that the behaviour is given.
pub(crate) struct Ground<'a, S> {
    pub(crate) servers: &'a S,
    pub(crate) clients: Vec<Client>,
}

/// An argument of a behaviour on servers `S`.
pub(crate) trait Given<'a, S: 'a>: Sized {
    /// Makes it.
    async fn given(ground: &mut Ground<'a, S>) -> Self;

    /// Checks that the servers keep nothing of it.
    fn left(_: &Ground<'a, S>) -> impl Future<Output = ()> {
        ready(())
    }
}

/// A behaviour: a function of what it is given.
pub(crate) trait Behaves<'a, S: 'a, Arguments> {
    /// Runs it. Then the clients know of nothing, and the servers keep nothing.
    async fn run(self, servers: &'a S) -> Ground<'a, S>;
}

macro_rules! behaves {
    ($($given:ident $argument:ident),+) => {
        impl<'a, S: 'a, F, Ran, $($given),+> Behaves<'a, S, ($($given,)+)> for F
        where
            F: FnOnce($($given),+) -> Ran,
            Ran: Future<Output = ()>,
            $($given: Given<'a, S>),+
        {
            async fn run(self, servers: &'a S) -> Ground<'a, S> {
                let clients = Vec::new();
                let mut ground = Ground { servers, clients };
                $(let $argument = <$given as Given<'a, S>>::given(&mut ground).await;)+
                self($($argument),+).await;
                assert_all_empty(&ground.clients).await;
                $(<$given as Given<'a, S>>::left(&ground).await;)+
                ground
            }
        }
    };
}

behaves!(A a);
behaves!(A a, B b);
behaves!(A a, B b, C c);

impl<'a, S: 'a> Given<'a, S> for &'a S {
    async fn given(ground: &mut Ground<'a, S>) -> Self {
        ground.servers
    }
}

/// Leaves the rest to the types of the arguments.
pub(crate) fn nothing<S>(_: &Ground<'_, S>) -> Ready<()> {
    ready(())
}

/// A backend on which only counters are left in the end.
#[derive(Clone, Copy)]
pub(crate) struct Emptied<'a>(&'a Backend);

impl Deref for Emptied<'_> {
    type Target = Backend;

    fn deref(&self) -> &Backend {
        self.0
    }
}

impl<'a> Given<'a, Backend> for Emptied<'a> {
    async fn given(ground: &mut Ground<'a, Backend>) -> Self {
        Self(ground.servers)
    }

    async fn left(ground: &Ground<'a, Backend>) {
        ground.servers.assert_only_counters_left();
    }
}

impl<'a> Given<'a, Backend> for Client {
    async fn given(ground: &mut Ground<'a, Backend>) -> Self {
        let client = ground.servers.client().await;
        ground.clients.push(client.clone());
        client
    }
}

/// A client of each server.
impl<'a> Given<'a, Fleet> for Vec<Client> {
    async fn given(ground: &mut Ground<'a, Fleet>) -> Self {
        let clients = ground.servers.clients().await;
        ground.clients.extend_from_slice(&clients);
        clients
    }

    async fn left(ground: &Ground<'a, Fleet>) {
        ground.servers.pass(10 * MS).await;
        ground.servers.assert_nothing_left(&ground.clients).await;
    }
}

impl<'a, S: 'a, T: Given<'a, S>, const N: usize> Given<'a, S> for [T; N] {
    async fn given(ground: &mut Ground<'a, S>) -> Self {
        let mut all = Vec::new();
        for _ in 0..N {
            all.push(T::given(ground).await);
        }
        all.try_into()
            .unwrap_or_else(|_| unreachable!("so many were made"))
    }

    async fn left(ground: &Ground<'a, S>) {
        T::left(ground).await;
    }
}

/// Objects of this name, each of a client of its own.
macro_rules! objects {
    ($($object:ident: $make:ident $name:literal;)+) => {$(
        impl<'a> Given<'a, Backend> for $object {
            async fn given(ground: &mut Ground<'a, Backend>) -> Self {
                Client::given(ground).await.$make($name)
            }
        }
    )+};
}

objects! {
    Lock: lock "x";
    ReadWriteLock: read_write_lock "x";
    CountDownLatch: count_down_latch "x";
    Election: election "x";
    Fence: fence "data";
}
