//! The exit code of all verbs for what a server refuses.

use redlatch_tests::server::{ServerBinary, ServerOptions};

use crate::{server::Server, support::all_end_with};

#[tokio::test(flavor = "multi_thread")]
async fn all_verbs_end_with_77_for_a_wrong_password_or_missing_rights() {
    for binary in ServerBinary::all() {
        let options = ServerOptions::new()
            .user("app on >right ~* &* +@all")
            .user("few on >right ~* &* +@connection");
        let world = Server::start(binary, options).await;
        for user in ["app:wrong", "few:right"] {
            let url = world.url().replace("//", &format!("//{user}@"));
            for ended in all_end_with(77, &world, &url).await {
                assert_eq!(ended.stderr.matches('\n').count(), 1, "{user}: {ended:?}");
            }
        }
    }
}
