//! The proxy in front of real servers.

use redlatch_tests::{
    proxy::{Pick, Proxy, Then},
    server::{Connection, Server, ServerBinary, ServerOptions},
    wait::{GENEROUS, eventually},
};
use tokio::task::spawn_blocking;

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_lost_after_the_server_executed() {
    for binary in ServerBinary::all() {
        let server = Server::start(&binary, ServerOptions::new());
        let proxy = Proxy::start(server.address());
        let lost = proxy.drop_reply(Pick::command("INCR"), Then::Cut);
        let reply = ask(&proxy, &["INCR", "n"]).await;
        assert!(reply.is_err(), "{binary}");
        assert_eq!(lost.answered().await.reply(), b":1\r\n", "{binary}");
        assert_eq!(server.command(&["GET", "n"]).text(), "1", "{binary}");
        assert_eq!(
            ask(&proxy, &["INCR", "n"]).await.unwrap().int(),
            2,
            "{binary}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_request_arrives_late() {
    for binary in ServerBinary::all() {
        let options = ServerOptions::new().password("secret");
        let server = Server::start(&binary, options);
        let proxy = Proxy::start(server.address());
        let hold = proxy.hold_request(Pick::containing("attempt-1"));
        let asked = tokio::spawn({
            let proxy = proxy.clone();
            async move { ask_as(&proxy, Some("secret"), &["APPEND", "k", "attempt-1 "]).await }
        });
        let held = hold.caught().await;
        assert!(server.keys().is_empty(), "{binary}");
        server.command(&["APPEND", "k", "attempt-2 "]).unwrap();
        assert_eq!(held.deliver().await.unwrap(), b":20\r\n", "{binary}");
        assert_eq!(held.let_go().await.unwrap(), b":30\r\n", "{binary}");
        assert_eq!(asked.await.unwrap().unwrap().int(), 30, "{binary}");
        let value = server.command(&["GET", "k"]).text();
        assert_eq!(value, "attempt-2 attempt-1 attempt-1 ", "{binary}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_survives_its_server() {
    for binary in ServerBinary::all() {
        let server = Server::start(&binary, ServerOptions::new());
        let proxy = Proxy::start(server.address());
        let mut connection = Connection::open(proxy.address(), GENEROUS).unwrap();
        connection.command(&["PING"]).unwrap();
        server.kill();
        assert!(connection.command(&["PING"]).is_err(), "{binary}");
        assert!(ask(&proxy, &["PING"]).await.is_err(), "{binary}");
        server.restart();
        assert_eq!(
            ask(&proxy, &["PING"]).await.unwrap().text(),
            "PONG",
            "{binary}"
        );
        eventually("its connections to go", GENEROUS, async || {
            proxy.open_connections() == 0
        })
        .await;
    }
}

async fn ask(
    proxy: &Proxy,
    args: &[&'static str],
) -> std::io::Result<redlatch_tests::server::Reply> {
    ask_as(proxy, None, args).await
}

async fn ask_as(
    proxy: &Proxy,
    password: Option<&'static str>,
    args: &[&'static str],
) -> std::io::Result<redlatch_tests::server::Reply> {
    let address = proxy.address();
    let args = args.to_vec();
    let asked = spawn_blocking(move || {
        let mut connection = Connection::open(address, GENEROUS)?;
        if let Some(password) = password {
            connection.command(&["AUTH", password])?.unwrap();
        }
        connection.command(&args)
    });
    asked.await.unwrap()
}
