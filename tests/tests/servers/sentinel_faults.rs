//! Sentinels that fail a master over, and a master that was deposed.

use crate::prelude::*;

redlatch_tests::on_every_server!(
    locks_work_while_all_sentinels_are_away,
    unknown_service_is_reported,
    servers_and_sentinels_have_credentials_of_their_own,
);

async fn locks_work_while_all_sentinels_are_away(binary: ServerBinary) {
    let group = group(&binary);
    let client = Client::connect(&group.url()).await.unwrap();
    let guard = client.lock("x").lock().await.unwrap();
    for sentinel in group.sentinels() {
        sentinel.kill();
    }
    // Running holds and new ones need no sentinel.
    take_and_free(&client.lock("y"), 20).await;
    guard.extend(60 * SECOND).await.unwrap();
    for sentinel in group.sentinels() {
        sentinel.restart();
    }
    group.fail_over();
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    take_and_free(&client.lock("y"), 20).await;
    assert_tables_empty(&client).await;
}

async fn unknown_service_is_reported(binary: ServerBinary) {
    let group = group(&binary);
    let url = group.url().replace("/main", "/mane");
    let error = Client::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedServer, "{error:?}");
    assert!(format!("{error}").contains("mane"), "{error}");
}

async fn servers_and_sentinels_have_credentials_of_their_own(binary: ServerBinary) {
    let options = ServerOptions::new()
        .password("server")
        .config("masterauth server");
    let sentinel = ServerOptions::new()
        .password("sentinel")
        .config("sentinel sentinel-pass sentinel");
    let group = SentinelGroup::start_with(&binary, 1, 1_000 * MS, &options, sentinel);
    let client = Client::connect(&group.url()).await.unwrap_err();
    assert_eq!(client.kind(), ErrorKind::Auth, "{client:?}");
    let url = group.url().replace("://", "://:server@") + "?sentinel_password=sentinel";
    let client = Client::connect(&url).await.unwrap();
    take_and_free(&client.lock("x"), 5).await;
    let sentinels: Vec<_> = group.sentinels().iter().map(Server::url).collect();
    let built = redlatch::ClientBuilder::sentinel(SentinelGroup::SERVICE, sentinels)
        .credentials(None, Some("server"))
        .sentinel_credentials(None, Some("sentinel"))
        .connect()
        .await
        .unwrap();
    take_and_free(&built.lock("x"), 5).await;
    group.fail_over();
    take_and_free(&client.lock("x"), 5).await;
    take_and_free(&built.lock("x"), 5).await;
    assert_tables_empty(&client).await;
}
