//! The connection to the server.

use std::time::Duration;

use redlatch::{Client, ClientBuilder};

use super::{
    address,
    args::ServerArgs,
    exit::{ADDRESS, Failure, USAGE},
};

/// Connects as `application`, which others see as the holder's name.
pub(crate) async fn connect(args: &ServerArgs, application: &str) -> Result<Client, Failure> {
    builder(args)?
        .application(application)
        .connect()
        .await
        .map_err(of_address)
}

/// Returns the builder of a client, with the address and the prefix.
pub(crate) fn builder(args: &ServerArgs) -> Result<ClientBuilder, Failure> {
    Ok(Client::builder(&address::find(args)?)
        .prefix(&args.prefix)
        .client_name("redlatch-cli"))
}

/// Returns the failure of a client whose options are wrong. Here only the address or the prefix can
/// be.
pub(crate) fn of_address(error: redlatch::Error) -> Failure {
    let mut failure = Failure::from(error);
    if failure.code == USAGE {
        failure.code = ADDRESS;
        let message = failure.message.trim_end_matches("; see redlatch help");
        failure.message = format!("{message}; check address and --prefix");
    }
    failure
}

/// Gives back what is still under way, such as an acquisition that was given up.
pub(crate) async fn close(client: &Client) {
    // Without an answer, what is left ends with its lease, or within 5 s if it was never granted.
    let _ = tokio::time::timeout(CLOSING, client.close(Duration::ZERO)).await;
}

/// How long the end of the program waits for a silent server.
const CLOSING: Duration = Duration::from_secs(2);
