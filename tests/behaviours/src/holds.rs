//! Holds of all kinds, for a lease.

use futures_util::future::BoxFuture;
use redlatch::compat::{Redisson, SetNx};

use crate::prelude::*;

pub use self::Lease::{Fixed, Renewed};

/// How long a hold lasts.
#[derive(Clone, Copy, Debug)]
pub enum Lease {
    /// For this long, unless somebody extends it.
    Fixed(Duration),
    /// For this long after the last renewal.
    Renewed(Duration),
}

/// Takes a hold.
pub type Hold = fn(&Client, Lease) -> BoxFuture<'static, Box<dyn AnyGuard>>;

/// A kind whose guards hold for a lease.
struct Kind {
    name: &'static str,
    hold: Hold,
}

macro_rules! kinds {
    ($($name:literal: |$client:ident| $acquire:expr;)+) => {
        &[$(Kind {
            name: $name,
            hold: |$client, lease| {
                let acquire = $acquire;
                Box::pin(async move {
                    let guard = match lease {
                        Fixed(span) => acquire.lease(span).await,
                        Renewed(span) => acquire.renewed_lease(span).await,
                    };
                    Box::<dyn AnyGuard>::from(guard.unwrap())
                })
            },
        },)+]
    };
}

const KINDS: &[Kind] = kinds! {
    "lock": |client| client.lock("lock").lock();
    "fair": |client| client.fair_lock("fair").lock();
    "write": |client| client.read_write_lock("write").write();
    "read": |client| client.read_write_lock("read").read();
    "upgradable": |client| client.read_write_lock("upgradable").upgradable_read();
    "semaphore": |client| client.semaphore("semaphore").permits_if_unset(1).acquire();
    "set-nx": |client| SetNx::new(client, "set-nx").lock();
    "redisson": |client| Redisson::new(client, "redisson").lock();
};

/// Takes a hold of each kind, under the name of the kind.
pub async fn all(client: &Client, lease: Lease) -> Vec<(&'static str, Box<dyn AnyGuard>)> {
    let mut all = Vec::new();
    for kind in KINDS {
        all.push((kind.name, (kind.hold)(client, lease).await));
    }
    all
}

/// Returns what takes a hold of the name of this kind.
pub fn of(kind: &str) -> Hold {
    KINDS.iter().find(|it| it.name == kind).unwrap().hold
}

/// Returns the key that decides who holds the name of a kind.
pub fn key(kind: &str) -> String {
    match kind {
        "set-nx" | "redisson" => kind.to_owned(),
        _ => format!("redlatch:{{{kind}}}"),
    }
}
