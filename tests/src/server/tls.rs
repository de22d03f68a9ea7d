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
        let made = || {
            let authority = authority()?;
            let server = leaf(&authority, &["localhost", "127.0.0.1"])?;
            Ok((authority.pem(), server, leaf(&authority, &["client.test"])?))
        };
        let made = made().map_err(|error: rcgen::Error| io::Error::other(error));
        let (authority, server, client) = made?;
        let files = Self {
            authority: dir.join("ca.pem"),
            server_certificate: dir.join("server.pem"),
            server_key: dir.join("server.key"),
            client_certificate: dir.join("client.pem"),
            client_key: dir.join("client.key"),
        };
        fs::write(&files.authority, authority)?;
        fs::write(&files.server_certificate, server.0)?;
        fs::write(&files.server_key, server.1)?;
        fs::write(&files.client_certificate, client.0)?;
        fs::write(&files.client_key, client.1)?;
        Ok(files)
    }
}

fn authority() -> Result<Authority, rcgen::Error> {
    let mut params = params(&[], "redlatch test authority")?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

/// Returns certificate and key as PEM.
fn leaf(authority: &Authority, names: &[&str]) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = params(names, "redlatch test")?.signed_by(&key, authority)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn params(names: &[&str], common: &str) -> Result<CertificateParams, rcgen::Error> {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, common);
    Ok(params)
}
