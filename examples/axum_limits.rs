//! A web service with two layers: at most two exports at a time over all of its replicas, and one
//! request per order. A client that hangs up gives its permit back.
//!
//! By itself it starts two replicas, sends them some requests and ends.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use axum::{
    Extension, Router,
    http::{StatusCode, request::Parts},
    routing::{get, post},
};
use redlatch::{Client, Token};
use redlatch_examples::{Result, Server, http::ask, run};
use redlatch_tower::{LimitLayer, LockLayer, Unavailable, Until, path_parameters};
use tokio::{net::TcpListener, time::sleep};

/// How long an export and a shipment take.
const WORK: Duration = Duration::from_millis(300);

/// How many exports there may be at a time.
const EXPORTS: u32 = 2;

fn routes(client: &Client) -> Router {
    // Without the server nobody knows how many exports there are. They only cost time, so they go
    // on. A shipment without a lock could be the second one, so it is refused.
    let exports = client.semaphore("example:exports");
    let limit = LimitLayer::new(exports.permits_if_unset(EXPORTS))
        .until(Until::Body)
        .on_busy(StatusCode::SERVICE_UNAVAILABLE)
        .on_unavailable(Unavailable::PassThrough);
    let orders = client.clone();
    let lock = LockLayer::new(move |request: &Parts| {
        let [order] = path_parameters(request, "/orders/{id}")?;
        Some(orders.lock(format!("example:orders:{order}")))
    })
    .on_busy(StatusCode::CONFLICT)
    .on_unavailable(Unavailable::Refuse(StatusCode::SERVICE_UNAVAILABLE));

    let exports = Router::new().route("/export", get(export)).layer(limit);
    let orders = Router::new().route("/orders/{id}", post(ship)).layer(lock);
    exports.merge(orders)
}

async fn export() -> &'static str {
    sleep(WORK).await;
    "a,b,c"
}

/// The token goes along with what is written: `UPDATE … WHERE token <= $token`.
async fn ship(Extension(token): Extension<Token>) -> String {
    sleep(WORK).await;
    format!("shipped under token {token}")
}

/// Serves in the background; returns the address.
async fn serve(url: &str) -> Result<SocketAddr> {
    let builder = Client::builder(url).patience(Duration::from_secs(1));
    let client = builder.connect().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, routes(&client)).await });
    Ok(address)
}

#[tokio::main]
async fn main() -> ExitCode {
    run(shop()).await
}

async fn shop() -> Result {
    let server = Server::from_env_or_start().await?;
    let (one, two) = tokio::try_join!(serve(server.url()), serve(server.url()))?;
    println!("Three exports at the same time, of which two may run:");
    let get = "GET /export";
    let (a, b, c) = tokio::try_join!(ask(one, get), ask(two, get), ask(one, get))?;
    println!("  {a:?}\n  {b:?}\n  {c:?}");
    println!("Two shipments of one order, and one of another:");
    let (a, b, c) = tokio::try_join!(
        ask(one, "POST /orders/42"),
        ask(two, "POST /orders/42"),
        ask(two, "POST /orders/43"),
    )?;
    println!("  {a:?}\n  {b:?}\n  {c:?}");
    drop(server);
    println!("Without the lock server, exports go on and shipments do not:");
    let (a, b) = tokio::try_join!(ask(one, get), ask(two, "POST /orders/44"))?;
    println!("  {a:?}\n  {b:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn replicas_share_the_limit_and_the_locks() {
        for server in Server::of_test().await.unwrap() {
            let (one, two) = tokio::try_join!(serve(server.url()), serve(server.url())).unwrap();
            let get = "GET /export";
            let (a, b, c) = tokio::try_join!(ask(one, get), ask(two, get), ask(one, get)).unwrap();
            let mut statuses = [a.0, b.0, c.0];
            statuses.sort_unstable();
            assert_eq!(statuses, [200, 200, 503]);
            let (a, b, other) = tokio::try_join!(
                ask(one, "POST /orders/42"),
                // The same order, in another spelling.
                ask(two, "POST /orders/%34%32"),
                ask(two, "POST /orders/43"),
            )
            .unwrap();
            let mut statuses = [a.0, b.0];
            statuses.sort_unstable();
            assert_eq!((statuses, other.0), ([200, 409], 200));
        }
    }

    #[tokio::test]
    async fn without_the_lock_server_exports_go_on_and_shipments_do_not() {
        for server in Server::of_test().await.unwrap() {
            let shop = serve(server.url()).await.unwrap();
            drop(server);
            let (export, order) =
                tokio::try_join!(ask(shop, "GET /export"), ask(shop, "POST /orders/1")).unwrap();
            assert_eq!(export, (200, "a,b,c".to_owned()));
            assert_eq!(order.0, 503, "{}", order.1);
        }
    }
}
