//! An HTTP client, for followers and for the check. A service has connections in a pool.

use std::{net::SocketAddr, time::Duration};

use axum::{
    body::Body,
    http::{Method, Request, StatusCode, header::HOST},
};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use redlatch_examples::Result;
use serde_json::Value;
use tokio::{net::TcpStream, time::timeout};

use crate::FORWARDED;

/// How long the leader has for an answer. One that was stopped has the connection and says nothing.
const ANSWER: Duration = Duration::from_secs(1);

/// Passes a job on to the leader. Returns what it answers, and `None` if it does not lead any more
/// or does not answer. Then it may have done the job all the same: the id tells the next leader.
pub(crate) async fn post(leader: &str, id: u64, by: SocketAddr) -> Option<Value> {
    let request = Request::post(format!("/jobs/{id}")).header(FORWARDED, by.to_string());
    let request = request.header(HOST, leader).body(Body::empty()).ok()?;
    match timeout(ANSWER, send(leader, request)).await {
        Ok(Ok((StatusCode::OK, mut done))) => {
            done["via"] = by.to_string().into();
            Some(done)
        }
        _ => None,
    }
}

/// Sends a request without a body.
pub(crate) async fn ask(method: Method, to: &str, path: &str) -> Result<(StatusCode, Value)> {
    let request = Request::builder().method(method).uri(path);
    send(to, request.header(HOST, to).body(Body::empty())?).await
}

/// Sends a request on a connection of its own. Returns the status, and the body if it is JSON.
async fn send(to: &str, request: Request<Body>) -> Result<(StatusCode, Value)> {
    let stream = TokioIo::new(TcpStream::connect(to).await?);
    let (mut sender, connection) = http1::handshake(stream).await?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    drop(sender);
    connection.await??;
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}
