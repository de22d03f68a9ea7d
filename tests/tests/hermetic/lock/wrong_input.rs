//! Wrong input gets a typed error, and nothing is half done.

use std::time::Duration;

use redlatch::{Client, ErrorKind};

#[tokio::test]
async fn addresses_and_options_that_are_wrong() {
    for url in [
        "",
        "localhost",
        "http://localhost",
        "redis://localhost/x",
        "redis://localhost?lease=1",
    ] {
        assert_eq!(
            Client::connect(url).await.unwrap_err().kind(),
            ErrorKind::InvalidOption,
            "{url}"
        );
    }
    let builder = || Client::builder("redis://localhost");
    for wrong in [
        builder().prefix(""),
        builder().prefix("a{b}"),
        builder().clock_drift(0.3),
        builder().token_retention(Duration::from_secs(1)),
        builder().patience(Duration::ZERO),
        builder().connect_timeout(Duration::ZERO),
        #[cfg(feature = "tls")]
        builder().tls(Default::default()),
    ] {
        assert_eq!(
            wrong.connect().await.unwrap_err().kind(),
            ErrorKind::InvalidOption
        );
    }
    let error = builder()
        .default_lease(Duration::ZERO)
        .connect()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidLease);
}
