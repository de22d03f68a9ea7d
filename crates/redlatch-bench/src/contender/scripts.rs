//! The scripts of redlatch without the rest of it: the cost of its pair through the client crate
//! that it uses. It does not wait, renews nothing and trusts every reply. It is not for production
//! use.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use redis::{Client, Script, aio::MultiplexedConnection};
use redlatch_lua::REENTRANT;

use super::{
    Failure, LEASE, Lock, SCRIPTED, Session,
    raw::{connection, rand},
};

struct Handle {
    connection: MultiplexedConnection,
    scripts: Arc<[Script; 2]>,
    client: String,
    keys: [String; 2],
    /// Numbers owners and attempts, as a client does.
    number: u64,
    token: String,
}

/// Connects to one server.
pub(super) async fn session(url: &str) -> Result<Session, Failure> {
    let connection = connection(&Client::open(url)?).await?;
    let scripts = [REENTRANT.acquire, REENTRANT.release].map(|one| Script::new(one.text));
    let (scripts, client) = (Arc::new(scripts), format!("{:016x}{:016x}", rand(), rand()));
    Ok(Session::new(SCRIPTED, move |name| {
        let key = format!("redlatch:{{{name}}}");
        Handle {
            connection: connection.clone(),
            scripts: Arc::clone(&scripts),
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
        let mut call = self.scripts[0].key(&self.keys[0]);
        call.key(&self.keys[1])
            .arg(by as u64)
            .arg(&self.client)
            .arg(LEASE.as_millis() as u64)
            .arg(LEASE.as_millis() as u64 + RETENTION)
            .arg("")
            .arg(owner)
            .arg(attempt)
            .arg(5_000)
            .arg(format!(
                "PUBLISH redlatch:w:{} {}",
                self.client, self.number
            ));
        let answer: String = call.invoke_async(&mut self.connection).await?;
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
        let mut call = self.scripts[1].key(&self.keys[0]);
        call.key(&self.keys[1])
            .arg(&self.client)
            .arg(RETENTION)
            .arg(owner)
            .arg(attempt)
            .arg("")
            .arg("")
            .arg(&self.token);
        let answer: String = call.invoke_async(&mut self.connection).await?;
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
