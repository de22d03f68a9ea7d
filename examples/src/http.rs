//! As much of an HTTP client as the examples need.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Sends a request without a body, such as `GET /orders`. Returns status and body.
pub async fn ask(address: SocketAddr, line: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let status = response.split(' ').nth(1);
    let status = status.and_then(|status| status.parse().ok());
    let body = response.split_once("\r\n\r\n").map(|(_, body)| body);
    match (status, body) {
        (Some(status), Some(body)) => Ok((status, body.to_owned())),
        _ => Err(io::Error::other(format!("not HTTP: {response:?}"))),
    }
}
