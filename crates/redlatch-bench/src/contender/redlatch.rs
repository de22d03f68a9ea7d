//! redlatch with its defaults: renewed leases of 30 s, fencing tokens, notified waiters. The
//! contenders are the plain lock, and other primitives with one holder or a few holders of a name.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use redlatch::{
    Client, Error, FairLockGuard, LockGuard, ReadGuard, Released, SemaphorePermit, WriteGuard,
    permits::PermitRelease,
};

use super::{Failure, LIMIT, Lock, Session, gcra::Check};
use crate::job::PERMITS;

/// Makes a handle of a name of one kind.
type OfKind = fn(&Client, &str) -> Box<dyn Lock>;

/// A way to acquire and a way to release.
struct Handle<G, T, R> {
    take: T,
    give: R,
    guard: Option<G>,
}

/// Connects a client, if `name` is that of a kind. `roomy` and `permits` have a permit for each
/// task. With `one-`, all tasks of a round share one semaphore.
pub(super) async fn session(name: &str, url: &str) -> Result<Session, Failure> {
    let named: OfKind = match name {
        "redlatch" => |client, name| {
            let lock = client.lock(name);
            handle(move || lock.lock().into_future(), LockGuard::release)
        },
        "fair" => |client, name| {
            let lock = client.fair_lock(name);
            handle(move || lock.lock().into_future(), FairLockGuard::release)
        },
        "read" => |client, name| {
            let lock = client.read_write_lock(name);
            handle(move || lock.read().into_future(), ReadGuard::release)
        },
        "write" => |client, name| {
            let lock = client.read_write_lock(name);
            handle(move || lock.write().into_future(), WriteGuard::release)
        },
        "semaphore" => |client, name| semaphore(client, name, PERMITS),
        "permit" => |client, name| semaphore(client, name, 1),
        "roomy" => |client, name| semaphore(client, name, ROOM),
        "one-roomy" => |client, name| semaphore(client, of_round(name), ROOM),
        "permit-id" => |client, name| permits(client, name, 1),
        "permits" => |client, name| permits(client, name, ROOM),
        "one-permits" => |client, name| permits(client, of_round(name), ROOM),
        LIMIT => |client, name| Box::new(Check::new(client, name)),
        _ => return Err(format!("no contender is called {name:?}").into()),
    };
    let client = connect(url).await?;
    let lock = Box::new(move |name: &str| named(&client, name));
    Ok(Session { verbs: VERBS, lock })
}

/// Connects a client with limits for the waiters and holds of all workloads.
pub(crate) async fn connect(url: &str) -> Result<Client, Failure> {
    Ok(Client::builder(url).max_waiters(200_000).connect().await?)
}

fn semaphore(client: &Client, name: &str, permits: u32) -> Box<dyn Lock> {
    let semaphore = client.semaphore(name).permits_if_unset(permits);
    handle(
        move || semaphore.acquire().into_future(),
        SemaphorePermit::release,
    )
}

fn permits(client: &Client, name: &str, permits: u32) -> Box<dyn Lock> {
    let semaphore = client.permit_expirable_semaphore(name);
    let semaphore = semaphore.permits_if_unset(permits);
    let from = semaphore.clone();
    let give = move |id| {
        let from = from.clone();
        async move {
            Ok(match from.release(&id).await? {
                PermitRelease::Released => Released::Free,
                _ => Released::Unconfirmed,
            })
        }
    };
    handle(move || semaphore.acquire().into_future(), give)
}

fn handle<G, T, R, F>(take: T, give: R) -> Box<dyn Lock>
where
    G: Send + 'static,
    T: Fn() -> Taking<G> + Send + 'static,
    R: Fn(G) -> F + Send + 'static,
    F: Future<Output = Result<Released, Error>> + Send,
{
    let guard = None;
    Box::new(Handle { take, give, guard })
}

type Taking<G> = BoxFuture<'static, Result<G, Error>>;

#[async_trait]
impl<G, T, R, F> Lock for Handle<G, T, R>
where
    G: Send,
    T: Fn() -> Taking<G> + Send,
    R: Fn(G) -> F + Send,
    F: Future<Output = Result<Released, Error>> + Send,
{
    async fn acquire(&mut self) -> Result<(), Failure> {
        let taking = (self.take)();
        self.guard = Some(taking.await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let giving = (self.give)(self.guard.take().ok_or("nothing is held")?);
        let released = giving.await?;
        if released.is_clean() {
            Ok(())
        } else {
            Err(released.to_string().into())
        }
    }
}

/// Returns the common part of the names of a round.
fn of_round(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(round, _)| round)
}

const VERBS: &str = "evalsha,eval,asking,ping,set,hello,subscribe,ssubscribe";

const ROOM: u32 = 100_000;
