//! Reconnects with a pause after each failure.

use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;
use tokio::select;

use super::{Access, World};
use crate::{
    Error,
    base::timeouts,
    protocol::{outage::Redial, time::Moment},
    runtime::{Address, Dialed, Login, Purpose},
};

/// Dials one target repeatedly.
#[derive(Debug)]
pub(super) struct Dialer {
    world: World,
    target: Target,
    purpose: Purpose,
    access: Access,
    timeout: Duration,
    redial: Redial,
    /// The address of the last dial.
    address: Option<Address>,
    /// The login of the last connection.
    login: Login,
}

/// The target of a dialer.
#[derive(Debug)]
pub(super) enum Target {
    /// One fixed server.
    Fixed(Address),
    /// A server that is looked up for each connection.
    Found(Box<dyn Locate>),
}

/// A lookup of the server to dial, repeated for each connection.
#[async_trait]
pub(super) trait Locate: Debug + Send {
    async fn locate(&mut self) -> Address;
}

impl Target {
    async fn address(&mut self) -> Address {
        match self {
            Self::Fixed(address) => address.clone(),
            Self::Found(locate) => locate.locate().await,
        }
    }
}

impl Dialer {
    pub(super) fn new(
        world: World,
        target: Target,
        purpose: Purpose,
        access: Access,
        timeout: Duration,
    ) -> Self {
        Self {
            world,
            target,
            purpose,
            access,
            timeout,
            redial: Redial::new(),
            address: None,
            login: Login::default(),
        }
    }

    /// Returns the address of the last dial.
    pub(super) const fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// Returns the login of the last connection.
    pub(super) fn login(&self) -> Login {
        self.login.clone()
    }

    /// Records that the server has answered on the present connection as one in use does.
    pub(super) const fn answered(&mut self) {
        self.redial.answered();
    }

    /// Makes the next connection. Pauses first if the last one failed, or broke soon. Returns
    /// `None` on shutdown.
    pub(super) async fn next(&mut self) -> Option<Result<Dialed, Error>> {
        let now = self.world.now();
        let pause = match self.redial.failures(now) {
            0 => Duration::ZERO,
            failures => timeouts::RECONNECT.delay(failures, self.world.runtime.random()),
        };
        let world = self.world.clone();
        // A forked process must not dial the parent's servers.
        if world.life.is_forked() {
            return None;
        }
        select! {
            biased;
            () = world.ended() => None,
            result = self.dial_after(now + pause) => Some(result),
        }
    }

    async fn dial_after(&mut self, at: Moment) -> Result<Dialed, Error> {
        if at > self.world.now() {
            self.world.runtime.sleep_until(at).await;
        }
        let address = self.target.address().await;
        self.address = Some(address.clone());
        let (world, access, timeout) = (&self.world, &self.access, self.timeout);
        let deadline = world.now() + timeout;
        let result = select! {
            biased;
            result = access.dial(world, &address, self.purpose) => result,
            () = world.runtime.sleep_until(deadline) => {
                Err(access.missing().unwrap_or_else(|| Error::late_dial(&address, timeout)))
            }
        };
        match result {
            Ok((dialed, login)) => {
                self.redial.connected(self.world.now());
                self.login = login;
                Ok(dialed)
            }
            Err(error) => {
                self.redial.failed();
                Err(error)
            }
        }
    }
}
