//! Reconnects with a pause after each failure.

use std::time::Duration;

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
}

impl Dialer {
    pub(super) fn new(world: World, purpose: Purpose, access: Access, timeout: Duration) -> Self {
        Self {
            world,
            purpose,
            access,
            timeout,
            redial: Redial::new(),
        }
    }

    /// Records that the server has answered on the present connection as one in use does.
    pub(super) const fn answered(&mut self) {
        self.redial.answered();
    }

    /// Makes the next connection, to the server that `target` returns. Pauses first if the last
    /// connection failed, or broke soon. Returns the address, and the connection with its login.
    /// Returns `None` in a forked process, which must not dial the parent's servers.
    pub(super) async fn next(
        &mut self,
        target: impl Future<Output = Address>,
    ) -> Option<(Address, Result<(Dialed, Login), Error>)> {
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
        let deadline = world.now() + timeout;
        let result = select! {
            biased;
            result = access.dial(world, &address, self.purpose) => result,
            () = world.runtime.sleep_until(deadline) => {
                Err(access.missing().unwrap_or_else(|| Error::late_dial(&address, timeout)))
            }
        };
        match &result {
            Ok(_) => self.redial.connected(world.now()),
            Err(_) => self.redial.failed(),
        }
        Some((address, result))
    }
}
