//! Logs a connection in again when the credentials change.

use std::convert::Infallible;

use super::Session;
use crate::{base::timeouts, net::Access, runtime::Login};

impl Session {
    /// Logs in again after each change of the credentials, until dropped. The connection is logged
    /// in with `login`, and stays so if the server refuses another one.
    pub(in crate::net) async fn stay_logged_in(
        &self,
        access: &Access,
        mut login: Login,
    ) -> Infallible {
        loop {
            let other = access.other_than(&login).await;
            let Some(auth) = other.auth() else {
                login = other;
                continue;
            };
            let deadline = self.world.now() + timeouts::HANDSHAKE;
            match self.ask(auth, deadline).await {
                // The health check judges silence. `AUTH` may be repeated.
                Err(error) if error.reason().is_none() => {
                    let runtime = &self.world.runtime;
                    runtime
                        .sleep_until(self.world.now() + timeouts::HANDSHAKE)
                        .await;
                    continue;
                }
                Err(error) => access.refused_again(&self.address, &other, &error),
                Ok(_) => {}
            }
            login = other;
        }
    }
}
