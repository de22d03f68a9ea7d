//! The connection to the server.

use std::{env, fs, future::pending, io, path::PathBuf, time::Duration};

use redlatch::{Client, ClientBuilder, runtime::TlsOptions};
use tokio::{
    net::TcpStream,
    select,
    time::{Instant, sleep},
};

use super::{
    address,
    args::ServerArgs,
    exit::{ADDRESS, Failure, NO_SERVER, USAGE, warn},
    out::{self, clean},
    span::short,
};

/// Returns the builder of a client that shows as `application`, unless the address says otherwise.
pub(crate) fn builder(args: &ServerArgs, application: &str) -> Result<ClientBuilder, Failure> {
    over(args, |builder| builder.application(application))
}

/// Returns the builder of a client that only looks, or gives back. It needs no right to take
/// anything, and works on a full server.
pub(crate) fn looker(args: &ServerArgs, application: &str) -> Result<ClientBuilder, Failure> {
    over(args, |builder| {
        builder.application(application).self_check(false)
    })
}

/// Returns a builder over other defaults. What the address says replaces them, and an option of the
/// command line replaces what the address says.
pub(crate) fn over(
    args: &ServerArgs,
    defaults: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<ClientBuilder, Failure> {
    let url = address::find(args)?;
    let mut builder = ClientBuilder::with_defaults(&url, |builder| {
        defaults(builder.client_name("redlatch-cli"))
    });
    if let Some(prefix) = &args.prefix {
        builder = builder.prefix(prefix);
    }
    Ok(match tls(args, &url)? {
        Some(tls) => builder.tls(tls),
        None => builder,
    })
}

/// Says which parameters of the address have no effect.
pub(crate) fn unknown_parameters(names: &[String]) -> String {
    let names = clean(&names.join(", "));
    format!("redlatch does not know these parameters of the address, and ignores them: {names}")
}

/// Connects. Warns of parameters that have no effect.
pub(crate) async fn connect(builder: ClientBuilder) -> Result<Client, Failure> {
    let (_, _, unknown) = builder.chosen();
    if !unknown.is_empty() {
        warn(&unknown_parameters(unknown));
    }
    builder.connect().await.map_err(of_address)
}

/// Connects, and gives up as soon as the port refuses: who looks does not wait for a server that
/// starts.
pub(crate) async fn look(args: &ServerArgs, application: &str) -> Result<Client, Failure> {
    look_by(looker(args, application)?).await
}

/// The same as [`look`], with a builder.
pub(crate) async fn look_by(builder: ClientBuilder) -> Result<Client, Failure> {
    let refused = refused(&builder);
    select! {
        connected = connect(builder) => connected,
        refused = refused => Err(refused),
    }
}

/// Works with a client, and closes it. Prints the result.
pub(crate) async fn answer(
    client: Client,
    work: impl AsyncFnOnce(&Client) -> Result<String, Failure>,
) -> Result<u8, Failure> {
    let answer = work(&client).await;
    close(&client).await;
    out::print(&answer?)?;
    Ok(0)
}

/// Resolves after a moment if the port of the only server refuses a connection.
pub(crate) fn refused(builder: &ClientBuilder) -> impl Future<Output = Failure> + use<> {
    let host = builder.host().map(|(host, port)| (host.to_owned(), port));
    async move {
        sleep(MOMENT).await;
        if let Some((host, port)) = host
            && let Err(error) = TcpStream::connect((host.as_str(), port)).await
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            let host = match host.contains(':') {
                true => format!("[{host}]"),
                false => host,
            };
            let message = format!("nothing listens at {host}:{port}; check address and network");
            return Failure::new(NO_SERVER, message);
        }
        pending().await
    }
}

/// Returns the rest of a wait until `end`. With less left than an answer may take, zero: one
/// try, whose answer is awaited.
pub(crate) fn left(end: Instant) -> Duration {
    let left = end.saturating_duration_since(Instant::now());
    Some(left)
        .filter(|left| *left >= AN_ANSWER)
        .unwrap_or_default()
}

/// A server that is well may take so long on a busy machine.
const AN_ANSWER: Duration = Duration::from_millis(250);

/// Connects within `wait`, or within a second if that is less, if there is a bound above zero.
pub(crate) async fn connect_within(
    builder: ClientBuilder,
    wait: Option<Duration>,
) -> Result<Client, Failure> {
    let Some(wait) = wait.filter(|wait| !wait.is_zero()) else {
        return connect(builder).await;
    };
    // A shorter bound would make a server that is well look dead.
    let wait = wait.max(SHORTEST);
    let connected = tokio::time::timeout(wait, connect(builder)).await;
    connected.unwrap_or_else(|_| {
        let span = short(wait);
        let message = format!("no server answers within {span}; check address and network");
        Err(Failure::new(NO_SERVER, message))
    })
}

/// Returns the failure of a client whose options are wrong. Here only the address or an option of
/// the server can be.
pub(crate) fn of_address(error: redlatch::Error) -> Failure {
    let mut failure = Failure::from(error);
    if failure.code == USAGE {
        failure.code = ADDRESS;
        let message = failure.message.trim_end_matches("; see redlatch help");
        failure.message = format!("{message}; check the address and the options of the server");
    }
    failure
}

/// Reads the certificates of the options, or of the environment if the address is one of TLS.
fn tls(args: &ServerArgs, url: &str) -> Result<Option<TlsOptions>, Failure> {
    let is_tls = url.starts_with("rediss") || url.starts_with("valkeys");
    let read = |option: &Option<PathBuf>, variable: &str| {
        let of_environment = || env::var_os(variable).filter(|file| is_tls && !file.is_empty());
        let of_environment = || of_environment().map(PathBuf::from);
        let file = option.clone().or_else(of_environment);
        let read = |file: PathBuf| {
            fs::read(&file).map_err(|error| {
                let shown = file.display();
                Failure::new(ADDRESS, format!("the file {shown} cannot be read: {error}"))
            })
        };
        file.map(read).transpose()
    };
    let mut tls = TlsOptions::default();
    tls.root_pem = read(&args.cacert, "REDLATCH_CACERT")?;
    let certificate = read(&args.cert, "REDLATCH_CERT")?;
    let key = read(&args.key, "REDLATCH_KEY")?;
    if certificate.is_some() != key.is_some() {
        return Err(Failure::usage("--cert and --key go together"));
    }
    tls.client_pem = certificate.zip(key);
    Ok((tls != TlsOptions::default()).then_some(tls))
}

/// Gives back what is still under way, such as an acquisition that was given up.
pub(crate) async fn close(client: &Client) {
    // Without an answer, what is left ends with its lease, or within 5 s if it was never granted.
    let _ = tokio::time::timeout(CLOSING, client.close(Duration::ZERO)).await;
}

/// How long a connection takes at the usual. A refused one is tried again and again meanwhile.
const MOMENT: Duration = Duration::from_millis(300);

/// The shortest time for a connection.
pub(crate) const SHORTEST: Duration = Duration::from_secs(1);

/// How long the end of the program waits for a silent server.
const CLOSING: Duration = Duration::from_secs(2);
