//! TLS by rustls.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::error;
use crate::runtime::{DialError, DialErrorKind, TlsOptions};

/// Reads the certificates on a thread of tokio's that may block, and waits for `socket`. Then
/// agrees on keys, and checks that the server's certificate is valid for the host.
#[expect(
    clippy::disallowed_methods,
    reason = "the files of the system are read beside the runtime of the socket"
)]
pub(super) async fn secure(
    host: &str,
    options: &TlsOptions,
    socket: impl Future<Output = Result<TcpStream, DialError>>,
) -> Result<TlsStream<TcpStream>, DialError> {
    let name = ServerName::try_from(host.to_owned()).map_err(failed)?;
    let options = options.clone();
    let provider = provider()?;
    let config = tokio::task::spawn_blocking(move || config(provider, &options)).await;
    let connector = TlsConnector::from(Arc::new(config.map_err(failed)?.map_err(failed)?));
    let secured = connector.connect(name, socket.await?).await;
    secured.map_err(error::failure)
}

fn config(provider: Arc<CryptoProvider>, options: &TlsOptions) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?;
    let builder = if options.insecure {
        let verifier = Arc::new(AcceptAll(provider));
        builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
    } else {
        builder.with_root_certificates(roots(options.root_pem.as_deref())?)
    };
    match &options.client_pem {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
            let chain = chain.map_err(|why| format!("the client's certificates: {why}"))?;
            let key = PrivateKeyDer::from_pem_slice(key);
            let key = key.map_err(|why| format!("the client's private key: {why}"))?;
            if chain.is_empty() {
                return Err("the client's certificates: none in the text".to_owned());
            }
            let client = builder.with_client_auth_cert(chain, key);
            client.map_err(|why| format!("the client's certificates and key: {why}"))
        }
    }
}

/// Returns the provider that the application has installed, or else the provider of a feature.
/// Installs no provider, since the process has one place for it.
fn provider() -> Result<Arc<CryptoProvider>, DialError> {
    let installed = CryptoProvider::get_default().cloned();
    installed.or_else(compiled).ok_or_else(|| {
        let why = "TLS needs a provider of cryptography: enable the feature `tls-ring` or \
                   `tls-aws-lc-rs` of the crate redlatch, or install a default provider of rustls \
                   before you connect";
        error::dial(DialErrorKind::Unsupported, why.to_owned())
    })
}

fn compiled() -> Option<Arc<CryptoProvider>> {
    #[cfg(feature = "tls-aws-lc-rs")]
    let provider = Some(rustls::crypto::aws_lc_rs::default_provider());
    #[cfg(all(feature = "tls-ring", not(feature = "tls-aws-lc-rs")))]
    let provider = Some(rustls::crypto::ring::default_provider());
    #[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc-rs")))]
    let provider = None;
    provider.map(Arc::new)
}

/// Reads the certificates of `pem`, or else the system's.
fn roots(pem: Option<&[u8]>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(pem) = pem else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        #[cfg(feature = "tls-webpki-roots")]
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        if roots.is_empty() {
            let why = format!("no root certificates of the system {:?}", found.errors);
            return Err(why);
        }
        return Ok(roots);
    };
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|why| format!("the root certificates: {why}"))?;
        let added = roots.add(certificate);
        added.map_err(|why| format!("the root certificates: {why}"))?;
    }
    if roots.is_empty() {
        return Err("the root certificates: none in the text".to_owned());
    }
    Ok(roots)
}

fn failed(why: impl ToString) -> DialError {
    error::dial(DialErrorKind::Tls, why.to_string())
}

/// Accepts any certificate of a server, for [`TlsOptions::insecure`].
#[derive(Debug)]
struct AcceptAll(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc-rs")))]
    #[test]
    fn without_a_provider_the_error_says_what_to_do() {
        let failed = provider().unwrap_err();
        assert_eq!(failed.kind, DialErrorKind::Unsupported);
        assert!(failed.message.contains("`tls-ring`"), "{failed}");
    }

    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc-rs"))]
    #[test]
    fn certificates_that_cannot_be_read_are_named() {
        let junk = || b"-----BEGIN CERTIFICATE-----\nj?nk\n-----END CERTIFICATE-----".to_vec();
        let client = |chain, key| TlsOptions {
            client_pem: Some((chain, key)),
            ..TlsOptions::default()
        };
        let root = |pem| TlsOptions {
            root_pem: Some(pem),
            ..TlsOptions::default()
        };
        for (options, start) in [
            (client(junk(), junk()), "the client's certificates:"),
            (
                client(Vec::new(), b"junk".to_vec()),
                "the client's private key:",
            ),
            (root(junk()), "the root certificates:"),
            (root(b"junk".to_vec()), "the root certificates:"),
        ] {
            let why = config(provider().unwrap(), &options).unwrap_err();
            assert!(why.starts_with(start), "{why}");
        }
    }
}
