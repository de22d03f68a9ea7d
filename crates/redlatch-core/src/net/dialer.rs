//! Reconnects with a pause after each failure.

use std::{future::Future, time::Duration};

use tokio::select;

use super::{Access, World};
use crate::{
    Error,
    base::timeouts,
    protocol::outage::Redial,
    runtime::{Address, Dialed, Login, Purpose},
};

/// Dials again and again.
#[derive(Debug)]
pub(super) struct Dialer {
    world: World,
    purpose: Purpose,
    access: Access,
    timeout: Duration,
    redial: Redial,
    /// The address of the last dial.
    pub(super) address: Option<Address>,
    /// The login of the last connection.
    pub(super) login: Login,
}

impl Dialer {
    pub(super) fn new(world: World, purpose: Purpose, access: Access, timeout: Duration) -> Self {
        Self {
            world,
            purpose,
            access,
            timeout,
            redial: Redial::default(),
            address: None,
            login: Login::default(),
        }
    }

    /// Records that the server has answered on the present connection as one in use does.
    pub(super) const fn answered(&mut self) {
        self.redial.answered();
    }

    /// Makes the next connection, to the server that `target` returns. Pauses first if the last
    /// connection failed, or broke soon. Returns `None` in a forked process, which must not dial
    /// the parent's servers.
    pub(super) async fn next(
        &mut self,
        target: impl Future<Output = Address>,
    ) -> Option<Result<Dialed, Error>> {
        let (world, access, timeout) = (&self.world, &self.access, self.timeout);
        let now = world.now();
        let pause = match self.redial.failures(now) {
            0 => Duration::ZERO,
            failures => timeouts::RECONNECT.delay(failures, world.runtime.random()),
        };
        if world.life.is_forked() {
            return None;
        }
        if now + pause > world.now() {
            world.runtime.sleep_until(now + pause).await;
        }
        let address = target.await;
        self.address = Some(address.clone());
        let deadline = world.now() + timeout;
        let result = select! {
            biased;
            result = access.dial(world, &address, self.purpose) => result,
            () = world.runtime.sleep_until(deadline) => {
                Err(access.missing().unwrap_or_else(|| Error::late_dial(&address, timeout)))
            }
        };
        Some(match result {
            Ok((dialed, login)) => {
                self.redial.connected(world.now());
                self.login = login;
                Ok(dialed)
            }
            Err(error) => {
                self.redial.failed();
                Err(error)
            }
        })
    }
}
