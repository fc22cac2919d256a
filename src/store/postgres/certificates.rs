//! The certificates of encrypted connections.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::error::{Error, Result};

/// Certificates in PEM: the authority that signs the server's, and the client's own with its key.
#[derive(Clone, Default)]
pub(super) struct Certificates {
    pub(super) authority: Option<Vec<u8>>,
    pub(super) own: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    pub(super) fn are_given(&self) -> bool {
        self.authority.is_some() || self.own.is_some()
    }

    pub(super) fn client(&self) -> Result<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(refuse)?
            .with_root_certificates(self.roots()?);
        let mut config = match &self.own {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key).map_err(refuse)?;
                config.with_client_auth_cert(read(certificate)?, key).map_err(refuse)?
            }
        };
        // Needed for `sslnegotiation=direct`.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let Some(authority) = &self.authority else {
            // A system certificate that can't be parsed is skipped. If none is left, no server is
            // trusted.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            return Ok(roots);
        };
        for certificate in read(authority)? {
            roots.add(certificate).map_err(refuse)?;
        }
        if roots.is_empty() {
            let text = "postgres: the authority's file holds no certificate";
            return Err(Error::invalid("open", text));
        }
        Ok(roots)
    }
}

/// Hides the key.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

fn read(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem).collect::<std::result::Result<_, _>>().map_err(refuse)
}

fn refuse(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let text = format!("postgres: the certificates can't be used: {error}");
    Error::invalid("open", text).with_source(error)
}
