//! Wrong input ends at once with a typed error.

use redlatch::ErrorKind;

use super::token;
use crate::prelude::*;

behaviours! {
    Single:
        foreign_mark_is_a_typed_error;
}

async fn foreign_mark_is_a_typed_error(backend: &Backend) {
    let client = backend.client().await;
    let fence = client.fence("data");
    backend.command(&["HSET", "redlatch:{data}:f", "k", "other:1"]);
    for error in [
        fence.set(token(1), "a").await.unwrap_err(),
        fence.mark().await.unwrap_err(),
        fence.reset().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::WrongKind, "{error}");
    }
    assert_eq!(backend.string("data"), None);
}
