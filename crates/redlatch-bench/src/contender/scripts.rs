//! The scripts of redlatch without the rest of it: the cost of its pair through the client crate
//! that it uses. It does not wait, renews nothing and trusts every reply. It is not for production
//! use.

use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use redlatch_lua::REENTRANT;

use super::{
    Failure, LEASE, Lock, SCRIPTED, Session,
    scripted::{Scripted, rand},
};

struct Handle {
    scripted: Scripted,
    client: String,
    keys: [String; 2],
    /// Numbers owners and attempts, as a client does.
    number: u64,
    token: String,
}

/// Connects to one server.
pub(super) async fn session(url: &str) -> Result<Session, Failure> {
    let scripts = [REENTRANT.acquire.text, REENTRANT.release.text];
    let scripted = Scripted::connect(url, &scripts).await?;
    let client = format!("{:016x}{:016x}", rand(), rand());
    Ok(Session::new(SCRIPTED, move |name| {
        let key = format!("redlatch:{{{name}}}");
        Handle {
            scripted: scripted.clone(),
            client: client.clone(),
            keys: [key.clone(), format!("{key}:q")],
            number: rand() >> 24,
            token: String::new(),
        }
    }))
}

#[async_trait]
impl Lock for Handle {
    async fn acquire(&mut self) -> Result<(), Failure> {
        self.number += 2;
        let [owner, attempt] = self.ids();
        let by = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() + 5_000;
        let (client, lease) = (&self.client, LEASE.as_millis() as u64);
        let message = format!("PUBLISH redlatch:w:{client} {}", self.number);
        let (by, kept) = (by as u64, lease + RETENTION);
        let arguments = (by, client, lease, kept, "", owner, attempt, 5_000, message);
        let answer: String = self.scripted.call(0, &self.keys, arguments).await?;
        let mut words = answer.split(' ').skip(1);
        match (words.next(), words.nth(1)) {
            (Some("granted"), Some(token)) => {
                token.clone_into(&mut self.token);
                Ok(())
            }
            _ => Err(format!("not granted: {answer}").into()),
        }
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let [owner, attempt] = self.ids();
        let (client, token) = (&self.client, &self.token);
        let arguments = (client, RETENTION, owner, attempt, "", "", token);
        let answer: String = self.scripted.call(1, &self.keys, arguments).await?;
        match answer.split(' ').nth(1) {
            Some("released") => Ok(()),
            _ => Err(format!("not released: {answer}").into()),
        }
    }
}

impl Handle {
    fn ids(&self) -> [String; 2] {
        [self.number, self.number + 1].map(|number| format!(":{number}"))
    }
}

/// The time for which a token is kept, in ms.
const RETENTION: u64 = 600_000;
