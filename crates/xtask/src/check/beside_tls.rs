//! A program with redlatch and other libraries that use TLS. Takes one step per argument, and
//! prints the outcome of each. No server answers, since each library chooses a provider of
//! cryptography before the first byte.

use std::{env, time::Duration};

#[tokio::main]
async fn main() {
    for step in env::args().skip(1) {
        let outcome = match step.as_str() {
            "install" => install(),
            "redlatch" => redlatch().await,
            "redis" => redis(),
            "reqwest" => reqwest(),
            other => panic!("there is no step {other}"),
        };
        println!("{step}: {outcome}");
    }
}

/// Chooses a default, as some programs do. Fails if a library has chosen before.
fn install() -> String {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.install_default().expect("no default yet");
    "ok".to_owned()
}

async fn redlatch() -> String {
    let builder = redlatch::Client::builder("rediss://127.0.0.1:1");
    let refused = builder.patience(Duration::from_millis(100)).connect().await;
    format!("{:?}", refused.expect_err("no server").kind())
}

fn redis() -> String {
    let client = redis::Client::open("rediss://127.0.0.1:1/").expect("an address");
    let refused = client.get_connection().map(|_| ()).expect_err("no server");
    format!("{:?}", refused.kind())
}

fn reqwest() -> String {
    reqwest::Client::builder().build().expect("a client");
    "ok".to_owned()
}
