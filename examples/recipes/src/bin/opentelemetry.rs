//! `tracing-opentelemetry` exports the spans of acquisitions and holds.
//!
//! An acquisition belongs to the trace of the caller. A hold begins a trace, because a guard may
//! outlive the request.

use opentelemetry::trace::{SpanId, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use redlatch::{Client, Error};
use redlatch_recipes::Result;
use tracing::{Instrument, Level, info_span};
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

#[tokio::main]
async fn main() -> Result {
    // A service exports to a collector instead, for example by `opentelemetry-otlp`.
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    // The spans of redlatch have the level `debug`.
    let targets = Targets::new()
        .with_default(Level::INFO)
        .with_target("redlatch", Level::DEBUG);
    tracing_subscriber::registry()
        .with(targets)
        .with(spans)
        .init();

    let client = Client::embedded().await?;
    order(&client).instrument(info_span!("order")).await?;
    client.close(std::time::Duration::ZERO).await;

    let spans = exporter.get_finished_spans()?;
    assert_eq!(spans.len(), 4, "{spans:#?}");
    let find = |name: &str, outcome: &str| {
        let mut spans = spans.iter();
        spans.find(|span| span.name == name && attribute(span, "outcome") == outcome)
    };
    let order = find("order", "").ok_or("no span of the request")?;
    let request = order.span_context.span_id();
    for (name, outcome, parent) in [
        ("wait", "granted", request),
        ("wait", "busy", request),
        ("hold", "released", SpanId::INVALID),
    ] {
        let span = find(name, outcome).ok_or(format!("no span {name}: {outcome}"))?;
        assert_eq!(span.parent_span_id, parent);
        assert_eq!(attribute(span, "name"), "orders:42");
        println!("{name} of orders:42: {outcome}");
    }
    Ok(())
}

async fn order(client: &Client) -> Result<(), Error> {
    let lock = client.lock("orders:42");
    let guard = lock.lock().await?;
    assert!(lock.try_lock().await?.is_none());
    guard.release().await?;
    Ok(())
}

/// Returns the text of an attribute, or an empty text.
fn attribute(span: &SpanData, key: &str) -> String {
    let mut attributes = span.attributes.iter();
    let found = attributes.find(|attribute| attribute.key.as_str() == key);
    found.map_or_else(String::new, |found| found.value.as_str().into_owned())
}
