//! A web service that ships each order once, however many instances of it run and however often
//! somebody clicks.
//!
//! By itself it starts the service, sends it some requests and ends. With an address as argument
//! (`127.0.0.1:3000`) it serves there until Ctrl-C; start it twice, with the same `REDIS_URL`, and
//! the instances exclude each other.

use std::{
    collections::HashMap,
    env, io,
    net::SocketAddr,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
};
use redlatch::{Client, Token};
use redlatch_examples::{Result, Server, http::ask, run};
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::sleep};

/// How long a request waits for an order that another request is at work on.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long shipping takes: a label is printed, a carrier is asked.
const SHIPPING: Duration = Duration::from_millis(300);

#[derive(Clone)]
struct Shop {
    client: Client,
    store: Arc<Store>,
}

/// `POST /orders/{id}/ship`
async fn ship(State(shop): State<Shop>, Path(id): Path<u64>) -> Result<Json<Value>, Refusal> {
    let lock = shop.client.lock(format!("example:orders:{id}"));
    let Some(guard) = lock.try_lock_for(PATIENCE).await? else {
        return Err(Refusal::Busy);
    };
    // Should the lock be lost, the work is dropped where it waits. Should the caller hang up, axum
    // drops all of this, and the guard with it.
    let receipt = guard.run(shop.store.ship(id, guard.token())).await??;
    // The guard goes by itself. To wait for `release()` and pass its error on would report a
    // failure of something that has been done.
    Ok(Json(receipt))
}

/// Why an order was not shipped, as HTTP has it.
#[derive(Debug)]
enum Refusal {
    /// Somebody is at work on it. Contention is not an error, and not the service's fault: 409,
    /// come again.
    Busy,
    /// The store has seen a later holder.
    Overtaken,
    /// No lock could be had, or it was lost on the way: 503.
    NoLock(redlatch::Error),
}

impl From<redlatch::Error> for Refusal {
    fn from(error: redlatch::Error) -> Self {
        Self::NoLock(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, message) = match self {
            Self::Busy => (
                StatusCode::CONFLICT,
                "this order is being worked on".to_owned(),
            ),
            Self::Overtaken => (
                StatusCode::CONFLICT,
                "another request was faster".to_owned(),
            ),
            Self::NoLock(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        };
        (
            status,
            [(RETRY_AFTER, "1")],
            Json(json!({ "error": message })),
        )
            .into_response()
    }
}

/// The orders. A real one is a database, and does the same with
/// `UPDATE … WHERE id = $id AND token <= $token`.
#[derive(Debug, Default)]
struct Store(Mutex<HashMap<u64, Order>>);

#[derive(Debug, Default)]
struct Order {
    shipped: Option<Value>,
    /// The greatest token that was seen.
    fence: Option<Token>,
}

impl Store {
    async fn ship(&self, id: u64, token: Token) -> Result<Value, Refusal> {
        if let Some(receipt) = self.write(id, token, None)? {
            return Ok(receipt);
        }
        sleep(SHIPPING).await;
        let receipt = json!({ "order": id, "shipped_under": token.as_u64() });
        self.write(id, token, Some(&receipt))?;
        Ok(receipt)
    }

    /// Shows the token, writes the receipt if there is one, and returns the one that was there.
    fn write(
        &self,
        id: u64,
        token: Token,
        receipt: Option<&Value>,
    ) -> Result<Option<Value>, Refusal> {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let order = orders.entry(id).or_default();
        if order.fence > Some(token) {
            return Err(Refusal::Overtaken);
        }
        order.fence = Some(token);
        let before = order.shipped.clone();
        if let Some(receipt) = receipt {
            order.shipped = Some(receipt.clone());
        }
        Ok(before)
    }
}

fn routes(client: Client) -> Router {
    let store = Arc::default();
    Router::new()
        .route("/orders/{id}/ship", post(ship))
        .with_state(Shop { client, store })
}

/// Serves in the background; returns the address.
async fn serve(address: &str, url: &str) -> Result<SocketAddr> {
    let client = Client::builder(url).application("shop").connect().await?;
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, routes(client)).await });
    Ok(address)
}

#[tokio::main]
async fn main() -> ExitCode {
    run(shop()).await
}

async fn shop() -> Result {
    let server = Server::from_env_or_start().await?;
    if let Some(address) = env::args().skip(1).find(|arg| arg != "--real") {
        let address = serve(&address, server.url()).await?;
        println!("curl -i -X POST http://{address}/orders/42/ship");
        return std::future::pending().await;
    }

    // Two instances, as behind a load balancer, which share nothing but the server (and, in real
    // life, the database).
    let one = serve("127.0.0.1:0", server.url()).await?;
    println!("Two clicks on the same order, and one on another, at the same time:");
    let clicks = tokio::try_join!(click(one, 42), click(one, 42), click(one, 43))?;
    for response in [clicks.0, clicks.1, clicks.2] {
        println!("  {response}");
    }
    println!("Another click on the first order, later:");
    println!("  {}", click(one, 42).await?);
    drop(server);
    println!("A click with the lock server gone:");
    println!("  {}", click(one, 44).await?);
    Ok(())
}

async fn click(address: SocketAddr, order: u64) -> io::Result<String> {
    let line = format!("POST /orders/{order}/ship");
    let (status, body) = ask(address, &line).await?;
    Ok(format!("{line} → {status} {body}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_refuses_who_comes_too_late() {
        let store = Store::default();
        let (old, new) = (Token::from_u64(1), Token::from_u64(2));
        assert!(store.write(42, old, None).is_ok());
        assert!(store.write(42, new, Some(&json!("new"))).is_ok());
        let late = store.write(42, old, Some(&json!("old")));
        assert!(matches!(late, Err(Refusal::Overtaken)));
        assert_eq!(store.write(42, new, None).unwrap(), Some(json!("new")));
    }

    #[tokio::test]
    async fn of_two_clicks_one_ships_and_the_other_is_told_that_it_is_busy() {
        for server in Server::of_test().await.unwrap() {
            let (one, two) = tokio::try_join!(
                serve("127.0.0.1:0", server.url()),
                serve("127.0.0.1:0", server.url()),
            )
            .unwrap();
            let (a, b, other) = tokio::try_join!(
                ask(one, "POST /orders/42/ship"),
                ask(two, "POST /orders/42/ship"),
                ask(two, "POST /orders/43/ship"),
            )
            .unwrap();
            let mut statuses = [a.0, b.0];
            statuses.sort_unstable();
            assert_eq!((statuses, other.0), ([200, 409], 200));
            let shipped = if a.0 == 200 { (one, a) } else { (two, b) };
            // The receipt of the first time, by the instance that keeps it.
            let again = ask(shipped.0, "POST /orders/42/ship").await.unwrap();
            assert_eq!(again, shipped.1);
        }
    }

    #[tokio::test]
    async fn without_the_lock_server_nothing_ships() {
        for server in Server::of_test().await.unwrap() {
            let shop = serve("127.0.0.1:0", server.url()).await.unwrap();
            drop(server);
            let (status, body) = ask(shop, "POST /orders/42/ship").await.unwrap();
            assert_eq!(status, 503, "{body}");
        }
    }
}
