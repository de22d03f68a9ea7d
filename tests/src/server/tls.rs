//! Certificates for servers, created anew each time.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// Files in PEM format: a certificate authority, and a certificate and a key from it for the server
/// and for a client.
///
/// The server's certificate is for `localhost` and `127.0.0.1`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Certificates {
    /// Certificate of the authority that signed the other certificates.
    pub authority: PathBuf,
    /// The server's certificate.
    pub server_certificate: PathBuf,
    /// The server's key.
    pub server_key: PathBuf,
    /// A client's certificate; servers of this harness accept connections without one too.
    pub client_certificate: PathBuf,
    /// The client's key.
    pub client_key: PathBuf,
}

type Authority = CertifiedIssuer<'static, KeyPair>;

impl Certificates {
    /// Creates the files in `dir`.
    pub fn make(dir: &Path) -> io::Result<Self> {
        let authority = authority().map_err(io::Error::other)?;
        let files = Self {
            authority: dir.join("ca.pem"),
            server_certificate: dir.join("server.pem"),
            server_key: dir.join("server.key"),
            client_certificate: dir.join("client.pem"),
            client_key: dir.join("client.key"),
        };
        fs::write(&files.authority, authority.pem())?;
        let (certificate, key) = leaf(&authority, &["localhost", "127.0.0.1"])?;
        fs::write(&files.server_certificate, certificate)?;
        fs::write(&files.server_key, key)?;
        let (certificate, key) = leaf(&authority, &["client.test"])?;
        fs::write(&files.client_certificate, certificate)?;
        fs::write(&files.client_key, key)?;
        Ok(files)
    }
}

fn authority() -> Result<Authority, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(DnType::CommonName, "redlatch test authority");
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

/// Returns certificate and key as PEM.
fn leaf(authority: &Authority, names: &[&str]) -> io::Result<(String, String)> {
    let make = || {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params
            .distinguished_name
            .push(DnType::CommonName, "redlatch test");
        let key = KeyPair::generate()?;
        Ok((
            params.signed_by(&key, authority)?.pem(),
            key.serialize_pem(),
        ))
    };
    make().map_err(|error: rcgen::Error| io::Error::other(error))
}
